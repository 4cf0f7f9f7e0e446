"""The body of a Prometheus remote write request -> rows.

The message is `prometheus.WriteRequest` of remote write 1.0. In the notation of protocol buffers, with the fields that
are used; all others (metadata, exemplars, native histograms) are skipped:

    WriteRequest { repeated TimeSeries timeseries = 1; }
    TimeSeries   { repeated Label labels = 1; repeated Sample samples = 2; }
    Label        { string name = 1; string value = 2; }
    Sample       { double value = 1; int64 timestamp = 2; }     (milliseconds since 1970)

`slow_series` is the definition: it reads the wire format field by field, in any order. Series whose fields have the
order in which Prometheus writes them, labels before samples, are read many at once. Four messages do not justify a
dependency, and `protobuf` would make an object of each label and sample."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from tsadc.errors import DataError
from tsadc.series import Floats
from tsadc.serve.readers.body import Limits, TooLarge, uncompressed
from tsadc.serve.readers.labels import Decoded, LabelMapping, SeriesIndex, to_batches
from tsadc.serve.rows import Ticks

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # wire types
SERIES = LABELS = 0x0A  # tag: field 1, bytes
SAMPLES = 0x12  # tag: field 2, bytes
VALUE = 0x09  # tag: field 1, 64 bits
TIMESTAMP = 0x10  # tag: field 2, varint
STAMP_BYTES = 6  # of a time in milliseconds between 2004 and 2109, as a varint
MILLISECOND = 10**6  # nanoseconds
MOST_MILLISECONDS = 2**63 // MILLISECOND - 1
METRIC = "__name__"
DAMAGED = "The body should be a Prometheus remote write request (prometheus.WriteRequest)"
NO_OFFSET = -1  # a value of 0 is not written
Settings = LabelMapping


class RemoteWriteDecoder:
    """Decodes remote write requests into rows.

    Parameters
    ----------
    mapping : LabelMapping, optional
    limits : Limits, optional
    source : str, default "remote write"
        Name of the reader in the rows.
    """

    def __init__(
        self, mapping: LabelMapping | None = None, limits: Limits | None = None, source: str = "remote write"
    ) -> None:
        self.limits = limits or Limits()
        self.source = source
        self._index = SeriesIndex(mapping or LabelMapping())
        self._lock = threading.Lock()  # of the index

    def decode(self, body: bytes, encoding: str = "snappy") -> Decoded:
        """Return the rows of a request's body.

        Raises
        ------
        TooLarge
            If it holds more than the limits allow.
        DataError
            If it is no remote write request.
        """
        data = uncompressed(body, encoding, self.limits)
        with self._lock:
            self._index.begin()
            return self._decode(data)

    def _decode(self, data: bytes) -> Decoded:
        index, limits = self._index, self.limits
        entities: list[int] = []  # codes, one per sample
        variables: list[int] = []
        stamps: list[int] = []  # offsets of the timestamps
        numbers: list[int] = []  # offsets of the values
        slow: list[tuple[tuple[int, int], int, float]] = []
        for count, (start, stop) in enumerate(series_bounds(data)):
            if count == limits.series:
                raise TooLarge(f"A request may have {limits.series} series; send it in smaller parts.")
            at = start
            while at < stop and data[at] == LABELS:
                if at + 1 < stop and data[at + 1] < 0x80:
                    at += 2 + data[at + 1]
                else:
                    size, at = varint(data, at + 1, stop)
                    at += size
            first_sample = at
            offsets: list[tuple[int, int]] = []
            while at + 2 < stop and data[at] == SAMPLES:
                size = data[at + 1]
                if (
                    size == 10 + STAMP_BYTES
                    and data[at + 2] == VALUE
                    and at + 18 <= stop
                    and data[at + 11] == TIMESTAMP
                ):
                    offsets.append((at + 12, at + 3))
                elif size == 1 + STAMP_BYTES and data[at + 2] == TIMESTAMP:
                    offsets.append((at + 3, NO_OFFSET))
                else:
                    break
                at += 2 + size
            if at == stop and first_sample <= stop:
                key = data[start:first_sample]
                codes = index.codes.get(key) or index.add(key, *series_name(labels_of(key)))
                for stamp, number in offsets:
                    entities.append(codes[0])
                    variables.append(codes[1])
                    stamps.append(stamp)
                    numbers.append(number)
            else:
                labels, samples = slow_series(data[start:stop])
                codes = index.add(b"", *series_name(labels))
                slow.extend((codes, stamp, value) for stamp, value in samples)
            if len(stamps) + len(slow) > limits.values:
                raise TooLarge(f"A request may have {limits.values} values; send it in smaller parts.")
        times, values = _fast_samples(data, np.array(stamps, dtype=np.int64), np.array(numbers, dtype=np.int64))
        owners = np.array([*entities, *(codes[0] for codes, _, _ in slow)], dtype=np.int64)
        columns = np.array([*variables, *(codes[1] for codes, _, _ in slow)], dtype=np.int64)
        times = np.concatenate([times, np.array([stamp for _, stamp, _ in slow], dtype=np.int64)])
        values = np.concatenate([values, np.array([value for _, _, value in slow], dtype=np.float64)])
        wrong = (times > MOST_MILLISECONDS) | (times < -MOST_MILLISECONDS)
        if wrong.any():
            raise DataError(
                f"A timestamp must be milliseconds since 1970, before the year 2262, but got {int(times[wrong][0])}."
            )
        return to_batches(self.source, index, owners, columns, times * MILLISECOND, values)


def _fast_samples(data: bytes, stamps: Ticks, numbers: Ticks) -> tuple[Ticks, Floats]:
    """Return the timestamps, usually varints of `STAMP_BYTES` bytes, and the values at these offsets."""
    array = np.frombuffer(data, dtype=np.uint8)
    digits = array[stamps[:, None] + np.arange(STAMP_BYTES)]
    ends = np.full(STAMP_BYTES, 0x80, dtype=np.uint8)
    ends[-1] = 0
    times = ((digits & 0x7F).astype(np.int64) << (7 * np.arange(STAMP_BYTES))).sum(axis=1)
    values = np.zeros(len(numbers))
    written = numbers != NO_OFFSET
    values[written] = array[numbers[written][:, None] + np.arange(8)].view("<f8")[:, 0]
    for other in np.flatnonzero(((digits & 0x80) != ends).any(axis=1)).tolist():
        start = int(stamps[other] if numbers[other] == NO_OFFSET else numbers[other]) - 1
        times[other], values[other] = _sample(data[start : int(stamps[other]) + STAMP_BYTES])
    return times, values


def series_bounds(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each `TimeSeries` of a `WriteRequest` starts and stops."""
    at, end = 0, len(data)
    while at < end:
        if data[at] == SERIES:
            size, at = varint(data, at + 1, end)
            if size > end - at:
                raise DataError(f"{DAMAGED}, but it is cut off.")
            yield at, at + size
            at += size
        else:
            number, _, _, at = _field(data, at, end)
            if number == 1:
                raise DataError(f"{DAMAGED}, but a series has another type.")


def slow_series(data: bytes) -> tuple[list[tuple[str, str]], list[tuple[int, float]]]:
    """Return the labels and the samples (milliseconds, value) of a `TimeSeries`."""
    labels: list[tuple[str, str]] = []
    samples: list[tuple[int, float]] = []
    for number, start, stop in _messages(data, (1, 2)):
        if number == 1:
            labels.append(_label(data[start:stop]))
        else:
            samples.append(_sample(data[start:stop]))
    return labels, samples


def labels_of(data: bytes) -> list[tuple[str, str]]:
    """Return the labels at the start of a `TimeSeries`; `data` has no other fields."""
    labels: list[tuple[str, str]] = []
    at = 0
    while at < len(data):
        size = data[at + 1]
        if size >= 0x80:  # a long label
            return slow_series(data)[0]
        labels.append(_known_label(data[at + 2 : at + 2 + size]))
        at += 2 + size
    return labels


def series_name(labels: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Return the name of a series and its other labels. A label with an empty value is the same as none."""
    names = [label for label, _ in labels]
    if len(set(names)) < len(names):
        [(twice, _)] = Counter(names).most_common(1)
        raise DataError(f"{DAMAGED}, but a series has the label {twice[:40]!r} twice.")
    return dict(labels).get(METRIC, ""), [(label, value) for label, value in labels if label != METRIC and value]


def _label(data: bytes) -> tuple[str, str]:
    texts = {1: b"", 2: b""}
    for number, start, stop in _messages(data, (1, 2)):
        texts[number] = data[start:stop]
    try:
        return texts[1].decode(), texts[2].decode()
    except UnicodeDecodeError:
        raise DataError(f"{DAMAGED}, but a label is not UTF-8.") from None


_known_label = lru_cache(maxsize=2**16)(_label)  # of short labels only, so that strange requests do not fill the memory


def _sample(data: bytes) -> tuple[int, float]:
    value, stamp, at = 0.0, 0, 0
    while at < len(data):
        number, kind, content, at = _field(data, at, len(data))
        if number == 1:
            if kind != FIXED64:
                raise DataError(f"{DAMAGED}, but a value is no 64-bit number.")
            value = float(np.frombuffer(data, dtype="<f8", count=1, offset=content)[0])
        elif number == 2:
            if kind != VARINT:
                raise DataError(f"{DAMAGED}, but a timestamp is no whole number.")
            stamp = content - 2**64 if content >= 2**63 else content
    return stamp, value


def _messages(data: bytes, numbers: tuple[int, ...]) -> Iterator[tuple[int, int, int]]:
    """Yield number, start and stop of the fields with these numbers, which must have the wire type `BYTES`."""
    at = 0
    while at < len(data):
        number, kind, content, at = _field(data, at, len(data))
        if number in numbers:
            if kind != BYTES:
                raise DataError(f"{DAMAGED}, but a label or a sample has another type.")
            yield number, content, at


def _field(data: bytes, at: int, end: int) -> tuple[int, int, int, int]:
    """Return number and wire type of the field at `at`, its value (a varint) or where its content starts, and where
    the next field starts."""
    tag, at = varint(data, at, end)
    number, kind = tag >> 3, tag & 7
    if kind == VARINT:
        content, at = varint(data, at, end)
    elif kind == BYTES:
        size, content = varint(data, at, end)
        at = content + size
    elif kind in (FIXED64, FIXED32):
        content, at = at, at + (8 if kind == FIXED64 else 4)
    else:
        raise DataError(f"{DAMAGED}, but it has a field of an unknown type.")
    if number == 0:
        raise DataError(f"{DAMAGED}, but it has a field without a number.")
    if at > end:
        raise DataError(f"{DAMAGED}, but it is cut off.")
    return number, kind, content, at


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return the varint at `at`, which may have 64 bits, and where it ends."""
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), at
        shift += 7
    raise DataError(f"{DAMAGED}, but it is cut off or has a number that is too long.")
