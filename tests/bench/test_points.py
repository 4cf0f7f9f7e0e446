import numpy as np
import pandas as pd
import pytest

from tsadc.bench.points import BUFFER, NAMES, measure, rows
from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.volume import volume

LABELS = np.zeros(30, dtype=bool)
LABELS[5:10] = True


def timeline(scores: np.ndarray, flags: np.ndarray, entities: str) -> pd.DataFrame:
    return pd.DataFrame({"entity": list(entities), "score": scores, "anomalous": flags})


def test_means_are_over_series_with_both_sorts_of_rows() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random(90).astype(np.float32)
    flags = generator.random(90) < 0.3
    labels = np.concatenate([LABELS, LABELS[::-1], np.zeros(30, dtype=bool)])
    kept = rows(timeline(scores, flags, "a" * 30 + "b" * 30 + "c" * 30), labels)
    assert kept["row_ends"].tolist() == [30, 60, 90]
    found = measure(kept)
    halves = [(LABELS, scores[:30], flags[:30]), (LABELS[::-1], scores[30:60], flags[30:60])]
    assert found["series"] == 2
    assert found["vus_pr"] == pytest.approx(np.mean([volume(y, s, BUFFER).pr for y, s, _ in halves]), abs=1e-5)
    assert found["range_f1"] == pytest.approx(np.mean([range_cut(y, f).f1 for y, _, f in halves]), abs=1e-5)
    assert found["affiliation_recall"] == pytest.approx(
        np.mean([affiliation(y, f).recall for y, _, f in halves]), abs=1e-5
    )
    assert set(found) == {"series", *NAMES}


def test_rows_without_a_score_are_the_lowest_and_what_is_undefined_is_none() -> None:
    scores = np.where(np.arange(30) < 15, np.arange(30.0), np.nan)
    found = measure(rows(timeline(scores, np.zeros(30, dtype=bool), "a" * 30), LABELS))
    filled = np.where(np.isfinite(scores), scores, 0.0)
    assert found["vus_roc"] == pytest.approx(volume(LABELS, filled, BUFFER).roc, abs=1e-5)
    assert found["delay"] is None
    assert found["events_detected"] == 0
    nothing = measure(rows(timeline(np.full(30, np.nan), np.zeros(30, dtype=bool), "a" * 30), LABELS))
    assert nothing["vus_roc"] == pytest.approx(volume(LABELS, np.zeros(30), BUFFER).roc, abs=1e-5)
    normal = measure(rows(timeline(scores, np.zeros(30, dtype=bool), "a" * 30), np.zeros(30, dtype=bool)))
    assert (normal["series"], normal["vus_pr"]) == (0, None)
