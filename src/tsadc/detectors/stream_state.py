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
from numpy.typing import NDArray

from tsadc.config import to_mapping
from tsadc.errors import DataError
from tsadc.series import Clock

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MAGIC = b"tsadc stream 1\n"
TYPES = ("<f4", "<f8", "<i8", "|b1")
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
    described = {
        "detector": detector.name,
        "settings": to_mapping(detector.settings),
        "variables": detector.variables_,
        "threshold": detector.threshold_,
        "clock": asdict(clock),
        "every": every,
        "reorder": reorder,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode())
    digest.update(np.ascontiguousarray(detector.decision_scores_, dtype="<f8").tobytes())
    return digest.hexdigest()
