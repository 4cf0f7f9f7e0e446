"""What both detectors by nearest neighbours share: an adapted entity is measured by its own history."""

import numpy as np
import pytest

from tsadc.detectors import find
from tsadc.errors import ConfigError, TsadcNotice

LENGTH = 32


def made(scale: float, seed: int, count: int = 20) -> np.ndarray:
    """Noise whose second variable is `scale` times as smooth as the first."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, LENGTH, 2))
    values[:, :, 1] = np.cumsum(values[:, :, 1], axis=1) * scale
    return values.reshape(-1, 2)


@pytest.mark.parametrize("name", ["bands", "convolutions", "log-energy", "isolation-forest"])
def test_an_adapted_entity_is_measured_by_its_own_history(name: str) -> None:
    detector = find(name)(length=LENGTH).fit({f"unit-{i}": made(1.0, i) for i in range(4)})
    # As if sampled three times as densely: other shapes and spectra, whatever the normalisation.
    own = np.repeat(made(1.0, 9, 30), 3, axis=0)
    history, new = {"slow": own[: 60 * LENGTH]}, {"slow": own[60 * LENGTH :]}
    with pytest.warns(TsadcNotice, match="pooled statistics: slow"):
        before = detector.decision_function(new)
    usual = detector._usual.entities.copy()
    detector.adapt(history)
    assert set(detector._usual.entities) - set(usual) == {"slow"}
    assert all(np.array_equal(detector._usual.entities[unit], usual[unit]) for unit in usual)
    assert np.median(detector.decision_function(new)) < np.median(before)


def test_a_short_history_leaves_the_centre_of_all() -> None:
    detector = find("bands")(length=LENGTH).fit({f"unit-{i}": made(1.0, i) for i in range(4)})
    detector.adapt({"new": made(1.0, 5, 7)})
    assert "new" not in detector._usual.entities


@pytest.mark.parametrize(("name", "value"), [("neighbours", 0), ("keep", 0.0), ("keep", 1.5)])
@pytest.mark.parametrize("detector", ["bands", "convolutions"])
def test_settings_are_refused(detector: str, name: str, value: float) -> None:
    with pytest.raises(ConfigError, match=name):
        find(detector).Config(**{name: value})
