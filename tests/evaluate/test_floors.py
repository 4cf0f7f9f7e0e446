import re
from pathlib import Path

import numpy as np
import pytest

from tsadc.errors import DataError
from tsadc.evaluate.adjusted import point_adjusted
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.delay import delay
from tsadc.evaluate.floors import floor_of_flags, floor_of_scores
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut, oracle_f1, paper
from tsadc.evaluate.volume import volume

LABELS = np.arange(4000) % 10 < 3


def test_random_scores_rank_by_chance() -> None:
    floor = floor_of_scores(auroc, LABELS)
    assert floor.random == pytest.approx(0.5, abs=0.01)
    assert floor.all_positive == 0.5
    floor = floor_of_scores(average_precision, LABELS)
    assert floor.random == pytest.approx(0.3, abs=0.01)
    assert floor.all_positive == pytest.approx(0.3)


def test_random_flags_are_as_many_as_the_detector_s() -> None:
    """Precision is the prevalence, recall the share flagged."""
    flagged = np.arange(4000) < 800
    f1 = floor_of_flags(lambda labels, flags: cut(labels, flags).f1, LABELS, flagged)
    assert f1.random == pytest.approx(2 * 0.3 * 0.2 / 0.5, abs=0.01)
    assert f1.all_positive == pytest.approx(all_positive_f1(LABELS))
    apr = floor_of_flags(lambda labels, flags: paper(labels, flags).paper_apr, LABELS, flagged)
    assert apr.random == pytest.approx(0.2 * 1.3 / 2 + 0.8 * 0.3, abs=0.01)
    assert apr.all_positive == pytest.approx(1.3 / 2)


def test_the_seed_fixes_it_and_the_mean_is_over_draws() -> None:
    assert floor_of_scores(auroc, LABELS, seed=1) == floor_of_scores(auroc, LABELS, seed=1)
    generator = np.random.default_rng(4)
    values = [auroc(LABELS, generator.random(4000)) for _ in range(3)]
    assert floor_of_scores(auroc, LABELS, draws=3, seed=4).random == pytest.approx(np.mean(values))


def test_the_flags_stay_as_they_are() -> None:
    flagged = np.arange(4000) < 800
    floor_of_flags(lambda labels, flags: cut(labels, flags).f1, LABELS, flagged)
    assert flagged[:800].all()
    assert not flagged[800:].any()


def test_no_draw_no_mean() -> None:
    with pytest.raises(DataError, match="at least one, but 0 came"):
        floor_of_scores(auroc, LABELS, draws=0)
    with pytest.raises(DataError, match="at least one, but 0 came"):
        floor_of_flags(lambda labels, flags: cut(labels, flags).f1, LABELS, LABELS, draws=0)


def test_the_page_tells_what_knowing_nothing_gets() -> None:
    """The columns `random` and `all` of docs/metrics.md."""
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    told = {
        m[1]: (float(m[2]), float(m[3]))
        for m in re.finditer(r"^\| `(\w+)` \|.*?\| ([\d.]+) \| ([\d.]+) \|", page, re.M)
    }
    labels = np.arange(20000) % 1000 < 100
    flagged = np.arange(20000) % 10 == 0
    by_scores = {
        "auroc": auroc,
        "ap": average_precision,
        "oracle_f1": oracle_f1,
        "vus_pr": lambda labels, scores: volume(labels, scores, 100).pr,
        "vus_roc": lambda labels, scores: volume(labels, scores, 100).roc,
    }
    by_flags = {
        "f1": lambda labels, flags: cut(labels, flags).f1,
        "precision": lambda labels, flags: cut(labels, flags).precision,
        "recall": lambda labels, flags: cut(labels, flags).recall,
        "paper_f1": lambda labels, flags: paper(labels, flags).paper_f1,
        "paper_recall": lambda labels, flags: paper(labels, flags).paper_recall,
        "paper_apr": lambda labels, flags: paper(labels, flags).paper_apr,
        "events_detected": lambda labels, flags: delay(labels, flags).detected,
        "delay": lambda labels, flags: delay(labels, flags).median,
        "false_rows": lambda labels, flags: delay(labels, flags).alarms,
        "point_adjusted_f1": lambda labels, flags: point_adjusted(labels, flags, misleading=True).cut.f1,
    }
    for name in ("precision", "recall", "f1"):
        by_flags[f"range_{name}"] = lambda labels, flags, name=name: getattr(range_cut(labels, flags), name)
        by_flags[f"affiliation_{name}"] = lambda labels, flags, name=name: getattr(affiliation(labels, flags), name)
    found = {name: floor_of_scores(measure, labels, draws=5) for name, measure in by_scores.items()}
    found |= {name: floor_of_flags(measure, labels, flagged, draws=5) for name, measure in by_flags.items()}
    assert told.keys() == found.keys()
    rounded = {name: (round(floor.random, 2), round(floor.all_positive, 2)) for name, floor in found.items()}
    assert rounded == told
