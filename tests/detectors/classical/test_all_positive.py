import numpy as np
import pytest

from tsadc.detectors.classical.all_positive import AllPositive
from tsadc.detectors.store import load


@pytest.mark.parametrize("contamination", [0.01, 0.4, "auto"])
def test_everything_is_flagged(contamination, tmp_path):
    history = np.random.default_rng(0).normal(size=(20, 16, 2))
    detector = AllPositive(length=16, contamination=contamination).fit(history)
    assert detector.labels_.tolist() == [1] * 20
    new = history[:3].copy()
    new[1, 4:7] = np.nan
    assert detector.predict(new).tolist() == [1, 1, 1]
    result = detector.detect(new)
    assert result.observations["score"].tolist() == [1.0, 1.0, 1.0]
    np.testing.assert_array_equal(result.timeline["score"].to_numpy(), [1] * 20 + [np.nan] * 3 + [1] * 25)
    np.testing.assert_array_equal(result.variables.to_numpy() == 1, np.isfinite(new.reshape(-1, 2)))
    detector.save(tmp_path / "model")
    assert load(tmp_path / "model").predict(new).tolist() == [1, 1, 1]
