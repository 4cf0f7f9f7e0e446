"""Packs with a label for every row: histories with a test part (SKAB, GECCO, BATADAL), and the series of TSB-AD.

A pack of histories holds `variables`, `entities`, `length` and, for each entity, `train/ENTITY`, `test/ENTITY` (row,
variable; NaN where not measured) and `label/ENTITY` (one per test row). The pack of TSB-AD holds `names`, `train_rows`,
`window` and, for each series, `values/NAME` (row, variable) and `label/NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tsadc.data.packs import Pack, require_pack
from tsadc.data.task import RowTask
from tsadc.errors import DataError
from tsadc.series import Booleans, Clock, Floats, Labelled, Series, Split, Truth
from tsadc.windows import runs

SKAB, GECCO, BATADAL, TSB_DEV = "skab.npz", "gecco.npz", "batadal.npz", "tsb_dev.npz"


def read_histories(raw: Path, name: str, length: int, kind: str) -> Split:
    """Read a pack of histories. Each run of labelled rows becomes a true anomaly of `kind`, without affected variables.

    Raises
    ------
    DataError
        If the pack is missing, its arrays have inconsistent shapes, or its observations do not have `length` rows."""
    pack = require_pack(raw, name)
    if int(pack["length"]) != length:
        raise DataError(f"{pack.file} should have observations of {length} rows, but its `length` is {pack['length']}.")
    names = tuple(pack["variables"].astype(str).tolist())
    train, test, truth = [], [], []
    for entity in pack["entities"].astype(str).tolist():
        history, values = (_values(pack, f"{part}/{entity}", len(names)) for part in ("train", "test"))
        train.append(Series(history, names, Clock(), entity))
        test.append(Series(values, names, Clock(), entity))
        spans = runs(_flags(pack, f"label/{entity}", len(values)))
        truth += [Truth(entity, start, stop, kind, ()) for start, stop in spans]
    return Split(tuple(train), Labelled(tuple(test), tuple(truth)))


def tsb_series(raw: Path) -> Iterator[RowTask]:
    """Yield the development series in the protocol of TSB-AD-M, in the order of the pack.

    Each series is a task of its own: a detector is fitted on its first `train_rows` rows and scores every row,
    including those. TSB-AD averages the VUS-PR of the series, each with its own `window`.

    Parameters
    ----------
    raw
        The folder that holds `tsb_dev.npz`, or that file.

    Raises
    ------
    DataError
        If the pack is missing or its arrays have inconsistent shapes.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tsadc.data.row_labels import tsb_series
    >>> for task in tsb_series(Path("data")):  # doctest: +SKIP
    ...     detector.fit(task.train).detect(task.series)
    """
    pack = require_pack(raw, TSB_DEV)
    names, rows, windows = (pack[key].tolist() for key in ("names", "train_rows", "window"))
    try:
        entries = list(zip(names, rows, windows, strict=True))
    except ValueError:
        raise DataError(
            f"{pack.file} should have one entry per series in `names`, `train_rows` and `window`."
        ) from None
    for name, train_rows, window in entries:
        values = _values(pack, f"values/{name}")
        labels = _flags(pack, f"label/{name}", len(values))
        if not 0 < train_rows < len(values):
            raise DataError(
                f"`train_rows` of {name} in {pack.file} should be 1 to {len(values) - 1}, but is {train_rows}."
            )
        variables = tuple(f"v{i:02d}" for i in range(1, values.shape[1] + 1))
        yield RowTask(name, Series(values, variables, Clock(), name), labels, train_rows, window)


def _values(pack: Pack, key: str, variables: int | None = None) -> Floats:
    values: Floats = pack[key]
    if values.ndim != 2 or (variables is not None and values.shape[1] != variables):
        expected = "variable" if variables is None else f"{variables} variables"
        raise DataError(f"{pack.file} should have {key!r} of shape (row, {expected}), but it has {values.shape}.")
    return values


def _flags(pack: Pack, key: str, rows: int) -> Booleans:
    flags = pack[key]
    if flags.shape != (rows,) or not np.isin(flags, (0, 1)).all():
        raise DataError(f"{pack.file} should have one label, 0 or 1, for each of {rows} rows in {key!r}.")
    return flags.astype(bool)
