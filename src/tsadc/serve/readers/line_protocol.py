"""Influx line protocol -> rows, as Telegraf and other clients of InfluxDB send it.

    cpu,host=web-1,cpu=cpu0 usage_user=1.5,usage_system=0.2 1700000000000000000
    measurement,tag=value,... field=value,... time

The tag `host` names the entity, and each field is a variable: measurement and field with the other tags in braces, here
``cpu_usage_user{cpu="cpu0"}``. Numbers and truth values are used; text is left out and counted. A request is accepted
as a whole or not at all.

`slow_line` is the definition: it reads a line character by character. Lines that have neither quotes nor backslashes,
which are almost all of them, are split at once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.errors import DataError
from tsadc.serve.readers.body import Limits, TooLarge, uncompressed
from tsadc.serve.readers.labels import MOST_KEY, Decoded, LabelMapping, SeriesIndex, is_short, to_batches

PRECISIONS = {"ns": 1, "n": 1, "us": 10**3, "u": 10**3, "ms": 10**6, "s": 10**9}  # nanoseconds
# Wherever these patterns fail, they have looked at each character a few times only: a line may have megabytes.
NUMBER = re.compile(rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
WHOLE = re.compile(rb"-?\d+[iu]")
FIELDS = re.compile(  # names and numbers; a field with anything else is not matched
    rb"(?:^|,)([^,=]+)=(-?\d+(?=[iu](?:,|$))|[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?=,|$))[iu]?"
)
TRUTH = {
    **dict.fromkeys((b"t", b"T", b"true", b"True", b"TRUE"), 1.0),
    **dict.fromkeys((b"f", b"F", b"false", b"False", b"FALSE"), 0.0),
}
STAMP = re.compile(rb"-?\d{1,19}")
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
SPACE, COMMA, EQUALS, QUOTE, BACKSLASH = b' ,="\\'
BLANKS = b" \t\r"
MOST_SHOWN = 40  # characters of a wrong part in a message
TEXT = "values that are text"
LineCodes = tuple[list[int], list[int]]  # of the entity and of the variables, one per field


@dataclass(frozen=True)
class Settings(LabelMapping):
    """How lines become an entity and variables.

    Parameters
    ----------
    entity : str, default "host"
        Tag whose value is the name of the entity; Telegraf sets `host`.
    ignore, keep, rename
        As those of `LabelMapping`, for tags.
    measurement : bool, default True
        Whether the name of a variable begins with that of the measurement. Without it, it is the field alone.
    """

    entity: str = "host"
    ignore: tuple[str, ...] = ()
    measurement: bool = True


@dataclass(frozen=True)
class Line:
    """A line without its escapes. The value of a field is None if it is text, and the time if there is none."""

    measurement: bytes
    tags: list[tuple[bytes, bytes]]
    fields: list[tuple[bytes, float | None]]
    time: int | None


class LineProtocolDecoder:
    """Decodes requests in the line protocol into rows.

    Parameters
    ----------
    settings : Settings, optional
    limits : Limits, optional
    source : str, default "line protocol"
        Name of the reader in the rows.
    """

    def __init__(
        self, settings: Settings | None = None, limits: Limits | None = None, source: str = "line protocol"
    ) -> None:
        self.settings = settings or Settings()
        self.limits = limits or Limits()
        self.source = source
        self._index = SeriesIndex(self.settings)
        self._lines: dict[
            tuple[bytes, tuple[bytes, ...]], LineCodes
        ] = {}  # by what precedes the fields, and their names
        self._lock = threading.Lock()  # of the index and the lines

    def decode(self, body: bytes, now: int, precision: str = "ns", encoding: str = "") -> Decoded:
        """Return the rows of a request's body.

        Parameters
        ----------
        body : bytes
        now : int
            Time of lines without one: nanoseconds since 1970 in UTC.
        precision : {"ns", "us", "ms", "s"}
            Unit of the times in the body.
        encoding : {"", "gzip"}
            The request's `Content-Encoding`.

        Raises
        ------
        TooLarge
            If it holds more than the limits allow.
        DataError
            If a line is wrong, or none has the tag that names the entity. Nothing of the request is used.
        """
        if precision not in PRECISIONS:
            raise DataError(f"`precision` must be ns, us, ms or s, but got {precision[:MOST_SHOWN]!r}.")
        data = uncompressed(body, encoding, self.limits)
        with self._lock:
            if self._index.begin() or len(self._lines) > SeriesIndex.MOST:
                self._lines.clear()
            return self._decode(data, now, PRECISIONS[precision])

    def _decode(self, data: bytes, now: int, unit: int) -> Decoded:
        limits = self.limits
        entities: list[int] = []  # codes, one per value
        variables: list[int] = []
        times: list[int] = []
        values: list[float] = []
        texts, before = 0, len(self._index.codes)
        earliest, latest = -(2**63) // unit + 1, (2**63 - 1) // unit
        at, number = 0, 0
        while at < len(data):
            number += 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            line, start, at = data[at:end].strip(BLANKS), at, end + 1
            if not line or line.startswith(b"#"):
                continue
            parts = line.split(b" ") if b"\\" not in line and b'"' not in line else []
            fields = FIELDS.findall(parts[1]) if 2 <= len(parts) <= 3 and all(parts) else []
            if fields and len(fields) == parts[1].count(b"=") == parts[1].count(b",") + 1:
                time = _time(parts[2], number) if len(parts) == 3 else None
                names, numbers = zip(*fields, strict=True)
                codes = self._lines.get((parts[0], names)) or self._add_line(parts[0], names, number)
                values.extend(map(float, numbers))
            else:
                parsed, at = slow_line(data, start, number)
                number += data.count(b"\n", start, at - 1)  # in texts
                time = parsed.time
                known = [(name, value) for name, value in parsed.fields if value is not None]
                codes = self._codes(parsed.measurement, parsed.tags, [name for name, _ in known], number)
                values.extend(value for _, value in known)
                texts += len(parsed.fields) - len(known)
            if time is None:
                tick = now
            elif earliest <= time <= latest:
                tick = time * unit
            else:
                raise DataError(
                    f"Line {number}: the time {time} is not between the years 1678 and 2262; check the precision."
                )
            entities.extend(codes[0])
            variables.extend(codes[1])
            times.extend([tick] * len(codes[0]))
            if len(values) > limits.values:
                raise TooLarge(f"A request may have {limits.values} values; send it in smaller parts.")
            if len(self._index.codes) - before > limits.series:
                raise TooLarge(f"A request may have {limits.series} series; send it in smaller parts.")
        decoded = to_batches(
            self.source,
            self._index,
            np.array(entities, dtype=np.int64),
            np.array(variables, dtype=np.int64),
            np.array(times, dtype=np.int64),
            np.array(values, dtype=np.float64),
        )
        if texts:
            decoded.skipped[TEXT] += texts
        if not decoded.batches and decoded.skipped:
            raise DataError(f"No value of the request can be used, only {decoded.skipped.most_common(1)[0][0]}.")
        return decoded

    def _add_line(self, head: bytes, names: tuple[bytes, ...], number: int) -> LineCodes:
        """Return the codes of a line without escapes, and remember them if it is short."""
        codes = self._codes(*_head(head, number), names, number)
        if is_short(head, *names):
            self._lines[head, names] = codes
        return codes

    def _codes(
        self, measurement: bytes, tags: list[tuple[bytes, bytes]], names: Sequence[bytes], number: int
    ) -> LineCodes:
        try:
            labels = [(tag.decode(), value.decode()) for tag, value in tags]
            prefix = measurement.decode() + "_" if self.settings.measurement else ""
            head = hashlib.blake2b(repr((prefix, labels)).encode(), digest_size=16).digest()
            begin = prefix[:MOST_KEY]  # a longer name is left out in any case
            pairs = self._index.add_all(((head + name, begin + name.decode()) for name in names), labels)
        except UnicodeDecodeError:
            raise DataError(f"Line {number} is not UTF-8; encode its names and tags so.") from None
        return [entity for entity, _ in pairs], [variable for _, variable in pairs]


def slow_line(data: bytes, at: int, number: int) -> tuple[Line, int]:
    """Return the line that begins at `at`, and where the next one begins. A text in quotes may have line breaks."""
    end = _end(data, at)
    while at < end and data[at] in BLANKS:
        at += 1
    measurement, at = _token(data, at, end, b", ")
    tags: list[tuple[bytes, bytes]] = []
    while at < end and data[at] == COMMA:
        name, at = _token(data, at + 1, end, b",= ")
        value = b""
        if at < end and data[at] == EQUALS:
            value, at = _token(data, at + 1, end, b",= ")
        tags.append((name, value))
        if at < end and data[at] == EQUALS:
            raise _wrong_tag(number)
    _check_head(measurement, tags, number)
    while at < end and data[at] == SPACE:
        at += 1
    fields: list[tuple[bytes, float | None]] = []
    while True:
        name, at = _token(data, at, end, b",= ")
        if at >= end or data[at] != EQUALS:
            raise _no_field(name, number)
        at += 1
        if at < end and data[at] == QUOTE:
            text = STRING.match(data, at)
            if text is None:
                raise DataError(f"Line {number} has a text without a closing quote.")
            if not name:
                raise _no_field(name, number)
            fields.append((name, None))
            at = text.end()
            if at > end:  # it has a line break
                end = _end(data, at)
        else:
            start = at
            while at < end and data[at] not in b", ":
                at += 1
            fields.append((name, _value(name, data[start:at], number)))
        if at >= end or data[at] != COMMA:
            break
        at += 1
    if at < end and data[at] != SPACE:
        raise DataError(f"Line {number} has characters after the quote that closes a text.")
    stamp = data[at:end].strip(b" ")
    newline = data.find(b"\n", at)
    return (
        Line(measurement, tags, fields, _time(stamp, number) if stamp else None),
        len(data) if newline < 0 else newline + 1,
    )


def _end(data: bytes, at: int) -> int:
    """Return where the line ends, without the blanks at its end."""
    end = data.find(b"\n", at)
    end = len(data) if end < 0 else end
    while end > at and data[end - 1] in BLANKS:
        end -= 1
    return end


def _token(data: bytes, at: int, end: int, special: bytes) -> tuple[bytes, int]:
    """Return the text up to one of the `special` characters, which a backslash escapes, and where it ends."""
    token = bytearray()
    while at < end and data[at] not in special:
        if data[at] == BACKSLASH and at + 1 < end and data[at + 1] in special:
            at += 1
        token.append(data[at])
        at += 1
    return bytes(token), at


def _head(head: bytes, number: int) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return measurement and tags of a line without escapes."""
    measurement, *texts = head.split(b",")
    tags = []
    for text in texts:
        name, _, value = text.partition(b"=")
        if b"=" in value:
            raise _wrong_tag(number)
        tags.append((name, value))
    _check_head(measurement, tags, number)
    return measurement, tags


def _check_head(measurement: bytes, tags: list[tuple[bytes, bytes]], number: int) -> None:
    if not measurement:
        raise DataError(f"Line {number} should begin with the name of a measurement, but it has none.")
    if not all(name and value for name, value in tags):
        raise _wrong_tag(number)
    if len({name for name, _ in tags}) < len(tags):
        raise DataError(f"Line {number} has the same tag twice.")


def _wrong_tag(number: int) -> DataError:
    return DataError(f"Line {number} has a tag that is not name=value with a backslash before commas, = and blanks.")


def _no_field(name: bytes, number: int) -> DataError:
    got = f", but got {_shown(name)}" if name else ""
    return DataError(f"Line {number} should be `measurement,tag=value field=value time`, with one field or more{got}.")


def _value(name: bytes, value: bytes, number: int) -> float:
    if not name:
        raise _no_field(name, number)
    if NUMBER.fullmatch(value):
        return float(value)
    if WHOLE.fullmatch(value):
        return float(value[:-1])
    if value in TRUTH:
        return TRUTH[value]
    raise DataError(
        f"Line {number}: the value of {_shown(name)} should be a number, a truth value or a text in quotes, but got "
        f"{_shown(value)}."
    )


def _time(stamp: bytes, number: int) -> int:
    if not STAMP.fullmatch(stamp):
        raise DataError(f"Line {number}: the time at its end should be a whole number, but got {_shown(stamp)}.")
    return int(stamp)


def _shown(text: bytes) -> str:
    return repr(text[:MOST_SHOWN].decode(errors="replace"))
