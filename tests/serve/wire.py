"""Writes Prometheus remote write requests, as Prometheus does, and shows decoded rows as plain values."""

import struct
from collections.abc import Iterable, Sequence

import cramjam

from tsadc.serve.readers.labels import Decoded

Labels = Sequence[tuple[str, str]]
Samples = Sequence[tuple[int, float]]
NOW = 1_700_000_000_000  # milliseconds


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def label(name: str, value: str) -> bytes:
    return message(1, (message(1, name.encode()) if name else b"") + (message(2, value.encode()) if value else b""))


def sample(time: int, value: float) -> bytes:
    """As proto3 is written: a zero is left out."""
    number = b"\x09" + struct.pack("<d", value) if value != 0 else b""
    return message(2, number + (b"\x10" + varint(time) if time else b""))


def series(labels: Labels, samples: Samples) -> bytes:
    return message(1, b"".join(label(*pair) for pair in labels) + b"".join(sample(*pair) for pair in samples))


def request(*parts: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def metric(name: str, instance: str = "a", **labels: str) -> Labels:
    return sorted({"__name__": name, "instance": instance, "job": "node", **labels}.items())


def cells(decoded: Decoded) -> dict[tuple[str, int, str], float]:
    """The values by entity, time in nanoseconds and variable."""
    return dict(_cells(decoded))


def _cells(decoded: Decoded) -> Iterable[tuple[tuple[str, int, str], float]]:
    for batch in decoded.batches:
        for time, row in zip(batch.times.tolist(), batch.values.tolist(), strict=True):
            for name, value in zip(batch.names, row, strict=True):
                yield (batch.entity, time, name), value
