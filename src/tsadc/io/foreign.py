"""Objects of other libraries, known by what they can do: xarray's arrays and data sets, MNE's recordings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.reading import Reading, missing
from tsadc.io.times import TIME_NAMES
from tsadc.series import Series
from tsadc.variables import unnamed


def is_xarray(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("dims", "coords", "indexes", "transpose", "isel"))


def xarray_frame(data: Any, source: str, reading: Reading) -> pd.DataFrame:
    """A frame of an xarray object: the dimension of time is its index, the one that `reading` names as the entity a
    column; of a data set the variables are its variables, of an array those along the third dimension."""
    if reading.time is not None and reading.time not in data.dims:
        raise missing(reading.time, [str(dim) for dim in data.dims], source)
    if reading.entity is not None and reading.entity not in data.dims:
        raise missing(reading.entity, [str(dim) for dim in data.dims], source)
    time = reading.time if reading.time is not None else _time_dimension(data, source)
    if reading.entity is None:
        return _table(data, time, source)
    labels = _labels(data, reading.entity) or range(data.sizes[reading.entity])
    frames = [_table(data.isel({reading.entity: i}), time, source) for i in range(data.sizes[reading.entity])]
    return pd.concat(
        [frame.assign(**{reading.entity: str(label)}) for frame, label in zip(frames, labels, strict=True)]
    )


def _time_dimension(data: Any, source: str) -> Any:
    """By type, by name, or the first."""
    dims = list(data.dims)
    typed = [dim for dim in dims if dim in data.indexes and isinstance(data.indexes[dim], pd.DatetimeIndex)]
    named = [dim for dim in dims if str(dim).lower() in TIME_NAMES]
    if not dims:
        raise DataError(f"{source} has no dimension; one of time was expected.")
    return (typed or named or dims)[0]


def _table(data: Any, time: Any, source: str) -> pd.DataFrame:
    index = data.indexes.get(time, pd.RangeIndex(data.sizes[time])).rename(time)
    if not hasattr(data, "data_vars"):
        others = [dim for dim in data.dims if dim != time]
        if len(others) != 1:
            raise DataError(
                f"{source} should have a dimension of time and one of variables, but has {_spell(data.dims)}; name the "
                "one that tells entities apart as the entity."
            )
        names = _labels(data, others[0]) or unnamed(data.sizes[others[0]])
        return pd.DataFrame(np.asarray(data.transpose(time, others[0])), index=index, columns=[*map(str, names)])
    columns, scalars = {}, []
    for name, one in data.data_vars.items():
        if tuple(one.dims) == (time,):
            columns[str(name)] = np.asarray(one)
        elif time in one.dims:
            raise DataError(
                f"{source}: the variable {str(name)!r} should depend on {str(time)!r} alone, but depends on "
                f"{_spell(one.dims)}; name the dimension that tells entities apart as the entity."
            )
        else:
            scalars.append(str(name))
    if scalars:
        warnings.warn(
            f"{source} has variables without time, left out: {', '.join(scalars)}.", TsadcNotice, stacklevel=4
        )
    return pd.DataFrame(columns, index=index)


def _labels(data: Any, dim: Any) -> list[Any]:
    return list(data.indexes.get(dim, ()))


def _spell(dims: Any) -> str:
    return ", ".join(repr(str(dim)) for dim in dims) or "none"


def is_raw(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("get_data", "ch_names", "info"))


def from_raw(data: Any, entity: str, source: str, reading: Reading) -> Series:
    """A recording of MNE, which is sampled evenly; it is dated where it says when it was measured."""
    from tsadc.io.recording import Channel, Recording

    if reading.time or reading.entity or reading.every:
        raise DataError(f"{source} is a recording with a clock of its own; use it without time, entity and every.")
    rate, start = float(data.info["sfreq"]), data.info["meas_date"]
    if start is not None:
        start = pd.Timestamp(start) + pd.Timedelta(seconds=float(getattr(data, "first_time", 0.0)))
    values = np.asarray(data.get_data(), dtype=np.float64)
    if values.ndim != 2:
        raise DataError(
            f"{source} should be one continuous recording, but has {values.ndim} axes, as epochs have; pass the Raw, "
            "or epochs.get_data().transpose(0, 2, 1) as (observation, time, variable)."
        )
    channels = tuple(Channel(name, "", rate, row) for name, row in zip(data.ch_names, values, strict=True))
    recording = Recording(channels, start, (), (), source)
    return recording.to_series(entity, reading.rate, reading.columns, reading.rename)
