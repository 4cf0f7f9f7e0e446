"""Planned work counts as not measured, in whole observations."""

from dataclasses import replace

import numpy as np
import pytest

import tsadc
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.planned import masked
from tsadc.errors import TooShortError
from tsadc.io.calendar import Calendar, Planned
from tsadc.series import Clock, Series

MINUTE = 60 * 10**9


def series(rows: int = 200, seed: int = 0) -> Series:
    return Series(np.random.default_rng(seed).normal(size=(rows, 2)), ("a", "b"), Clock(0, MINUTE, True), "pump")


def minutes(start: int, end: int, *variables: str) -> Planned:
    return Planned(start * MINUTE, end * MINUTE, "pump", variables, "work", ticks=True)


@pytest.mark.parametrize(
    ("planned", "hidden"),
    [
        ((20, 40), (20, 40)),
        ((25, 35), (20, 40)),
        ((39, 61), (39, 61)),
        ((37, 63), (20, 80)),
        ((24, 26), (24, 26)),
        ((24, 27), (20, 40)),
        ((-50, 3), (0, 20)),
        ((190, 900), (180, 200)),
    ],
)
def test_an_observation_that_is_planned_for_more_than_a_tenth_is_hidden(
    planned: tuple[int, int], hidden: tuple[int, int]
) -> None:
    (found,) = masked([series()], Calendar((minutes(*planned),)), 20)
    assert np.flatnonzero(np.isnan(found.values).all(axis=1)).tolist() == list(range(*hidden))
    (one,) = masked([series()], Calendar((minutes(*planned, "b"),)), 20)
    assert np.flatnonzero(np.isnan(one.values[:, 1])).tolist() == list(range(*hidden))
    assert np.isfinite(one.values[:, 0]).all()


def test_a_calendar_that_covers_everything_is_named_as_the_reason() -> None:
    halves = Calendar((minutes(-5, 1000), minutes(995, 2005)))  # the second overlaps the first
    both = Calendar((minutes(0, 2000, "a"), minutes(0, 2000, "b")))
    for covering in (Calendar((minutes(-5, 2005),)), halves, both):
        with pytest.raises(TooShortError, match=r"Planned work covers all of the data.*correct the times"):
            RobustZ(length=20).fit([series(2000)], calendar=covering)
    detector = RobustZ(length=20).fit([series(2000)])
    with pytest.raises(TooShortError, match="Planned work covers all of the data"):
        detector.detect([series(200)], calendar=halves)
    (_, other) = masked([series(), replace(series(), entity="valve")], halves, 20)
    assert np.isfinite(other.values).all()


def test_an_audit_neither_judges_nor_learns_from_planned_work() -> None:
    values = series(2000).values.copy()
    values[400:440], values[1200:1240] = values[400:440] + 20, values[1200:1240] - 20
    data = replace(series(), values=values)
    assert {suspect.interval.start // 20 for suspect in tsadc.audit(RobustZ(length=20), [data]).suspects} >= {20, 60}
    planned = tsadc.audit(RobustZ(length=20), [data], calendar=Calendar((minutes(400, 440),)))
    assert [suspect.interval.start // 20 for suspect in planned.suspects][:1] == [60]
    assert not planned.suspected_rows(0.0)[0][400:440].any()
    assert planned.data["digest"] != tsadc.audit(RobustZ(length=20), [data]).data["digest"]
    # The verdict `planned` of a fitted detector is such an entry.
    detector = RobustZ(length=20).fit([series(2000)])
    result = detector.detect([data])
    name = next(interval.id(data) for interval in result.parts[0].intervals if 390 < interval.start < 440)
    judged = tsadc.audit(detector.feedback(result, {name: "planned"}), [data])
    assert not judged.suspected_rows(0.0)[0][400:440].any()
    assert judged.suspected_rows(0.5)[0][1200:1240].all()


def test_a_sensor_that_is_off_for_planned_work_is_not_reported_and_one_that_stays_off_is() -> None:
    detector = RobustZ(length=20).fit([series(2000)])
    values = series(400, 1).values.copy()
    values[103:165, 1] = np.nan
    data = replace(series(), values=values)
    assert detector.detect([data]).intervals["kind"].tolist().count("missing") == 1
    calendar = Calendar((minutes(103, 165, "b"),))
    result = detector.detect([data], calendar=calendar)
    assert "missing" not in result.intervals["kind"].tolist()
    assert result.planned[["variables", "note"]].values.tolist() == [[["b"], "work"]]
    parts = list(detector.detect_parts([data], rows=60, calendar=calendar))
    assert all("missing" not in part.intervals["kind"].tolist() for part in parts)
    short = detector.detect([data], calendar=Calendar((minutes(103, 120, "b"),)))
    assert "missing" in short.intervals["kind"].tolist()


def test_planned_work_is_not_learnt_from() -> None:
    history = series(2000)
    spoilt = replace(history, values=np.where((np.arange(2000) < 200)[:, None], 50.0, history.values))
    clean = tsadc.Ensemble(length=20, kernels=4).fit(
        [replace(history, values=np.where((np.arange(2000) < 200)[:, None], np.nan, history.values))]
    )
    planned = tsadc.Ensemble(length=20, kernels=4).fit([spoilt], calendar=Calendar((minutes(0, 200),)))
    assert np.array_equal(planned.decision_scores_, clean.decision_scores_)
    assert planned.threshold_ == clean.threshold_


def test_what_is_no_calendar_is_refused() -> None:
    detector = RobustZ(length=20).fit([series(2000)])
    for call in (detector.fit, detector.detect, lambda data, calendar: tsadc.audit(detector, data, calendar=calendar)):
        with pytest.raises(tsadc.DataError, match=r"`calendar` must be a tsadc.Calendar, but got 'work.ics'; read a f"):
            call([series(2000)], calendar="work.ics")
