"""A protocol small enough for tests, and another that shares its training and adapts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsadc.data.catalogue import PROTOCOLS, draw
from tsadc.data.plant import Plant
from tsadc.data.protocols import Protocol
from tsadc.data.task import Task, answers

SMALL = Plant.Config(entities=2, variables=4, rows=600, length=60, test_contamination=0.4)


def small(raw: Path, seed: int, eta: float = SMALL.contamination) -> Task:
    split = Plant(replace(SMALL, seed=seed, contamination=eta)).split()
    known = answers(split.test, SMALL.length)
    first = np.array([entity == "unit-1" for entity in known.entities])
    return Task(split.train, split.test.series, replace(known, parts={"the first unit": first}))


def adapted(raw: Path, seed: int) -> Task:
    task = small(raw, seed)
    return replace(task, history=task.test)


def broken(raw: Path, seed: int) -> Task:
    task = small(raw, seed)
    return replace(task, answers=replace(task.answers, entities=task.answers.entities[1:]))


@pytest.fixture
def tiny() -> Iterator[None]:
    """Protocols `tiny`, `tiny-adapted` and `tiny-broken` instead of those there are."""
    makers: dict[str, Callable[[Path, int], Task]] = {"tiny": small, "tiny-adapted": adapted, "tiny-broken": broken}
    made = {
        name: Protocol(name, "", 60, build, (0, 1), (100,), "tiny" if name != "tiny" else "")
        for name, build in makers.items()
    }
    made["tiny"] = replace(made["tiny"], options={"eta": 0.4})
    # By hand: what monkeypatch puts back comes in another order, which is that of the columns of a table.
    before = dict(PROTOCOLS)
    _replace(made)
    yield
    _replace(before)


def _replace(found: dict[str, Protocol]) -> None:
    PROTOCOLS.clear()
    PROTOCOLS.update(found)
    draw.cache_clear()
