"""EDF and EDF+ files -> recordings: signals with their own rates, annotations, and a start that is often anonymised.

edfio reads the signals. The header is also read here, to find out whether a file is complete and where its gaps are.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import DataError, notice
from tsadc.io.limits import check_numbers
from tsadc.io.reading import reason
from tsadc.io.recording import Annotation, Channel, Recording, check_readable, distinct, package

ANONYMOUS = date(1985, 1, 1)  # EDF+ writes this date if the real one is withheld
ANNOTATIONS = "EDF Annotations"  # the label of a signal that holds text
HEADER_BLOCK = 256  # bytes of the header: one block for the file, then one for each signal
MAX_GAPS = 10  # times the length of the data: longer gaps are a mistake in the file
ONSET = re.compile(rb"[+-]\d+(?:\.\d*)?")


@dataclass(frozen=True, slots=True)
class _Layout:
    """The layout of the bytes in a file: `records`, each with `samples[i]` numbers of two bytes of signal i."""

    header: int
    records: int
    duration: float
    labels: tuple[str, ...]
    samples: tuple[int, ...]
    legacy_date: str
    legacy_time: str
    gaps: bool

    @property
    def record(self) -> int:
        return 2 * sum(self.samples)


def read_edf(path: str | Path) -> Recording:
    """Read the signals in physical units and the annotations. Gaps of a discontinuous file (EDF+D) become NaN."""
    path = Path(path)
    check_readable(path)
    edfio = package("edfio", path, "EDF")
    layout = _complete(_layout(path), path)
    check_numbers(layout.records * sum(layout.samples), str(path))
    try:
        # The checks here cover what edfio warns about, except its own repairs of a header.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            file = edfio.read_edf(path, header_encoding="latin-1")
            raw = [s.label for s in file.signals if s.physical_min == s.physical_max or s.digital_min == s.digital_max]
            channels = _channels(file, layout, path)
            start = _start(file, layout)
            comments = (
                f"Patient: {file.local_patient_identification}",
                f"Recording: {file.local_recording_identification}",
            )
    except DataError:
        raise
    except Exception as error:  # a damaged file can fail anywhere in edfio
        raise DataError(f"{path} is not a readable EDF file: {reason(error)}.") from None
    for label in raw:
        notice(f"{path}: the range of channel {label!r} is empty, so its raw numbers were used.")
    return Recording(channels, start, _annotations(file, path), comments, str(path))


def _layout(path: Path) -> _Layout:
    with path.open("rb") as file:
        first = file.read(HEADER_BLOCK).decode("latin-1")
        try:
            header, records, signals = int(first[184:192]), int(first[236:244]), int(first[252:256])
            duration = float(first[244:252])
            if signals < 1 or header != HEADER_BLOCK * (signals + 1) or not 0 <= duration < float("inf"):
                raise ValueError
            rest = file.read(HEADER_BLOCK * signals).decode("latin-1")
            labels = tuple(rest[16 * i : 16 * (i + 1)].strip() for i in range(signals))
            samples = tuple(int(rest[216 * signals + 8 * i :][:8]) for i in range(signals))
            if min(samples) < 0 or sum(samples) == 0 or (duration == 0 and set(labels) != {ANNOTATIONS}):
                raise ValueError
        except ValueError:
            raise DataError(f"{path} is not an EDF file, or its header is damaged; get the file again.") from None
    return _Layout(
        header, records, duration, labels, samples, first[168:176], first[176:184], first[192:197] == "EDF+D"
    )


def _complete(layout: _Layout, path: Path) -> _Layout:
    """Return the layout with the number of records that the file holds; raise an error if some are missing."""
    held, rest = divmod(path.stat().st_size - layout.header, layout.record)
    promised = layout.records if layout.records >= 0 else held  # -1: not known when the header was written
    if held < promised:
        raise DataError(
            f"{path} is truncated: its header promises {promised} records of {layout.record} bytes, but it holds "
            f"{held}{' and a part' if rest else ''}; get the file again."
        )
    surplus = (held - promised) * layout.record + rest
    if surplus:
        notice(f"{path} has {surplus} byte(s) after the last record that its header promises, which were left out.")
    if promised == 0:
        raise DataError(f"{path} has a header but no data.")
    return replace(layout, records=promised)


def _channels(file: Any, layout: _Layout, path: Path) -> tuple[Channel, ...]:
    onsets = _onsets(layout, path) if layout.gaps else None
    out = []
    for name, signal in zip(distinct(file.labels), file.signals, strict=True):
        each = signal.samples_per_data_record
        values: NDArray[np.float64] = signal.data[: layout.records * each]
        if onsets is not None:
            values = _spread(values.reshape(layout.records, each), onsets, signal.sampling_frequency)
        out.append(Channel(name, signal.physical_dimension, float(signal.sampling_frequency), values))
    return tuple(out)


def _onsets(layout: _Layout, path: Path) -> NDArray[np.float64]:
    """Return when each record of a discontinuous file starts, in seconds: its first annotation says so."""
    if ANNOTATIONS not in layout.labels:
        raise DataError(
            f"{path} is marked as having gaps, but has no annotations with their times; save it as continuous EDF+C."
        )
    signal = layout.labels.index(ANNOTATIONS)
    first = 2 * sum(layout.samples[:signal])
    content = np.fromfile(path, np.uint8, layout.records * layout.record, offset=layout.header)
    content = content.reshape(layout.records, layout.record)
    matches = [ONSET.match(bytes(record)) for record in content[:, first : first + 2 * layout.samples[signal]]]
    onsets = np.array([float(match.group()) if match else np.nan for match in matches])
    steps = np.diff(onsets)
    if np.isnan(onsets).any() or (steps < 0.999 * layout.duration).any():
        raise DataError(f"{path} has gaps, but the times of its records are missing or overlap.")
    if steps.sum() > MAX_GAPS * layout.duration * layout.records:
        raise DataError(f"{path} has gaps of {steps.max():.0f} s, far longer than its data; split the file there.")
    since_first: NDArray[np.float64] = onsets - onsets[0]
    return since_first


def _spread(records: NDArray[np.float64], onsets: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    count, each = records.shape
    # Times may be rounded by less than a sample: consecutive records must not overlap because of that.
    places = np.rint(onsets * rate).astype(np.int64) - np.arange(count) * each
    places = np.maximum.accumulate(places) + np.arange(count) * each
    out = np.full(int(places[-1]) + each, np.nan)
    out[places[:, None] + np.arange(each)] = records
    return out


def _start(file: Any, layout: _Layout) -> datetime | None:
    """Return the start. An anonymised or impossible date is replaced, so that the time of day is kept."""
    try:
        return datetime.combine(file.startdate, file.starttime)
    except (ValueError, IndexError):  # an anonymised date, or an empty annotation signal
        pass
    try:
        clock = time(*_numbers(layout.legacy_time))
    except ValueError:
        return None
    try:
        day, month, year = _numbers(layout.legacy_date)
        return datetime.combine(date(year + (1900 if year >= 85 else 2000), month, day), clock)
    except ValueError:
        return datetime.combine(ANONYMOUS, clock)


def _numbers(text: str) -> tuple[int, int, int]:
    """Return the three numbers of dd.mm.yy or hh.mm.ss."""
    first, second, third = map(int, re.split(r"\D", text.strip()))
    return first, second, third


def _annotations(file: Any, path: Path) -> tuple[Annotation, ...]:
    try:
        annotations = file.annotations
    except IndexError:  # raised by edfio if the annotation signal is empty
        return ()
    except ValueError as error:
        notice(f"{path}: its annotations cannot be read and were left out: {reason(error)}.")
        return ()
    return tuple(Annotation(float(item.onset), float(item.duration or 0), item.text) for item in annotations)
