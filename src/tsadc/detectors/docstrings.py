"""Complete the docstrings of detectors and of their settings.

A subclass describes only what it adds. `help` shows what it inherits too, with the defaults in force, so that every
parameter, setting and attribute is described in one place."""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from typing import Any

SECTION = re.compile(r"\n\n(?=[A-Z][A-Za-z ]+\n---)")
ENTRY = re.compile(r"^(?=\S)", re.MULTILINE)
DEFAULT = "    Default: "  # begins the last line of a nested section of settings
WIDTH = 110


def complete(cls: type) -> None:
    """Add the parameters and attributes of the base classes to the docstring of `cls`; its own have precedence.

    For a dataclass, order and defaults are those of its fields."""
    own, *inherited = (_sections(vars(base).get("__doc__")) for base in cls.__mro__)
    completed = {"": own.pop("")}
    for title in ("Parameters", "Attributes"):
        entries: dict[str, str] = {}
        for sections in (*reversed(inherited), own):
            entries |= _entries(sections.get(title, ""))
        if title == "Parameters" and dataclasses.is_dataclass(cls):
            fields = [field for field in dataclasses.fields(cls) if field.name in entries]
            entries = {field.name: _with_default(entries[field.name], field) for field in fields}
        if entries:
            completed[title] = "\n".join([title, "-" * len(title), *entries.values()])
    cls.__doc__ = "\n\n".join({**completed, **{title: own[title] for title in own if title not in completed}}.values())


def _sections(docstring: str | None) -> dict[str, str]:
    """Return the sections by title; the text before the first one has the title ""."""
    summary, *sections = SECTION.split(inspect.cleandoc(docstring or ""))
    return {"": summary, **{section.partition("\n")[0]: section for section in sections}}


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the name, or names, that they describe."""
    entries = [entry.rstrip() for entry in ENTRY.split(section) if entry][2:]  # after the title and its line
    return {entry.partition("\n")[0].partition(" : ")[0]: entry for entry in entries}


def _with_default(entry: str, field: dataclasses.Field[Any]) -> str:
    """Return the entry of a setting with its default."""
    head, _, body = entry.partition("\n")
    if " : " not in head:
        head = f"{head} : {getattr(field.type, '__name__', field.type)}"
    if field.default is not dataclasses.MISSING:
        default = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
        return f"{head.partition(', default ')[0]}, default {default}\n{body}"
    if field.default_factory is dataclasses.MISSING:
        return entry
    lines = textwrap.wrap(f"{DEFAULT}{field.default_factory()!r}", WIDTH, subsequent_indent="    ")
    return "\n".join([head, body.partition(f"\n{DEFAULT}")[0], *lines])
