"""HDF5 files of any layout -> recordings: every numeric dataset with one or two axes is a signal, named by its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.io.limits import check_numbers
from tsadc.io.reading import reason
from tsadc.io.recording import Channel, Recording, check_readable, distinct, package, suggestion

RATE_ATTRIBUTES = ("fs", "sampling_rate", "sampling_frequency", "sample_rate", "sfreq", "rate", "Fs")
NAME_ATTRIBUTES = ("channels", "channel_names", "ch_names", "labels", "leads", "names")
UNIT_ATTRIBUTES = ("unit", "units")


def read_hdf5(path: str | Path, groups: Sequence[str] | None = None, rate: float | None = None) -> Recording:
    """Read the signals below `groups` (None: all).

    The longer of two axes is time. Signals along the other axis get their names from an attribute such as `channels`,
    or numbers. The sampling rate is an attribute such as `fs` of the dataset or of a group around it, or else `rate`.
    Infinite values count as not measured."""
    path = Path(path)
    check_readable(path)
    h5py = package("h5py", path, "HDF5")
    try:
        with h5py.File(path, "r") as file:
            datasets = {dataset.name.strip("/"): dataset for dataset in _datasets(h5py, file, groups, path)}
            numeric = [dataset for dataset in datasets.values() if _is_signal(dataset)]
            _check_storage(numeric, path)
            signals = [_channels(dataset, rate) for dataset in numeric]
    except DataError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in h5py
        raise DataError(f"{path} is not a readable HDF5 file: {reason(error)}.") from None
    channels = [channel for signal in signals for channel in signal]
    if not channels:
        others = f"; it has {', '.join(list(datasets)[:10])}" if datasets else ""
        raise DataError(f"{path} should have datasets of numbers with one or two axes, but has none{others}.")
    names = distinct([channel.name for channel in channels])
    named = (Channel(name, c.unit, c.rate, c.values) for name, c in zip(names, channels, strict=True))
    return Recording(tuple(named), None, (), (), str(path))


def _datasets(h5py: Any, file: Any, groups: Sequence[str] | None, path: Path) -> Iterator[Any]:
    for group in groups if groups is not None else ("/",):
        _refuse_links_out(h5py, file, group, path)
        if group not in file:
            existing: list[str] = []
            file.visit(existing.append)
            raise DataError(f"{path} has no group {group!r}{suggestion(group, existing)}.")
        node = file[group]
        if isinstance(node, h5py.Dataset):
            yield node
            continue
        links: list[tuple[str, Any]] = []
        node.visititems_links(lambda name, link, found=links: found.append((name, link)))
        for name, link in links:
            if isinstance(link, h5py.ExternalLink):
                raise _outside(path, f"{name!r} is a link to {link.filename!r}")
            if isinstance(link, h5py.HardLink) and isinstance(node[name], h5py.Dataset):
                yield node[name]


def _refuse_links_out(h5py: Any, file: Any, group: str, path: Path) -> None:
    """Raise if the group is a link to another file, or lies behind one."""
    place = ""
    for part in group.strip("/").split("/"):
        place = f"{place}/{part}"
        link = file.get(place, getlink=True) if part else None
        if isinstance(link, h5py.ExternalLink):
            raise _outside(path, f"{place.strip('/')!r} is a link to {link.filename!r}")


def _outside(path: Path, how: str) -> DataError:
    return DataError(f"{path} refers to data outside of itself ({how}), which is not read; copy the data into it.")


def _check_storage(datasets: Iterable[Any], path: Path) -> None:
    """Raise if a dataset is stored in other files, or if all together do not fit into memory."""
    count = 0
    for dataset in datasets:
        name = dataset.name.strip("/")
        if dataset.external:
            raise _outside(path, f"{name!r} is stored in {dataset.external[0][0]!r}")
        if dataset.is_virtual:
            raise _outside(path, f"{name!r} is a virtual dataset")
        count += dataset.size
    check_numbers(count, f"{path}, unpacked,")


def _is_signal(dataset: Any) -> bool:
    return dataset.dtype.kind in "iuf" and dataset.ndim in (1, 2) and dataset.size > 0 and _is_stored(dataset)


def _is_stored(dataset: Any) -> bool:
    """Return whether any value was ever written: a dataset declares its size before that, and fills it with zeros."""
    return bool(dataset.external or dataset.is_virtual or dataset.id.get_storage_size())


def _channels(dataset: Any, rate: float | None) -> list[Channel]:
    name = dataset.name.strip("/")
    values: NDArray[np.float64] = np.asarray(dataset[...], dtype=np.float64)
    values[np.isinf(values)] = np.nan
    stated = _rate(dataset)
    rate = stated if stated is not None else rate
    unit = next((text for key in UNIT_ATTRIBUTES if (text := _text(dataset.attrs.get(key)))), "")
    if values.ndim == 1:
        return [Channel(name, unit, rate, values)]
    rows = values if values.shape[1] > values.shape[0] else np.ascontiguousarray(values.T)
    parts = _part_names(dataset, len(rows))
    return [Channel(f"{name}/{part}", unit, rate, row) for part, row in zip(parts, rows, strict=True)]


def _part_names(dataset: Any, count: int) -> list[str]:
    for key in NAME_ATTRIBUTES:
        names = np.ravel(dataset.attrs[key]).tolist() if key in dataset.attrs else []
        if len(names) == count and all(_text(name) for name in names):
            return [_text(name) for name in names]
    return [str(i) for i in range(count)]


def _rate(dataset: Any) -> float | None:
    """Return the rate stated by the dataset, by a group around it, or by the file, in this order."""
    node = dataset
    while True:
        for key in RATE_ATTRIBUTES:
            number = _number(node.attrs.get(key))
            if number is not None and np.isfinite(number) and number > 0:
                return number
        if node.name == "/":
            return None
        node = node.parent


def _number(value: Any) -> float | None:
    try:
        return float(np.ravel(value)[0]) if value is not None and np.size(value) == 1 else None
    except (TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
