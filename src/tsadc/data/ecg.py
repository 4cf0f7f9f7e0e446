"""What the ECG data sets share: twelve leads, the codes of diagnoses, and one observation per record.

The rule for records with several diagnoses: one is normal if it has the normal diagnosis and no other; it is abnormal
if at least one of the paper's five types is among them, with those as its kinds; every other record is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from tsadc.data.dataset import Piece, Reading, Record, Span, files_under
from tsadc.errors import DataError
from tsadc.io.recording import Channel, Recording
from tsadc.series import Floats

LEADS = ("I", "II", "III", "aVR", "aVL", "aVF", "V1", "V2", "V3", "V4", "V5", "V6")
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


def reading(values: Floats, diagnoses: Iterable[str], length: int) -> Reading:
    """One observation out of a record, unless its diagnoses leave it out."""
    named = set(diagnoses)
    kinds = judge(named)
    if kinds is None:
        told = sorted({name if name in SNOMED.values() else "other findings" for name in named - {NORMAL}})
        return Reading((), Counter({f"only {' and '.join(told) or 'no diagnosis'}": 1}))
    stop = min(length, len(values))
    spans = tuple(Span(0, stop, kind) for kind in kinds)
    return Reading((Piece(fit_length(values, length), spans=spans),))


def wfdb_records(raw: Path) -> list[Record]:
    """Every WFDB header under `raw` with its signal file; each record is an entity, as patients are not told apart."""
    out = []
    for header in files_under(raw, "*.hea"):
        signals = [file for ending in (".mat", ".dat") if (file := header.with_suffix(ending)).is_file()]
        out.append(Record(header.stem, header.stem, (header, *signals)))
    return unique(out)


def unique(records: list[Record]) -> list[Record]:
    """Refuse two records of one name: they would become one entity."""
    seen: dict[str, Record] = {}
    for record in records:
        if record.name in seen:
            raise DataError(f"{record.files[0]} and {seen[record.name].files[0]} are records of the same name.")
        seen[record.name] = record
    return records


def snomed_diagnoses(text: str) -> list[str]:
    """Codes separated by commas; those without a name here stay codes, so that they are not taken for normal."""
    codes = [code.strip() for code in text.replace(";", ",").split(",") if code.strip()]
    return [SNOMED.get(code, code) for code in codes]
