"""Similar past episodes: a fault that recurs is found first, and a new one resembles nothing."""

import json

import numpy as np
import pandas as pd
import pytest

import tsadc
from tsadc.detectors import find
from tsadc.detectors.episodes import BLAMED, MEASURES, MOST, POINTS, Episodes, similarities
from tsadc.detectors.store import ARRAYS, SETTINGS
from tsadc.errors import ModelFileError
from tsadc.series import Clock, Series

NAMES = ("flow", "speed", "valve", "level")
MINUTE = 60 * 10**9
LENGTH = 60
Fault = tuple[int, str]  # first row and what happens


def plant(
    rows: int, seed: int, faults: list[Fault], start: int = 0, entity: str = "pump", dated: bool = True
) -> Series:
    """Four noisy waves with faults of 40 rows."""
    generator, time = np.random.default_rng(seed), np.arange(rows)
    values = np.stack([np.sin(time / period) for period in (7, 9, 11, 13)], axis=1)
    values += 0.1 * generator.normal(size=values.shape)
    for first, what in faults:
        inside = slice(first, first + 40)
        match what:
            case "flow high":
                values[inside, 0] += 6
            case "flow low":
                values[inside, 0] -= 6
            case "speed stuck":
                values[inside, 1] = values[first, 1]
            case "valve restless":
                values[inside, 2] += 3 * generator.normal(size=40)
    return Series(values, NAMES, Clock(start * MINUTE, MINUTE, dated=True) if dated else Clock(), entity)


HISTORY: list[Fault] = [(605, "flow high"), (1205, "speed stuck"), (1805, "flow high"), (2405, "speed stuck")]
NEW: list[Fault] = [(305, "flow high"), (605, "valve restless"), (905, "speed stuck"), (1205, "flow low")]


def fitted(history: Series) -> tsadc.Ensemble:
    return tsadc.Ensemble(length=LENGTH, config=tsadc.Ensemble.Config(kernels=16)).fit(history)


@pytest.fixture(scope="module")
def detector() -> tsadc.Ensemble:
    return fitted(plant(3000, 0, HISTORY))


@pytest.fixture(scope="module")
def new() -> Series:
    return plant(1800, 1, NEW, start=3000)


def at(result: tsadc.Result, row: int) -> pd.DataFrame:
    """The episodes that resemble the interval which holds a row of the only series."""
    (part,) = result.parts
    (number,) = [i for i, found in enumerate(part.intervals) if found.start <= row < found.stop]
    return result.similar[result.similar["interval"] == number]


def minutes(moments: pd.Series) -> list[int]:
    return [round(moment.value / MINUTE) for moment in moments]


def overlaps(found: pd.DataFrame, faults: list[int]) -> list[bool]:
    """Whether each episode overlaps one of the faults that begin at these minutes."""
    spans = zip(minutes(found["start"]), minutes(found["end"]), strict=True)
    return [any(start < first + 40 and end > first for first in faults) for start, end in spans]


def test_the_history_is_remembered_where_it_stands_out(detector):
    found = {(own.kind, next(iter(own.variables))): own.clock.start // MINUTE for own in detector.episodes_.episodes}
    assert {("level", "flow"), ("stuck", "speed")} <= set(found)
    assert len(detector.episodes_) <= MOST
    first = next(own for own in detector.episodes_.episodes if own.kind == "level")
    assert abs(first.clock.start // MINUTE - 605) < LENGTH
    assert first.picture.names[0] == "flow"
    assert first.picture.values.shape[1] <= POINTS
    assert np.nanmax(first.picture.values[0]) > 5  # in the units of the input
    assert 0 <= first.picture.start < first.picture.stop <= 1


def test_a_fault_that_recurs_is_found_first_and_a_new_one_resembles_nothing(detector, new):
    result = detector.detect(new)
    high, stuck = at(result, 320), at(result, 920)
    assert overlaps(high[:2], [605, 1805]) == [True, True]
    assert overlaps(stuck[:2], [1205, 2405]) == [True, True]
    assert high["kind"].iloc[0] == "level"
    assert stuck["kind"].iloc[0] == "stuck"
    assert high["similarity"].is_monotonic_decreasing
    assert high["similarity"].iloc[0] > 0.9
    assert at(result, 620).empty
    assert at(result, 1220).empty  # the same variable, but low


def test_an_earlier_interval_of_the_same_entity_counts_and_a_later_one_does_not(detector):
    restless = plant(1800, 2, [(305, "valve restless"), (905, "valve restless")], start=3000)
    result = detector.detect([restless, plant(1800, 3, [(1205, "valve restless")], start=3000, entity="other")])
    similar, (first, second) = result.similar, result.parts
    assert similar["origin"].tolist() == ["result"]
    assert similar["entity"].tolist() == ["pump"]
    assert overlaps(similar, [3305]) == [True]
    assert [found.similar == () for found in (*first.intervals, *second.intervals)] == [
        len(similar[similar["interval"] == i]) == 0 for i in range(len(first.intervals) + len(second.intervals))
    ]
    alone = detector.detect(plant(1800, 2, [(305, "valve restless")], start=3000))
    assert alone.similar.empty


def test_with_dates_only_the_past_counts(detector):
    again = detector.detect(plant(3000, 0, HISTORY))
    for number, found in again.similar.groupby("interval"):
        assert (found["end"] <= again.intervals["start"].iloc[number]).all()
    assert at(again, 620).empty
    assert overlaps(at(again, 1820)[:1], [605]) == [True]


@pytest.mark.parametrize("rows", [1, 200, 10**9])
def test_parts_are_compared_as_the_whole_is(detector, new, rows):
    later = plant(1800, 4, [(100, "flow high"), (400, "valve restless"), (1000, "flow high")], 4800, "other")
    whole, parts = detector.detect([new, later]), list(detector.detect_parts([new, later], rows=rows))
    tables, before = [], 0
    for part in parts:
        tables.append(part.similar.assign(interval=part.similar["interval"] + before))
        before += len(part.intervals)
    joined = pd.concat([table for table in tables if len(table)], ignore_index=True)
    pd.testing.assert_frame_equal(joined, whole.similar, check_dtype=False)
    assert len(joined) > 4


def test_similarity_is_as_defined(detector, new):
    (part,) = detector.detect(new).parts
    every = [detector._explainer().episode(part, found) for found in part.intervals]
    for own in every:
        np.testing.assert_allclose((own.signature**2).sum(), 1)
        dense = np.zeros((len(every), len(NAMES), MEASURES))
        for i, other in enumerate(every):
            dense[i, other.blamed] = other.signature
        by_definition = (dense * dense[every.index(own)]).sum(axis=(1, 2))
        np.testing.assert_allclose(similarities(own, every), by_definition, atol=1e-12)


def test_a_loaded_model_finds_the_same(detector, new, tmp_path):
    detector.save(tmp_path / "model")
    again = tsadc.load(tmp_path / "model")
    expected, found = detector.detect(new), again.detect(new)
    pd.testing.assert_frame_equal(found.similar, expected.similar)
    for own, other in zip(detector.episodes_.episodes, again.episodes_.episodes, strict=True):
        np.testing.assert_array_equal(own.picture.values, other.picture.values)
        assert (own.picture.names, own.variables, own.clock) == (other.picture.names, other.variables, other.clock)


def test_a_model_of_an_earlier_version_has_none(detector, new, tmp_path, monkeypatch):
    monkeypatch.setattr(Episodes, "state", lambda self: {})
    detector.save(tmp_path / "model")
    result = tsadc.load(tmp_path / "model").detect(new)
    assert result.similar.empty
    assert {found.similar for found in result.parts[0].intervals} == {None}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("blamed", lambda array: array + 10),
        ("blamed", lambda array: array[:, :-1]),
        ("numbers", lambda array: array * 0),
        ("numbers", lambda array: array.astype(np.float64)),
        ("signatures", lambda array: array * np.nan),
        ("pictures", lambda array: array[:, :, :5]),
        ("scores", lambda array: np.repeat(array, 40)),
        ("zones", lambda array: np.frombuffer(b'["nowhere"]', dtype=np.uint8)),
    ],
)
def test_edited_episodes_are_refused_in_one_sentence(detector, tmp_path, monkeypatch, name, changed):
    state = detector.episodes_.state()
    state[f"episodes.{name}"] = changed(state[f"episodes.{name}"])
    monkeypatch.setattr(Episodes, "state", lambda self: state)
    detector.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / SETTINGS).read_text())["format"] > 0
    assert (tmp_path / "model" / ARRAYS).exists()
    with pytest.raises(ModelFileError, match="not a usable model"):
        tsadc.load(tmp_path / "model")


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_one_variable_without_a_clock_is_compared_too(tmp_path):
    def alone(rows, seed, faults):
        return plant(rows, seed, faults, dated=False).values[:, :1]

    detector = fitted(alone(3000, 0, [(605, "flow high"), (1805, "flow high")]))
    detector.save(tmp_path / "model")
    for own in (detector, tsadc.load(tmp_path / "model")):
        result = own.detect(alone(900, 1, [(305, "flow high"), (605, "flow low")]))
        assert at(result, 320)["start"].iloc[:2].between(560, 1860).all()
        assert at(result, 320)["origin"].tolist()[:2] == ["history", "history"]
        assert at(result, 620).empty


def test_a_clean_history_has_no_episodes(tmp_path):
    detector = find("robust-z")(length=LENGTH).fit(plant(3000, 0, []))
    assert len(detector.episodes_) == 0
    detector.save(tmp_path / "model")
    again = tsadc.load(tmp_path / "model")
    assert len(again.episodes_) == 0
    result = again.detect(plant(900, 1, [(305, "flow high")], start=3000))
    assert result.similar.empty
    assert list(result.similar.columns) == ["interval", "entity", "start", "end", "similarity", "origin", "kind"]
    assert {found.similar for found in result.parts[0].intervals} == {()}


def test_separate_observations_have_no_neighbours():
    generator = np.random.default_rng(0)
    history = generator.normal(size=(40, 30, 2))
    history[5, 10:20, 0] += 9
    history[6, :, 1] += 9
    detector = find("robust-z")(length=30, contamination=0.05).fit(history)
    assert [own.clock.start // 30 for own in detector.episodes_.episodes] == [5, 6]
    assert np.nanmax(detector.episodes_.episodes[1].picture.values[0]) > 5
    assert all(own.picture.values.shape[1] <= 30 for own in detector.episodes_.episodes)
    assert all(len(own.blamed) <= BLAMED for own in detector.episodes_.episodes)
