"""Imputation by the network of TSAD-C: only hidden cells, without looking at them, and the same again."""

import numpy as np

import tsadc
from tsadc.detectors.tsadc.imputation import impute


def test_hidden_cells_are_drawn_without_looking_at_them() -> None:
    phase = np.arange(800)[:, None] / 5 + np.arange(3)
    history = np.sin(phase) + 0.05 * np.random.default_rng(0).normal(size=phase.shape)
    detector = tsadc.TSADC(length=40, scoring="own", config=tsadc.TSADC.Config.tiny()).fit(history)
    hidden = np.zeros(history.shape, dtype=bool)
    hidden[100:110, 1] = True
    [found] = impute(detector, history, (hidden,), samples=5)
    assert np.isfinite(found.values[hidden]).all()
    assert np.isnan(found.values[~hidden]).all()
    assert (found.deviation[hidden] >= 0).all()
    np.testing.assert_allclose(found.draws.mean(axis=0), found.values[hidden], rtol=1e-5)
    [again] = impute(detector, np.where(hidden, 50.0, history), (hidden,), samples=5)
    np.testing.assert_array_equal(found.values, again.values)
