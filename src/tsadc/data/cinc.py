"""Reader of CinC ECG, an open substitute for ICBEB: records of the PhysioNet/CinC Challenges 2020 and 2021.

It reads WFDB records with SNOMED codes from any source of the challenges, or the pack `ecg_cinc_100hz.npz`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tsadc.data import ecg
from tsadc.data.dataset import Card
from tsadc.data.packs import Pack
from tsadc.io.recording import Recording
from tsadc.io.wfdb_files import LEADS
from tsadc.series import Floats

PACK = "ecg_cinc_100hz.npz"


@dataclass(frozen=True)
class CinC(ecg.OpenECG):
    """One observation per record: its first 10 seconds, as most sources have no more."""

    pack: ClassVar[str] = PACK
    card: ClassVar[Card] = Card(
        name="cinc",
        title="CinC ECG: PhysioNet/CinC Challenges 2020 and 2021",
        licence="CC BY 4.0",
        obtain="physionet.org/content/challenge-2021/1.0.3",
        size="88,253 records, 12 GB; any part of them will do",
        layout="*.hea with *.mat in any folders, codes in a comment #Dx",
        variables=LEADS,
        rate=ecg.RATE,
        length=1000,
        entity="record",
        normal="sinus rhythm, and no other code",
        kinds=ecg.ABNORMAL_TYPES,
    )

    def packed(self, pack: Pack, index: int) -> tuple[Floats, list[str]]:
        first, last = pack["offset100"][index : index + 2]
        codes = ecg.split_entries(str(pack["dx_snomed"][index]))
        return pack["x100"][first:last], ecg.snomed_diagnoses(codes)

    def diagnoses(self, recording: Recording) -> list[str]:
        return ecg.snomed_diagnoses(ecg.dx_entries(recording))
