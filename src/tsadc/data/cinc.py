"""CinC ECG, an open stand-in for ICBEB: WFDB records of the PhysioNet/CinC Challenges 2020 and 2021 from any of their
sources, with SNOMED codes. Reads the records, or the pack `ecg_cinc_100hz.npz`."""

from __future__ import annotations

from collections.abc import Sequence
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

PACK = "ecg_cinc_100hz.npz"


@dataclass(frozen=True)
class CinC(DataSet):
    """The first 10 seconds of each record: most sources have no more."""

    length: int = 1000

    card: ClassVar[Card] = Card(
        name="cinc",
        title="CinC ECG: PhysioNet/CinC Challenges 2020 and 2021",
        licence="CC BY 4.0",
        obtain="physionet.org/content/challenge-2021/1.0.3",
        size="88,253 records, 12 GB; any part of them will do",
        layout="*.hea with *.mat in any folders, codes in a comment #Dx",
        variables=ecg.LEADS,
        rate=ecg.RATE,
        length=1000,
        entity="record",
        normal="sinus rhythm, and no other code",
        kinds=ecg.FIVE,
    )

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    def records(self, raw: Path) -> Sequence[Record]:
        pack = open_pack(raw, PACK)
        if pack is None:
            return ecg.wfdb_records(raw)
        return [Record(str(name), str(name), (pack.file,)) for name in pack["record"]]

    def read(self, record: Record) -> Reading:
        source = record.files[0]
        pack = open_pack(source.parent, PACK) if source.name == PACK else None
        if pack is not None:
            index = pack.find("record", record.name)
            first, last = pack["offset100"][index : index + 2]
            values: Floats = pack["x100"][first:last].astype(np.float64) / 1000
            codes = str(pack["dx_snomed"][index])
        else:
            recording = read_recording(source)
            if "dx" not in recording.fields:
                raise DataError(f"{source} has no line #Dx, which should name its diagnoses.")
            values, codes = ecg.twelve_leads(recording), recording.fields["dx"]
        return ecg.reading(values, ecg.snomed_diagnoses(codes), self.length)
