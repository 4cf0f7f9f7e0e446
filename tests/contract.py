"""What the tests of the contract share: data, and every registered detector, fitted once for each process."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from networks import TRAINED
from tsadc.config import update
from tsadc.detectors import REGISTRY, find
from tsadc.detectors.base import Detector
from tsadc.detectors.result import Evidence, Result
from tsadc.series import Observations

LENGTH = 48
NAMES = ["flow", "speed", "level", "heat", "power"]
START = pd.Timestamp(LENGTH * 60 * 591_690, unit="s")  # where an observation begins
FRAMES = ("intervals", "timeline", "variables", "observations", "expected")
BLIND = ("random", "all-positive")  # whose scores do not hang on what happened
LEVEL_BLIND = ("moving-variance", "squared-difference")  # whose scores grow with the scale alone
CROSS_FITTED = ("ensemble", *TRAINED)  # whose training scores are not those of the history as new data
OWN = ":own"  # suffix of a detector with a network: its own pooling instead of the ensemble

every = pytest.mark.parametrize("name", list(REGISTRY))
every_scoring = pytest.mark.parametrize("name", [*REGISTRY, *(name + OWN for name in TRAINED)])
every_that_looks = pytest.mark.parametrize("name", [name for name in REGISTRY if name not in BLIND])


def waves(rows: int, seed: int, offset: float = 0.0, first: int = 0) -> pd.DataFrame:
    """Five variables that follow one another, `offset` from zero, minute by minute from `first` minutes after START."""
    rng = np.random.default_rng(seed)
    time = np.arange(rows) / 7
    values = np.stack([np.sin(time + k) * (k + 1) for k in range(len(NAMES))], axis=1)
    values += 0.1 * rng.normal(size=values.shape) + offset
    index = pd.date_range(START + pd.Timedelta(minutes=first), periods=rows, freq="min", name="time")
    return pd.DataFrame(values, index=index, columns=NAMES)


def history() -> dict[str, pd.DataFrame]:
    return {"one": waves(12 * LENGTH, 1), "two": waves(12 * LENGTH, 2, offset=40.0)}


def fresh(rows: int = 6 * LENGTH, seed: int = 9) -> dict[str, pd.DataFrame]:
    """Unseen rows of entity `one`, with gaps."""
    frame = waves(rows, seed)
    frame.iloc[5:9, 0] = np.nan
    frame.iloc[60:64] = np.nan
    return {"one": frame}


def make(name: str, **settings: object) -> Detector:
    plain, scoring = name.removesuffix(OWN), "own" if name.endswith(OWN) else "fused"
    config = None
    if plain in TRAINED:
        config = update(find(plain).Config.tiny(), {"scoring": scoring, "training": {"epochs": 2}})
    return find(plain)(**{"length": LENGTH, "contamination": 0.2, "config": config, **settings})


@functools.cache
def fitted(name: str) -> Detector:
    """Not to be changed: whoever does takes a copy."""
    return make(name).fit(history())


@dataclass(frozen=True)
class Watched:
    """A second fit and what it did to its surroundings: the data it was `given`, and the generators of torch and NumPy
    before and after it, a detection included."""

    detector: Detector
    found: Result
    given: dict[str, pd.DataFrame]
    before: tuple[torch.Tensor, tuple[Any, ...]]
    after: tuple[torch.Tensor, tuple[Any, ...]]


@functools.cache
def refitted(name: str) -> Watched:
    def states() -> tuple[torch.Tensor, tuple[Any, ...]]:
        return torch.get_rng_state(), np.random.get_state()  # noqa: NPY002 (the state others may rely on)

    torch.manual_seed(5)
    given, before = history(), states()
    detector = make(name).fit(given)
    found = detector.detect(fresh())
    return Watched(detector, found, given, before, states())


def remembering(name: str) -> Detector:
    """A copy of the fitted detector that scores equal observations of an entity once, for tests of what becomes of
    scores; that equal observations have equal scores is for others to test."""
    detector = copy.deepcopy(fitted(name))
    score, known = detector._score, {}

    def remembered(observations: Observations) -> Iterator[Evidence]:
        keys = [(observations.entity(i), observations.read(i).tobytes()) for i in range(len(observations))]
        new = [i for i, key in enumerate(keys) if key not in known]
        if new:
            known.update(zip([keys[i] for i in new], score(observations.take(new)), strict=True))
        yield from (known[key] for key in keys)

    detector._score = remembered
    return detector


def assert_same(found: Result, expected: Result) -> None:
    """Every number of two results, to the bit."""
    for name in FRAMES:
        one, two = getattr(found, name), getattr(expected, name)
        assert (one is None) == (two is None)
        if one is not None:
            pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert (found.threshold, found.left_out) == (expected.threshold, expected.left_out)
