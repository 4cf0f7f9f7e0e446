"""Peers on rows. PyOD itself is tested elsewhere; here it is fed rows, and its scores are pooled."""

import sys
from typing import Any

import numpy as np
import pytest

import tsadc.detectors
from tsadc.detectors import PEERS, REGISTRY, find, names
from tsadc.detectors.classical import pyod_rows
from tsadc.errors import ConfigError

LENGTH = 20
every = pytest.mark.parametrize("name", list(PEERS))


class Distance:
    """A stand-in for an estimator of PyOD: the distance from the mean of the training rows."""

    def fit(self, rows: np.ndarray) -> "Distance":
        self.rows, self.center = rows, rows.mean(axis=0)
        return self

    def decision_function(self, rows: np.ndarray) -> np.ndarray:
        return np.linalg.norm(rows - self.center, axis=1)


def data(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LENGTH, 3))


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyod_rows, "_pyod", lambda module, name: lambda **_: Distance())


@every
def test_a_peer_is_found_by_name_but_not_listed(name: str) -> None:
    cls = find(name)
    assert cls.name == name
    assert not cls.savable
    assert name not in names()
    assert name not in REGISTRY
    assert not hasattr(tsadc.detectors, cls.__name__)


@pytest.mark.usefixtures("stand_in")
def test_rows_are_pooled_by_their_mean_or_maximum() -> None:
    history, new = data(40, 0), data(5, 1)
    new[2, 4], new[3, :, 1] = np.nan, np.nan
    highest, mean = (find(f"pyod-knn-{pooling}")(length=LENGTH).fit(history) for pooling in ("max", "mean"))
    z = np.nan_to_num(highest.scaler_("series", new.reshape(-1, 3)))
    rows = highest.estimator_.decision_function(z).reshape(5, LENGTH)
    rows[2, 4] = np.nan
    np.testing.assert_allclose(highest.decision_function(new), np.nanmax(rows, axis=1), rtol=1e-5)
    np.testing.assert_allclose(mean.decision_function(new), np.nanmean(rows, axis=1), rtol=1e-5)
    np.testing.assert_allclose(highest.detect(new).timeline["score"], rows.ravel(), rtol=1e-5)
    steps = mean.detect(new).timeline["score"].to_numpy().reshape(5, LENGTH)
    np.testing.assert_allclose(steps[0], np.nanmean(rows[0]), rtol=1e-5)


@pytest.mark.usefixtures("stand_in")
def test_training_rows_are_thinned_and_those_without_a_value_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    history = data(40, 2)
    history[:, 7] = np.nan
    assert len(find("pyod-lof-max")(length=LENGTH).fit(history).estimator_.rows) == 32 * (LENGTH - 1)
    monkeypatch.setattr(pyod_rows, "MAX_ROWS", 100)
    assert 80 <= len(find("pyod-lof-max")(length=LENGTH).fit(history).estimator_.rows) <= 100


@pytest.mark.usefixtures("stand_in")
def test_it_cannot_be_saved(tmp_path) -> None:
    detector = find("pyod-hbos-max")(length=LENGTH).fit(data(40, 3))
    with pytest.raises(ConfigError, match="wraps an estimator of another library and cannot be saved"):
        detector.save(tmp_path / "model")


def test_without_pyod_a_sentence_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyod", None)
    monkeypatch.delitem(sys.modules, "pyod.models", raising=False)
    monkeypatch.delitem(sys.modules, "pyod.models.ecod", raising=False)
    with pytest.raises(ConfigError, match=r"This detector needs PyOD, but pyod.* is not installed; pip install pyod"):
        find("pyod-ecod-mean")(length=LENGTH).fit(data(40, 4))


@every
def test_peers_with_pyod(name: str) -> None:
    pytest.importorskip("pyod", reason="PyOD is not installed")
    history, new = data(40, 5), data(6, 6)
    history = np.concatenate([history, history[:, :, :1], np.ones((40, LENGTH, 1))], axis=2)  # redundant and constant
    new = np.concatenate([new, new[:, :, :1], np.ones((6, LENGTH, 1))], axis=2)
    new[3, 5:15] += 9.0

    def fitted() -> Any:
        with pytest.warns(UserWarning, match="Constant throughout the history"):
            return find(name)(length=LENGTH).fit(history)

    scores = fitted().decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 3
    assert fitted().decision_function(new).tobytes() == scores.tobytes()
    assert fitted().decision_function(new[2:4]).tobytes() == scores[2:4].tobytes()
