"""Match variables by name: put them into the expected order. A few that are missing count as not measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from tsadc.errors import DataError, listed, notice
from tsadc.series import Series

UNNAMED = "variable_"
NEAR = 0.85  # of two names, from 0 to 1: a typing error, not another word
SEARCHED = 200  # names that are compared with as many others


def unnamed(count: int) -> tuple[str, ...]:
    """Return names for the columns of an array, which has none."""
    return tuple(f"{UNNAMED}{i}" for i in range(count))


def match(series: Sequence[Series], names: tuple[str, ...], *, strict: bool = False) -> tuple[Series, ...]:
    """Return the series with exactly the variables `names`, in that order. Columns of an array match by position.

    A variable that is missing becomes NaN, with a notice. It is an error if `strict`, if more than half of them are
    missing, or if as many are extra as missing and two of these seem to be one variable: their names are nearly the
    same and have the same numbers."""
    return tuple(_match(item, names, strict) for item in series)


def _match(series: Series, names: tuple[str, ...], strict: bool) -> Series:
    if series.names == names:
        return series
    if series.names == unnamed(len(series.names)):
        if len(series.names) != len(names):
            raise DataError(f"{series.entity!r} has {len(series.names)} variables, but {len(names)} are expected.")
        return replace(series, names=names)
    missing = [name for name in names if name not in series.names]
    extra = [name for name in series.names if name not in names]
    if missing:
        lacking = f"{series.entity!r} lacks {len(missing)} of the {len(names)} expected variables: {listed(missing)}"
        near = _nearest_pair(missing, extra)
        renamed, hint, alike = False, "", ""
        if near is not None:
            renamed = len(extra) == len(missing) and _numbers(near[0]) == _numbers(near[1])
            hint = f"; did you mean {near[1]!r}{f' instead of {near[0]!r}' if len(missing) > 1 else ''}?"
            alike = f" {near[1]!r} has nearly the same name as {near[0]!r}; rename it if it is the same."
        bare = names == unnamed(len(names))
        if bare:
            hint = "; these are names for the columns of an array, so pass an array here too."
        fix = "; add the column, or rename the one that holds it."
        if len(missing) > 1:
            fix = "; add these columns, or rename those that hold them."
        # Values that stay in a file cannot be widened.
        if renamed or bare or strict or 2 * len(missing) > len(names) or not isinstance(series.values, np.ndarray):
            raise DataError(f"{lacking}{hint or fix}")
        counts = "it counts" if len(missing) == 1 else "they count"
        notice(f"{lacking}; {counts} as not measured, and scores may differ from usual ones.{alike}")
    if extra:
        notice(
            f"{series.entity!r} has extra variables, which were left out: {', '.join(extra[:5])}"
            f"{', ...' if len(extra) > 5 else ''}."
        )
    order = [series.names.index(name) for name in names if name in series.names]
    if not missing:
        return replace(series, values=series.values[:, order], names=names)
    values = np.full((len(series), len(names)), np.nan, dtype=series.values.dtype)
    values[:, [i for i, name in enumerate(names) if name in series.names]] = series.values[:, order]
    return replace(series, values=values, names=names)


def _nearest_pair(missing: Sequence[str], extra: Sequence[str]) -> tuple[str, str] | None:
    """Return the missing and the extra variable with the most similar names, or None if no two are similar.

    Two with the same numbers are preferred."""
    near = dict[tuple[str, str], tuple[bool, float]]()
    for name in missing[:SEARCHED]:
        matcher = SequenceMatcher(None, b=name.lower())
        for other in extra[:SEARCHED]:
            matcher.set_seq1(other.lower())
            if matcher.real_quick_ratio() >= NEAR and matcher.quick_ratio() >= NEAR and matcher.ratio() >= NEAR:
                near[name, other] = _numbers(name) == _numbers(other), matcher.ratio()
    return max(near, key=lambda pair: near[pair], default=None)


def _numbers(name: str) -> list[str]:
    """Return the numbers in a name: temp_1 and temp_11 are two sensors, temp_1 and temp-01 may be one."""
    return [digits.lstrip("0") for digits in re.findall(r"\d+", name)]
