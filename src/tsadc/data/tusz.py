"""Reader of TUSZ, the Temple University Hospital seizure corpus: EDF with annotations beside it.

An observation is 60 seconds. It is abnormal if a focal or generalised seizure touches it, and normal if only background
does. Annotations are `.csv` and `.csv_bi` (channel,start_time,stop_time,label,confidence) since version 2, `.tse` and
`.tse_bi` (start stop label confidence) before it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from tsadc.data.dataset import Card, DataSet, Extract, PaperCounts, Piece, Record, Share, Span, cut, files_under
from tsadc.errors import DataError
from tsadc.io.recording import Recording, read_recording

SIDES = ("FP1", "FP2", "F3", "F4", "C3", "C4", "P3", "P4", "O1", "O2", "F7", "F8", "T3", "T4", "T5", "T6")
ELECTRODES = (*SIDES, "FZ", "CZ", "PZ")
NEWER = {"T7": "T3", "T8": "T4", "P7": "T5", "P8": "T6"}  # 10-10 names of positions in the 10-20 system
# The part after the dash must be a reference: FP1-F7 is a bipolar derivation and does not match.
LABEL = re.compile(r"^(?:EEG\s*)?([A-Z]+\d*)(?:\s*-\s*(?:REF|LE|AR|AVG|AV|A1|A2|A1A2|M1|M2|CAR)\d*)?$")
LEAST_MEASURED = 0.5  # share of the rows of a minute; a gap in the recording is not background
PATIENT = re.compile(r"^([A-Za-z0-9]+)_s\d+_t\d+")
ENDINGS = (".csv", ".tse", ".csv_bi", ".tse_bi")  # those with seizure types first
BACKGROUND = "bckg"
TYPES = {
    "fnsz": "focal",
    "spsz": "focal",
    "cpsz": "focal",
    "gnsz": "generalised",
    "absz": "generalised",
    "tnsz": "generalised",
    "cnsz": "generalised",
    "tcsz": "generalised",
    "atsz": "generalised",
    "mysz": "generalised",
    "seiz": "seizure",  # type not annotated
}


@dataclass(frozen=True)
class TUSZ(DataSet):
    """One observation per whole minute of a recording."""

    card: ClassVar[Card] = Card(
        name="tusz",
        title="TUSZ: Temple University Hospital EEG seizure corpus",
        licence="free after a signed request to the Neural Engineering Data Consortium; no redistribution",
        obtain="isip.piconepress.com/projects/nedc/html/tuh_eeg, form to sign, then rsync",
        size="version 2.0.3: 7,377 recordings of 675 patients, about 80 GB; the paper's version 1.5 has 5,612",
        layout="edf/{train,dev,eval}/.../PATIENT_sNNN_tNNN.edf with .csv, .csv_bi, .tse or .tse_bi beside it",
        variables=ELECTRODES,
        rate=200.0,
        length=12000,
        entity="patient",
        normal="background",
        kinds=("focal", "generalised"),
        paper=PaperCounts(Share(5275, 0.17), Share(1055, 0.2), Share(1581, 0.4)),
        differs="every whole minute is prepared; the paper's 7,911 are a part of them, and it does not say which. Nor "
        "does it say which labels it counts as focal and generalised: here fnsz, spsz, cpsz and gnsz, absz, tnsz, "
        "cnsz, tcsz, atsz, mysz. `contaminate` draws the same shares.",
    )

    def records(self, raw: Path) -> Sequence[Record]:
        out = []
        for file in files_under(raw, "*.edf"):
            named = PATIENT.match(file.stem)
            files = (file, *annotation_files(file)[:1])
            out.append(Record(named.group(1) if named else file.stem, file.stem, files))
        return sorted(out, key=lambda record: (record.entity, record.name))

    def read(self, record: Record) -> Extract:
        edf, *annotations = record.files
        if not annotations:
            raise DataError(f"{edf} should have its annotations beside it, as {', '.join(ENDINGS)}, but has none.")
        events = read_events(annotations[0])
        recording = read_recording(edf)
        chosen = electrodes(recording)
        series = recording.to_series(record.entity, self.card.rate, list(chosen.values()))
        pieces, left_out = [], Counter[str]()
        for start, values in cut(series.values, self.card.length):
            if np.isfinite(values).any(axis=1).mean() < LEAST_MEASURED:
                left_out["under half of the minute measured"] += 1
                continue
            touching = [event for event in events if self._rows(event, start)[0] < self._rows(event, start)[1]]
            unknown = next((event.label for event in touching if event.kind is None), None)
            if unknown is not None:
                left_out[f"label {unknown}"] += 1
                continue
            spans = tuple(_span(event, *self._rows(event, start)) for event in touching)
            pieces.append(Piece(values, start, spans))
        left_out["rows after the last whole observation"] += len(series) % self.card.length
        return Extract(pieces, left_out)

    def _rows(self, event: Event, start: int) -> tuple[int, int]:
        """Return the rows of an event in the observation that begins at row `start`; empty if it does not touch it."""
        first, last = round(event.start * self.card.rate), round(event.stop * self.card.rate)
        return max(first - start, 0), min(last - start, self.card.length)


def electrodes(recording: Recording) -> dict[str, str]:
    """Return the channel of each of the 19 electrodes, whatever reference its label has."""
    channels: dict[str, str] = {}
    for name in recording.names:
        label = LABEL.match(name.strip().upper())
        if label:
            channels.setdefault(NEWER.get(label.group(1), label.group(1)), name)
    missing = [name for name in ELECTRODES if name not in channels]
    if missing:
        raise DataError(f"{recording.source} lacks the electrode {missing[0]}; it has {', '.join(recording.names)}.")
    return {name: channels[name] for name in ELECTRODES}


def _span(event: Event, first: int, last: int) -> Span:
    blamed = tuple(name for name in ELECTRODES if name in event.electrodes)
    return Span(first, last, event.kind or event.label, blamed)


@dataclass(frozen=True, slots=True)
class Event:
    """A seizure from `start` to `stop` seconds; `electrodes` are those that show it, empty if unknown."""

    start: float
    stop: float
    label: str
    electrodes: frozenset[str] = frozenset()

    @property
    def kind(self) -> str | None:
        """The paper's type of the seizure, or None for any other label."""
        return TYPES.get(self.label)


def annotation_files(edf: Path) -> list[Path]:
    """Return the annotation files beside a recording, those with seizure types first."""
    return [file for ending in ENDINGS if (file := edf.with_suffix(ending)).is_file()]


def read_events(file: Path) -> list[Event]:
    """Return all events except background, in the order of time. Overlapping events with the same label become one."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{file} cannot be read as text.") from None
    comma = file.suffix.startswith(".csv")
    events, empty = [], True
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if not text or text.startswith(("version", "channel,")):
            continue
        try:
            event = _event(text.split(",") if comma else ["TERM", *text.split()])
        except (ValueError, IndexError):
            raise DataError(f"{file} is not an annotation of TUSZ: line {number} is {line[:40]!r}.") from None
        empty = False
        if event.label != BACKGROUND:
            events.append(event)
    if empty:
        raise DataError(f"{file} has no annotations; a recording without seizures should have background.")
    return _merged(events)


def _event(fields: list[str]) -> Event:
    channel, start, stop, label = (field.strip() for field in fields[:4])
    if not 0 <= float(start) <= float(stop) < math.inf:
        raise ValueError(start)
    electrodes = [] if channel.upper() == "TERM" else channel.upper().split("-")
    return Event(float(start), float(stop), label.lower(), frozenset(electrodes))


def _merged(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in sorted(events, key=lambda event: (event.label, event.start, event.stop)):
        if out and out[-1].label == event.label and event.start <= out[-1].stop:
            last = out.pop()
            both = last.electrodes | event.electrodes
            event = Event(last.start, max(last.stop, event.stop), event.label, both)
        out.append(event)
    return sorted(out, key=lambda event: (event.start, event.stop, event.label))
