"""`--only`: cells or records by what they are of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tsadc.bench.cell import Cell, flat
from tsadc.config import nearest
from tsadc.errors import ConfigError

NEXT = re.compile(r",(?=\s*[\w.]+\s*=)")  # a comma that no name of a detector holds
T = TypeVar("T")


def selected(some: Sequence[T], known: Sequence[Mapping[str, set[str]]], only: Sequence[str], where: str) -> list[T]:
    """Those that have one of the values given for each key; `known` is what each can be chosen by."""
    wanted: dict[str, set[str]] = {}
    for part in (part.strip() for text in only for part in NEXT.split(text)):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"--only takes key=value, separated by commas, but got {part!r}.")
        wanted.setdefault(key.strip(), set()).add(_spelt(value.strip()))
    for key, values in wanted.items():
        have = sorted({name for one in known for name in one})
        if key not in have:
            raise ConfigError(f"--only knows no {key!r}{nearest(key, have)}")
        every = sorted({value for one in known for value in one.get(key, ())})
        missing = sorted(values - set(every))
        if missing:
            raise ConfigError(f"{where} no {key} {missing[0]!r}{nearest(missing[0], every)}")
    return [
        one
        for one, mine in zip(some, known, strict=True)
        if all(values & mine.get(key, set()) for key, values in wanted.items())
    ]


def _spelt(value: str) -> str:
    """Numbers as `traits` has them."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return value


def traits(cell: Cell, scoring: str | None = None) -> dict[str, set[str]]:
    """What a cell can be chosen by. A detector goes by its name, its row and its label."""
    split = {name: {f"{value:g}"} for name, value in flat(cell.split)}
    if scoring is None and cell.network:
        scoring = cell.config().scoring  # type: ignore[attr-defined]
    names = {cell.detector, cell.row, cell.label} - {""}
    more = {"scoring": {scoring}} if scoring else {}
    more |= {"label": {cell.label}} if cell.label else {}
    return {"data": {cell.data}, "detector": names, "preset": {cell.preset}, "seed": {str(cell.seed)}, **more, **split}
