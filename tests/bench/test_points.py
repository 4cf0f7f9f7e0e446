from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from tsadc.bench.points import BUFFER, NAMES, TSB, by_series, measure, rows, rows_of_tasks
from tsadc.data.task import Answers, Event, RowTask
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.volume import volume, volume_tsb
from tsadc.series import Clock, Series

LABELS = np.zeros(30, dtype=bool)
LABELS[5:10] = True


@dataclass
class Found:
    """What is read of a result."""

    timeline: pd.DataFrame
    variables: pd.DataFrame


def found(scores: np.ndarray, flags: np.ndarray, entities: str, variables: np.ndarray | None = None) -> Found:
    timeline = pd.DataFrame({"entity": list(entities), "score": scores, "anomalous": flags})
    return Found(timeline, pd.DataFrame(np.ones((len(scores), 3)) if variables is None else variables))


def known(labels: np.ndarray, *events: Event) -> Answers:
    return Answers((), (), rows=labels, events=events)


def test_means_are_over_series_with_both_sorts_of_rows() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random(90).astype(np.float32)
    flags = generator.random(90) < 0.3
    labels = np.concatenate([LABELS, LABELS[::-1], np.zeros(30, dtype=bool)])
    kept = rows(found(scores, flags, "a" * 30 + "b" * 30 + "c" * 30), known(labels))
    assert kept["row_ends"].tolist() == [30, 60, 90]
    taken = measure(kept)
    halves = [(LABELS, scores[:30], flags[:30]), (LABELS[::-1], scores[30:60], flags[30:60])]
    assert taken["series"] == 2
    assert taken["vus_pr"] == pytest.approx(np.mean([volume(y, s, BUFFER).pr for y, s, _ in halves]), abs=1e-5)
    assert taken["range_f1"] == pytest.approx(np.mean([range_cut(y, f).f1 for y, _, f in halves]), abs=1e-5)
    assert taken["affiliation_recall"] == pytest.approx(
        np.mean([affiliation(y, f).recall for y, _, f in halves]), abs=1e-5
    )
    parts = ("", "_random", "_all_positive")
    assert set(taken) == {"series", "events", *(f"{name}{part}" for name in NAMES for part in parts)}


def test_only_the_requested_metrics_are_computed() -> None:
    kept = rows(found(np.arange(30.0), np.arange(30) > 20, "a" * 30), known(LABELS))
    taken = measure(kept, ["ndcg", "vus_roc_tsb"])
    asked = {f"{name}{part}" for name in ("ndcg", "vus_roc_tsb") for part in ("", "_random", "_all_positive")}
    assert set(taken) == {"series", "events", *asked}
    assert taken["vus_roc_tsb"] == measure(kept)["vus_roc_tsb"]
    assert measure({}, ["ndcg"]) == {"ndcg": None}


def test_the_volume_of_tsb_takes_the_window_of_the_series() -> None:
    """Of 400 rows, so that 250 ranks differ from all scores; a series of normal rows has no value."""
    labels, generator = np.arange(400) % 100 < 9, np.random.default_rng(0)
    scores, flags = [generator.random(400) for _ in range(3)], [np.zeros(400, dtype=bool)] * 3
    tasks = [
        RowTask(name, Series(np.zeros((400, 1)), ("v",), Clock(), name), truth, 10, window)
        for name, truth, window in (("a", labels, 7), ("b", labels, 50), ("c", labels & False, 50))
    ]
    kept = rows_of_tasks(tasks, scores, flags)
    exact = np.float32(scores)
    expected = [volume_tsb(labels, exact[0], 7).pr, volume_tsb(labels, exact[1], 50).pr]
    each = by_series(kept, TSB)
    assert [values["vus_pr_tsb"] for values in each[:2]] == pytest.approx(expected, abs=1e-5)
    assert each[2] == {"vus_pr_tsb": None, "vus_roc_tsb": None}
    taken = measure(kept)
    assert taken["series"] == 2
    assert taken["vus_pr_tsb"] == pytest.approx(np.mean(expected), abs=1e-5)
    fixed = [volume(labels, one, BUFFER).pr for one in exact[:2]]
    assert taken["vus_pr"] == pytest.approx(np.mean(fixed), abs=1e-5)
    single = measure(rows(found(scores[0], flags[0], "a" * 400), known(labels)))
    assert single["vus_pr_tsb"] == pytest.approx(volume_tsb(labels, scores[0], BUFFER).pr, abs=1e-5)


def test_rows_without_a_score_are_the_lowest_and_what_is_undefined_is_none() -> None:
    scores, none = np.where(np.arange(30) < 15, np.arange(30.0), np.nan), np.zeros(30, dtype=bool)
    taken = measure(rows(found(scores, none, "a" * 30), known(LABELS)))
    filled = np.where(np.isfinite(scores), scores, 0.0)
    assert taken["vus_roc"] == pytest.approx(volume(LABELS, filled, BUFFER).roc, abs=1e-5)
    assert taken["delay"] is None
    assert taken["events_detected"] == 0
    assert taken["events"] == 0
    assert taken["ndcg"] is None
    nothing = measure(rows(found(np.full(30, np.nan), none, "a" * 30), known(LABELS)))
    assert nothing["vus_roc"] == pytest.approx(volume(LABELS, np.zeros(30), BUFFER).roc, abs=1e-5)
    normal = measure(rows(found(scores, none, "a" * 30), known(none)))
    assert (normal["series"], normal["vus_pr"]) == (0, None)


def test_rows_without_labels_give_nothing() -> None:
    assert rows(found(np.zeros(4), np.zeros(4, dtype=bool), "aaaa"), Answers((), ())) == {}
    assert measure({}) == dict.fromkeys(NAMES)


def test_floors_are_those_of_random_and_of_all_flags() -> None:
    flags = np.zeros(30, dtype=bool)
    flags[5:8] = True
    taken = measure(rows(found(LABELS.astype(float), flags, "a" * 30), known(LABELS)))
    assert taken["events_detected_all_positive"] == 1
    assert taken["delay_all_positive"] == 0
    assert taken["false_rows_all_positive"] == 1
    assert taken["vus_roc_all_positive"] == pytest.approx(volume(LABELS, np.zeros(30), BUFFER).roc, abs=1e-5)
    assert taken["vus_pr_random"] < taken["vus_pr"] == pytest.approx(1, abs=0.01)
    assert taken["events_detected_random"] < 1
    constant = measure(rows(found(np.zeros(30), np.ones(30, dtype=bool), "a" * 30), known(LABELS)))
    for name in NAMES:  # a constant does not change when it is shifted
        assert constant[f"{name}_random"] == constant[f"{name}_all_positive"]


def test_blame_is_measured_by_event_from_squares() -> None:
    """In the first event both to blame come first; in the second the only one comes second, and in the third, where no
    variable is named, nothing is asked. Sums of absolute values would put variable 1 first in the second event."""
    given = np.zeros((30, 3))
    given[5:10] = [3, 2, 1]
    given[20] = [3, 0, 0]
    given[21:25] = [0, 1, 0]
    events = (
        Event(5, 10, np.array([True, True, False])),
        Event(20, 25, np.array([False, True, False])),
        Event(27, 28, np.zeros(3, dtype=bool)),
    )
    taken = measure(rows(found(np.zeros(30), np.zeros(30, dtype=bool), "a" * 30, given), known(LABELS, *events)))
    assert taken["events"] == 2
    assert taken["hit_rate_100"] == 0.5
    assert taken["ndcg"] == pytest.approx((1 + 1 / np.log2(3)) / 2, abs=1e-5)
    assert taken["hit_rate_100_random"] == pytest.approx((2 / 3 + 1 / 3) / 2, abs=1e-5)
