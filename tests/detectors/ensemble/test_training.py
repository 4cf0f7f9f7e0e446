"""Folds, and standardisation without the own fold, against loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.detectors.ensemble.features import Standardiser
from tsadc.detectors.ensemble.training import FOLDS, Training, cross_fitted, fit_standardiser, lowest_share
from tsadc.series import Observations, Place, Series

LENGTH = 8


def part(places: list[tuple[int, int]], entities: tuple[str, ...] = ("a",)) -> Observations:
    """Observations that begin at (series, row), of as many series as there are entities."""
    series = tuple(Series(np.zeros((800, 1)), ("x",), entity=entity) for entity in entities)
    return Observations(series, tuple(Place(number, start) for number, start in places), LENGTH)


@given(count=st.integers(1, 40), data=st.data())
def test_folds_are_contiguous_fifths_by_time_even_if_parts_interleave(count, data):
    order = data.draw(st.permutations([(0, LENGTH * i) for i in range(count)]))
    held = data.draw(st.integers(0, count))
    whole = part(order)
    training = Training.of([whole.take(range(held, count)), whole.take(range(held))])
    folds = training.folds[np.argsort([start for _, start in order[held:] + order[:held]])]
    if count >= FOLDS:
        assert (np.diff(folds) >= 0).all()
        sizes = np.bincount(folds, minlength=FOLDS)
        assert sizes.max() - sizes.min() <= 1
    else:
        assert folds.tolist() == list(range(count))
    assert training.kept.all()


def test_the_series_of_an_entity_follow_each_other():
    places = [(number, LENGTH * i) for i in range(5) for number in (0, 1)]
    folds = Training.of([part(places, ("a", "a"))]).folds
    assert folds[0::2].tolist() == [0, 0, 1, 1, 2]
    assert folds[1::2].tolist() == [2, 3, 3, 4, 4]


def test_validation_data_of_its_own_follows_the_history():
    history, own = (Series(np.zeros((20, 1)), ("a",), entity="pump") for _ in range(2))
    parts = [Observations((series,), tuple(Place(0, i) for i in range(0, 20, 2)), 2) for series in (history, own)]
    np.testing.assert_array_equal(Training.of(parts).folds, np.arange(20) // 4)


def test_entities_with_few_observations_take_turns():
    names = tuple("abcdefghij")
    assert Training.of([part([(i, 0) for i in range(10)], names)]).folds.tolist() == [*range(5), *range(5)]
    pairs = Training.of([part([(i, LENGTH * k) for i in range(5) for k in range(2)], names)])
    assert np.bincount(pairs.folds).tolist() == [2] * 5


def mixed() -> Training:
    """`a` has 12 observations, of which 3 are unusual; `b` has 6, of which 4 are; `c` has 4."""
    entities = tuple("a" * 12 + "b" * 6 + "c" * 4)
    folds = np.array([i * 5 // 12 for i in range(12)] + [0, 0, 1, 2, 3, 4] + [2, 3, 4, 0])
    kept = np.ones(22, dtype=bool)
    kept[[1, 2, 7, 12, 13, 14, 15]] = False
    order = np.random.default_rng(0).permutation(22)
    return Training(tuple(entities[i] for i in order), folds[order], kept[order])


def test_an_entity_is_judged_by_its_normal_observations_or_by_all_if_few_are_normal():
    training = mixed()
    found = {entity: set(indices.tolist()) for entity, indices in training.known().items()}
    normal = {i for i, entity in enumerate(training.entities) if entity == "a" and training.kept[i]}
    assert found == {"a": normal, "b": {i for i, entity in enumerate(training.entities) if entity == "b"}}


def test_splits_against_a_loop():
    training = mixed()
    seen = {}
    for entity, own, others in training.splits():
        for i in own:
            seen[int(i)] = (entity, set(others.tolist()))
    for i, entity in enumerate(training.entities):
        if entity == "c":
            assert i not in seen
            continue
        others = {
            j
            for j in range(len(training))
            if training.entities[j] == entity
            and training.folds[j] != training.folds[i]
            and (entity == "b" or training.kept[j])
        }
        assert seen[i] == (entity, others)


def test_centres_of_training_observations_come_from_the_other_folds():
    training, rng = mixed(), np.random.default_rng(1)
    features = rng.normal(size=(22, 3, 4)) + np.array([ord(entity) for entity in training.entities])[:, None, None]
    features[rng.random(features.shape) < 0.1] = np.nan
    features[[entity == "b" for entity in training.entities], :, 2] = np.nan
    standardiser = fit_standardiser(features, training)
    assert sorted(standardiser.entities) == ["a", "b"]
    actual = cross_fitted(standardiser, features, training)
    for i, entity in enumerate(training.entities):
        others = [
            features[j]
            for j in range(22)
            if training.entities[j] == entity
            and training.folds[j] != training.folds[i]
            and (entity == "b" or training.kept[j])
        ]
        for k in range(4):
            values = [row[k] for rows in others for row in rows if np.isfinite(row[k])]
            center = standardiser.center[k] if entity == "c" or not values else np.median(values)
            expected = np.nan_to_num((features[i, :, k] - center) / standardiser.scale[k])
            np.testing.assert_allclose(actual[i, :, k], np.clip(expected, -10, 10), atol=1e-12)


def test_the_rows_of_an_observation_are_standardised_alike():
    training = mixed()
    features = np.random.default_rng(2).normal(size=(22, 3, 4))
    made = fit_standardiser(features, training)
    owners = [entity for entity in training.entities for _ in range(3)]
    expected = Standardiser.fit(features.reshape(66, 4), owners, np.repeat(training.kept, 3), 15)
    np.testing.assert_array_equal(made.scale, expected.scale)
    assert made.entities.keys() == expected.entities.keys() == {"a", "b"}


@pytest.mark.parametrize(("share", "lowest"), [(0.4, [1, 3]), (0.5, [1, 2, 3]), (1, [0, 1, 2, 3, 4])])
def test_the_lowest_share_is_rounded_up(share, lowest):
    assert np.flatnonzero(lowest_share(np.array([5.0, 1.0, 3.0, 1.0, 9.0]), share)).tolist() == lowest
