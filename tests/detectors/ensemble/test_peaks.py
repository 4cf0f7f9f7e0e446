"""Views of single steps against loops over steps, cells and folds."""

import numpy as np
import pytest

from tsadc.detectors.ensemble.peaks import Departure, ModelResiduals, Remainder, _quantile, without_level
from tsadc.detectors.ensemble.training import Training

VARIABLES, LENGTH = 5, 40
ENTITIES = ("a",) * 12 + ("b",) * 6 + ("c",) * 3


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    """Variables 0 to 2 have one cause; `b` is spikier than `a`; some cells are missing."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(21, VARIABLES, LENGTH)) + rng.normal(size=(21, VARIABLES, 1))
    z[:, :3] += 4 * rng.normal(size=(21, 1, LENGTH))
    z[12:18, :, ::10] *= 2
    z[rng.random(z.shape) < 0.05] = np.nan
    z[3, :, 5:8] = np.nan
    z[4, 1] = np.nan
    return z.astype(np.float32)


@pytest.fixture(scope="module")
def training() -> Training:
    folds = [i * 5 // 12 for i in range(12)] + [0, 0, 1, 2, 3, 4] + [2, 3, 4]
    kept = np.ones(21, dtype=bool)
    kept[[2, 7, 13]] = False
    return Training(ENTITIES, np.array(folds), kept)


def slow_sizes(cells: np.ndarray, top: int = 3) -> list[float]:
    sizes = []
    for step in range(cells.shape[1]):
        known = sorted(cell for cell in cells[:, step] if not np.isnan(cell))
        if known:
            sizes.append(float(np.mean(known[-top:])))
    return sizes


def slow_departure(x: np.ndarray) -> np.ndarray:
    return np.array([[abs(value - np.median(row[np.isfinite(row)])) for value in row] for row in x])


def slow_pair(cells: np.ndarray, lasting: bool = False) -> tuple[float, float]:
    sizes = np.array(slow_sizes(cells))
    if lasting:
        mean = np.sqrt(np.mean(sizes**2))
        return np.log(0.1 + mean), np.log(0.1 + mean)
    return np.log(0.1 + sizes.max()), np.log(0.1 + np.quantile(sizes, 0.99))


def slow_baseline(usual: np.ndarray, training: Training, i: int) -> float:
    """The median over the normal observations of the entity's other folds; over all if the entity is little known."""
    if ENTITIES[i] == "c":
        return float(np.median(usual[training.kept]))
    others = [
        usual[j]
        for j in range(len(usual))
        if ENTITIES[j] == ENTITIES[i] and training.kept[j] and training.folds[j] != training.folds[i]
    ]
    return float(np.median(others))


def test_departure_against_loops(data, training):
    group = Departure(VARIABLES)
    features = group.measure_all(lambda i: data[i], training)
    filled = [np.delete(z, 1, axis=0) if np.isnan(z[1]).all() else z for z in data]
    expected = np.array([slow_pair(slow_departure(z)) for z in filled])
    np.testing.assert_allclose(features[:, :, 0], expected, rtol=1e-5)
    scores = group.fit(features, training)
    for i in range(21):
        baseline = slow_baseline(features[:, 1, 0], training, i)
        assert scores[i, 0] == pytest.approx(features[i, 0, 0] - baseline, abs=1e-12)
    assert sorted(group.entities) == ["a", "b"]
    # A new observation of an entity is judged by all of its normal observations.
    own = np.median(features[[i for i in range(12) if training.kept[i]], 1, 0])
    assert group.score("a", features[0])[0] == pytest.approx(features[0, 0, 0] - own)
    assert group.score("new", features[0])[0] == pytest.approx(
        features[0, 0, 0] - np.median(features[training.kept, 1, 0])
    )


def test_with_many_variables_the_size_of_a_step_is_the_mean_of_a_sixth_of_them():
    z = np.random.default_rng(1).normal(size=(30, LENGTH))
    expected = slow_pair(slow_departure(z))
    assert Departure(30).measure(z, "a")[0, 0] < expected[0]
    largest = max(slow_sizes(slow_departure(z), top=5))
    assert Departure(30).measure(z, "a")[0, 0] == pytest.approx(np.log(0.1 + largest))


def slow_remainder(z: np.ndarray, others: np.ndarray) -> np.ndarray:
    """What the principal components of `others` (observation, variable, time) do not explain of `z`."""
    steps = np.concatenate(list(others), axis=1).T
    center = steps.mean(axis=0)
    _, size, directions = np.linalg.svd(steps - center, full_matrices=False)
    share = np.cumsum(size**2) / np.sum(size**2)
    basis = directions[: min(int(np.argmax(share >= 0.9)) + 1, VARIABLES - 1)]
    return z - ((z.T - center) @ basis.T @ basis + center).T


def test_the_remainder_is_that_of_components_without_the_own_fold(data, training):
    complete = np.nan_to_num(data.astype(np.float64))
    group = Remainder(VARIABLES)
    features = group.measure_all(lambda i: complete[i], training)
    for i in range(21):
        rest = slow_remainder(complete[i], complete[training.kept & (training.folds != training.folds[i])])
        pairs = [
            slow_pair(slow_departure(rest)),
            slow_pair(slow_departure(rest), lasting=True),
            slow_pair(np.abs(rest)),
        ]
        np.testing.assert_allclose(features[i], np.array(pairs).T, rtol=1e-5)
    new = np.random.default_rng(5).normal(size=(VARIABLES, LENGTH))
    rest = slow_remainder(new, complete[training.kept])
    np.testing.assert_allclose(group.measure(new, "a")[:, 2], slow_pair(np.abs(rest)), rtol=1e-5)
    scores = group.fit(features, training)
    for i in range(21):
        for view in range(3):
            baseline = slow_baseline(features[:, 1, view], training, i)
            assert scores[i, view] == pytest.approx(features[i, 0, view] - baseline, abs=1e-12)


def test_steps_of_a_new_observation_peak_at_its_score(data, training):
    group = Remainder(VARIABLES)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    for entity, z in (("a", data[3]), ("new", data[4])):
        scores = group.score(entity, group.measure(z, entity))
        for score, explained in zip(scores, group.explain(entity, z), strict=True):
            assert np.fmax.reduce(np.atleast_1d(explained.score)) == score
            np.testing.assert_array_equal(np.isnan(explained.cells), np.isnan(z))
    assert np.isnan(group.explain("a", data[3])[0].score[5:8]).all()


def test_only_level_sees_a_shifted_variable(training):
    rng = np.random.default_rng(3)
    z = 4 * rng.normal(size=(21, 1, LENGTH)) + rng.normal(size=(21, VARIABLES, LENGTH)) / 4  # one cause
    group = Remainder(VARIABLES)
    group.fit(group.measure_all(lambda i: z[i], training), training)
    shifted = z[0].copy()
    shifted[1] += 5
    before, after = (group.score("a", group.measure(values, "a")) for values in (z[0], shifted))
    np.testing.assert_allclose(after[:2], before[:2], atol=1e-6)
    assert after[2] > before[2] + 1


def test_residuals_of_a_model_are_judged_as_they_are(data, training):
    group = ModelResiduals(("first", "second"), VARIABLES)
    cells = [(np.abs(z), 2 * np.abs(z)) for z in data]
    features = np.stack([group.measure_cells(pair) for pair in cells])
    np.testing.assert_allclose(features[0, :, 1], slow_pair(2 * np.abs(data[0])), rtol=1e-5)
    scores = group.fit(features, training)
    assert scores[1, 0] == pytest.approx(features[1, 0, 0] - slow_baseline(features[:, 1, 0], training, 1))
    first, second = group.explain_cells("a", cells[0])
    assert np.fmax.reduce(first.score) == group.score("a", features[0])[0]
    assert np.fmax.reduce(second.score) == group.score("a", features[0])[1]


def test_adapting_moves_the_baseline_of_one_entity(data, training):
    group = Departure(VARIABLES)
    features = group.measure_all(lambda i: data[i], training)
    group.fit(features, training)
    before = group.score("a", features[0])
    group.adapt("new", features[:5] + 1)
    assert group.score("new", features[0])[0] == pytest.approx(features[0, 0, 0] - 1 - np.median(features[:5, 1, 0]))
    assert group.score("a", features[0]) == before


def test_an_observation_without_residuals_has_no_score_and_changes_no_baseline():
    group = ModelResiduals(("only",), VARIABLES)
    features = np.stack([group.measure_cells([np.full((VARIABLES, LENGTH), float(i))]) for i in range(1, 7)])
    features[2] = group.measure_cells([np.full((VARIABLES, LENGTH), np.nan)])
    scores = group.fit(features, Training(("a",) * 6, np.arange(6) % 5, np.ones(6, dtype=bool)))
    assert np.isnan(scores[:, 0]).tolist() == [False, False, True, False, False, False]
    assert group.entities["a"][0] == pytest.approx(np.log(0.1 + 4))
    group.adapt("blind", features[2:3])
    assert group.entities["blind"] == group.baseline


def test_state_keeps_everything(data, training):
    for group, again in ((Departure(VARIABLES), Departure(VARIABLES)), (Remainder(VARIABLES), Remainder(VARIABLES))):
        group.fit(group.measure_all(lambda i: data[i], training), training)
        again.restore(group.state())
        for entity in ("a", "b", "new"):
            before, after = (made.score(entity, made.measure(data[8], entity)) for made in (group, again))
            assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("count", [1, 2, 3, 50, 101, 600])
def test_medians_and_quantiles_are_those_of_numpy_to_the_bit(count):
    x = np.random.default_rng(count).normal(size=(4, count))
    for values in (x, x.astype(np.float32)):
        np.testing.assert_array_equal(without_level(values), values - np.median(values, axis=1, keepdims=True))
    for level in (0.0, 0.3, 0.99, 1.0):
        assert _quantile(x[0], level) == np.quantile(x[0], level)
