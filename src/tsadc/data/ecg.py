"""What the ECG data sets share: twelve leads, the codes of diagnoses, and one observation per record.

The rule for records with several diagnoses: one is normal if it has the normal diagnosis and no other; it is abnormal
if at least one of the paper's five types is among them, with those as its kinds; every other record is left out. An
incomplete right bundle branch block is not RBBB, as the PhysioNet challenges score it apart."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from tsadc.config import require
from tsadc.data.dataset import DataSet, Extract, Piece, Record, Span, files_under
from tsadc.data.packs import Pack, open_pack
from tsadc.errors import DataError
from tsadc.io.recording import Channel, Recording, read_recording
from tsadc.io.wfdb_files import LEADS as LEADS
from tsadc.series import Floats

NORMAL = "normal"
FIVE = ("AF", "I-AVB", "RBBB", "PVC", "STE")  # the paper's abnormal types
RATE = 100.0

# SNOMED CT codes as the PhysioNet challenges of 2020 and 2021 use them; those they score as one are one here.
SNOMED = {
    "426783006": NORMAL,
    "164889003": "AF",
    "270492004": "I-AVB",
    "164909002": "LBBB",
    "733534002": "LBBB",
    "59118001": "RBBB",
    "713427006": "RBBB",
    "284470004": "PAC",
    "63593006": "PAC",
    "427172004": "PVC",
    "17338001": "PVC",
    "164884008": "PVC",
    "429622005": "STD",
    "164931005": "STE",
}
MILLIVOLTS = {"mv": 1.0, "": 1.0, "uv": 1e-3, "µv": 1e-3, "μv": 1e-3, "v": 1e3}


def twelve_leads(recording: Recording) -> Floats:
    """The leads (time, variable) in millivolts at 100 Hz, in the usual order however the file spells them."""
    found: dict[str, Channel] = {}
    for channel in recording.channels:
        found.setdefault(channel.name.strip().casefold().removeprefix("lead ").removeprefix("ecg "), channel)
    missing = [lead for lead in LEADS if lead.casefold() not in found]
    if missing:
        raise DataError(f"{recording.source} lacks lead {missing[0]}; it has {', '.join(recording.names) or 'none'}.")
    picked = [found[lead.casefold()] for lead in LEADS]
    units = [MILLIVOLTS.get(channel.unit.strip().casefold()) for channel in picked]
    if None in units:
        unknown = picked[units.index(None)].unit
        raise DataError(f"{recording.source} should be in millivolts or microvolts, but has {unknown!r}.")
    series = recording.to_series("ecg", RATE, [channel.name for channel in picked])
    values: Floats = series.values * np.array(units, dtype=float)
    return values


def fit_length(values: Floats, length: int) -> Floats:
    """Longer records are cut; shorter ones end in rows that were not observed."""
    out = np.full((length, values.shape[1]), np.nan, dtype=np.float32)
    kept = min(length, len(values))
    out[:kept] = values[:kept]
    return out


def judge(diagnoses: Iterable[str]) -> tuple[str, ...] | None:
    """The kinds of a record: none for normal, None where it is to be left out."""
    named = set(diagnoses)
    if named == {NORMAL}:
        return ()
    return tuple(kind for kind in FIVE if kind in named) or None


def extract(values: Floats, diagnoses: Iterable[str], length: int) -> Extract:
    """One observation out of a record, unless its diagnoses leave it out."""
    named = set(diagnoses)
    kinds = judge(named)
    if kinds is None:
        told = sorted({name if name in SNOMED.values() else "other findings" for name in named - {NORMAL}})
        return Extract((), Counter({f"only {' and '.join(told) or 'no diagnosis'}": 1}))
    stop = min(length, len(values))
    spans = tuple(Span(0, stop, kind) for kind in kinds)
    return Extract((Piece(fit_length(values, length), spans=spans),))


def wfdb_records(raw: Path) -> list[Record]:
    """Every WFDB header under `raw` with its signal file; each record is an entity, as patients are not told apart."""
    out = []
    for header in files_under(raw, "*.hea"):
        signals = [file for ending in (".mat", ".dat") if (file := header.with_suffix(ending)).is_file()]
        out.append(Record(header.stem, header.stem, (header, *signals)))
    return out


@dataclass(frozen=True)
class TenSeconds(DataSet):
    """The first 10 seconds of each record, out of WFDB records or of the pack named `pack`."""

    length: int = 1000

    pack: ClassVar[str]

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    @abstractmethod
    def packed(self, pack: Pack, index: int) -> tuple[Floats, list[str]]:
        """The leads in microvolts and the diagnoses of one record in a pack."""

    @abstractmethod
    def diagnoses(self, recording: Recording) -> list[str]:
        """The diagnoses of a WFDB record, by the names that `judge` knows."""

    def records(self, raw: Path) -> Sequence[Record]:
        pack = open_pack(raw, self.pack)
        if pack is None:
            return sorted(wfdb_records(raw), key=lambda one: (len(one.name), one.name))
        return [Record(str(name), str(name), (pack.file,)) for name in pack["record"]]

    def read(self, record: Record) -> Extract:
        source = record.files[0]
        pack = open_pack(source.parent, self.pack) if source.name == self.pack else None
        if pack is None:
            recording = read_recording(source)
            return extract(twelve_leads(recording), self.diagnoses(recording), self.length)
        values, diagnoses = self.packed(pack, pack.find("record", record.name))
        return extract(values.astype(np.float64) / 1000, diagnoses, self.length)


def snomed_diagnoses(text: str) -> list[str]:
    """Codes separated by commas; those without a name here stay codes, so that they are not taken for normal."""
    codes = [code.strip() for code in text.replace(";", ",").split(",") if code.strip()]
    return [SNOMED.get(code, code) for code in codes]
