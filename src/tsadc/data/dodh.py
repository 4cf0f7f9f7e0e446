"""Reader of DODH, the Dreem Open Dataset of healthy volunteers.

There is one HDF5 file per night: `/signals/{eeg,eog,emg}/NAME` at 250 Hz and `/hypnogram` with a stage for every 30
seconds (-1 not scored, 0 awake, 1-3 N1-N3, 4 REM), which is the consensus of five scorers. The consensus can also be
built from the stagings of the scorers (`scorers/dodh/SCORER/RECORD.json`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tsadc.config import parse_json
from tsadc.data import sleep
from tsadc.data.dataset import Card, DataSet, Extract, PaperCounts, Record, Share, files_under
from tsadc.errors import DataError
from tsadc.io.hdf5 import read_hdf5
from tsadc.io.reading import reason
from tsadc.io.recording import package
from tsadc.io.resample import resample
from tsadc.series import Floats

STAGES = {-1: sleep.UNSCORED, **dict(enumerate(sleep.STAGES))}
CHANNELS = (
    *("C3_M2", "F3_F4", "F3_M2", "F3_O1", "F4_M1", "F4_O2"),
    *("FP1_F3", "FP1_M2", "FP1_O1", "FP2_F4", "FP2_M1", "FP2_O2"),
    *("ECG", "EMG", "EOG1", "EOG2"),
)
GROUPS = ("eeg", "eog", "emg", "ecg")  # the archive keeps the ECG in emg


@dataclass(frozen=True)
class DODH(DataSet):
    """One observation per epoch of 30 seconds. `scorers` is a flag: if set, the consensus is built from the stagings of
    the scorers instead of read from the file."""

    scorers: bool = False

    card: ClassVar[Card] = Card(
        name="dodh",
        title="DODH: Dreem Open Dataset, healthy volunteers",
        licence="publicly available (Guillot et al. 2020); see the archive for its terms",
        obtain="dreem-dod-h.s3.eu-west-3.amazonaws.com/index.html, or download_data.py of "
        "github.com/Dreem-Organization/dreem-learning-open; scorers: Dreem-Organization/dreem-learning-evaluation",
        size="25 nights, about 0.5 to 1 GB each",
        layout="RECORD.h5 with /signals/{eeg,eog,emg}/NAME (attribute fs) and /hypnogram; optionally "
        "scorers/dodh/SCORER/RECORD.json",
        variables=CHANNELS,
        rate=250.0,
        length=7500,
        entity="volunteer",
        normal=sleep.NORMAL,
        kinds=sleep.KINDS,
        entities=25,
        paper=PaperCounts(Share(2515, 0.198), Share(320, 0.218), Share(310, 0.516)),
        differs="every scored N3, REM and awake epoch is prepared; the paper's 3,145 are a part of them, and it does "
        "not say which. `contaminate` draws the same shares.",
    )

    def records(self, raw: Path) -> Sequence[Record]:
        nights = files_under(raw, "*.h5", "*.hdf5")
        stagings = files_under(raw, "*.json") if self.scorers else []
        out = []
        for night in nights:
            own = [file for file in stagings if file.stem == night.stem and file.parent.name.startswith("scorer")]
            out.append(Record(night.stem, night.stem, (night, *own)))
        return out

    def read(self, record: Record) -> Extract:
        night, *stagings = record.files
        if self.scorers and len(stagings) < 2:
            raise DataError(f"{night} should have stagings scorers/dodh/SCORER/{night.stem}.json of several scorers.")
        scored = [_staging(file) for file in stagings]
        if len({len(staging) for staging in scored}) > 1:
            raise DataError(f"The stagings of {night} must have the same number of epochs, but they differ.")
        numbers = consensus(scored) if scored else _hypnogram(night)
        stages = [STAGES[int(number)] for number in numbers]
        indices = sleep.kept(stages)
        epochs: Floats = np.empty((len(indices), self.card.length, len(CHANNELS)), dtype=np.float32)
        # One channel at a time, as all 16 of a night take about 1 GB.
        for i, path in enumerate(_paths(night)):
            channel = read_hdf5(night, groups=(path,), rate=self.card.rate).channels[0]
            values = resample(channel.values, channel.rate or self.card.rate, self.card.rate)
            if len(values) < (len(stages) - 1) * self.card.length:
                raise DataError(f"{night} has {len(stages)} scored epochs, but /{path} ends before the last of them.")
            epochs[:, :, i] = sleep.epochs_of(values, indices, self.card.length)
        return sleep.extract(epochs, stages, indices)


def consensus(stagings: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the stage that most scorers give each epoch. The scorer who agrees most with the others over the night
    breaks ties (Guillot et al. 2020)."""
    table = np.stack(stagings)
    agreement = np.array([(table == staging).mean() for staging in table])
    order = np.argsort(-agreement, kind="stable")
    out = np.empty(table.shape[1], dtype=np.int64)
    for epoch, votes in enumerate(table[order].T):
        counts = Counter(votes.tolist())
        most = max(counts.values())
        out[epoch] = next(vote for vote in votes if counts[int(vote)] == most)
    return out


def _paths(night: Path) -> list[str]:
    """Return the path of each channel in the file."""
    h5py = package("h5py", night, "HDF5")
    try:
        with h5py.File(night, "r") as file:
            has_signals = "signals" in file
            groups = [f"signals/{group}" for group in GROUPS if f"signals/{group}" in file]
            paths = {name: f"{group}/{name}" for group in groups for name in file[group]}
    except Exception as error:  # a damaged file can fail anywhere in h5py
        raise DataError(f"{night} is not a readable HDF5 file: {reason(error)}.") from None
    if not has_signals:
        raise DataError(f"{night} has no group /signals with the channels.")
    missing = [name for name in CHANNELS if name not in paths]
    if missing:
        raise DataError(f"{night} lacks the channel {missing[0]} in /signals; it has {', '.join(paths) or 'none'}.")
    return [paths[name] for name in CHANNELS]


def _hypnogram(night: Path) -> NDArray[np.int64]:
    return _checked(read_hdf5(night, groups=("hypnogram",)).channels[0].values, f"{night} in /hypnogram")


def _staging(file: Path) -> NDArray[np.int64]:
    try:
        numbers = np.asarray(parse_json(file.read_bytes()), dtype=float)
    except (OSError, TypeError, ValueError):
        raise DataError(f"{file} should be a list of stages, one for each epoch.") from None
    return _checked(numbers, str(file))


def _checked(values: Floats, where: str) -> NDArray[np.int64]:
    if values.ndim != 1 or not np.isin(values, list(STAGES)).all():
        raise DataError(f"{where} should hold one stage from -1 to 4 for each epoch.")
    return values.astype(np.int64)
