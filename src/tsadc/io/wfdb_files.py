"""Read WFDB records of PhysioNet (a `.hea` header beside its `.dat` or `.mat` signals) and the original MAT structs of
CPSC2018 as recordings."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import datetime, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError
from tsadc.io.limits import check_numbers
from tsadc.io.mat import Variable, read_variables
from tsadc.io.reading import reason
from tsadc.io.recording import Channel, Recording, check_readable, distinct, package

LEADS = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
CPSC2018_RATE = 500.0  # Hz; the MAT structs do not state it


def read_wfdb(path: str | Path) -> Recording:
    """Read the record of a `.hea` header in physical units, NaN where a sample is marked invalid.

    `start` is None unless the header holds a valid WFDB base time and date. CinC headers do not: they hold the time of
    their conversion in another order."""
    path = Path(path)
    check_readable(path)
    wfdb = package("wfdb", path, "a WFDB header")
    name = str(path.with_suffix(""))
    try:
        header = wfdb.rdheader(name)
    except Exception as error:  # a damaged header can fail anywhere in wfdb
        raise DataError(f"{path} is not a readable WFDB header: {reason(error)}.") from None
    if not header.n_sig:
        raise DataError(f"{path} lists no signals.")
    files = _signal_files(path, header)
    _check_signal_files(path, files)
    check_numbers((header.sig_len or 0) * sum(getattr(header, "samps_per_frame", None) or [header.n_sig]), str(path))
    try:
        record = wfdb.rdrecord(name, smooth_frames=False)
    except FileNotFoundError as error:
        raise DataError(f"{path} needs {error.filename}, which does not exist; put it beside the header.") from None
    except Exception as error:
        damaged = ", ".join(map(str, files)) or "A segment"
        raise DataError(
            f"{damaged} is damaged, or has fewer than the {header.sig_len} samples that its header "
            f"{path} promises: {reason(error)}."
        ) from None
    return Recording(
        channels=_channels(record),
        start=_start(record),
        annotations=(),
        comments=tuple(header.comments or ()),
        source=str(path),
    )


def read_mat(path: str | Path) -> Recording:
    """Read a MAT file: the signals of a WFDB header beside it, or a struct `ECG` of the original CPSC2018."""
    path = Path(path)
    check_readable(path)
    header = path.with_suffix(".hea")
    if header.is_file():
        return read_wfdb(header)
    try:
        variables = read_variables(path)
    except NotImplementedError:
        raise DataError(
            f"{path} is a MATLAB 7.3 file, which is HDF5; rename it to end in .h5, or save it with -v7."
        ) from None
    except (ValueError, struct.error) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path} is not a readable MAT file: {reason(error)}.") from None
    if "val" in variables:
        raise DataError(f"{path} holds the signals of a WFDB record, but its header {header.name} is not beside it.")
    return _from_struct(variables.get("ECG"), path)


def _signal_files(path: Path, header: Any) -> list[Path]:
    """Return the signal files that a header lists; none if it has segments, which list their own."""
    if hasattr(header, "seg_name"):
        return []
    listed = header.file_name or []
    if len(listed) != header.n_sig or not all(listed):
        raise DataError(
            f"{path} is not a readable WFDB header: it does not describe all of its {header.n_sig} signals."
        )
    return [path.parent / name for name in dict.fromkeys(listed)]


def _check_signal_files(path: Path, files: Sequence[Path]) -> None:
    for file in files:
        if file.name != "~" and not file.is_file():  # ~ stands for a signal without a file
            raise DataError(
                f"{path} describes the signals in {file.name}, but that file is not beside it; put it there."
            )


def _channels(record: Any) -> tuple[Channel, ...]:
    """Return the record's signals, which may have several samples per frame and thus different rates."""
    names = distinct([name or "" for name in record.sig_name or [""] * record.n_sig])
    frames = record.samps_per_frame or [1] * record.n_sig
    units = record.units or [""] * record.n_sig  # wfdb returns none if the segments of a record disagree
    return tuple(
        Channel(name, unit or "", float(record.fs * per_frame), np.asarray(signal, dtype=np.float64))
        for name, unit, per_frame, signal in zip(names, units, frames, record.e_p_signal, strict=True)
    )


def _start(record: Any) -> datetime | None:
    if record.base_date is None:
        return None
    return datetime.combine(record.base_date, record.base_time or time())


def _from_struct(fields: Variable, path: Path) -> Recording:
    data = fields.get("data") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(data, np.ndarray):
        raise DataError(
            f"{path} should hold a struct `ECG` with the field `data`, as in CPSC2018, or have a WFDB header beside it."
        )
    if data.ndim != 2 or len(data) != len(LEADS):
        raise DataError(f"{path} should hold {len(LEADS)} leads by time in `ECG.data`, but its shape is {data.shape}.")
    comments = tuple(f"{key.capitalize()}: {_scalar(fields[key])}" for key in ("age", "sex") if key in fields)
    leads = data.astype(np.float64)
    channels = tuple(Channel(lead, "mV", CPSC2018_RATE, row) for lead, row in zip(LEADS, leads, strict=True))
    return Recording(channels=channels, start=None, annotations=(), comments=comments, source=str(path))


def _scalar(value: NDArray[Any] | str | None) -> Any:
    return next(iter(np.ravel(value)), "") if isinstance(value, np.ndarray) else value or ""
