"""The ensemble estimates how dirty its history is: a clean one is not punished, and a dirty one costs little."""

import pytest

from tsadc import Ensemble
from tsadc.data.plant import Plant
from tsadc.data.task import answers
from tsadc.evaluate.ranking import average_precision


def ap(contamination: float, history: str) -> float:
    config = Plant.Config(entities=2, rows=6_000, length=60, contamination=contamination, seed=3)
    split = Plant(config).split()
    detector = Ensemble(length=60, kernels=16, history=history).fit(split.train)
    return float(average_precision(answers(split.test, 60).labels, detector.decision_function(split.test.series)))


@pytest.fixture(scope="module")
def clean() -> float:
    return ap(0.0, "auto")


@pytest.mark.slow
def test_a_clean_history_is_not_punished(clean: float) -> None:
    assert clean > 0.85
    assert clean > ap(0.0, "clean") - 0.01
    assert clean > ap(0.0, "dirty") - 0.01


@pytest.mark.slow
def test_a_dirty_history_costs_little(clean: float) -> None:
    dirty = ap(0.3, "auto")
    assert dirty > clean - 0.02
    assert ap(0.3, "clean") < dirty  # anomalies that count as normal cost more
