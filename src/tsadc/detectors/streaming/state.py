"""The state of a stream as bytes: a line of JSON and arrays. It can be read without running any code from it.

part        content
magic       `MAGIC`, which names the format and its version
size        length of the header in bytes, 8 bytes, little-endian
header      JSON: `fields`, and `arrays`, a list of [name, type, shape]
arrays      their content one after the other, little-endian, in C order
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.config import to_mapping
from tsadc.detectors.result import Evidence
from tsadc.detectors.streaming.rows import Rows
from tsadc.detectors.streaming.track import Section, Track
from tsadc.detectors.streaming.update import LiveInterval
from tsadc.errors import DataError
from tsadc.series import Clock

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MAGIC = b"tsadc stream 2\n"
TYPES = ("<f4", "<f8", "<i8", "|b1")
PLAIN = ("name", "phase", "first", "origin", "done", "next", "fed", "scores", "raised")  # what JSON can hold of a track
Fields = dict[str, Any]
Arrays = Mapping[str, NDArray[Any]]


def pack(fields: Fields, arrays: Arrays) -> bytes:
    """Return fields, which JSON can hold, and arrays as bytes."""
    parts, listed = [], []
    for name, array in arrays.items():
        kind = array.dtype.newbyteorder("<").str
        assert kind in TYPES, kind
        listed.append([name, kind, list(array.shape)])
        parts.append(np.ascontiguousarray(array, dtype=kind).tobytes())
    header = json.dumps({"fields": fields, "arrays": listed}).encode()
    return b"".join([MAGIC, len(header).to_bytes(8, "little"), header, *parts])


def unpack(data: bytes) -> tuple[Fields, dict[str, NDArray[Any]]]:
    """Return what `pack` was given; raise a DataError if these are not such bytes."""
    if not data.startswith(MAGIC):
        raise DataError("The state of a stream was expected, but these bytes are none, or of another version of tsadc.")
    try:
        begin = len(MAGIC) + 8
        size = int.from_bytes(data[len(MAGIC) : begin], "little")
        header = json.loads(data[begin : begin + size])
        arrays, place = {}, begin + size
        for name, kind, shape in header["arrays"]:
            if kind not in TYPES or any(not isinstance(side, int) or side < 0 for side in shape):
                raise ValueError(kind)
            count = math.prod(shape)
            arrays[name] = np.frombuffer(data, kind, count, place).reshape(shape).copy()
            place += count * np.dtype(kind).itemsize
        if place != len(data):
            raise ValueError("more bytes than arrays")
        return header["fields"], arrays
    except (ValueError, KeyError, TypeError) as error:
        raise DataError("The state of a stream is damaged; use an earlier one, or push its rows again.") from error


def fingerprint(detector: Detector, every: int, reorder: int, clock: Clock) -> str:
    """Return what a state must have in common with the stream that continues it: the model and how it is used."""
    common = {
        "detector": detector.name,
        "settings": to_mapping(detector.settings),
        "variables": detector.variables_,
        "threshold": detector.threshold_,
        "clock": asdict(clock),
        "every": every,
        "reorder": reorder,
    }
    digest = hashlib.sha256(json.dumps(common, sort_keys=True, default=str).encode())
    digest.update(np.ascontiguousarray(detector.decision_scores_, dtype="<f8").tobytes())
    return digest.hexdigest()


def to_fields(track: Track, low: int) -> tuple[Fields, dict[str, NDArray[Any]]]:
    """Return the state of an entity as fields and arrays; rows before `low` are left out."""
    rows = track.rows
    kept = slice(max(low - rows.base, 0), max(rows.newest + 1 - rows.base, 0))
    before = np.flatnonzero(rows.present[: kept.start])
    arrays: dict[str, NDArray[Any]] = {"values": rows.values[kept], "present": rows.present[kept]}
    sections = []
    for i, section in enumerate(track.sections):
        for name in ("steps", "contributions", "causes"):
            arrays[f"{name} {i}"] = np.stack([getattr(evidence, name) for evidence in section.evidence])
        views = [(evidence.score, evidence.view_scores) for evidence in section.evidence]
        described = {name: getattr(section, name) for name in ("starts", "raised", "settled", "due")}
        sections.append({**described, "reported": sorted(section.reported), "views": views})
    if track.gaps is not None:
        arrays |= {"gap_begin": track.gaps.begin, "gap_rows": track.gaps.rows}
    provisional = []
    for interval in track.provisional:
        period = interval.return_period
        given = period.value if isinstance(period, pd.Timedelta) else period
        provisional.append({**asdict(interval), "return_period": given})
    fields: Fields = {
        **{name: getattr(track, name) for name in PLAIN},
        "within": list(track.within.items()),  # keys in JSON are texts
        "base": rows.base + kept.start,
        "newest": rows.newest,
        "dropped": rows.base + int(before[-1]) if len(before) else rows.dropped,
        "sections": sections,
        "provisional": provisional,
        "gap_end": None if track.gaps is None else track.gaps.end,
    }
    return fields, arrays


def from_fields(fields: Fields, arrays: Mapping[str, NDArray[Any]]) -> Track:
    """Return the track whose state `to_fields` has returned, without `gaps`."""
    rows = Rows(fields["base"], arrays["values"].shape[1])
    rows.newest, rows.dropped = fields["newest"], fields["dropped"]
    rows.values, rows.present = arrays["values"], arrays["present"]
    rows.measured = np.isfinite(rows.values).any(axis=1)
    track = Track(rows=rows, within=dict(fields["within"]), **{name: fields[name] for name in PLAIN})
    for i, section in enumerate(fields["sections"]):
        pieces = zip(*(arrays[f"{name} {i}"] for name in ("steps", "contributions", "causes")), strict=True)
        evidence = [Evidence(*views, *piece) for views, piece in zip(section.pop("views"), pieces, strict=True)]
        track.sections.append(Section(evidence=evidence, **{**section, "reported": set(section["reported"])}))
    for interval in fields["provisional"]:
        given = interval["return_period"]
        period = pd.Timedelta(given, unit="ns") if isinstance(given, int) else given
        track.provisional.append(
            LiveInterval(**{**interval, "return_period": period, "replaces": tuple(interval["replaces"])})
        )
    return track
