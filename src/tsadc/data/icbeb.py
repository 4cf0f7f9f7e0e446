"""Reader of ICBEB 2018, also known as CPSC2018: 6,877 twelve-lead ECGs of 6 to 60 seconds.

It reads all three forms: MAT structs with a `REFERENCE.csv` (as first published), WFDB records with diagnoses in words
(`#Dx: AF,RBBB`), and WFDB records with SNOMED codes (`#Dx: 164889003,59118001`)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar

from tsadc.config import require
from tsadc.data import ecg
from tsadc.data.dataset import Card, DataSet, Extract, PaperCounts, Record, Share, files_under
from tsadc.errors import DataError
from tsadc.io.recording import read_recording
from tsadc.io.wfdb_files import LEADS

CLASSES = (ecg.NORMAL, "AF", "I-AVB", "LBBB", "RBBB", "PAC", "PVC", "STD", "STE")  # 1 to 9 in REFERENCE.csv
WORDS = {name.casefold(): name for name in CLASSES} | {"iavb": "I-AVB", "nsr": ecg.NORMAL, "snr": ecg.NORMAL}


@dataclass(frozen=True)
class ICBEB(DataSet):
    """One observation of 60 seconds per record. A record is an entity, as the archive does not identify patients."""

    length: int = 6000

    card: ClassVar[Card] = Card(
        name="icbeb",
        title="ICBEB 2018 (CPSC2018): twelve-lead ECG",
        licence="free for research as CPSC2018; CC BY 4.0 as part of the PhysioNet/CinC Challenges 2020 and 2021",
        obtain="2018.icbeb.org/Challenge.html (MAT and REFERENCE.csv), or the folder cpsc_2018 of the PhysioNet/CinC "
        "Challenge 2020 or 2021 (WFDB)",
        size="6,877 records, about 3 GB",
        layout="*.hea with *.mat or *.dat, or *.mat with a REFERENCE.csv, in any folders",
        variables=LEADS,
        rate=ecg.RATE,
        length=6000,
        entity="record",
        normal="normal ECG, and no other diagnosis",
        kinds=ecg.ABNORMAL_TYPES,
        entities=918 + 4447,
        paper=PaperCounts(Share(910, 0.2), Share(82, 0.207), Share(222, 0.599)),
        differs="all 6,877 records give 918 normal and 4,447 abnormal ones; the paper uses about 882 and 332 of them "
        "and does not say which. `contaminate` draws the same shares.",
    )

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    def records(self, raw: Path) -> Sequence[Record]:
        with_header = ecg.wfdb_records(raw)
        names = {record.name for record in with_header}
        structs = [file for file in files_under(raw, "*.mat") if file.stem not in names]
        if not structs:
            return with_header
        reference = _find_reference_csv(raw, structs[0])
        return with_header + [Record(file.stem, file.stem, (file, reference)) for file in structs]

    def read(self, record: Record) -> Extract:
        source, *others = record.files
        recording = read_recording(source)
        if source.suffix == ".mat":
            diagnoses = _look_up_diagnoses(others[0], record.name)
        else:
            diagnoses = _diagnosis_names(ecg.dx_entries(recording))
        return ecg.extract(ecg.twelve_leads(recording), diagnoses, self.length)


def _diagnosis_names(entries: Iterable[str]) -> list[str]:
    """Return the names of diagnoses that are given in words or codes."""
    return [WORDS.get(name.casefold(), name) for name in ecg.snomed_diagnoses(entries)]


def _find_reference_csv(raw: Path, example: Path) -> Path:
    files = files_under(raw, "REFERENCE*.csv", "reference*.csv")
    if not files:
        raise DataError(f"{example} needs the diagnoses in REFERENCE.csv, but there is no such file in {raw}.")
    if len(files) > 1:
        raise DataError(f"{raw} holds both {files[0]} and {files[1]}; keep the one with all diagnoses.")
    return files[0]


def _look_up_diagnoses(reference: Path, name: str) -> list[str]:
    """Return the diagnoses of a record in REFERENCE.csv."""
    table = _read_reference_csv(reference, reference.stat().st_mtime_ns)
    if name not in table:
        raise DataError(f"{reference} does not list {name}.")
    return table[name]


@lru_cache(maxsize=1)
def _read_reference_csv(file: Path, changed: int) -> dict[str, list[str]]:
    """Read lines of Recording,First_label,Second_label,Third_label with classes 1 to 9."""
    try:
        with open(file, newline="", encoding="utf-8-sig") as text:
            rows = [[cell.strip() for cell in row] for row in csv.reader(text)]
        return {
            row[0]: [CLASSES[_class(cell)] for cell in row[1:] if cell]
            for row in rows
            if row and row[0] and row[0].casefold() != "recording"
        }
    except (OSError, ValueError, csv.Error):
        raise DataError(f"{file} should have lines like A0001,5,, with the numbers 1 to 9 for diagnoses.") from None


def _class(cell: str) -> int:
    number = int(float(cell))
    if not 1 <= number <= len(CLASSES):
        raise ValueError(cell)
    return number - 1
