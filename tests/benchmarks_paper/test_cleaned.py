from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark import script
from tsadc.bench.records import load
from tsadc.config import update
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.series import Floats, Series

MODULE = script("paper/cleaned")
clean, most_extreme, replaced = MODULE.clean, MODULE.most_extreme, MODULE.replaced
LENGTH, ROWS = 40, 1600
SPIKES = {("a", 130, 0), ("a", 777, 2), ("b", 305, 1), ("b", 1210, 3)}


def waves(phase: float, seed: int) -> Floats:
    """Four views of one oscillation, so that each tells the others; a little noise."""
    turns = 2 * np.pi * np.arange(ROWS) / 20 + phase
    clean = np.stack([np.sin(turns), np.cos(turns), -np.sin(turns), np.sin(turns) + np.cos(turns)], axis=1)
    noisy: Floats = 5 + 2 * clean + 0.05 * np.random.default_rng(seed).normal(size=clean.shape)
    return noisy


def spiked() -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    pure = tuple(Series(waves(i, i), ("w", "x", "y", "z"), entity=name) for i, name in enumerate("ab"))
    dirty = tuple(replace(one, values=one.values.copy()) for one in pure)
    for entity, row, column in SPIKES:
        dirty["ab".index(entity)].values[row, column] += 30.0
    dirty[0].values[50, 1] = np.nan
    return pure, dirty


CONFIG = update(
    TSADC.Config.tiny(), {"length": LENGTH, "contamination": 0.01, "training": {"epochs": 12, "micro_batch": 4}}
)


@pytest.fixture(scope="module")
def fitted() -> TSADC:
    return TSADC(config=CONFIG).fit(spiked()[1])


def test_spikes_shrink_and_ordinary_cells_stay(fitted: TSADC) -> None:
    pure, dirty = spiked()
    found = replaced(dirty, fitted, 0.01)
    changed = 0
    for clean, before, after in zip(pure, dirty, found.data, strict=True):
        assert (after.entity, after.names, after.clock, len(after)) == (
            before.entity,
            before.names,
            before.clock,
            len(before),
        )
        mine = [(row, column) for entity, row, column in SPIKES if entity == before.entity]
        for row, column in mine:
            assert abs(after.values[row, column] - clean.values[row, column]) < 6  # of 30
        ordinary = np.isfinite(before.values)
        ordinary[tuple(np.array(mine).T)] = False
        same = before.values == after.values
        changed += int((~same & np.isfinite(before.values)).sum())
        assert np.median(np.abs(after.values - before.values)[ordinary]) == 0
        assert same[ordinary].mean() >= 0.98
        # What is replaced wrongly moves to where its observation would have it: not outside the data.
        assert np.abs(after.values - clean.values)[ordinary].max() < 6
    assert changed == found.count == round(0.01 * (2 * ROWS * 4 - 1))


def test_what_was_not_measured_stays_so_and_nothing_given_changes(fitted: TSADC) -> None:
    _, dirty = spiked()
    before = [one.values.copy() for one in dirty]
    found = replaced(dirty, fitted, 0.01)
    assert np.isnan(found.data[0].values[50, 1])
    for one, values in zip(dirty, before, strict=True):
        np.testing.assert_array_equal(one.values, values)


def test_a_share_of_nothing_replaces_nothing(fitted: TSADC) -> None:
    _, dirty = spiked()
    found = replaced(dirty, fitted, 0.0)
    assert found.count == 0
    for before, after in zip(dirty, found.data, strict=True):
        np.testing.assert_array_equal(before.values, after.values)


def test_arrays_of_observations_keep_their_shape() -> None:
    values = spiked()[1][1].values.reshape(-1, LENGTH, 4)
    shorter = update(CONFIG, {"training": {"epochs": 1}, "inference": {"masks": 0}})
    found = clean(values, shorter, 0)
    assert found.data.shape == values.shape
    assert found.share == 0.01
    assert (found.data != values).sum() == found.count == round(0.01 * values.size)


def test_the_script_runs_jobs_of_its_plan_on_cleaned_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tmp_path / "plan.toml"
    budget = "seeds = [0]\n[budget]\nepochs = 1\nobservations = 12\n"
    plan.write_text(budget + '[[data]]\nname = "plant"\n[[detectors]]\nname = "usad"\nscoring = ["own"]\n')
    monkeypatch.setattr(MODULE, "PLAN", plan)
    for _ in range(2):
        MODULE.main(["--out", str(tmp_path / "out"), "--raw", str(tmp_path)])
    [record] = load(tmp_path / "out")
    assert record["split"] == {"cleaned": 1}
    assert 0 < record["cleaned_share"] < 0.5
    assert 0 < record["auroc"] <= 1


def test_extremes_are_relative_to_their_variable() -> None:
    """The second variable is off by 10 everywhere; 3 of the first, whose median is 1, is more extreme than 11 of it."""
    residuals = np.ones((1, 2, 10))
    residuals[0, 1] = 10
    residuals[0, 0, 4], residuals[0, 1, 2] = 3, 11
    assert np.argwhere(most_extreme(residuals, 0.05)).tolist() == [[0, 0, 4]]
    assert np.argwhere(most_extreme(residuals, 0.1)).tolist() == [[0, 0, 4], [0, 1, 2]]
    residuals[0, 0, 4] = np.nan
    assert np.argwhere(most_extreme(residuals, 0.05)).tolist() == [[0, 1, 2]]
