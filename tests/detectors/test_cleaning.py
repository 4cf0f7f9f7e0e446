"""The Decontaminator: it finds and corrects what is suspect, leaves the rest alone, and works with scikit-learn."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

import tsadc
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.series import Floats

LENGTH = 30
FAULT = slice(1500, 1545)


def history(seed: int = 0, rows: int = 3000) -> tuple[Floats, Floats]:
    """A history with a fault in the second variable, and without it."""
    generator = np.random.default_rng(seed)
    wave = np.sin(np.arange(rows) / 8)
    clean = wave[:, None] * [1.0, 2.0, -1.0] + 0.05 * generator.normal(size=(rows, 3))
    dirty = clean.copy()
    dirty[FAULT, 1] += 8
    return dirty, clean


def cleaner(**arguments: Any) -> tsadc.Decontaminator:
    return tsadc.Decontaminator(RobustZ(length=LENGTH), **{"level": 0.9} | arguments)


def test_a_fault_is_replaced_by_what_was_to_be_expected() -> None:
    dirty, clean = history()
    fitted = cleaner()
    found = fitted.fit_transform(dirty)
    assert np.abs(found - clean)[FAULT].max() < 0.3
    changed = (found != dirty).any(axis=1).nonzero()[0]
    assert changed.min() >= FAULT.start
    assert changed.max() < FAULT.stop
    [row] = fitted.report_.to_dict("records")
    assert (row["entity"], row["start"], row["end"], row["variables"]) == ("series", 1500, 1545, "variable_1")
    assert row["cells"] == 45
    assert row["probability"] > 0.9
    np.testing.assert_array_equal(dirty, history()[0])  # the input stays as it is


def test_cells_can_become_missing_or_rows_be_dropped() -> None:
    dirty, _ = history()
    missing = cleaner(fill="nan").fit_transform(dirty)
    assert np.isnan(missing).sum(axis=0).tolist() == [0, 45, 0]
    np.testing.assert_array_equal(cleaner(fill="drop").fit_transform(dirty), np.delete(dirty, FAULT, axis=0))
    observations = dirty.reshape(-1, LENGTH, 3)
    kept = cleaner(fill="drop").fit_transform(observations)
    places = [int((observations == own).all(axis=(1, 2)).argmax()) for own in kept]
    assert len(places) >= 95
    assert not {50, 51} & set(places)


def test_rows_that_are_dropped_are_reported_with_all_their_cells() -> None:
    fitted = cleaner(fill="drop").fit(history()[0])
    assert fitted.report_[["variables", "cells"]].values.tolist() == [["variable_0; variable_1; variable_2", 135]]
    assert len(fitted.bands_) == 0
    assert fitted.bands_.columns.tolist() == ["entity", "time", "variable", "measured", "expected", "low", "high"]


def test_bands_and_draws_cover_what_would_have_been_measured() -> None:
    inside, drawn = [], []
    for seed in range(6):
        dirty, clean = history(seed)
        fitted = cleaner(samples=20)
        found = fitted.fit_transform(pd.DataFrame(dirty, columns=["a", "b", "c"]))
        bands = fitted.bands_
        chosen = bands[bands["variable"] == "b"]
        truth = clean[chosen["time"], 1]
        np.testing.assert_array_equal(chosen["measured"], dirty[chosen["time"], 1])
        np.testing.assert_array_equal(chosen["expected"], found["b"].to_numpy()[chosen["time"]])
        draws = chosen.filter(like="draw_").to_numpy()
        assert draws.shape == (len(chosen), 20)
        inside += ((chosen["low"] <= truth) & (truth <= chosen["high"])).tolist()
        drawn += ((draws.min(axis=1) <= truth) & (truth <= draws.max(axis=1))).tolist()
    assert len(inside) >= 6 * 40
    assert 0.85 <= np.mean(inside) <= 0.96
    assert 0.85 <= np.mean(drawn) <= 0.96  # 19 of 21 gaps between 20 draws


def test_samples_must_be_a_number_and_need_expected_values() -> None:
    for wrong in (-1, 1.5, True):
        with pytest.raises(tsadc.ConfigError, match="`samples` must be a whole number of at least 0"):
            cleaner(samples=wrong).fit(history()[0])
    with pytest.raises(tsadc.ConfigError, match='`samples` must be 0 unless fill="expected", but got 20'):
        cleaner(samples=20, fill="nan").fit(history()[0])


def test_a_frame_keeps_its_index_columns_and_types() -> None:
    dirty, _ = history()
    frame = pd.DataFrame(dirty, columns=["a", "b", "c"], index=pd.date_range("2024", periods=3000, freq="1min"))
    frame = frame.astype({"a": "float32", "b": "Float64"})
    frame["state"] = "on"
    with pytest.warns(tsadc.TsadcNotice, match="'state' holds only text"):
        found = cleaner().fit_transform(frame)
    assert list(found.dtypes) == list(frame.dtypes)
    pd.testing.assert_index_equal(found.index, frame.index)
    pd.testing.assert_frame_equal(found.drop(columns="b"), frame.drop(columns="b"))
    assert (found["b"] != frame["b"]).sum() == 45


def test_new_data_is_cleaned_by_what_the_detector_flags() -> None:
    dirty, _ = history()
    fitted = cleaner().fit(dirty)
    new, clean = history(seed=5)
    found = fitted.transform(new)
    assert np.abs(found - clean)[FAULT].max() < 0.3
    assert fitted.report_["probability"].isna().all()
    assert "variable_1" in fitted.report_["variables"].iloc[0]


def test_the_history_is_always_cleaned_by_its_audit() -> None:
    dirty, _ = history()
    fitted = cleaner().fit(dirty)
    np.testing.assert_array_equal(fitted.transform(dirty), cleaner().fit_transform(dirty))
    assert (fitted.report_["probability"] > 0.5).all()


def test_a_clean_history_stays_as_it_is() -> None:
    _, clean = history()
    np.testing.assert_array_equal(cleaner(level=1.0).fit_transform(clean), clean)


def test_entities_in_a_dict_and_series() -> None:
    dirty, clean = history()
    _, other = history(seed=1)
    found = cleaner().fit_transform({"p": dirty, "q": other})
    assert np.abs(found["p"] - clean)[FAULT].max() < 0.3
    np.testing.assert_array_equal(found["q"], other)
    series = (tsadc.Series(dirty, ("a", "b", "c"), entity="p"), tsadc.Series(other, ("a", "b", "c"), entity="q"))
    as_series = cleaner().fit_transform(series)
    np.testing.assert_array_equal(as_series[0].values, found["p"])
    assert as_series[1].entity == "q"


def test_it_is_an_estimator_of_scikit_learn() -> None:
    dirty, clean = history()
    made = cleaner(fill="expected", level=0.6)
    copy = clone(made)
    assert copy is not made
    assert copy.get_params(deep=False)["level"] == 0.6
    assert copy.set_params(detector__length=40, level=0.7).detector.length == 40
    assert made.detector is not None
    assert made.detector.length == LENGTH
    with pytest.raises(tsadc.ConfigError, match="no parameter `levle`; did you mean `level`"):
        made.set_params(levle=0.5)
    components = make_pipeline(cleaner(), PCA(1)).fit(dirty)[-1].components_
    expected = PCA(1).fit(clean).components_
    spoilt = PCA(1).fit(dirty).components_
    assert np.abs(np.abs(components) - np.abs(expected)).max() < 0.01 < np.abs(np.abs(spoilt) - np.abs(expected)).max()


def test_errors_say_what_to_do() -> None:
    dirty, _ = history()
    with pytest.raises(tsadc.NotFittedError, match=r"not fitted yet; call fit\(history\) first"):
        cleaner().transform(dirty)
    with pytest.raises(tsadc.ConfigError, match="`fill` must be 'expected', 'nan' or 'drop', but got 'mean'"):
        cleaner(fill="mean").fit(dirty)
    with pytest.raises(tsadc.ConfigError, match="`level` must be a number above 0 and at most 1, but got 0"):
        cleaner(level=0).fit(dirty)
    with pytest.raises(tsadc.ConfigError, match="`level` must be a number above 0 and at most 1, but got 'high'"):
        cleaner(level="high").fit(dirty)
    with pytest.raises(tsadc.ConfigError, match="`level` must be a number above 0 and at most 1, but got True"):
        tsadc.Decontaminator(level=True).fit(np.zeros((600, 3)))
    for other in ("robust-z", RobustZ):
        with pytest.raises(tsadc.ConfigError, match=r"`detector` must be a detector, such as tsadc.Ensemble\("):
            tsadc.Decontaminator(other).fit(np.zeros((600, 3)))
    with pytest.raises(tsadc.ConfigError, match="give one of `detector` and `length`"):
        cleaner(length=20).fit(dirty)
    with pytest.raises(tsadc.ConfigError, match="no detector to set 'detector__length' of"):
        tsadc.Decontaminator().set_params(detector__length=20)


def test_a_detector_can_learn_from_what_is_not_suspect() -> None:
    dirty, _ = history()
    plain, clean = RobustZ(length=LENGTH).fit(dirty), RobustZ(length=LENGTH).fit(dirty, clean=True)
    assert 45 <= clean.provenance_["cleaned"]["rows"] < 60
    assert len(clean.decision_scores_) == len(plain.decision_scores_) - 1  # all rows of one observation are left out
    assert "cleaned" not in plain.provenance_
    assert clean.decision_scores_.max() < plain.decision_scores_.max()


def test_arguments_that_are_set_after_the_fit_are_checked_by_transform() -> None:
    history = np.random.default_rng(0).normal(size=(1200, 3))
    cleaner = tsadc.Decontaminator(RobustZ(length=60), folds=np.int64(2)).fit(history)
    with pytest.raises(tsadc.ConfigError, match="`samples` must be a whole number of at least 0, but got -1"):
        cleaner.set_params(samples=-1).transform(history)
    with pytest.raises(tsadc.ConfigError, match="`fill` must be"):
        cleaner.set_params(samples=0, fill="mean").transform(history)
