"""Short names of intervals, by which people and commands refer to them."""

from __future__ import annotations

import hashlib

LETTERS = "bcdfghjkmnpqrstv"  # neither words nor numbers, which a spreadsheet would change
LENGTH = 8


def interval_id(entity: str, *parts: int | str) -> str:
    """Return a name of eight letters for an interval of an entity.

    The same parts always give the same name. A result names its intervals by their start alone, so that an event that
    grows from night to night keeps its name. Times are nanoseconds since 1970 in UTC, or row numbers.

    Examples
    --------
    >>> interval_id("pump", 120)
    'ksrsghqq'
    """
    digest = hashlib.sha256("\x1f".join([entity, *map(str, parts)]).encode("utf-8", "surrogatepass")).hexdigest()
    return "".join(LETTERS[int(digit, 16)] for digit in digest[:LENGTH])
