"""Views of short windows against loops over windows, variables and folds."""

import numpy as np
import pytest

from tsadc.detectors.ensemble import windows as module
from tsadc.detectors.ensemble.features import Windows
from tsadc.detectors.ensemble.linear import PENALTY, design_matrix
from tsadc.detectors.ensemble.training import Training
from tsadc.detectors.ensemble.windows import Energy, RidgeResiduals

LENGTH, VARIABLES = 103, 4
ENTITIES = ("a",) * 12 + ("b",) * 6 + ("c",) * 3


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    """Variable 2 follows 0 and 1, with another sign in `b`; the others are noise."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(21, VARIABLES, LENGTH))
    z[:, 2, 1:] = 0.3 * z[:, 2, 1:] + z[:, 0, :-1] + z[:, 1, 1:]
    z[12:18, 2] *= -1
    return z


@pytest.fixture(scope="module")
def training() -> Training:
    folds = [i * 5 // 12 for i in range(12)] + [0, 0, 1, 2, 3, 4] + [2, 3, 4]
    kept = np.ones(21, dtype=bool)
    kept[[2, 7, 13]] = False
    return Training(ENTITIES, np.array(folds), kept)


def test_windows_reach_from_the_first_step_to_the_last():
    windows = Windows(LENGTH)
    assert windows.width == 10
    assert windows.starts[0] == 0
    assert windows.starts[-1] == LENGTH - 10
    assert np.diff(windows.starts).max() == 5
    assert len(Windows(8)) == 1


def slow_log_size(values: np.ndarray, centred: bool) -> float:
    known = [value for value in values if not np.isnan(value)]
    if 2 * len(known) < len(values):
        return np.nan
    mean = np.mean(known) if centred else 0.0
    return float(np.log(1e-3 + np.sqrt(np.mean([(value - mean) ** 2 for value in known]))))


@pytest.mark.parametrize("centred", [True, False])
def test_log_sizes_against_a_slow_definition(data, centred):
    windows, x = Windows(LENGTH), data[0].copy()
    x[1, 20:24], x[0, :6] = np.nan, np.nan
    expected = [[slow_log_size(row[start : start + 10], centred) for start in windows.starts] for row in x]
    np.testing.assert_allclose(windows.log_sizes(x, centred), expected)
    assert np.isnan(expected[0]).tolist() == [True] + [False] * (len(windows) - 1)


@pytest.mark.parametrize("length", [8, 60, 100, LENGTH])
def test_a_step_gets_the_largest_value_of_its_windows(length):
    windows = Windows(length)
    values = np.random.default_rng(3).normal(size=(2, len(windows)))
    actual = windows.to_steps(values)
    for step in range(length):
        inside = (windows.starts <= step) & (step < windows.starts + windows.width)
        np.testing.assert_array_equal(actual[:, step], values[:, inside].max(axis=1))


def slow_scores(group: Energy, features: np.ndarray, training: Training, i: int) -> list[float]:
    """The window with the largest mean of 3 |u|; the centre is that of the entity's other folds."""
    standardiser = group.standardiser
    others = [
        features[j]
        for j in range(len(features))
        if ENTITIES[j] == ENTITIES[i] and training.kept[j] and training.folds[j] != training.folds[i]
    ]
    center = standardiser.center if ENTITIES[i] == "c" else np.nanmedian(np.concatenate(others), axis=0)
    u = np.abs(np.clip((features[i] - center) / standardiser.scale, -10, 10))
    scores = []
    for view in range(len(group.names)):
        tops = [np.mean(sorted(row[view * VARIABLES : (view + 1) * VARIABLES])[-3:]) for row in u]
        scores.append(np.log(0.1 + max(tops)))
    return scores


@pytest.mark.parametrize("kind", [Energy, RidgeResiduals])
def test_training_scores_against_loops(kind, data, training):
    group = kind(VARIABLES, LENGTH)
    features = group.measure_all(lambda i: data[i], training)
    scores = group.fit(features, training)
    for i in range(21):
        np.testing.assert_allclose(scores[i], slow_scores(group, features, training, i), rtol=1e-5)


def test_the_grams_of_entities_may_not_fit_into_memory(monkeypatch, data, training):
    kept, computed_again = RidgeResiduals(VARIABLES, LENGTH), RidgeResiduals(VARIABLES, LENGTH)
    features = kept.measure_all(lambda i: data[i], training)
    monkeypatch.setattr(module, "MAX_GRAM_VALUES", 0)
    assert computed_again.measure_all(lambda i: data[i], training).tobytes() == features.tobytes()
    assert computed_again.entities["b"].tobytes() == kept.entities["b"].tobytes()


def slow_weights(data: np.ndarray, pooled: list[int], own: list[int] | None, lags: range) -> np.ndarray:
    """One system of normal equations for each variable."""
    gram, steps = np.zeros((len(lags) * VARIABLES + 1,) * 2), len(pooled) * LENGTH
    for i in pooled:
        rows = design_matrix(data[i], lags)
        gram += rows @ rows.T
    if own is not None:
        gram *= 5 * len(gram) / steps
        for i in own:
            rows = design_matrix(data[i], lags)
            gram += rows @ rows.T
    weights = np.zeros((VARIABLES, len(gram)))
    for k in range(VARIABLES):
        others = [j for j in range(len(gram)) if j == len(gram) - 1 or j % VARIABLES != k]
        left = gram[np.ix_(others, others)] + PENALTY * gram[-1, -1] * np.eye(len(others))
        weights[k, others] = np.linalg.solve(left, gram[others, VARIABLES * lags.index(0) + k])
    return weights


def test_residuals_come_from_weights_without_the_own_fold(data, training):
    group = RidgeResiduals(VARIABLES, LENGTH)
    features = group.measure_all(lambda i: data[i], training)
    assert group.lags == range(-8, 9)
    kept = np.flatnonzero(training.kept).tolist()
    assert sorted(group.entities) == ["a", "b"]
    for i in range(21):
        rest = [j for j in kept if training.folds[j] != training.folds[i]]
        own = [j for j in rest if ENTITIES[j] == ENTITIES[i]] if ENTITIES[i] != "c" else None
        residual = data[i] - slow_weights(data, rest, own, group.lags) @ design_matrix(data[i], group.lags)
        change = np.full_like(residual, np.nan)
        change[:, 1:] = residual[:, 1:] - residual[:, :-1]
        expected = [
            [slow_log_size(row[start : start + 10], centred=False) for row in (*residual, *change)]
            for start in group.windows.starts
        ]
        np.testing.assert_allclose(features[i], expected, atol=1e-7)
    own = slow_weights(data, kept, [j for j in kept if ENTITIES[j] == "b"], group.lags)
    np.testing.assert_allclose(group.entities["b"], own, atol=1e-6)
    assert group.weights[2, VARIABLES * 9] > 0 > group.entities["b"][2, VARIABLES * 9]  # what 0 was a step ago
    np.testing.assert_allclose(group.weights, slow_weights(data, kept, None, group.lags), atol=1e-9)


@pytest.mark.parametrize(
    ("variables", "steps", "entities", "reach"),
    [(4, 10**6, 3, 8), (4, 4 * 17 * 10, 3, 8), (4, 4 * 17 * 10 - 1, 3, 7), (50, 10**6, 3, 3), (500, 10**6, 3, 0)],
)
def test_the_reach_is_what_training_steps_and_memory_allow(variables, steps, entities, reach):
    assert RidgeResiduals(variables, LENGTH)._reach(steps, entities) == reach


def test_many_entities_reduce_the_reach(monkeypatch):
    monkeypatch.setattr(module, "MAX_WEIGHTS", 4 * 4 * 5 * 10)
    assert RidgeResiduals(VARIABLES, LENGTH)._reach(10**6, 10) == 2
    assert RidgeResiduals(VARIABLES, LENGTH)._reach(10**6, 100) == 0


@pytest.mark.parametrize("kind", [Energy, RidgeResiduals])
def test_steps_peak_at_the_score_and_the_state_keeps_everything(kind, data, training):
    group, again = kind(VARIABLES, LENGTH), kind(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    again.restore(group.state())
    z = np.random.default_rng(4).normal(size=(VARIABLES, LENGTH))
    z[:, 30:50], z[3, 70:] = np.nan, np.nan
    for entity in ("a", "b", "new"):
        scores = group.score(entity, group.measure(z, entity))
        assert again.score(entity, again.measure(z, entity)).tobytes() == scores.tobytes()
        for score, explained in zip(scores, group.explain(entity, z), strict=True):
            assert explained.score.max() == score
            assert explained.cells.shape == z.shape


def test_windows_in_which_a_variable_varies_less_stand_out(data, training):
    group = Energy(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    z = data[1].copy()
    calm = group.score("a", group.measure(z, "a"))
    z[3, 40:60] *= 0.02
    (explained,) = group.explain("a", z)
    assert explained.score.max() > calm + 0.5
    assert 36 <= explained.score.argmax() < 64
    assert explained.cells[:, 50].argmax() == 3


def test_adapting_moves_the_centre_of_one_entity(data, training):
    group = RidgeResiduals(VARIABLES, LENGTH)
    features = group.measure_all(lambda i: data[i], training)
    group.fit(features, training)
    before = group.score("a", features[0])
    strange = features[:6] + 1.0
    far = group.score("new", strange[0])
    group.adapt("new", strange)
    assert (group.score("new", strange[0]) < far - 0.5).all()
    assert group.score("a", features[0]).tobytes() == before.tobytes()
