"""Patterns of names, in mutes and in `entities` of `[model.*]`: `*` and `?`, and every other character as it is."""

from __future__ import annotations

import fnmatch


def matches(name: str, pattern: str) -> bool:
    """Return whether a name has the form of a pattern: `*` stands for any characters, `?` for one."""
    # Names have brackets, such as `node[1]`, which fnmatch would take for a choice of characters.
    return fnmatch.fnmatchcase(name, pattern.replace("[", "[[]"))


def covers(wide: str, narrow: str) -> bool:
    """Return whether one pattern is sure to match all names that another one matches."""
    # Without `?`, only `*` of the wide pattern can match what is special in the narrow one.
    return wide == narrow or ("?" not in wide and matches(narrow, wide))
