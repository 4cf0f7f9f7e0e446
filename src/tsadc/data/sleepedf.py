"""Reader of Sleep-EDF, an open substitute for DODH: nights as EDF with the stages in a second EDF+ file.

It reads `*-PSG.edf` with `*-Hypnogram.edf`, or the pack `sleep_edf_night.npz`. Recordings last a day; of the
wakefulness before and after the night, the reader keeps `margin` minutes. The pack is read whole: it was cut half an
hour before and after the night when it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from tsadc.config import require
from tsadc.data import sleep
from tsadc.data.dataset import Card, DataSet, Extract, Record, files_under
from tsadc.data.packs import Pack, open_pack
from tsadc.errors import DataError
from tsadc.io.edf import ANONYMOUS
from tsadc.io.recording import Annotation, Recording, read_recording
from tsadc.io.resample import resample
from tsadc.series import Floats

PACK = "sleep_edf_night.npz"
CHANNELS = ("EEG Fpz-Cz", "EEG Pz-Oz", "EOG horizontal")
STAGES = dict(zip("W123R", sleep.STAGES, strict=True)) | {"4": sleep.STAGES[3]}  # 3 and 4 are both N3 today
DAY = 86400.0  # seconds
PREFIX = "Sleep stage "


@dataclass(frozen=True)
class SleepEDF(DataSet):
    """One observation per epoch of 30 seconds. `margin` is the number of minutes of wakefulness that are kept before
    and after the night; the pack ignores it."""

    margin: float = 30.0

    card: ClassVar[Card] = Card(
        name="sleepedf",
        title="Sleep-EDF Expanded",
        licence="ODC-By 1.0",
        obtain="physionet.org/content/sleep-edfx/1.0.0",
        size="197 nights, 8 GB; any part of them will do",
        layout="*-PSG.edf with *-Hypnogram.edf, whose names share the first seven characters",
        variables=CHANNELS,
        rate=100.0,
        length=3000,
        entity="subject",
        normal=sleep.NORMAL,
        kinds=sleep.KINDS,
    )

    def __post_init__(self) -> None:
        require(self.margin >= 0, "margin", "0 or more minutes", self.margin)

    def records(self, raw: Path) -> Sequence[Record]:
        pack = open_pack(raw, PACK)
        if pack is not None:
            return [Record("SC400", "SC4001E", (pack.file,))]
        hypnograms = files_under(raw, "*Hypnogram*.edf")
        out = []
        for night in files_under(raw, "*PSG*.edf"):
            # SC4ssN...: subject ss, night N; the hypnogram's eighth character is its scorer.
            nearby = [file for file in hypnograms if night.parent in file.parents]
            scored = [file for file in nearby if file.name[:7] == night.name[:7]]
            out.append(Record(night.name[:5], night.name[:7], (night, *scored)))
        return out

    def read(self, record: Record) -> Extract:
        night, *scored = record.files
        pack = open_pack(night, PACK)
        if pack is not None:
            return _read_pack(pack)
        if len(scored) != 1:
            raise DataError(f"{night} should have one {record.name}*-Hypnogram.edf beside it, but has {len(scored)}.")
        recording, hypnogram = read_recording(night), read_recording(scored[0])
        channels, length = _channels(recording), self.card.length
        offset = _offset_seconds(hypnogram, recording)
        stages = stage_list(hypnogram.annotations, min(map(len, channels)) // length, offset)
        night_time = night_epochs(stages, round(self.margin * 60 / sleep.EPOCH))
        indices = [i for i in sleep.kept(stages) if i in night_time]
        if not indices:
            _check_not_cropped(recording, hypnogram, len(stages) * sleep.EPOCH)
        epochs = np.stack([sleep.epochs_of(values, indices, length) for values in channels], axis=-1)
        return sleep.extract(epochs, stages, indices)


def night_epochs(stages: Sequence[str], margin: int) -> range:
    """Return the epochs from the first of sleep to the last, with `margin` more on either side."""
    epochs = [i for i, stage in enumerate(stages) if stage not in ("awake", sleep.UNSCORED)]
    return range(epochs[0] - margin, epochs[-1] + margin + 1) if epochs else range(0)


def stage_list(annotations: Sequence[Annotation], epochs: int, offset_seconds: float = 0.0) -> list[str]:
    """Return the stage of every epoch, "not scored" if it is not the same throughout; annotations start
    `offset_seconds` after the signals."""
    out = [sleep.UNSCORED] * epochs
    for note in annotations:
        stage = _stage(note)
        if stage is None:
            continue
        onset = note.onset + offset_seconds
        first = int(np.ceil(onset / sleep.EPOCH - 1e-6))
        last = int(np.floor((onset + note.duration) / sleep.EPOCH + 1e-6))
        for i in range(max(first, 0), min(last, epochs)):
            out[i] = stage
    return out


def _stage(note: Annotation) -> str | None:
    return STAGES.get(note.text.removeprefix(PREFIX).strip()) if note.text.startswith(PREFIX) else None


def _offset_seconds(hypnogram: Recording, recording: Recording) -> float:
    """Return how many seconds after the signals the hypnogram starts; 0 if a header has no date or only one
    of the two is anonymous."""
    if hypnogram.start is None or recording.start is None:
        return 0.0
    if (hypnogram.start.date() == ANONYMOUS) != (recording.start.date() == ANONYMOUS):
        return 0.0
    offset = (hypnogram.start - recording.start).total_seconds()
    if abs(offset) > DAY:
        raise DataError(
            f"{hypnogram.source} starts at {hypnogram.start}, but {recording.source} at {recording.start}; they "
            "are not of the same night."
        )
    return offset


def _check_not_cropped(recording: Recording, hypnogram: Recording, recorded: float) -> None:
    """Raise if the signals look cut out of a night while the header still has the start of the night; they would get
    the stages of another hour."""
    scored = max((note.onset + note.duration for note in hypnogram.annotations if _stage(note)), default=0.0)
    if _offset_seconds(hypnogram, recording) == 0 and scored > 2 * recorded:
        raise DataError(
            f"{recording.source} lasts {recorded / 60:.0f} min and has no usable epoch, but {hypnogram.source} scores "
            f"{scored / 3600:.1f} h from the same start: it looks like a crop whose header kept the night's start; "
            "correct its start time."
        )


def _channels(recording: Recording) -> list[Floats]:
    by_name = {channel.name: channel for channel in recording.channels}
    missing = [name for name in CHANNELS if name not in by_name]
    if missing:
        raise DataError(f"{recording.source} lacks the channel {missing[0]}; it has {', '.join(recording.names)}.")
    rate = SleepEDF.card.rate
    picked = [by_name[name] for name in CHANNELS]
    return [resample(channel.values, channel.rate or rate, rate) for channel in picked]


def _read_pack(pack: Pack) -> Extract:
    length = SleepEDF.card.length
    gain, offset = pack["gain_offset100"].T
    values = (pack["x100"] * gain + offset).astype(np.float32)
    stages = [sleep.STAGES[number] for number in pack["stage"]]
    epochs = values.reshape(-1, length, len(CHANNELS))
    indices = sleep.kept(stages)
    return sleep.extract(epochs[indices], stages, indices)
