import pytest

from benchmark import HOSTILE, record, records
from tsadc.bench.paired import against_best
from tsadc.bench.summary import summarise
from tsadc.evaluate.compare import holm, mean_difference, wilcoxon


def test_the_best_is_compared_data_set_by_data_set() -> None:
    """On the plant the means over seeds and both splits are .895 for tsadc, .705 for ridge, .505 for the third; on ludb
    .95, .85, .6. random failed there."""
    best, cases, others = against_best(summarise(records()), "auroc")
    assert (best, cases) == ("tsadc", 2)
    assert [one.label for one in others] == ["ridge", HOSTILE]
    assert [one.difference for one in others] == pytest.approx([(0.19 + 0.1) / 2, (0.39 + 0.35) / 2])
    ours, theirs = [0.95, 0.895], [0.85, 0.705]
    assert others[0].interval == pytest.approx(mean_difference(ours, theirs))
    assert others[0].p == pytest.approx(holm([wilcoxon(ours, theirs), wilcoxon(ours, [0.6, 0.505])])[0])


def test_one_data_set_or_one_row_compares_nothing() -> None:
    two = [record(name, "plant", 0, auroc) for name, auroc in (("tsadc", 0.9), ("ridge", 0.8))]
    assert against_best(summarise(two), "auroc") is None
    assert against_best(summarise([record("ridge", data, 0, 0.8) for data in ("plant", "ludb")]), "auroc") is None
