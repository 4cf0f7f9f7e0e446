"""Views of whole observations against loops over the training observations."""

import numpy as np
import pytest

from tsadc.detectors.ensemble.features import BANDS, Bands, Correlations, Standardiser
from tsadc.detectors.ensemble.neighbours import Neighbours, Quarters
from tsadc.detectors.ensemble.training import Training, cross_fitted

VARIABLES, LENGTH = 3, 64
ENTITIES = ("a",) * 12 + ("b",) * 6 + ("c",) * 3


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(21, VARIABLES, LENGTH))
    z[:12, 1] += z[:12, 0]
    return z


@pytest.fixture(scope="module")
def training() -> Training:
    folds = [i * 5 // 12 for i in range(12)] + [0, 0, 1, 2, 3, 4] + [2, 3, 4]
    kept = np.ones(21, dtype=bool)
    kept[[2, 7, 13]] = False
    return Training(ENTITIES, np.array(folds), kept)


def made(name: str, count: int = 5) -> Neighbours:
    features = Bands(VARIABLES, LENGTH) if name == "bands" else Correlations(VARIABLES)
    return Neighbours(name, features, VARIABLES, count)


def slow_distance(u: np.ndarray, pool: list[np.ndarray], count: int) -> float:
    distances = sorted(float(np.sqrt(np.mean((u - v) ** 2))) for v in pool)
    return float(np.mean(distances[:count]))


@pytest.mark.parametrize("name", ["bands", "correlation"])
def test_training_observations_are_not_compared_with_their_own_fold(name, data, training):
    group = made(name)
    features = group.measure_all(lambda i: data[i], training)
    scores = group.fit(features, training)
    standardiser = Standardiser.fit(features, ENTITIES, training.kept)
    pool = [standardiser(ENTITIES[i], features[i]) for i in range(21)]
    u = cross_fitted(standardiser, features[:, None], training)[:, 0]
    for i in range(21):
        others = [
            pool[j]
            for j in range(21)
            if training.kept[j] and (ENTITIES[j], training.folds[j]) != (ENTITIES[i], training.folds[i])
        ]
        assert scores[i, 0] == pytest.approx(np.log(0.02 + slow_distance(u[i], others, 5)), abs=1e-4)
    assert len(group.pool) == 18


def test_a_new_observation_is_compared_with_every_normal_one(data, training):
    group = made("bands")
    group.fit(group.measure_all(lambda i: data[i], training), training)
    z = np.random.default_rng(1).normal(size=(VARIABLES, LENGTH))
    for entity in ("a", "c", "new"):
        u = group.standardiser(entity, group.measure(z, entity)).astype(np.float32)
        expected = np.log(0.02 + slow_distance(u, list(group.pool), 5))
        assert group.score(entity, group.measure(z, entity))[0] == pytest.approx(expected, abs=1e-5)
    # A training observation is not its own neighbour.
    features = group.measure(data[0], "a")
    u = group.standardiser("a", features).astype(np.float32)
    others = [v for v in group.pool if not np.array_equal(u, v)]
    assert len(others) == 17
    assert group.score("a", features)[0] == pytest.approx(np.log(0.02 + slow_distance(u, others, 5)), abs=1e-5)


def test_the_variable_that_differs_most_has_the_largest_cells(data, training):
    group = made("bands")
    group.fit(group.measure_all(lambda i: data[i], training), training)
    z = np.random.default_rng(2).normal(size=(VARIABLES, LENGTH))
    z[2] = 10 * np.sin(np.arange(LENGTH))
    (explained,) = group.explain("a", z)
    assert explained.score == group.score("a", group.measure(z, "a"))[0]
    assert explained.cells.shape == (VARIABLES, 1)
    assert explained.cells[:, 0].argmax() == 2


def test_a_fold_that_is_all_there_is_counts():
    z = np.random.default_rng(3).normal(size=(3, VARIABLES, LENGTH))
    alike = Training(("a",) * 3, np.zeros(3, dtype=np.int64), np.ones(3, dtype=bool))
    group = made("bands", count=5)
    scores = group.fit(group.measure_all(lambda i: z[i], alike), alike)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", ["bands", "correlation"])
def test_adapting_and_the_state(name, data, training):
    group, again = made(name), made(name)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    again.restore(group.state())
    z = np.random.default_rng(1).normal(size=(VARIABLES, LENGTH))
    features = group.measure(z, "new")
    for entity in ("a", "b", "new"):
        assert again.score(entity, features).tobytes() == group.score(entity, features).tobytes()
    again.adapt("new", np.stack([features + 3] * 5))
    u = again.standardiser("new", features)
    np.testing.assert_allclose(u, np.clip(-3 / again.standardiser.scale, -10, 10), rtol=1e-6)
    assert again.score("a", features).tobytes() == group.score("a", features).tobytes()


def slow_quarters(z: np.ndarray) -> np.ndarray:
    """(quarter, variable and band): log power less its median over the quarters."""
    width = z.shape[1] // 4
    powers = np.array([Bands(len(z), width)(z[:, i * width : (i + 1) * width]) for i in range(4)])
    out = np.empty_like(powers)
    for k in range(powers.shape[1]):
        known = powers[np.isfinite(powers[:, k]), k]
        out[:, k] = powers[:, k] - np.median(known)
    return out


@pytest.mark.parametrize("length", [64, 67])
def test_quarters_against_loops(length, training):
    data = np.random.default_rng(5).normal(size=(21, VARIABLES, length))
    data[4, 1, 10:30] = np.nan
    group = Quarters(VARIABLES, length)
    features = group.measure_all(lambda i: data[i], training)
    for i in range(21):
        np.testing.assert_allclose(features[i], slow_quarters(data[i]), atol=1e-9)
    scores = group.fit(features, training)
    u = np.abs(cross_fitted(group.standardiser, features, training))
    for i in range(21):
        tops = [np.mean(sorted(quarter)[-4:]) for quarter in u[i]]  # 1.5 per variable, rounded down
        assert scores[i, 0] == pytest.approx(np.log(0.1 + max(tops)))


def test_a_spectrum_that_changes_stands_out_in_its_quarter(training):
    data = np.random.default_rng(6).normal(size=(21, VARIABLES, LENGTH))
    group, again = Quarters(VARIABLES, LENGTH), Quarters(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    again.restore(group.state())
    z = data[0].copy()
    z[1, 32:48] = 0.05 * z[1, 32:48]
    (explained,) = group.explain("a", z)
    score = group.score("a", group.measure(z, "a"))
    assert explained.score.max() == score[0] > group.score("a", group.measure(data[0], "a"))[0] + 0.3
    assert np.flatnonzero(explained.score == score[0]).tolist() == list(range(32, 48))
    assert (explained.cells[:, 32:48].argmax(axis=0) == 1).all()
    assert explained.cells.shape == z.shape
    assert again.score("a", again.measure(z, "a")).tobytes() == score.tobytes()


def test_a_variable_without_values_has_no_quarters(data):
    z = data[0].copy()
    z[1], z[2, :16] = np.nan, np.nan
    features = Quarters(VARIABLES, LENGTH).measure(z, "a").reshape(4, VARIABLES, BANDS)
    assert np.isnan(features[:, 1]).all()
    assert np.isnan(features[:, 2]).any(axis=1).tolist() == [True, False, False, False]
