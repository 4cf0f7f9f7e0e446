import numpy as np
import pytest

from tsadc.detectors.ensemble.features import FEATURE_CLIP, Standardiser, _quantiles, decode_names, encode_names
from tsadc.scale import NORMAL_IQR


@pytest.fixture
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(30, 4)) * [1, 5, 0.3, 2] + 7


def slow_scale(column: np.ndarray) -> float:
    low, high = np.quantile(column, [0.25, 0.75])
    spread = np.sqrt(np.mean((column - np.median(column)) ** 2))
    return max((high - low) / NORMAL_IQR, 0.2 * spread, 0.01)


def everything(features: np.ndarray) -> np.ndarray:
    return np.ones(len(features), dtype=bool)


def test_one_entity_against_a_slow_definition(features):
    features[3, 1] = 400.0
    kept = np.arange(30) % 5 > 0
    standardiser = Standardiser.fit(features, ["a"] * 30, kept)
    for k in range(4):
        column = features[kept, k]
        expected = np.clip((features[0, k] - np.median(column)) / slow_scale(column), -10, 10)
        assert standardiser("a", features[0])[k] == pytest.approx(expected)
        assert standardiser("b", features[0])[k] == pytest.approx(expected)


def test_entities_with_a_history_have_a_centre_of_their_own(features):
    owner = ["a"] * 12 + ["b"] * 14 + ["c"] * 4
    features[:12] += 100
    standardiser = Standardiser.fit(features, owner, everything(features))
    assert list(standardiser.entities) == ["a", "b"]
    middle = np.median(features, axis=0)
    own = [features[:12] - np.median(features[:12], axis=0), features[12:26] - np.median(features[12:26], axis=0)]
    centred = np.concatenate([*own, features[26:] - middle])
    scale = [slow_scale(column) for column in centred.T]
    for name, own in (("a", np.median(features[:12], axis=0)), ("c", middle), ("new", middle)):
        expected = (features[0] - own - np.median(centred, axis=0)) / scale
        np.testing.assert_allclose(standardiser(name, features[0]), np.clip(expected, -10, 10))


def test_one_observation_per_entity_is_not_centred_away(features):
    standardiser = Standardiser.fit(features, [str(i) for i in range(30)], everything(features))
    assert standardiser.entities == {}
    assert np.abs(standardiser("0", features[0])).max() > 0.1


def test_an_entity_that_was_dropped_keeps_its_history(features):
    owner = ["a"] * 10 + ["b"] * 20
    features[:10] += 50
    standardiser = Standardiser.fit(features, owner, np.arange(30) >= 6)
    rest = standardiser.entities["b"] - np.median(features[10:], axis=0)
    np.testing.assert_allclose(standardiser.entities["a"], np.median(features[:10], axis=0) + rest)


def test_constant_and_missing_features(features):
    features[:, 0] = 2.0
    features[:, 1] = np.nan
    features[:10, 2] = np.nan
    standardiser = Standardiser.fit(features, ["a"] * 15 + ["b"] * 15, everything(features))
    actual = standardiser("a", np.array([2.0, 5.0, np.nan, 7.0]))
    assert actual[0] == 0
    assert actual[2] == 0
    assert np.isfinite(actual).all()
    assert standardiser("a", np.array([2.05, 0, 0, 0]))[0] == pytest.approx(5)
    assert standardiser("a", np.array([3.0, 0, 0, 0]))[0] == FEATURE_CLIP


def test_state(features):
    for owner in (["ä\n"] * 15 + ["b"] * 15, [str(i) for i in range(30)]):
        standardiser = Standardiser.fit(features, owner, everything(features))
        again = Standardiser.restore(standardiser.state("x"), "x")
        for name in (*owner, "new"):
            assert again(name, features[4]).tobytes() == standardiser(name, features[4]).tobytes()


def test_names_are_encoded_as_bytes():
    names = ["a", "", "Ü\N{GREEK SMALL LETTER ALPHA}", '"quoted"\n']
    assert decode_names(encode_names(names)) == names
    assert decode_names(encode_names([])) == []


def test_the_rows_an_entity_needs_can_be_set(features):
    owner = ["a"] * 12 + ["b"] * 18
    assert list(Standardiser.fit(features, owner, everything(features), 13).entities) == ["b"]


def test_adapting_moves_the_centre_of_one_entity(features):
    standardiser = Standardiser.fit(features, ["a"] * 30, everything(features))
    before = standardiser("a", features[0])
    history = features[:9] + 50
    history[:, 2] = np.nan
    standardiser.adapt("new", history)
    expected = (features[0] + 50 - np.median(features[:9] + 50, axis=0)) / standardiser.scale
    expected[2] = (features[0, 2] - standardiser.center[2]) / standardiser.scale[2]
    np.testing.assert_allclose(
        standardiser("new", [*(features[0] + 50)[:2], features[0, 2], features[0, 3] + 50]), expected
    )
    np.testing.assert_array_equal(standardiser("a", features[0]), before)


def test_gaps_elsewhere_do_not_change_a_feature(features):
    whole = Standardiser.fit(features, ["a"] * 30, everything(features))
    features[4, 0] = np.nan
    holed = Standardiser.fit(features, ["a"] * 30, everything(features))
    np.testing.assert_allclose(holed.scale[1:], whole.scale[1:])
    np.testing.assert_allclose(holed.center[1:], whole.center[1:])


@pytest.mark.parametrize("rows", [1, 2, 7, 40])
def test_quantiles_of_measured_values_are_those_of_numpy_to_the_bit(rows):
    rng, levels = np.random.default_rng(rows), [0.25, 0.5, 0.75]
    features = rng.normal(size=(rows, 30))
    features[rng.random(features.shape) < 0.3] = np.nan
    features[:, 3] = np.nan
    expected = [
        np.quantile(own[np.isfinite(own)], levels) if np.isfinite(own).any() else [np.nan] * 3 for own in features.T
    ]
    np.testing.assert_array_equal(_quantiles(features, levels), np.array(expected).T)
