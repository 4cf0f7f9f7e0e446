"""The nearest training observations against a loop over all of them."""

import numpy as np
import pytest

from tsadc.detectors.classical.neighbours import Neighbours


@pytest.fixture(scope="module")
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(90, 6))


def everything(features: np.ndarray) -> np.ndarray:
    return np.ones(len(features), dtype=bool)


def slow(neighbours: Neighbours, entity: str, row: np.ndarray, *, own: bool) -> tuple[float, np.ndarray]:
    u = neighbours.standardiser(entity, row).astype(np.float32)
    pairs = []
    for v, owner in zip(neighbours.pool, neighbours.entities, strict=True):
        if own or owner != entity:
            pairs.append((float(np.sqrt(np.mean(np.square(u.astype(float) - v)))), np.abs(u - v)))
    pairs.sort(key=lambda pair: pair[0])
    if pairs[0][0] == 0:
        pairs.pop(0)
    return np.mean([d for d, _ in pairs[:5]]), np.mean([a for _, a in pairs[:5]], axis=0)


def test_with_one_entity_only_the_observation_itself_is_left_out(features):
    neighbours = Neighbours.fit(features, ["a"] * 90, everything(features), 5)
    for i in range(0, 90, 9):
        distance, deviation = neighbours.distance("a", features[i])
        expected = slow(neighbours, "a", features[i], own=True)
        assert distance == pytest.approx(expected[0])
        np.testing.assert_allclose(deviation, expected[1], rtol=1e-5)
    new = features[0] + 0.3
    assert neighbours.distance("a", new)[0] == pytest.approx(slow(neighbours, "a", new, own=True)[0])


def test_with_enough_others_an_entity_is_compared_with_others_only(features):
    owner = [name for name in "abc" for _ in range(30)]
    neighbours = Neighbours.fit(features, owner, everything(features), 5)
    for name, row in (("a", features[3]), ("b", features[45]), ("b", features[45] + 0.1), ("new", features[0] - 0.2)):
        assert neighbours.distance(name, row)[0] == pytest.approx(slow(neighbours, name, row, own=False)[0])
    assert neighbours.distance("a", features[3])[0] > slow(neighbours, "a", features[3], own=True)[0]


@pytest.mark.parametrize(("others", "own"), [(19, True), (20, False)])
def test_with_few_others_the_own_entity_counts_too(features, others, own):
    owner = ["a"] * (90 - others) + ["b"] * others
    neighbours = Neighbours.fit(features, owner, everything(features), 5)
    assert neighbours.distance("a", features[0])[0] == pytest.approx(slow(neighbours, "a", features[0], own=own)[0])


def test_one_twin_is_taken_for_the_observation_itself(features):
    rows = np.concatenate([features, features[:1]])
    neighbours = Neighbours.fit(rows, ["a"] * 91, everything(rows), 1)
    assert neighbours.distance("a", rows[0])[0] == 0
    alone = Neighbours.fit(features, ["a"] * 90, everything(features), 1)
    assert alone.distance("a", features[0])[0] > 0


def test_a_pool_smaller_than_the_number_of_neighbours():
    rows = np.arange(12.0).reshape(3, 4) ** 2
    neighbours = Neighbours.fit(rows, ["a"] * 3, everything(rows), 5)
    assert neighbours.distance("a", rows[0])[0] == pytest.approx(slow(neighbours, "a", rows[0], own=True)[0])
    single = Neighbours.fit(rows[:1], ["a"], everything(rows[:1]), 5)
    assert single.distance("a", rows[0])[0] == 0


def test_trimming_drops_observations_far_from_the_rest(features):
    rows = features.copy()
    rows[:5] += 4.0
    neighbours = Neighbours.fit_trimmed(rows, ["a"] * 90, 0.9, 5)
    everyone = Neighbours.fit(rows, ["a"] * 90, everything(rows), 5)
    assert len(neighbours.pool) == 81
    assert not np.isin(neighbours.standardiser("a", rows[0]).astype(np.float32), neighbours.pool).any()
    assert neighbours.distance("a", rows[0] + 0.1)[0] > 1.5 * everyone.distance("a", rows[0] + 0.1)[0]


def test_state(features):
    neighbours = Neighbours.fit(features, ["a"] * 45 + ["b"] * 45, np.arange(90) % 3 > 0, 4)
    again = Neighbours.restore(neighbours.state("x"), "x", 4)
    for name in ("a", "b", "new"):
        before, after = neighbours.distance(name, features[7]), again.distance(name, features[7])
        assert before[0] == after[0]
        assert before[1].tobytes() == after[1].tobytes()
