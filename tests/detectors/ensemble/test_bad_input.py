"""Data that is poor, but no reason to give up: a finite score, the same after saving, and no warning of numpy's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.store import load
from tsadc.errors import DataError

LENGTH = 40
RNG = np.random.default_rng(0)


def waves(rows: int, variables: int = 3, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.sin(np.arange(rows)[:, None] / np.arange(3, 3 + variables)) + 0.1 * rng.normal(size=(rows, variables))


def discrete(rows: int, variables: int = 3) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 4, size=(rows, variables)).astype(float)


def with_gaps(rows: int, share: float) -> np.ndarray:
    values = waves(rows)
    values[np.random.default_rng(2).random(values.shape) < share] = np.nan
    return values


def with_constants(rows: int) -> np.ndarray:
    return np.column_stack([np.full(rows, 3.0), waves(rows, 1), np.zeros(rows)])


def with_a_command(rows: int, measured: slice) -> np.ndarray:
    """The judged variables are measured in some rows only, the command in all."""
    values = np.column_stack([np.full((rows, 2), np.nan), np.arange(rows) // 30 % 2])
    values[measured, :2] = waves(rows, 2)[measured]
    return values


CASES: dict[str, tuple[Any, Any, int]] = {
    "one variable": (waves(1200, 1), waves(200, 1, seed=9), LENGTH),
    "one variable, length 8": (waves(240, 1), waves(80, 1, seed=9), 8),
    "all discrete": (discrete(1200), discrete(200), LENGTH),
    "one discrete variable": (discrete(1200, 1), discrete(200, 1), LENGTH),
    "two entities of different lengths": (
        {"a": waves(1200), "b": waves(130, seed=3)},
        {"a": waves(80, seed=4), "b": waves(80, seed=5), "new": waves(80, seed=6)},
        LENGTH,
    ),
    "a history of five observations": (waves(5 * LENGTH), waves(200, seed=9), LENGTH),
    "five entities of one observation": ({name: waves(LENGTH, seed=ord(name)) for name in "abcde"}, waves(80), LENGTH),
    "constant columns": (with_constants(1200), with_constants(200), LENGTH),
    "nothing but constants in one entity": ({"a": waves(1200), "b": np.ones((1200, 3))}, {"b": waves(200)}, LENGTH),
    "40 % missing": (with_gaps(1200, 0.4), with_gaps(200, 0.4), LENGTH),
    "70 % missing in new data": (waves(1200), with_gaps(200, 0.7), LENGTH),
    "no judged variable measured in an observation": (
        with_a_command(1200, slice(80, None)),
        with_a_command(200, slice(120, None)),
        LENGTH,
    ),
    "judged variables hardly ever measured": (
        with_a_command(1200, slice(400, 460)),
        with_a_command(200, slice(120, None)),
        LENGTH,
    ),
    "a variable that is never measured later": (
        waves(1200),
        np.column_stack([waves(200, 2), np.full(200, np.nan)]),
        LENGTH,
    ),
    "wild values": (np.where(RNG.random((1200, 3)) < 0.01, 1e12, waves(1200)), 1e200 * waves(200), LENGTH),
    "length 8": (waves(240), waves(80, seed=9), 8),
    "length 63 and 64": (waves(64 * 12), waves(200, seed=9), 63),
    "more variables than rows": (waves(5 * LENGTH, 250), waves(80, 250, seed=9), LENGTH),
    "copies of one variable": (np.repeat(waves(1200, 1), 4, axis=1), np.repeat(waves(200, 1), 4, axis=1), LENGTH),
}


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@pytest.mark.parametrize(("history", "new", "length"), CASES.values(), ids=CASES)
def test_poor_data_is_scored(history: Any, new: Any, length: int, tmp_path: Path) -> None:
    detector = Ensemble(length=length, config=Ensemble.Config(kernels=8)).fit(history)
    assert np.isfinite(detector.decision_scores_).all()
    assert np.isfinite(detector.threshold_)
    result = detector.detect(new)
    scores = result.observations["score"].to_numpy()
    assert len(scores)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(detector.decision_function(new), scores)
    assert np.nanmin(result.variables.to_numpy()) >= 0
    detector.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").decision_function(new), scores)


def test_four_observations_are_too_few() -> None:
    with pytest.raises(DataError, match="gives 4"):
        Ensemble(length=LENGTH).fit(waves(4 * LENGTH))


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_an_anomaly_of_one_variable_alone_is_found() -> None:
    new = waves(400, 1, seed=9)
    new[170:190] += 2
    detector = Ensemble(length=LENGTH, config=Ensemble.Config(kernels=16)).fit(waves(2400, 1))
    assert detector.decision_function(new).argmax() == 4


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
@settings(max_examples=25)
@given(
    variables=st.integers(1, 4),
    observations=st.integers(5, 45),
    length=st.integers(8, 70),
    missing=st.sampled_from([0.0, 0.1, 0.5]),
    levels=st.sampled_from([0, 2, 12]),
    size=st.sampled_from([1e-12, 1.0, 1e12]),
    seed=st.integers(0, 2**16),
)
def test_any_data_is_scored(variables, observations, length, missing, levels, size, seed) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=((observations + 2) * length, variables))
    if levels:
        values[:, 0] = rng.integers(0, levels, len(values))
    values[rng.random(values.shape) < missing] = np.nan
    history, new = size * values[: observations * length], size * values[observations * length :]
    detector = Ensemble(length=length, config=Ensemble.Config(kernels=2, coverage=0.01)).fit(history)
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(detector.detect(new).observations["score"], scores)
