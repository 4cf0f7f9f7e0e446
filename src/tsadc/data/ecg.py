"""Shared parts of the ECG data sets: twelve leads, diagnosis codes, and one observation per record.

A record is normal if it has the normal diagnosis and no other. It is abnormal if it has at least one of the paper's
five types, which are then its kinds. Every other record is left out. In SNOMED codes an incomplete right bundle branch
block is not RBBB, as the PhysioNet challenges score it separately; LUDB's remarks count it (see `ludb`)."""

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
from tsadc.io.wfdb_files import LEADS
from tsadc.series import Floats

NORMAL = "normal"
ABNORMAL_TYPES = ("AF", "I-AVB", "RBBB", "PVC", "STE")  # of the paper
RATE = 100.0

# SNOMED CT codes of the PhysioNet challenges 2020 and 2021; codes that they score as one share a name.
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
    """Return the leads (time, variable) in millivolts at 100 Hz in the usual order, however the file spells them."""
    channels = _pick_leads(recording)
    factors = [_millivolts_per_unit(channel, recording.source) for channel in channels]
    series = recording.to_series("ecg", RATE, [channel.name for channel in channels])
    values: Floats = series.values * np.array(factors)
    return values


def _pick_leads(recording: Recording) -> list[Channel]:
    by_name: dict[str, Channel] = {}
    for channel in recording.channels:
        by_name.setdefault(channel.name.strip().casefold().removeprefix("lead ").removeprefix("ecg "), channel)
    missing = [lead for lead in LEADS if lead.casefold() not in by_name]
    if missing:
        raise DataError(f"{recording.source} lacks lead {missing[0]}; it has {', '.join(recording.names) or 'none'}.")
    return [by_name[lead.casefold()] for lead in LEADS]


def _millivolts_per_unit(channel: Channel, source: str) -> float:
    unit = channel.unit.strip().casefold()
    if unit not in MILLIVOLTS:
        raise DataError(
            f"{source} should have leads in uV, mV or V (none: mV), but {channel.name} is in {channel.unit!r}."
        )
    return MILLIVOLTS[unit]


def fit_length(values: Floats, length: int) -> Floats:
    """Cut longer records to `length` rows; pad shorter ones with rows that were not observed."""
    out = np.full((length, values.shape[1]), np.nan, dtype=np.float32)
    kept = min(length, len(values))
    out[:kept] = values[:kept]
    return out


def anomaly_kinds(diagnoses: Iterable[str]) -> tuple[str, ...] | None:
    """Return the kinds of a record: empty if it is normal, None if it is to be left out."""
    named = set(diagnoses)
    if named == {NORMAL}:
        return ()
    return tuple(kind for kind in ABNORMAL_TYPES if kind in named) or None


def extract(values: Floats, diagnoses: Iterable[str], length: int) -> Extract:
    """Make one observation of a record, or none if its diagnoses leave it out."""
    named = set(diagnoses)
    kinds = anomaly_kinds(named)
    if kinds is None:
        others = sorted({name if name in SNOMED.values() else "other findings" for name in named - {NORMAL}})
        return Extract((), Counter({f"only {' and '.join(others)}" if others else "no diagnosis": 1}))
    stop = min(length, len(values))
    spans = tuple(Span(0, stop, kind) for kind in kinds)
    return Extract((Piece(fit_length(values, length), spans=spans),))


def wfdb_records(raw: Path) -> list[Record]:
    """List the WFDB headers under `raw` with their signal files. A record is an entity, as patients are not known."""
    out = []
    for header in files_under(raw, "*.hea"):
        signals = [file for ending in (".mat", ".dat") if (file := header.with_suffix(ending)).is_file()]
        out.append(Record(header.stem, header.stem, (header, *signals)))
    return out


@dataclass(frozen=True)
class OpenECG(DataSet):
    """An open ECG data set: the first `length` rows of each record, from WFDB records or from the pack named `pack`."""

    length: int = 1000

    pack: ClassVar[str]

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    @abstractmethod
    def packed(self, pack: Pack, index: int) -> tuple[Floats, list[str]]:
        """Return the leads in microvolts and the diagnoses of one record in a pack."""

    @abstractmethod
    def diagnoses(self, recording: Recording) -> list[str]:
        """Return the diagnoses of a WFDB record by the names of `anomaly_kinds`."""

    def records(self, raw: Path) -> Sequence[Record]:
        pack = open_pack(raw, self.pack)
        if pack is None:
            return sorted(wfdb_records(raw), key=lambda record: (len(record.name), record.name))
        return [Record(str(name), str(name), (pack.file,)) for name in pack["record"]]

    def read(self, record: Record) -> Extract:
        source = record.files[0]
        pack = open_pack(source, self.pack)
        if pack is None:
            recording = read_recording(source)
            return extract(twelve_leads(recording), self.diagnoses(recording), self.length)
        values, diagnoses = self.packed(pack, pack.find("record", record.name))
        return extract(values.astype(np.float64) / 1000, diagnoses, self.length)


def dx_entries(recording: Recording) -> list[str]:
    """Return the diagnoses in the line #Dx of a WFDB header, in words or codes as they stand there."""
    if "dx" not in recording.fields:
        raise DataError(f"{recording.source} has no line #Dx with its diagnoses.")
    return split_entries(recording.fields["dx"])


def split_entries(text: str) -> list[str]:
    """Split diagnoses that are separated by commas or semicolons."""
    return [entry.strip() for entry in text.replace(";", ",").split(",") if entry.strip()]


def snomed_diagnoses(codes: Iterable[str]) -> list[str]:
    """Return the names of SNOMED codes. Unknown codes stay codes, so that they do not count as normal."""
    return [SNOMED.get(code, code) for code in codes]
