"""Notices of tasks about single entities -> the few that are printed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tsadc.cli.examination import MAX_NOTICES
from tsadc.errors import listed, notice
from tsadc.show.words import count

Noted = tuple[Sequence[str], Sequence[str]]  # the entities of a task, and its notices


def notice_first(noted: Iterable[Noted], where: str) -> None:
    """Issue the first notices of all tasks, and say how many more there are and where."""
    found = joined(noted)
    for text in found[:MAX_NOTICES]:
        notice(text)
    if len(found) > MAX_NOTICES:
        notice(f"{len(found) - MAX_NOTICES} more: {where}.")


def joined(noted: Iterable[Noted]) -> list[str]:
    """Return each notice once. Those that differ only in the entity become one, which names the other entities."""
    tasks, first, named = dict[str, list[str]](), dict[str, str](), dict[str, list[str]]()
    for entities, notices in noted:
        for text in notices:
            tasks.setdefault(text, []).extend(entities)
    for text, entities in tasks.items():
        inside, form = [entity for entity in entities if _name(entity).search(text)], text
        for entity in inside:
            form = _name(entity).sub("\0", form)
        first.setdefault(form, text)
        named.setdefault(form, []).extend(inside)
    return [_with_others(text, named[form]) for form, text in first.items()]


def _name(entity: str) -> re.Pattern[str]:
    """Return a pattern that finds an entity in a text, but not in a longer name."""
    return re.compile(rf"(?<![\w-]){re.escape(entity)}(?![\w-])")


def _with_others(text: str, entities: Sequence[str]) -> str:
    others = [entity for entity in dict.fromkeys(entities) if not _name(entity).search(text)]
    if not others:
        return text
    return f"{text} The same holds for {count(len(others), 'other entity', 'other entities')}: {listed(others)}."
