"""`--only`: select jobs or records by their data, detector, seed and options."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from tsadc.bench.job import Job, flat
from tsadc.config import nearest
from tsadc.errors import ConfigError

NEXT = re.compile(r",(?=\s*[\w.]+\s*=)")  # a comma that separates two assignments, not one within a label
T = TypeVar("T")


def selected(items: Sequence[T], traits: Sequence[Mapping[str, set[str]]], only: Sequence[str], where: str) -> list[T]:
    """Return the items that match one of the given values of every key; `traits` holds what each item matches."""
    wanted: dict[str, set[str]] = {}
    for part in (part.strip() for text in only for part in NEXT.split(text)):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"--only takes key=value, separated by commas, but got {part!r}.")
        wanted.setdefault(key.strip(), set()).add(_normalised(value.strip()))
    for key, values in wanted.items():
        keys = sorted({name for item in traits for name in item})
        if key not in keys:
            raise ConfigError(f"--only has no key {key!r}{nearest(key, keys)}")
        every = sorted({value for item in traits for value in item.get(key, ())})
        missing = sorted(values - set(every))
        if missing:
            raise ConfigError(f"{where} no {key} {missing[0]!r}{nearest(missing[0], every)}")
    return [
        item
        for item, own in zip(items, traits, strict=True)
        if all(values & own.get(key, set()) for key, values in wanted.items())
    ]


def _normalised(value: str) -> str:
    """Return a number as `traits_of` formats it."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return value


def traits_of(job: Job) -> dict[str, set[str]]:
    """Return what a job can be selected by. A detector matches its name, its variant and its label."""
    split = {name: {f"{value:g}"} for name, value in flat(job.split)}
    scoring = {"scoring": {job.scoring}} if job.scoring else {}
    return {
        "data": {job.dataset},
        "detector": {job.detector, job.variant, job.label},
        "preset": {job.preset},
        "seed": {str(job.seed)},
        "label": {job.label},
        **scoring,
        **split,
    }
