"""Match variables by name: put them into the expected order. A few that are missing count as not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import numpy as np

from tsadc.errors import DataError, listed, notice
from tsadc.series import Series

UNNAMED = "variable_"


def unnamed(count: int) -> tuple[str, ...]:
    """Return names for the columns of an array, which has none."""
    return tuple(f"{UNNAMED}{i}" for i in range(count))


def match(series: Sequence[Series], names: tuple[str, ...], *, strict: bool = False) -> tuple[Series, ...]:
    """Return the series with exactly the variables `names`, in that order. Columns of an array match by position.

    A variable that is missing becomes NaN, with a notice. It is an error if `strict`, if more than half of them are
    missing, or if another one has nearly the same name."""
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
        close = get_close_matches(missing[0].lower(), [name.lower() for name in extra], n=1)
        hint = next((f"; did you mean {name!r}?" for name in extra if [name.lower()] == close), "")
        if names == unnamed(len(names)):
            hint = "; these are names for the columns of an array, so pass an array here too."
        fix = "; add the column, or rename the one that holds it."
        if len(missing) > 1:
            fix = "; add these columns, or rename those that hold them."
        # Values that stay in a file cannot be widened.
        if hint or strict or 2 * len(missing) > len(names) or not isinstance(series.values, np.ndarray):
            raise DataError(f"{lacking}{hint or fix}")
        counts = "it counts" if len(missing) == 1 else "they count"
        notice(f"{lacking}; {counts} as not measured, and scores may differ from usual ones.")
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
