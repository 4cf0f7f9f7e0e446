"""What is drawn beside the threshold agrees with the verdicts: on the simulated plant, where faults abound."""

from dataclasses import replace

import numpy as np
import pytest

import tsadc
from tsadc.config import update
from tsadc.data.plant import Plant
from tsadc.windows import runs


@pytest.fixture(scope="module")
def split():
    return Plant(Plant.Config(entities=2, rows=4800, seed=103)).split()


@pytest.fixture(scope="module")
def detector(split):
    return tsadc.Ensemble(length=120, seed=0).fit(split.train)


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_step_scores_are_above_the_threshold_in_every_interval_and_nowhere_else(split, detector):
    result = detector.detect(split.test.series)
    assert len(result.intervals) >= 10
    contradicted = 0
    for part in result.parts:
        above = part.step_scores.astype(np.float64) - part.raised > result.threshold
        opened = [found for found in part.intervals if found.evidence in result.view_scores]
        assert opened
        assert all(above[found.start : found.stop].any() for found in opened)
        assert not above[~part.anomalous].any()
        contradicted += int(((part.scores - part.raised > result.threshold) & ~part.anomalous).sum())
        np.testing.assert_array_equal(np.isnan(part.step_scores), np.isnan(part.scores))
        np.testing.assert_array_equal(
            result.timeline["score"][result.timeline["entity"] == part.series.entity], part.scores
        )
    assert contradicted > 0  # the scores of rows, means of overlapping observations, would contradict


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_only_events_that_are_too_short_lie_above_the_threshold_outside_intervals(split, detector):
    strict = tsadc.Ensemble.__new__(tsadc.Ensemble)
    strict.__dict__.update(detector.__dict__, settings_=update(detector.settings_, {"event": {"minimum": 30}}))
    dropped = 0
    for part in strict.detect(split.test.series).parts:
        above = part.step_scores.astype(np.float64) - part.raised > strict.threshold_
        outside = runs(above & ~part.anomalous)
        assert all(stop - start < 30 for start, stop in outside)
        dropped += len(outside)
    assert dropped > 0


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_the_expected_false_alarms_are_the_share_above_the_threshold_of_what_counts_as_normal(split, detector):
    result = detector.detect(split.test.series)
    share = detector.normal_.above(detector.threshold_)
    assert result.false_alarm_share == share
    below = int((~result.observations["anomalous"]).sum())
    assert result.false_alarms == pytest.approx(below * share / (1 - share))
    assert result.false_alarms == pytest.approx(
        sum(part.false_alarms for part in detector.detect_parts(split.test.series))
    )
    assert replace(result, false_alarm_share=1.0).false_alarms == len(result.scores)
