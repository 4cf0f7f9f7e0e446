"""Views of rows and ranges against loops over rows, windows and folds."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors.ensemble import rows as module
from tsadc.detectors.ensemble.rows import Density, Ranges
from tsadc.detectors.ensemble.training import Training

VARIABLES, LENGTH = 3, 50
ENTITIES = ("a",) * 12 + ("b",) * 6 + ("c",) * 3


@pytest.fixture(scope="module")
def data() -> np.ndarray:
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.normal(size=(21, VARIABLES, LENGTH)), axis=2) / 3
    z[:, 1] += 2 * z[:, 0]
    z[12:18] += 2
    z[5, 0, 10:18], z[6, :, 25:] = np.nan, np.nan
    z[7, :, 0] = 40
    return z.astype(np.float32)


@pytest.fixture(scope="module")
def training() -> Training:
    folds = [i * 5 // 12 for i in range(12)] + [0, 0, 1, 2, 3, 4] + [2, 3, 4]
    kept = np.ones(21, dtype=bool)
    kept[[2, 8, 13]] = False
    return Training(ENTITIES, np.array(folds), kept)


def slow_rows(z: np.ndarray) -> np.ndarray:
    """24 steps, evenly spaced among those at which something was measured; z is clipped, gaps are interpolated."""
    measured = [step for step in range(z.shape[1]) if np.isfinite(z[:, step]).any()]
    steps = [measured[round(i * (len(measured) - 1) / 23)] for i in range(24)]
    whole = pd.DataFrame(z.T.astype(np.float64)).interpolate(limit_direction="both").fillna(0.0).to_numpy()
    return np.clip(whole[steps], -10, 10)


def slow_density(group: Density, rows: np.ndarray, bank: np.ndarray) -> float:
    """A loop over the rows: the mean distance of the 3 most unusual to their 5 nearest in the bank."""
    distances = []
    for row in rows:
        every = sorted(float(np.linalg.norm((row - other) @ group.whitening)) for other in bank)
        distances.append(np.mean(every[:5]) / np.sqrt(VARIABLES))
    return 0.5 * np.log(0.02 + np.mean(sorted(distances)[-3:]))


def test_density_against_a_loop(data, training):
    group = Density(VARIABLES, LENGTH)
    rows = [slow_rows(z) for z in data]
    scores = group.fit(group.measure_all(lambda i: data[i], training), training)
    for i in range(0, 21, 2):
        known = ENTITIES[i] != "c"
        others = [
            rows[j]
            for j in range(21)
            if training.kept[j] and training.folds[j] != training.folds[i] and (not known or ENTITIES[j] == ENTITIES[i])
        ]
        assert scores[i, 0] == pytest.approx(slow_density(group, rows[i], np.concatenate(others)), abs=1e-5)
    own = [rows[j] for j in range(12, 18) if training.kept[j]]
    expected = slow_density(group, rows[0], np.concatenate(own))
    assert group.score("b", group.measure(data[0], "b"))[0] == pytest.approx(expected, abs=1e-5)
    every = np.concatenate([rows[j] for j in range(21) if training.kept[j]])
    expected = slow_density(group, rows[0], every)
    assert group.score("new", group.measure(data[0], "new"))[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("columns", [1, 4, 5, 19, 20, 936, 2000])
@pytest.mark.parametrize("rows", [0, 1, 24])
def test_the_smallest_values_are_found_as_by_sorting(rows, columns):
    generator = np.random.default_rng(columns)
    distinct = generator.permutation(rows * columns).reshape(rows, columns).astype(float)
    assert np.array_equal(module._smallest(distinct, 5), np.argsort(distinct, axis=1)[:, :5])
    equal = generator.integers(3, size=(rows, columns)).astype(float)
    found = np.take_along_axis(equal, module._smallest(equal, 5), axis=1)
    assert np.array_equal(found, np.sort(equal, axis=1)[:, :5])


def test_rows_are_whitened_and_directions_that_hardly_vary_are_enlarged_less(data, training):
    group = Density(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    rows = np.concatenate([slow_rows(data[i]) for i in np.flatnonzero(training.kept)])
    np.testing.assert_allclose(group.center, rows.mean(axis=0), atol=1e-6)
    variance = np.linalg.eigvalsh(np.cov(rows.T, bias=True))
    after = np.cov((rows @ group.whitening).T, bias=True)
    np.testing.assert_allclose(after, np.diag(variance / (variance + 0.1 * variance.mean())), atol=1e-6)


def test_a_silent_variable_takes_the_value_that_the_others_suggest(data, training):
    group, history = Density(VARIABLES, LENGTH), data.copy()
    history[:, 1] = 2 * history[:, 0] + 0.1 * np.random.default_rng(2).normal(size=history[:, 1].shape)
    new = history[9].copy()
    history[4, 1], history[10, 0, :30] = np.nan, np.nan
    group.fit(group.measure_all(lambda i: history[i], training), training)
    covariance = np.linalg.inv(group.whitening @ group.whitening.T)
    rows = group.measure(new, "a")
    known = rows[:, [0, 2]] - group.center[[0, 2]]
    expected = group.center[1] + known @ np.linalg.solve(covariance[np.ix_([0, 2], [0, 2])], covariance[[0, 2], 1])
    new[1] = np.nan
    silent = group._completed(group.measure(new, "a"))
    np.testing.assert_allclose(silent[:, 1], expected, atol=1e-4)
    np.testing.assert_array_equal(silent[:, [0, 2]], rows[:, [0, 2]])
    assert np.abs(silent[:, 1] - rows[:, 1]).mean() < 0.3 * np.abs(rows[:, 1] - rows[:, 1].mean()).mean()
    assert not any(np.isnan(bank).any() for bank in (group.pooled, *group.entities.values()))
    (explained,) = group.explain("a", new)
    assert explained.score.max() == pytest.approx(group.score("a", group.measure(new, "a"))[0], abs=1e-12)


def test_rows_at_which_nothing_was_measured_are_skipped(data, training):
    """The medians of the variables are no usual row here, so a gap must not be taken for one."""
    rng = np.random.default_rng(1)
    z = np.sign(rng.normal(size=(21, 1, LENGTH))) * 5 + rng.normal(size=(21, VARIABLES, LENGTH)) / 10
    group = Density(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: z[i], training), training)
    gap = z[0].copy()
    gap[:, 10:45] = np.nan
    (explained,) = group.explain("a", gap)
    score = group.score("a", group.measure(gap, "a"))[0]
    assert score < group.score("a", group.measure(z[0], "a"))[0] + 0.2
    measured = np.isfinite(gap).any(axis=0)
    assert explained.score[measured].max() == score


def test_a_bank_is_bounded(monkeypatch, data, training):
    monkeypatch.setattr(module, "BANK_ROWS", 30)
    group = Density(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    assert {len(bank) for bank in (group.pooled, *group.entities.values())} == {30}
    monkeypatch.setattr(module, "MAX_BANK_VALUES", 3 * 3 * 20)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    assert {len(bank) for bank in (group.pooled, *group.entities.values())} == {20}


def test_the_steps_and_cells_of_a_rare_row(data, training):
    group = Density(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    z = data[0].copy()
    z[2, 28:34] = 9
    (explained,) = group.explain("a", z)
    assert explained.score.max() == group.score("a", group.measure(z, "a"))[0]
    assert set(np.flatnonzero(explained.score == explained.score.max())) <= set(range(27, 35))
    assert explained.cells[:, 31].argmax() == 2


@pytest.mark.parametrize("kind", [Density, Ranges])
def test_state_keeps_everything(kind, data, training):
    group, again = kind(VARIABLES, LENGTH), kind(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    again.restore(group.state())
    for made in (group, again):
        made.adapt("new", made.measure_all(lambda i: data[i], training)[:5])
    for entity in ("a", "b", "new", "other"):
        before, after = (made.score(entity, made.measure(data[3], entity)) for made in (group, again))
        assert before.tobytes() == after.tobytes()


def test_adapting_gives_an_entity_a_bank_of_its_own(data, training):
    group = Density(VARIABLES, LENGTH)
    features = group.measure_all(lambda i: data[i], training)
    group.fit(features, training)
    strange = np.clip(features[:5] + 8, -10, 10)
    before = group.score("new", strange[0])[0]
    group.adapt("new", strange)
    assert group.score("new", strange[0])[0] < before - 0.5


def slow_ranges(z: np.ndarray) -> np.ndarray:
    """(variable, window) largest minus smallest value of each window of 6 rows; NaN if less than half was measured."""
    out = np.full((len(z), LENGTH - 5), np.nan)
    for k in range(len(z)):
        for start in range(LENGTH - 5):
            known = [value for value in z[k, start : start + 6].tolist() if not np.isnan(value)]
            if len(known) >= 3:
                out[k, start] = max(known) - min(known)
    return out


def slow_novelty(ranges: np.ndarray, others: list[np.ndarray], scale: np.ndarray) -> float:
    worst = 0.0
    for window in range(ranges.shape[1]):
        total = 0.0
        for k in range(VARIABLES):
            bank = [value for other in others for value in other[k] if not np.isnan(value)]
            if not np.isnan(ranges[k, window]):
                total += min(abs(ranges[k, window] - value) / scale[k] for value in bank) ** 2
        worst = max(worst, np.sqrt(total))
    return float(np.log(0.2 + worst))


def test_ranges_against_a_loop(monkeypatch, data, training):
    monkeypatch.setattr(module, "RANGE_BANK", 10**6)
    group = Ranges(VARIABLES, LENGTH)
    features = group.measure_all(lambda i: data[i], training)
    ranges = [slow_ranges(z) for z in data]
    np.testing.assert_allclose(features[6, :, :-2], ranges[6], rtol=1e-5)
    scores = group.fit(features, training)
    kept = data[training.kept]
    scale = np.nanmax(kept, axis=(0, 2)) - np.nanmin(kept, axis=(0, 2))
    np.testing.assert_allclose(group.scale, scale, rtol=1e-6)
    for i in (0, 6, 7, 13, 20):
        others = [ranges[j] for j in range(21) if training.kept[j] and training.folds[j] != training.folds[i]]
        assert scores[i, 0] == pytest.approx(slow_novelty(ranges[i], others, scale), abs=1e-5)
    every = [ranges[j] for j in range(21) if training.kept[j]]
    new = np.random.default_rng(3).normal(size=(VARIABLES, LENGTH)).astype(np.float32)
    expected = slow_novelty(slow_ranges(new), every, scale)
    assert group.score("a", group.measure(new, "a"))[0] == pytest.approx(expected, abs=1e-5)


def test_the_bank_of_ranges_is_bounded(monkeypatch, data, training):
    monkeypatch.setattr(module, "RANGE_BANK", 40)
    group = Ranges(VARIABLES, LENGTH)
    group.fit(group.measure_all(lambda i: data[i], training), training)
    assert [len(bank) for bank in group.bank] == [40] * VARIABLES
    assert all((np.diff(bank) >= 0).all() for bank in group.bank)


@pytest.mark.parametrize("length", [8, 50, 67, 200])
def test_the_steps_and_cells_of_an_excursion(length):
    z = np.random.default_rng(4).uniform(size=(21, VARIABLES, length))
    group = Ranges(VARIABLES, length)
    training = Training(ENTITIES, np.arange(21) % 5, np.ones(21, dtype=bool))
    group.fit(group.measure_all(lambda i: z[i], training), training)
    new = z[0].copy()
    new[1, length // 2] = 7
    (explained,) = group.explain("a", new)
    assert explained.score.max() == group.score("a", group.measure(new, "a"))[0] > 1
    assert explained.score.argmax() in range(length // 2 - group.width + 1, length // 2 + 1)
    assert explained.cells[:, length // 2].argmax() == 1
    assert np.isfinite(explained.score).all()
    assert explained.cells.min() >= 0


def test_a_variable_that_was_never_measured_or_never_varied_is_not_novel():
    z = np.random.default_rng(5).normal(size=(6, VARIABLES, LENGTH))
    z[:, 1], z[:, 2] = np.nan, 3.0
    training = Training(("a",) * 6, np.arange(6) % 5, np.ones(6, dtype=bool))
    group = Ranges(VARIABLES, LENGTH)
    assert np.isfinite(group.fit(group.measure_all(lambda i: z[i], training), training)).all()
    assert group.scale[1:].tolist() == [1.0, 1.0]
    new = z[0].copy()
    new[1] = np.arange(LENGTH)
    assert group.score("a", group.measure(new, "a")) == group.score("a", group.measure(z[0], "a"))
