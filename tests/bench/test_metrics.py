import re
from pathlib import Path

import numpy as np
import pytest

from tsadc.bench.metrics import METRICS, by_chance, flagging_all, format_value, value_of
from tsadc.evaluate.ranking import all_positive_f1, cut, paper_metrics

LABELS = np.arange(40) < 12
RECORD = {"prevalence": 0.3, "flagged": 0.25, "all_positive_f1": all_positive_f1(LABELS), "auroc": 0.7}


def test_a_metric_that_is_undefined_or_absent_is_none() -> None:
    assert value_of(RECORD, "auroc") == 0.7
    assert value_of({**RECORD, "vus_pr": None}, "vus_pr") is None
    assert value_of(RECORD, "vus_pr") is None


@pytest.mark.parametrize("name", ["f1", "precision", "recall"])
def test_by_chance_is_the_mean_over_flags_thrown_at_random(name: str) -> None:
    generator = np.random.default_rng(0)
    flags = np.arange(40) < 10
    drawn = [getattr(cut(LABELS, generator.permutation(flags)), name) for _ in range(4000)]
    assert by_chance(RECORD, name) == pytest.approx(np.mean(drawn), abs=0.005)


@pytest.mark.parametrize("name", ["paper_f1", "paper_recall", "paper_apr"])
def test_flags_at_their_expectation_get_the_paper_s_measures_by_chance(name: str) -> None:
    flags = np.zeros(40, dtype=bool)
    flags[9:19] = True  # 3 of 10 are right, as is expected of 10 flags
    assert by_chance(RECORD, name) == pytest.approx(getattr(paper_metrics(LABELS, flags), name))
    assert flagging_all(RECORD, name) == pytest.approx(getattr(paper_metrics(LABELS, np.ones(40, dtype=bool)), name))


def test_rows_have_measured_floors_and_costs_have_none() -> None:
    record = {**RECORD, "vus_pr": 0.4, "vus_pr_random": 0.1, "vus_pr_all_positive": 0.2}
    assert (by_chance(record, "vus_pr"), flagging_all(record, "vus_pr")) == (0.1, 0.2)
    assert by_chance(RECORD, "vus_pr") is None
    assert flagging_all(record, "fit_seconds") is None
    assert (by_chance(RECORD, "ap"), by_chance(RECORD, "auroc")) == (0.3, 0.5)


def test_without_labels_of_observations_only_rows_have_floors() -> None:
    record = dict.fromkeys(("prevalence", "flagged", "all_positive_f1", "auroc"))
    record |= {"vus_pr_tsb_random": 0.1, "vus_pr_tsb_all_positive": 0.2}
    for name in ("auroc", "ap", "f1", "paper_apr"):
        assert by_chance(record, name) is flagging_all(record, name) is None
    assert (by_chance(record, "vus_pr_tsb"), flagging_all(record, "vus_pr_tsb")) == (0.1, 0.2)


def test_flags_that_never_fall_hit_nothing() -> None:
    none, nothing = {**RECORD, "flagged": 0.0}, np.zeros(40, dtype=bool)
    for name in ("f1", "precision", "recall"):
        assert by_chance(none, name) == getattr(cut(LABELS, nothing), name) == 0
    assert by_chance(none, "paper_apr") == pytest.approx(paper_metrics(LABELS, nothing).paper_apr)
    assert by_chance({"prevalence": 0.0, "flagged": 0.0, "all_positive_f1": 0.0}, "f1") == 0


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("auroc", 0.12345, "0.123"),
        ("auroc", None, "-"),
        ("flops", 2.345e9, "2.35G"),
        ("parameters", 1200, "1.2k"),
        ("score_seconds", 0.004567, "0.00457"),
        ("fit_seconds", 12.34, "12.3"),
        ("peak_bytes", 3e6, "3M"),
    ],
)
def test_costs_have_three_significant_digits(metric: str, value: float | None, text: str) -> None:
    assert metric in METRICS
    assert format_value(metric, value) == text


def test_the_page_defines_every_metric_by_its_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    defined = re.findall(r"^\| `(\w+)` \| \S", page, re.M)
    assert sorted(defined) == sorted(METRICS)
