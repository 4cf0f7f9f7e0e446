from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.covariance import EllipticEnvelope
from sklearn.neighbors import LocalOutlierFactor

import tsadc.detectors
from tsadc.cli.workflow import fit_model
from tsadc.detectors.classical.outliers import Outliers
from tsadc.errors import ConfigError

LENGTH = 32


class Envelope(Outliers):
    name = "envelope"

    def _estimator(self, seed: int) -> Any:
        return EllipticEnvelope(random_state=seed, support_fraction=1.0)


class Density(Outliers):
    name = "lof"

    def _estimator(self, seed: int) -> Any:
        return LocalOutlierFactor(n_neighbors=5, novelty=True)


def data(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LENGTH, 3))


@pytest.mark.parametrize("wrapped", [Envelope, Density])
def test_an_outlier_detector_of_scikit_learn(wrapped: type[Outliers], tmp_path) -> None:
    new = data(6, 1)
    new[3, 5:9, 2] += 9
    detector = wrapped(length=LENGTH).fit(data(60, 0))
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
    z = detector.scaler_("series", new[1]).T.astype(np.float32)
    row = detector.standardiser_("series", detector.features_(z))
    expected = -detector.estimator_.score_samples(row[None])[0]
    assert result.observations["score"][1] == pytest.approx(expected, rel=1e-5)
    assert (wrapped(length=LENGTH).fit(data(60, 0)).decision_function(new) == detector.decision_function(new)).all()
    with pytest.raises(ConfigError, match="wraps an estimator of another library and cannot be saved"):
        detector.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_refuses_it_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint(name="lof", value=f"{__name__}:Density", group="tsadc.detectors")
    monkeypatch.setattr(tsadc.detectors, "entry_points", lambda group: [point])
    monkeypatch.setattr(Outliers, "_fit_features", lambda *_: pytest.fail("it was trained"))
    with pytest.raises(ConfigError, match="lof cannot be saved, so the command line cannot use it"):
        fit_model(tsadc.detectors.find("lof")(length=LENGTH), data(60, 0), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_an_outlier_detector_of_pyod() -> None:
    knn = pytest.importorskip("pyod.models.knn", reason="PyOD is not installed").KNN

    class Distance(Outliers):
        name = "knn"

        def _estimator(self, seed: int) -> Any:
            return knn()

    new = data(6, 1)
    new[3, 5:9, 2] += 9
    detector = Distance(length=LENGTH).fit(data(60, 0))
    scores = detector.decision_function(new)
    assert scores.argmax() == 3
    rows = [
        detector.standardiser_("series", detector.features_(detector.scaler_("series", values).T)) for values in new
    ]
    np.testing.assert_allclose(scores, detector.estimator_.decision_function(np.stack(rows)), rtol=1e-4)
