"""The annotations of TUSZ: `.csv` and `.csv_bi` (channel,start_time,stop_time,label,confidence) since version 2,
`.tse` and `.tse_bi` (start stop label confidence) before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from tsadc.errors import DataError

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
    "seiz": "seizure",  # of a type that was not annotated
}


@dataclass(frozen=True, slots=True)
class Event:
    """A seizure from `start` to `stop` seconds; `electrodes` of the channels that show it, none where all may."""

    start: float
    stop: float
    label: str
    electrodes: frozenset[str] = frozenset()

    @property
    def kind(self) -> str | None:
        """The paper's two types, or None for what is neither."""
        return TYPES.get(self.label)


def annotation_files(edf: Path) -> list[Path]:
    """The annotations beside a recording, the most telling first."""
    return [file for ending in ENDINGS if (file := edf.with_suffix(ending)).is_file()]


def read_events(file: Path) -> list[Event]:
    """Everything but background, in the order of time. What overlaps and has the same label is one event."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{file} cannot be read as text.") from None
    comma = file.suffix.startswith(".csv")
    events, known = [], False
    for number, line in enumerate(lines, start=1):
        text = line.split("#")[0].strip()
        if not text or text.startswith(("version", "channel,")):
            continue
        try:
            event = _event(text.split(",") if comma else ["TERM", *text.split()])
        except (ValueError, IndexError):
            raise DataError(f"{file} is not an annotation of TUSZ: line {number} is {line[:40]!r}.") from None
        known = True
        if event.label != BACKGROUND:
            events.append(event)
    if not known:
        raise DataError(f"{file} has no annotations in it; even a recording without seizures has background.")
    return _merged(events)


def _event(fields: list[str]) -> Event:
    channel, start, stop, label = (field.strip() for field in fields[:4])
    if not 0 <= float(start) <= float(stop) < math.inf:
        raise ValueError(start)
    electrodes = [] if channel.upper() == "TERM" else channel.upper().split("-")
    return Event(float(start), float(stop), label.lower(), frozenset(electrodes))


def _merged(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in sorted(events, key=lambda one: (one.label, one.start, one.stop)):
        if out and out[-1].label == event.label and event.start <= out[-1].stop:
            last = out.pop()
            both = last.electrodes | event.electrodes
            event = Event(last.start, max(last.stop, event.stop), event.label, both)
        out.append(event)
    return sorted(out, key=lambda one: (one.start, one.stop, one.label))
