"""Variables are matched by name: put into the model's order, refused when one is missing."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Series

UNNAMED = "variable_"


def unnamed(count: int) -> tuple[str, ...]:
    """Names for the columns of a bare array."""
    return tuple(f"{UNNAMED}{i}" for i in range(count))


def match(series: Sequence[Series], names: tuple[str, ...]) -> tuple[Series, ...]:
    """The series with exactly the variables `names`, in that order. A bare array's columns count by position."""
    return tuple(_match(one, names) for one in series)


def _match(series: Series, names: tuple[str, ...]) -> Series:
    if series.names == names:
        return series
    if series.names == unnamed(len(series.names)):
        if len(series.names) != len(names):
            raise DataError(f"{series.entity!r} has {len(series.names)} variables, but {len(names)} were expected.")
        return replace(series, names=names)
    missing = [name for name in names if name not in series.names]
    extra = [name for name in series.names if name not in names]
    if missing:
        close = get_close_matches(missing[0].lower(), [name.lower() for name in extra], n=1)
        hint = next((f"; perhaps {name!r} is meant" for name in extra if [name.lower()] == close), "")
        if names == unnamed(len(names)):
            hint = "; those are the columns of a bare array, so pass one here too"
        raise DataError(
            f"{series.entity!r} lacks {len(missing)} of the {len(names)} expected variables: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}{hint}."
        )
    if extra:
        warnings.warn(
            f"{series.entity!r} has variables the others do not, which are left out: {', '.join(extra[:5])}"
            f"{', ...' if len(extra) > 5 else ''}.",
            TsadcNotice,
            stacklevel=3,
        )
    order = [series.names.index(name) for name in names]
    return replace(series, values=series.values[:, order], names=names)
