"""Objects in memory -> Series: data frames (pandas, polars, pyarrow and others), xarray, MNE recordings, arrays, and
dicts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from numpy.typing import NDArray

from tsadc.errors import DataError, notice
from tsadc.io.arrays import from_array
from tsadc.io.clock import ticks_of
from tsadc.io.entities import by_entity, from_frame, notice_notes, to_series
from tsadc.io.reading import DEFAULT, Reading, no_column
from tsadc.io.times import TIME_NAMES
from tsadc.series import Series
from tsadc.variables import unnamed

PASS_ENTITIES = "pass a dict with one such object per entity"


def as_series(data: Any, length: int | None = None, reading: Reading = DEFAULT) -> tuple[Series, ...]:
    """Convert the data a user passes into Series, one per entity.

    Parameters
    ----------
    data : Series, data frame, xarray object, MNE Raw, array, or mapping of entity names to such objects
        Arrays have shape (time, variable) or (observation, time, variable).
    length : int, optional
        Required number of time steps of observations.
    reading : Reading
        Options; `every`, `columns` and `rename` apply to every object.
    """
    if isinstance(data, Series):
        return check_length((data,), length)
    if isinstance(data, Mapping) and not _is_xarray(data):
        if not data:
            raise DataError("The data should map entity names to series, but the mapping is empty.")
        if reading.entity is not None:
            raise DataError(
                "The data already maps entity names to series; leave out `entity`, or pass a single data frame."
            )
        converted = [_convert(value, str(entity), length, reading) for entity, value in data.items()]
        return _distinct(tuple(series for several in converted for series in several))
    if isinstance(data, Sequence) and data and all(isinstance(item, Series) for item in data):
        return check_length(_distinct(tuple(data)), length)
    return _convert(data, "series", length, reading)


def as_frame(data: Any) -> pd.DataFrame | None:
    """Return a data frame of any library as one of pandas; None for anything else."""
    if isinstance(data, Series | Mapping) or _is_xarray(data):
        return None
    return _frame(data, "The data")


def frame_ticks(frame: pd.DataFrame, reading: Reading = DEFAULT) -> NDArray[np.int64] | None:
    """Return the time of each row of a data frame of one entity in nanoseconds; None if it has no times."""
    (part, *_) = from_frame(frame, "series", "The data", reading)
    times = getattr(part.content, "times", None)
    return None if times is None else ticks_of(times, "The data")


def check_length(series: tuple[Series, ...], length: int | None) -> tuple[Series, ...]:
    """Refuse observations laid end to end whose length is not `length`: cut anew, each would mix two of them."""
    for entity in series:
        if length is not None and entity.observation not in (None, length):
            raise DataError(
                f"{entity.entity!r} holds observations of {entity.observation} rows, which must not be cut across, but "
                f"the length is {length}; fit with --length {entity.observation} (in Python: "
                f"length={entity.observation})."
            )
    return series


def _convert(data: Any, entity: str, length: int | None, reading: Reading) -> tuple[Series, ...]:
    source = f"The data of {entity!r}" if entity != "series" else "The data"
    if isinstance(data, Series):
        return check_length((replace(data, entity=entity),), length)
    if all(hasattr(data, name) for name in ("get_data", "ch_names", "info")):
        return (_from_mne(data, entity, source, reading),)
    frame = _xarray_frame(data, source, reading) if _is_xarray(data) else _frame(data, source)
    if frame is None:
        return (from_array(data, entity, source, length, reading),)
    parts = from_frame(frame, entity, source, reading)
    notice_notes(parts)
    return tuple(to_series(own, reading) for own in by_entity(parts))


def _distinct(series: tuple[Series, ...]) -> tuple[Series, ...]:
    seen: set[str] = set()
    for entity in (item.entity for item in series):
        if entity in seen:
            raise DataError(f"Two series have the entity name {entity!r}; give each series its own.")
        seen.add(entity)
    return series


def _frame(data: Any, source: str) -> pd.DataFrame | None:
    """Convert a data frame of any library to pandas; return None for anything else."""
    if isinstance(data, pd.DataFrame):
        return data
    try:
        frame = nw.from_native(data, pass_through=True)
    except DuplicateError:
        raise DataError(f"{source} has two columns of the same name; give every variable its own name.") from None
    if isinstance(frame, nw.LazyFrame):
        raise DataError(f"{source} is a lazy data frame; collect it first.")
    if not isinstance(frame, nw.DataFrame):
        return None
    # Column by column: the libraries' own conversions need pyarrow, which may not be installed.
    out = pd.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    for name, kind in frame.schema.items():
        if isinstance(kind, nw.Datetime) and kind.time_zone:
            out[name] = pd.DatetimeIndex(out[name]).tz_localize("UTC").tz_convert(kind.time_zone)
    return out


def _is_xarray(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("dims", "coords", "indexes", "transpose", "isel"))


def _xarray_frame(data: Any, source: str, reading: Reading) -> pd.DataFrame:
    """Make a frame of an xarray object. The time dimension becomes its index, the entity dimension a column; the
    variables are those of a data set, or lie along the remaining dimension of an array."""
    dims = [str(dim) for dim in data.dims]
    for dim in (reading.time, reading.entity):
        if dim is not None and dim not in data.dims:
            raise no_column(dim, dims, source)
    time = reading.time if reading.time is not None else _time_dimension(data, source)
    if reading.entity is None:
        return _xarray_table(data, time, source)
    labels = _labels(data, reading.entity) or range(data.sizes[reading.entity])
    frames = [_xarray_table(data.isel({reading.entity: i}), time, source) for i in range(data.sizes[reading.entity])]
    return pd.concat(
        [frame.assign(**{reading.entity: str(label)}) for frame, label in zip(frames, labels, strict=True)]
    )


def _time_dimension(data: Any, source: str) -> Any:
    """Find the time dimension by its type, then by its name; otherwise take the first."""
    dims = list(data.dims)
    typed = [dim for dim in dims if dim in data.indexes and isinstance(data.indexes[dim], pd.DatetimeIndex)]
    named = [dim for dim in dims if str(dim).lower() in TIME_NAMES]
    if not dims:
        raise DataError(f"{source} has no dimension, but needs one for time.")
    return (typed or named or dims)[0]


def _xarray_table(data: Any, time: Any, source: str) -> pd.DataFrame:
    index = data.indexes.get(time, pd.RangeIndex(data.sizes[time])).rename(time)
    if not hasattr(data, "data_vars"):
        others = [dim for dim in data.dims if dim != time]
        if len(others) != 1:
            raise DataError(
                f"{source} should have a time dimension and one of variables, but has {_quoted(data.dims)}; "
                f"{PASS_ENTITIES}."
            )
        names = _labels(data, others[0]) or unnamed(data.sizes[others[0]])
        return pd.DataFrame(np.asarray(data.transpose(time, others[0])), index=index, columns=[*map(str, names)])
    columns, timeless = {}, []
    for name, array in data.data_vars.items():
        if tuple(array.dims) == (time,):
            columns[str(name)] = np.asarray(array)
        elif time in array.dims:
            raise DataError(
                f"{source}: the variable {str(name)!r} should depend on {str(time)!r} alone, but depends on "
                f"{_quoted(array.dims)}; {PASS_ENTITIES}."
            )
        else:
            timeless.append(str(name))
    if timeless:
        notice(f"{source} has variables without a time dimension, which were left out: {', '.join(timeless)}.")
    return pd.DataFrame(columns, index=index)


def _labels(data: Any, dim: Any) -> list[Any]:
    return list(data.indexes.get(dim, ()))


def _quoted(dims: Any) -> str:
    return ", ".join(repr(str(dim)) for dim in dims) or "none"


def _from_mne(data: Any, entity: str, source: str, reading: Reading) -> Series:
    """Convert an MNE recording; it has dates if it knows when it was measured."""
    from tsadc.io.recording import Channel, Recording, recording_to_series

    rate, start = float(data.info["sfreq"]), data.info["meas_date"]
    if start is not None:
        start = pd.Timestamp(start) + pd.Timedelta(seconds=float(getattr(data, "first_time", 0.0)))
    values = np.asarray(data.get_data(), dtype=np.float64)
    if values.ndim != 2:
        raise DataError(
            f"{source} should be a continuous recording, but has {values.ndim} axes, as epochs have; pass the Raw, "
            "or epochs.get_data().transpose(0, 2, 1) as (observation, time, variable)."
        )
    channels = tuple(Channel(name, "", rate, row) for name, row in zip(data.ch_names, values, strict=True))
    return recording_to_series(Recording(channels, start, (), (), source), entity, reading)
