"""Read the variables of a MAT file (MATLAB 5 to 7.2): arrays of numbers, text, and structs of these.

scipy's reader ends the whole process with a segmentation fault on some damaged files, so this one reads the few kinds
that recordings use, and checks every length before it is used."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.io.limits import check_bytes

HEADER = 128  # bytes
MATRIX, COMPRESSED = 14, 15  # types of elements
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
STRUCT, CHARACTERS = 2, 4  # classes of arrays
NUMERIC = range(6, 16)
COMPLEX = 0x800  # a flag beside the class

Field = NDArray[Any] | str
Variable = dict[str, Field | None] | Field | None  # None: of a kind that is not read


class MatError(ValueError):
    """The file is damaged, or is not a MAT file of these versions."""


def read_variables(path: Path) -> dict[str, Variable]:
    """Return the variables by name. Of a struct with several elements, the first is read."""
    content = path.read_bytes()
    if len(content) < HEADER:
        raise MatError("it is too short")
    if 0 in content[:4]:  # MATLAB 4, which has no text before its first variable
        return {_first_name(content): None}
    if content[126:128] not in (b"IM", b"MI"):
        raise MatError("it does not start as one")
    order = "<" if content[126:128] == b"IM" else ">"
    if struct.unpack(order + "H", content[124:126])[0] >> 8 == 2:
        raise NotImplementedError("MATLAB 7.3")
    out: dict[str, Variable] = {}
    for kind, data in _elements(memoryview(content)[HEADER:], order):
        if kind == COMPRESSED:
            [(kind, data)] = _elements(memoryview(_unpacked(data, order, path)), order)
        if kind != MATRIX:
            raise MatError(f"it has an element of type {kind} where a variable was expected")
        name, value = _variable(data, order, inside=False)
        out[name] = value
    return out


def _first_name(content: bytes) -> str:
    for order in "<>":
        kind, _, _, _, length = struct.unpack(order + "5i", content[:20])
        if 0 <= kind < 5000 and 1 < length <= 64:
            return content[20 : 20 + length].split(b"\0")[0].decode("latin-1")
    raise MatError("it does not start as one")


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the type and the bytes of each element."""
    place = 0
    while place + 8 <= len(data):
        word, size = struct.unpack(order + "2I", data[place : place + 8])
        start, end = place + 8, place + 8 + size
        if word >> 16:  # a small element, whose bytes follow in the same eight
            word, size = word & 0xFFFF, word >> 16
            if size > 4:
                raise MatError("the length of an element is wrong")
            start, end = place + 4, place + 4 + size
            place += 8
        else:
            place = end if word == COMPRESSED else end + -size % 8
        if end > len(data):
            raise MatError("it is cut off")
        yield word, data[start:end]
    if place < len(data):
        raise MatError("it is cut off")


def _unpacked(data: memoryview, order: str, path: Path) -> bytes:
    try:
        unpack = zlib.decompressobj()
        tag = unpack.decompress(data, 8)
        size = struct.unpack(order + "2I", tag)[1] if len(tag) == 8 else 0
        check_bytes(2 * size, f"{path}, unpacked,")
        return tag + unpack.decompress(unpack.unconsumed_tail, max(size, 1))
    except zlib.error as error:
        raise MatError(f"it cannot be unpacked ({error})") from None


def _variable(data: memoryview, order: str, *, inside: bool) -> tuple[str, Variable]:
    if inside and not len(data):
        return "", None
    parts = _elements(data, order)
    try:
        flags = np.frombuffer(next(parts)[1], order + "u4")
        shape = tuple(int(length) for length in np.frombuffer(next(parts)[1], order + "i4"))
        name = bytes(next(parts)[1]).decode("latin-1")
        kind = int(flags[0]) & 0xFF
        if len(shape) < 2 or min(shape) < 0:
            raise MatError("an array has a wrong shape")
        if kind in NUMERIC and not flags[0] & COMPLEX:
            return name, _array(*next(parts), order, shape)
        if kind == CHARACTERS:
            return name, _text(*next(parts), order)
        if kind == STRUCT and not inside:
            return name, _fields(parts, order, prod(shape))
    except (StopIteration, IndexError):
        raise MatError("a variable is not complete") from None
    return name, None


def _array(kind: int, data: memoryview, order: str, shape: tuple[int, ...]) -> NDArray[Any]:
    if kind not in NUMBERS:
        raise MatError(f"an array holds elements of type {kind}, not numbers")
    stored = np.dtype(order + NUMBERS[kind])
    if prod(shape) * stored.itemsize != len(data):
        raise MatError(f"an array of shape {shape} has {len(data)} bytes")
    return np.frombuffer(data, stored).reshape(shape, order="F")


def _text(kind: int, data: memoryview, order: str) -> str:
    if kind not in TEXT:
        raise MatError(f"a text holds elements of type {kind}")
    wide = "" if TEXT[kind] in ("latin-1", "utf-8") else "-le" if order == "<" else "-be"
    return bytes(data).decode(TEXT[kind] + wide, "replace")


def _fields(parts: Iterator[tuple[int, memoryview]], order: str, count: int) -> dict[str, Field | None]:
    length = int(np.frombuffer(next(parts)[1], order + "i4")[0])
    names = bytes(next(parts)[1])
    if length < 1 or len(names) % length or count < 1:
        raise MatError("the names of a struct's fields are damaged")
    out: dict[str, Field | None] = {}
    for first in range(0, len(names), length):
        kind, data = next(parts)
        if kind != MATRIX:
            raise MatError("a field of a struct is not an array")
        value = _variable(data, order, inside=True)[1]
        out[names[first : first + length].split(b"\0")[0].decode("latin-1")] = (
            None if isinstance(value, dict) else value
        )
    return out
