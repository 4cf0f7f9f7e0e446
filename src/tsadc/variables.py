"""Match variables by name: put them into the expected order; a missing one is an error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

from tsadc.errors import DataError, notice
from tsadc.series import Series

UNNAMED = "variable_"


def unnamed(count: int) -> tuple[str, ...]:
    """Return names for the columns of an array, which has none."""
    return tuple(f"{UNNAMED}{i}" for i in range(count))


def match(series: Sequence[Series], names: tuple[str, ...]) -> tuple[Series, ...]:
    """Return the series with exactly the variables `names`, in that order. Columns of an array match by position."""
    return tuple(_match(item, names) for item in series)


def _match(series: Series, names: tuple[str, ...]) -> Series:
    if series.names == names:
        return series
    if series.names == unnamed(len(series.names)):
        if len(series.names) != len(names):
            raise DataError(f"{series.entity!r} has {len(series.names)} variables, but {len(names)} are expected.")
        return replace(series, names=names)
    missing = [name for name in names if name not in series.names]
    extra = [name for name in series.names if name not in names]
    if missing:
        close = get_close_matches(missing[0].lower(), [name.lower() for name in extra], n=1)
        hint = next((f"; did you mean {name!r}?" for name in extra if [name.lower()] == close), "")
        if names == unnamed(len(names)):
            hint = "; these are names for the columns of an array, so pass an array here too."
        fix = "; add the column, or rename the one that holds it."
        if len(missing) > 1:
            fix = "; add these columns, or rename those that hold them."
        raise DataError(
            f"{series.entity!r} lacks {len(missing)} of the {len(names)} expected variables: "
            f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}{hint or fix}"
        )
    if extra:
        notice(
            f"{series.entity!r} has extra variables, which were left out: {', '.join(extra[:5])}"
            f"{', ...' if len(extra) > 5 else ''}."
        )
    order = [series.names.index(name) for name in names]
    return replace(series, values=series.values[:, order], names=names)
