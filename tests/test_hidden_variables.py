"""The parts of `benchmarks/hidden_variables.py` on which its honesty depends; no network is trained."""

from types import ModuleType

import numpy as np
import pytest
import torch

from benchmark import script


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    return script("hidden_variables")


@pytest.fixture
def fitted(bench: ModuleType):
    """Untrained networks of both folds, with outputs that depend on every input."""
    torch.manual_seed(0)
    judged = np.array([0, 1, 3, 4])
    networks = [bench.Predictor(5, 2, judged, 12, 40).eval() for _ in range(bench.FOLDS)]
    for network in networks:
        torch.nn.init.normal_(network.linear)
        torch.nn.init.normal_(network.entity_embedding)
    return bench.Fitted(networks, [], np.array([0, 1]), np.array(["a", "b"]), judged)


def observations(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(2, 5, 40)).astype(np.float32)


def test_a_prediction_does_not_depend_on_the_hidden_values(bench, fitted):
    z = observations()[0]
    changed = z.copy()
    changed[3] += np.linspace(-4, 4, 40)
    before, after = (values[fitted.judged] - fitted.residual(0, values, 1, seed=0) for values in (z, changed))
    assert np.allclose(before[2], after[2], atol=1e-5)  # variable 3 itself
    assert not np.allclose(before[0], after[0], atol=1e-2)  # the others see it


def test_a_training_observation_is_scored_by_the_network_of_its_fold(bench, fitted):
    part = bench.Part(observations(), np.array(["a", "b"]))
    own, each = fitted.residuals(part, 0, fitted.fold), fitted.residuals(part, 0)
    assert own.shape == (1, 2, 4, 40)
    assert np.array_equal(own[0, 0], each[0, 0])
    assert np.array_equal(own[0, 1], each[1, 1])


def test_training_leaves_out_the_fold_that_a_network_scores(bench, monkeypatch):
    seen = []

    def train(network, source, validation, *arguments, **options):
        seen.append(np.concatenate([source.z, validation.z])[:, 0, 0])
        raise StopIteration

    monkeypatch.setattr(bench, "train", train)
    z = np.arange(12, dtype=np.float32)[:, None, None] * np.ones((1, 5, 40), dtype=np.float32)
    part = bench.Part(z, np.array(["a"] * 8 + ["b"] * 4))
    fold = bench.folds(part.entity)
    assert fold.tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 0, 1, 0, 1]
    with pytest.raises(StopIteration):
        bench.fit(part, np.arange(5), 0, "", 10)
    assert sorted(seen[0]) == np.flatnonzero(fold != 0).tolist()


@pytest.mark.parametrize(("judged", "cells", "sizes"), [(5, 500, {1}), (36, 5000, {4}), (36, 22_800, {9})])
def test_every_judged_variable_is_hidden_once(bench, judged, cells, sizes):
    groups = bench.grouped(np.arange(judged), cells, np.random.default_rng(0))
    assert sorted(np.concatenate(groups)) == list(range(judged))
    assert {len(group) for group in groups} == sizes


def test_an_unknown_entity_has_no_embedding(bench, fitted):
    assert bench.numbered(np.array(["b", "c", "a", "0"]), fitted.names).tolist() == [2, 0, 1, 0]
    z, shown = torch.from_numpy(observations()), torch.ones(2, 5, 40, dtype=torch.bool)
    network = fitted.networks[0]
    with torch.no_grad():
        known = network(z, shown, torch.tensor([0, 1]))
        network.entity_embedding.zero_()
        without = network(z, shown, torch.tensor([1, 2]))
    assert torch.allclose(known[0], without[0])
    assert not torch.allclose(known[1], without[1], atol=1e-2)


def test_scores_are_extremes_of_the_largest_cells(bench):
    residuals = np.full((1, 6, 4, 100), 0.1, dtype=np.float16)
    residuals[0, 0, :3, 7] = 3.1
    entity = np.array(["a"] * 6)
    found = {"train": residuals, "train_entity": entity, "test": np.repeat(residuals, 2, axis=0), "test_entity": entity}
    scores = bench.pool(found)
    usual = 0.1 / 0.6745 + bench.LEAST_SIZE
    assert scores["test_max"][0] == pytest.approx(3.1, rel=1e-3)
    assert scores["test_rms"][0] == pytest.approx(0.13, rel=1e-3)
    assert scores["train_max_scaled"][0] == pytest.approx(3.1 / usual, rel=1e-3)
    assert scores["test_max_centred"][0] == pytest.approx(3.0, rel=1e-3)
    assert scores["test_max"][1] == pytest.approx(0.1, rel=1e-3)
    assert "test" not in scores
