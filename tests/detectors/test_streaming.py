"""A stream says the same as `detect`, whatever the order of entities and the size of pushes."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, given, reject, settings
from hypothesis import strategies as st

from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.result import INTERVALS
from tsadc.detectors.streaming import LiveInterval, LiveVerdict, Stream, judge
from tsadc.errors import ConfigError, DataError, TooShortError
from tsadc.series import Clock, Series

pytestmark = pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
LENGTH, NAMES, MINUTE = 32, ("a", "b", "c", "d"), 60 * 10**9
ENTITIES = ("x", "y", "new")  # the model knows the first two
DATED, COUNTED = Clock(0, MINUTE, dated=True, timezone="Europe/Berlin"), Clock()
KINDS = [(name, clock) for name in ("ensemble", "robust-z") for clock in (DATED, COUNTED)]


def noise(rows: int, generator: np.random.Generator) -> np.ndarray:
    values = generator.normal(size=(rows, len(NAMES)))
    values[:, 1] += 2 * values[:, 0]
    return values


@pytest.fixture(scope="module")
def detectors() -> dict[tuple[str, Clock], Detector]:
    generator = np.random.default_rng(0)
    histories = {
        clock: [Series(noise(40 * LENGTH, generator), NAMES, clock, name) for name in "xy"] for _, clock in KINDS
    }
    small = {"ensemble": {"kernels": 8}, "robust-z": {}}
    return {
        (name, clock): find(name)(length=LENGTH, contamination=0.05, **small[name]).fit(histories[clock])
        for name, clock in KINDS
    }


def recording(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values, and which rows arrive at all: with anomalies, cells and sensors without values, and gaps."""
    generator = np.random.default_rng(seed)
    rows = int(generator.integers(1, 12 * LENGTH))
    values, arrives = noise(rows, generator), np.ones(rows, dtype=bool)
    for _ in range(generator.integers(4)):
        at, lasts = generator.integers(rows), generator.integers(1, 3 * LENGTH)
        values[at : at + lasts, generator.integers(len(NAMES))] += generator.choice([5, 20])
    for _ in range(generator.integers(3)):
        at, lasts = generator.integers(rows), generator.integers(1, 4 * LENGTH)
        values[at : at + lasts, generator.integers(len(NAMES))] = np.nan
    for _ in range(generator.integers(3)):
        at, lasts = generator.integers(rows), generator.integers(1, 5 * LENGTH)
        hidden = arrives if generator.random() < 0.5 else None
        if hidden is None:
            values[at : at + lasts] = np.nan
        else:
            hidden[at : at + lasts] = False
    values[generator.random(values.shape) < generator.choice([0, 0.1])] = np.nan
    arrives[[0, -1]] = True
    return values, arrives


def whole(detector: Detector, clock: Clock, data: dict[str, tuple[int, np.ndarray, np.ndarray]]):
    """Return the final verdicts and intervals of `detect`, as lists of values."""
    series = [
        Series(np.where(arrives[:, None], values, np.nan), NAMES, Clock(start, clock.interval, clock.dated), name)
        for name, (start, values, arrives) in data.items()
    ]
    try:
        result = detector.detect(series)
    except TooShortError:
        reject()
    verdicts = [
        (row.entity, tick(row.start), tick(row.end), row.score, row.threshold, row.anomalous, row.coverage)
        for row in result.observations.itertuples()
    ]
    intervals = [
        tuple({**row._asdict(), "start": tick(row.start), "end": tick(row.end)}.values())
        for row in result.intervals.itertuples(index=False)
    ]
    return verdicts, intervals


def tick(time) -> int:
    return time.value if isinstance(time, pd.Timestamp) else int(time)


def final(verdicts: list[LiveVerdict], intervals: list[LiveInterval]):
    """Return the final verdicts and intervals of a stream, as `whole` does."""
    return (
        [(v.entity, v.start, v.end, v.score, v.threshold, v.anomalous, v.coverage) for v in verdicts if v.final],
        [tuple(getattr(interval, name) for name in INTERVALS) for interval in intervals if interval.final],
    )


def by_time(rows):
    return sorted(rows, key=repr)


def arriving(data, clock: Clock, reorder: int, generator: np.random.Generator):
    """Return the times and values of each entity in the order of arrival: a row comes up to `reorder` rows late."""
    rows = {}
    for name, (start, values, arrives) in data.items():
        numbers = np.flatnonzero(arrives)
        late = numbers + generator.uniform(0, reorder + 0.5, size=len(numbers))
        order = np.argsort(late) if reorder else np.arange(len(numbers))
        rows[name] = start + numbers[order] * clock.interval, values[numbers[order]]
    return rows


def said_in_pieces(fresh, rows, most: int, generator: np.random.Generator):
    """Return what streams say about rows that are pushed in pieces of up to `most`, entities mixed. Now and then a new
    stream, which `fresh` returns, continues from the state of the one before."""
    stream, verdicts, intervals = fresh(), [], []
    waiting = {name: (times, values) for name, (times, values) in rows.items()}
    while waiting:
        name = str(generator.choice(sorted(waiting)))
        times, values = waiting.pop(name)
        count = int(generator.integers(1, most + 1))
        if count == 1:
            update = stream.push(name, int(times[0]), values[0])
        else:
            update = stream.push_many(name, times[:count], values[:count])
        verdicts += update.verdicts
        intervals += update.intervals
        if len(times) > count:
            waiting[name] = times[count:], values[count:]
        if generator.random() < 0.1:
            before, stream = stream, fresh()
            for entity in before.entities:
                stream.restore(entity, before.state(entity))
    update = stream.flush()
    return [*verdicts, *update.verdicts], [*intervals, *update.intervals]


def said_at_once(fresh, rows):
    """Return what a stream says if all rows of an entity are pushed at once."""
    stream, verdicts, intervals = fresh(), [], []
    for name, (times, values) in rows.items():
        for update in (stream.push_many(name, times, values), stream.flush(name)):
            verdicts += update.verdicts
            intervals += update.intervals
    return verdicts, intervals


def of_entity(name: str, said):
    return [[item for item in items if item.entity == name] for items in said]


@pytest.mark.parametrize(("name", "clock"), KINDS)
@settings(max_examples=4, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 10**6),
    most=st.sampled_from([1, 7, 50]),
    reorder=st.sampled_from([0, 3, 40]),
    every=st.sampled_from([None, 0, 5]),
)
def test_what_is_final_is_what_detect_says(detectors, name, clock, seed, most, reorder, every):
    detector, generator = detectors[name, clock], np.random.default_rng(seed)
    starts = generator.integers(100, size=3) if clock.dated else np.zeros(3, dtype=int)
    data = {
        entity: (int(start) * clock.interval, *recording(seed + number))
        for number, (entity, start) in enumerate(zip(ENTITIES, starts, strict=True))
    }

    def fresh() -> Stream:
        return detector.stream(every=every, reorder=reorder)

    rows = arriving(data, clock, reorder, generator)
    said = said_in_pieces(fresh, rows, most, generator)
    expected, found = whole(detector, clock, data), final(*said)
    assert by_time(found[0]) == by_time(expected[0])
    assert by_time(found[1]) == by_time(expected[1])
    # What is not final yet does not depend on the sizes of pushes either.
    at_once = said_at_once(fresh, rows)
    for entity in ENTITIES:
        assert of_entity(entity, said) == of_entity(entity, at_once)


@pytest.fixture
def counting(detectors) -> Detector:
    return detectors["robust-z", COUNTED]


def quiet(rows: int, seed: int = 1) -> np.ndarray:
    return noise(rows, np.random.default_rng(seed))


def test_a_fault_is_announced_confirmed_and_closed(counting):
    values = quiet(9 * LENGTH, seed=2)
    values[166:176, 2] += 30
    said = said_at_once(counting.stream, {"x": (np.arange(len(values)), values)})
    announced, *_, last = said[1]
    assert (announced.provisional, announced.open, announced.final) == (True, True, False)
    assert announced.start == 166
    confirming = [interval for interval in said[1] if interval.replaces]
    assert [interval.replaces for interval in confirming] == [(announced.id,)]
    assert (last.id, last.start, last.end, last.open, last.final) == (confirming[0].id, 166, 176, False, True)
    assert list(last.variables) == ["c"]
    verdicts = [verdict for verdict in said[0] if verdict.anomalous]
    assert [(verdict.start, verdict.end, verdict.final) for verdict in verdicts] == [
        (136, 168, False), (144, 176, False), (152, 184, False), (160, 192, True), (168, 200, False),
    ]  # fmt: skip
    assert all(list(verdict.variables) == ["c"] for verdict in verdicts)


def test_a_provisional_alarm_that_is_not_confirmed_is_withdrawn(detectors):
    detector, values = detectors["ensemble", COUNTED], quiet(9 * LENGTH, seed=9)
    values[156:164] *= 2  # half of it in each of two observations
    _, intervals = said_at_once(detector.stream, {"x": (np.arange(len(values)), values)})
    announced = {interval.id for interval in intervals if interval.provisional and interval.open}
    withdrawn = {interval.id for interval in intervals if interval.withdrawn}
    confirmed = {name for interval in intervals for name in interval.replaces}
    assert withdrawn | confirmed == announced
    assert not withdrawn & confirmed
    assert withdrawn


def test_without_provisional_verdicts_everything_is_final(counting):
    values = quiet(4 * LENGTH)
    values[40:45, 0] += 30
    stream = counting.stream(every=0)
    verdicts = stream.push_many("x", range(len(values)), values).verdicts
    assert [verdict.start for verdict in verdicts] == [0, LENGTH, 2 * LENGTH, 3 * LENGTH]
    assert all(verdict.final for verdict in verdicts)


def test_rows_that_come_late_twice_or_off_the_clock_are_refused_and_counted(detectors):
    stream = detectors["robust-z", DATED].stream(reorder=2)
    row = np.zeros(4)
    for minute in (100, 101, 103, 102, 104, 99, 103, 106.05, 108.4, 500, 120):
        stream.push("x", round(minute * MINUTE), row)
    assert stream.counts == {
        "rows": 7, "late": 2, "repeated": 1, "off_clock": 1, "unknown_values": 0, "infinite_values": 0,
    }  # fmt: skip


def test_variables_are_matched_by_name_and_strange_values_are_ignored(counting):
    stream, other = counting.stream(), counting.stream()
    values = quiet(2 * LENGTH)
    values[5, 1] = np.nan
    for i, (a, b, c, d) in enumerate(values):
        stream.push("x", i, {"d": d, "a": a, "c": c, "speed": 1.0, **({"b": b} if i != 5 else {})})
    infinite = values.copy()
    infinite[5, 1] = np.inf
    other.push_many("x", range(len(values)), infinite[:, ::-1], names=NAMES[::-1])
    assert stream.flush() == other.flush()
    assert stream.counts["unknown_values"] == len(values)
    assert other.counts["infinite_values"] == 1


def test_columns_of_data_frames_are_matched_by_name(counting):
    values = quiet(2 * LENGTH)
    values[40:45, 0] += 30
    frame, times = pd.DataFrame(values, columns=NAMES), range(len(values))
    said = []
    for rows in (values, frame, frame[list(NAMES[::-1])], frame.astype(object), pd.DataFrame(values)):
        stream = counting.stream()
        said.append((stream.push_many("x", times, rows), stream.flush()))
    assert all(update == said[0] for update in said)
    assert any(verdict.anomalous for verdict in said[0][0].verdicts)
    stream, by_row = counting.stream(), []
    for i, row in frame[list(NAMES[::-1])].iterrows():
        by_row += stream.push("x", i, row).verdicts
    assert tuple(by_row) == said[0][0].verdicts
    known = {"names": ["a", "x", "c", "d"]}
    assert counting.stream().push_many("x", times, frame.rename(columns={"b": "x"}), **known).verdicts
    polars = pytest.importorskip("polars", reason="polars is not installed")
    rows = polars.DataFrame({name: values[:, k] for k, name in reversed(list(enumerate(NAMES)))})
    assert counting.stream().push_many("x", times, rows) == said[0][0]


def test_times_may_be_written_in_many_ways(detectors):
    detector, values = detectors["robust-z", DATED], quiet(LENGTH)
    times = pd.date_range("2026-03-01", periods=LENGTH, freq="1min", tz="Europe/Berlin")
    said = []
    for written in (
        times,
        times.as_unit("ns").asi8,
        times.tz_convert(None).to_numpy(),
        list(times),
        [str(time) for time in times],
    ):
        stream = detector.stream()
        said.append((stream.push_many("x", written, values), stream.flush()))
    assert all(update == said[0] for update in said)
    assert said[0][0].verdicts[0].start == times[0].value


def test_a_gap_costs_nothing_and_does_not_grow_the_state(detectors):
    stream = detectors["robust-z", DATED].stream()
    values = quiet(3 * LENGTH)
    stream.push_many("x", np.arange(len(values)) * MINUTE, values)
    later = 50_000_000 * MINUTE  # 95 years
    update = stream.push_many("x", later + np.arange(len(values)) * MINUTE, values)
    (missing,) = [interval for interval in update.intervals if interval.final]
    assert (missing.kind, missing.start, missing.end) == ("missing", len(values) * MINUTE, later)
    assert len(stream.state("x")) < 10_000 + 6 * LENGTH * len(NAMES) * 8


def test_an_endless_anomaly_is_cut_so_that_state_stays_bounded(counting, monkeypatch):
    monkeypatch.setattr(judge, "LONGEST", 3)
    wild = 40.0 + quiet(24 * LENGTH)
    stream, found, sizes = counting.stream(every=0), [], []
    for i in range(0, len(wild), LENGTH):
        found += stream.push_many("x", range(i, i + LENGTH), wild[i : i + LENGTH]).intervals
        sizes.append(len(stream.state("x")))
    found += stream.flush().intervals
    spans = [(interval.start, interval.end) for interval in found if interval.final]
    assert spans == [(start, start + 3 * LENGTH) for start in range(0, 24 * LENGTH, 3 * LENGTH)]
    assert max(sizes[12:]) < 1.05 * max(sizes[:12])


def test_all_entities_are_saved_and_loaded(counting, tmp_path):
    values, stream, other = quiet(5 * LENGTH), counting.stream(), counting.stream()
    for name in ENTITIES:
        stream.push_many(name, range(50), values[:50])
    stream.save(tmp_path / "state")
    other.load(tmp_path / "state")
    assert other.entities == ENTITIES
    assert other.counts == stream.counts
    for name in ENTITIES:
        assert other.push_many(name, range(50, 160), values[50:]) == stream.push_many(name, range(50, 160), values[50:])
    stream.forget("y")
    assert stream.entities == ("x", "new")


def test_states_that_do_not_fit_are_refused(counting, detectors, tmp_path):
    stream = counting.stream()
    stream.push_many("x", range(50), quiet(50))
    state = stream.state("x")
    for other in (detectors["ensemble", COUNTED].stream(), counting.stream(reorder=5)):
        with pytest.raises(DataError, match="belongs to another model"):
            other.restore("x", state)
    with pytest.raises(DataError, match="that of 'x'"):
        stream.restore("y", state)
    for damaged in (state[:-1], state[:40], state + b"x"):
        with pytest.raises(DataError, match="damaged"):
            stream.restore("x", damaged)
    with pytest.raises(DataError, match="these bytes are none"):
        stream.restore("x", b"pickle")
    with pytest.raises(DataError, match="no entity 'y'"):
        stream.state("y")
    with pytest.raises(DataError, match="cannot be read"):
        stream.load(tmp_path / "absent")
    (tmp_path / "torn").write_bytes(b"torn")
    with pytest.raises(DataError, match="these bytes are none"):
        stream.load(tmp_path / "torn")
    (tmp_path / "one").write_bytes(len(state).to_bytes(8, "little") + state)
    with pytest.raises(DataError, match="a whole stream"):
        stream.load(tmp_path / "one")
    assert stream.entities == ("x",)


def test_mistakes_are_one_sentence(counting, detectors):
    with pytest.raises(ConfigError, match="a whole number of rows from 0 to 32"):
        counting.stream(every=33)
    for every in (1.5, math.nan):
        with pytest.raises(ConfigError, match=f"but got {every}"):
            counting.stream(every=every)
    with pytest.raises(DataError, match="from 1780000000 to 1780000300, look like seconds or milliseconds"):
        detectors["robust-z", DATED].stream().push_many("x", range(1_780_000_000, 1_780_000_301, 60), np.zeros((6, 4)))
    with pytest.raises(ConfigError, match="`reorder` must be 0 rows or more"):
        counting.stream(reorder=-1)
    with pytest.raises(ConfigError, match="but the model was fitted to one every"):
        detectors["robust-z", DATED].stream(clock=Clock(interval=2 * MINUTE, dated=True))
    with pytest.raises(DataError, match="4 variables"):
        counting.stream().push("x", 0, [1.0, 2.0])
    with pytest.raises(DataError, match="as many times"):
        counting.stream().push_many("x", [0], np.zeros((2, 4)))
    with pytest.raises(DataError, match="a time must be a row number"):
        counting.stream().push("x", "2026-01-01", np.zeros(4))
    with pytest.raises(DataError, match="Times must be datetimes"):
        detectors["robust-z", DATED].stream().push("x", "noon", np.zeros(4))
    with pytest.raises(DataError, match="a name of its own"):
        counting.stream().push_many("x", [0], np.zeros((1, 2)), names=["a", "a"])
    with pytest.raises(DataError, match=r"the 4 variables of the model, but they lack d and have x; rename them, or"):
        counting.stream().push_many("x", [0], pd.DataFrame(np.zeros((1, 4)), columns=["a", "b", "c", "x"]))
    with pytest.raises(DataError, match=r"but they lack b, c, d; rename"):
        counting.stream().push("x", 0, pd.Series({"a": 1.0}))
    audit = find("ensemble")(length=8, mode="audit", kernels=2).fit(quiet(400))
    with pytest.raises(ConfigError, match="needs the whole record"):
        audit.stream()


ODD_VALUES = (
    "abc",
    ["a", 1, 2, 3],
    [1, [2, 3], 4, 5],
    [1j, 0, 0, 0],
    {"a": "x"},
    {"a": [1, 2]},
    pd.Series(list("abcd")),
)


@pytest.mark.parametrize("row", ODD_VALUES, ids=repr)
def test_values_that_are_no_numbers_are_refused_and_nothing_is_stored(counting, row):
    stream = counting.stream()
    with pytest.raises(DataError, match=r"Values must be numbers|Rows must have the shape"):
        stream.push("x", 0, row)
    assert stream.entities == ()
    assert not any(stream.counts.values())


@pytest.mark.parametrize(
    ("rows", "refusal"),
    [
        (pd.date_range("2026", periods=4).to_numpy()[None], "Values must be numbers"),
        (pd.DataFrame({"a": [pd.Timestamp(0)], "b": [0], "c": [0], "d": [0]}), "Values must be numbers"),
        ([[0, 1, 2, 3], [0, 1]], "Values must be numbers"),
        (None, "Rows must have the shape"),
        (5, "Rows must have the shape"),
    ],
)
def test_rows_that_are_no_table_of_numbers_are_refused(counting, rows, refusal):
    with pytest.raises(DataError, match=refusal):
        counting.stream().push_many("x", [0], rows)


@pytest.mark.parametrize(
    "time",
    [
        None,
        "noon",
        1.7e9,
        float("nan"),
        2**70,
        np.uint64(2**63 + 1),
        [1, 2],
        {},
        pd.NaT,
        b"x",
        np.datetime64("9999-01-01"),
    ],
    ids=repr,
)
def test_times_that_are_none_are_refused(counting, detectors, time):
    for stream in (counting.stream(), detectors["robust-z", DATED].stream()):
        with pytest.raises(DataError, match=r"must be a row number|Times must be"):
            stream.push("x", time, np.zeros(4))
        assert stream.entities == ()


def test_times_must_be_one_per_row_and_the_entity_a_text(counting):
    for times in (None, 5, [[0]], [[0], [0, 1]]):
        with pytest.raises(DataError, match="a sequence with one time per row"):
            counting.stream().push_many("x", times, np.zeros((1, 4)))
    for entity in (None, 5, ["x"]):
        with pytest.raises(DataError, match="An entity must be a text"):
            counting.stream().push(entity, 0, np.zeros(4))


def test_a_model_without_dates_can_judge_rows_with_dates(counting):
    stream, values = counting.stream(clock=DATED), quiet(4 * LENGTH)
    said = said_at_once(lambda: stream, {"x": (np.arange(5, 5 + len(values)) * MINUTE, values)})
    data = {"x": (5 * MINUTE, values, np.ones(len(values), dtype=bool))}
    assert final(*said) == whole(counting, DATED, data)
    assert (said[0][0].start, final(*said)[0][0][2]) == (5 * MINUTE, LENGTH * MINUTE)


def test_provisional_verdicts_wait_until_rows_go_back_a_whole_observation(counting):
    values = quiet(8 * LENGTH)
    arrives = np.r_[0:100, 160:256]
    verdicts = counting.stream().push_many("x", arrives, values[arrives]).verdicts
    provisional = [verdict.start for verdict in verdicts if not verdict.final]
    # The first five of them, which begin at 8, 16, 24, 40 and 48, say what is usual.
    assert provisional == [56, 72, 80, 168, 176, 184, 200, 208, 216]


def test_data_with_the_period_of_an_observation_raises_no_provisional_alarms_and_a_fault_does():
    """Observations of the history begin at midnight, as it were; those of provisional verdicts do not."""
    rows = np.arange(120 * LENGTH)
    day = 2 * np.pi * rows / LENGTH
    shapes = np.stack([np.sin(day), np.cos(day) + 0.3 * np.sin(2 * day), np.maximum(np.sin(day), 0.0) ** 2], axis=1)
    history, values = (shapes + noise(len(rows), np.random.default_rng(seed))[:, :3] * 0.1 for seed in (0, 1))
    detector = find("ensemble")(length=LENGTH).fit(history)
    values = values[: 40 * LENGTH]

    def announced() -> list[LiveInterval]:
        _, intervals = said_at_once(detector.stream, {"x": (np.arange(len(values)), values)})
        return [interval for interval in intervals if interval.provisional and interval.open]

    assert len({interval.id for interval in announced()}) <= 1
    values[30 * LENGTH + 4 : 30 * LENGTH + 20, 1] += 2.0
    first = announced()[-1]
    assert 30 * LENGTH <= first.start < 30 * LENGTH + 8


def test_rows_that_are_no_data_frames_are_not_searched_for_columns(counting, monkeypatch):
    """That would take four times as long as to store a row."""
    stream, values = counting.stream(), quiet(3)
    monkeypatch.setattr("tsadc.detectors.streaming.stream.as_frame", lambda rows: pytest.fail("searched"))
    stream.push("x", 0, values[0])
    stream.push("x", 1, values[1].tolist())
    stream.push("x", 2, dict(zip(NAMES, values[2].tolist(), strict=True)))
    stream.push_many("x", range(3, 6), values)
    stream.push_many("x", range(6, 9), values.tolist())
    assert stream.counts["rows"] == 9
