"""The body of a request -> bytes, uncompressed, within limits that hold before the memory is taken."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from tsadc.config import require
from tsadc.errors import DataError

MEGABYTE = 2**20


class TooLarge(DataError):
    """A request holds more than the limits allow; sending it again in smaller parts helps."""


class Unsupported(DataError):
    """A request has a format or a compression that the service does not know."""


@dataclass(frozen=True)
class Limits:
    """What one request may hold.

    Parameters
    ----------
    megabytes : int, default 32
        Size of the body after decompression.
    series : int, default 100000
        Number of different series: combinations of a name and its labels.
    values : int, default 1000000
        Number of values.
    """

    megabytes: int = 32
    series: int = 100_000
    values: int = 1_000_000

    def __post_init__(self) -> None:
        for name in ("megabytes", "series", "values"):
            require(getattr(self, name) >= 1, name, "a whole number of at least 1", getattr(self, name))

    @property
    def size(self) -> int:
        """`megabytes` in bytes."""
        return self.megabytes * MEGABYTE


def uncompressed(body: bytes, encoding: str, limits: Limits) -> bytes:
    """Return the body without its `Content-Encoding`: gzip, snappy (blocks, as Prometheus sends them) or none.

    Raises
    ------
    TooLarge
        If it is larger than the limit, before more than that is decompressed.
    DataError
        If it cannot be decompressed.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        content = body
    elif encoding == "gzip":
        content = _gunzip(body, limits)
    elif encoding == "snappy":
        content = _unsnappy(body, limits)
    else:
        raise Unsupported(
            f"The body must be uncompressed, gzip or snappy, but its Content-Encoding is {encoding[:40]!r}."
        )
    if len(content) > limits.size:
        raise _too_large(limits)
    return content


def _gunzip(body: bytes, limits: Limits) -> bytes:
    parts: list[bytes] = []
    room = limits.size
    while body:  # a gzip file may have several members
        member = zlib.decompressobj(wbits=31)
        try:
            parts.append(member.decompress(body, room + 1))
        except zlib.error:
            raise DataError("The body should be gzip, as its Content-Encoding says, but it is damaged.") from None
        room -= len(parts[-1])
        if room < 0:
            raise _too_large(limits)
        if not member.eof:
            raise DataError("The body should be gzip, as its Content-Encoding says, but it is cut off.")
        body = member.unused_data.lstrip(b"\0")  # padding is allowed
    return b"".join(parts)


def _unsnappy(body: bytes, limits: Limits) -> bytes:
    import cramjam

    try:
        # The length is stated at the start of the body, so a small body cannot take much memory.
        if cramjam.snappy.decompress_raw_len(body) > limits.size:
            raise _too_large(limits)
        return bytes(cramjam.snappy.decompress_raw(body))
    except cramjam.DecompressionError:
        raise DataError("The body should be a snappy block, as its Content-Encoding says, but it is damaged.") from None


def _too_large(limits: Limits) -> TooLarge:
    return TooLarge(f"The body has more than {limits.megabytes} MB when uncompressed; send it in smaller parts.")
