"""Reader of LUDB, an open substitute for ICBEB: 200 twelve-lead ECGs of 10 seconds with diagnoses in words.

It reads the WFDB records of the archive, or the pack `ecg_ludb_100hz.npz`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from tsadc.data import ecg
from tsadc.data.dataset import Card
from tsadc.data.packs import Pack
from tsadc.errors import DataError
from tsadc.io.recording import Recording
from tsadc.io.wfdb_files import LEADS
from tsadc.series import Floats

PACK = "ecg_ludb_100hz.npz"
# RBBB may be complete or incomplete. Suspected NSTEMI (`supp.NSTEMI`) is also counted as STE, like the flag
# STE_or_STEMI of the pack.
DIAGNOSES = {
    "AF": re.compile(r"atrial fibrillation", re.I),
    "I-AVB": re.compile(r"^I degree AV.block", re.I),
    "RBBB": re.compile(r"right bundle branch block", re.I),
    "PVC": re.compile(r"^ventricular extrasystole", re.I),
    "STE": re.compile(r"STEMI", re.I),
}
USUAL = re.compile(
    r"^(Rhythm: Sinus (rhythm|arrhythmia|bradycardia)|Electric axis[^:]*: (normal|horizontal|vertical))$"
)


@dataclass(frozen=True)
class LUDB(ecg.OpenECG):
    """One observation of 10 seconds per record. Each record is from a different patient."""

    pack: ClassVar[str] = PACK
    card: ClassVar[Card] = Card(
        name="ludb",
        title="LUDB: Lobachevsky University ECG database",
        licence="ODC-By 1.0",
        obtain="physionet.org/content/ludb/1.0.1",
        size="200 records, 30 MB",
        layout="data/N.hea with N.dat, diagnoses in the comments of the header",
        variables=LEADS,
        rate=ecg.RATE,
        length=1000,
        entity="patient",
        normal="sinus rhythm, usual axis, and nothing else to report",
        kinds=ecg.ABNORMAL_TYPES,
        entities=25 + 79,
    )

    def packed(self, pack: Pack, index: int) -> tuple[Floats, list[str]]:
        return pack["x100"][index], classify(str(pack["diagnoses"][index]).split("|"))

    def diagnoses(self, recording: Recording) -> list[str]:
        return classify(_remarks(recording))


def classify(remarks: Iterable[str]) -> list[str]:
    """Return the diagnoses in remarks by the names of `ecg.anomaly_kinds`; any other remark is an "other finding"."""
    out = []
    for remark in (remark.strip().rstrip(".").strip() for remark in remarks):
        named = [name for name, pattern in DIAGNOSES.items() if pattern.search(remark)]
        out += named or ([ecg.NORMAL] if USUAL.match(remark) else ["other findings"])
    return out


def _remarks(recording: Recording) -> list[str]:
    comments = recording.comments
    first = next((i for i, line in enumerate(comments) if "<diagnoses>" in line), None)
    if first is None:
        raise DataError(
            f"{recording.source} has no line <diagnoses>: in its comments, which is expected in LUDB headers."
        )
    return [line for line in comments[first + 1 :] if line.strip()]
