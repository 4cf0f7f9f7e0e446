"""LUDB, an open stand-in for ICBEB: 200 twelve-lead ECGs of 10 seconds with diagnoses in words. Reads the WFDB records
of the archive, or the pack `ecg_ludb_100hz.npz`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from tsadc.config import require
from tsadc.data import ecg
from tsadc.data.dataset import Card, DataSet, Reading, Record
from tsadc.data.packs import open_pack
from tsadc.errors import DataError
from tsadc.io.recording import read_recording
from tsadc.series import Floats

PACK = "ecg_ludb_100hz.npz"
# NSTEMI, which LUDB only supposes, has no elevated ST segment.
DIAGNOSES = {
    "AF": re.compile(r"atrial fibrillation", re.I),
    "I-AVB": re.compile(r"^I degree AV.block", re.I),
    "RBBB": re.compile(r"right bundle branch block", re.I),
    "PVC": re.compile(r"^ventricular extrasystole", re.I),
    "STE": re.compile(r"^STEMI", re.I),
}
USUAL = re.compile(
    r"^(Rhythm: Sinus (rhythm|arrhythmia|bradycardia)|Electric axis[^:]*: (normal|horizontal|vertical))$"
)


@dataclass(frozen=True)
class LUDB(DataSet):
    """One observation of 10 seconds per record, each of another patient."""

    length: int = 1000

    card: ClassVar[Card] = Card(
        name="ludb",
        title="LUDB: Lobachevsky University ECG database",
        licence="ODC-By 1.0",
        obtain="physionet.org/content/ludb/1.0.1",
        size="200 records, 30 MB",
        layout="data/N.hea with N.dat, diagnoses in the comments of the header",
        variables=ecg.LEADS,
        rate=ecg.RATE,
        length=1000,
        entity="patient",
        normal="sinus rhythm, usual axis, and nothing else to report",
        kinds=ecg.FIVE,
        entities=25 + 66,
    )

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    def records(self, raw: Path) -> Sequence[Record]:
        pack = open_pack(raw, PACK)
        if pack is None:
            return sorted(ecg.wfdb_records(raw), key=lambda one: (len(one.name), one.name))
        return [Record(str(name), str(name), (pack.file,)) for name in pack["record"]]

    def read(self, record: Record) -> Reading:
        source = record.files[0]
        pack = open_pack(source.parent, PACK) if source.name == PACK else None
        if pack is not None:
            index = pack.find("record", record.name)
            values: Floats = pack["x100"][index].astype(np.float64) / 1000
            remarks = str(pack["diagnoses"][index]).split("|")
        else:
            recording = read_recording(source)
            values, remarks = ecg.twelve_leads(recording), _remarks(recording.comments, source)
        return ecg.reading(values, diagnoses(remarks), self.length)


def diagnoses(remarks: Iterable[str]) -> list[str]:
    """The names that `ecg.judge` knows; any other remark keeps a record from being normal."""
    out = []
    for remark in (remark.strip().rstrip(".").strip() for remark in remarks):
        named = [name for name, pattern in DIAGNOSES.items() if pattern.search(remark)]
        out += named or ([ecg.NORMAL] if USUAL.match(remark) else ["other findings"])
    return out


def _remarks(comments: Sequence[str], source: Path) -> list[str]:
    first = next((i for i, line in enumerate(comments) if "<diagnoses>" in line), None)
    if first is None:
        raise DataError(f"{source} has no line <diagnoses>: in its comments, as the headers of LUDB have.")
    return [line for line in comments[first + 1 :] if line.strip()]
