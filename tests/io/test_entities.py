import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.memory import as_series
from tsadc.io.read import read
from tsadc.io.reading import Reading

HOST = Reading(entity="host")
TIMES = pd.date_range("2024-01-01", periods=6, freq="min")


@given(
    hosts=st.lists(st.sampled_from(["a", "b", "007", "ü 1"]), min_size=1, max_size=40),
    kind=st.sampled_from([object, "category", "string"]),
    data=st.data(),
)
def test_rows_are_divided_by_the_column_that_names_their_entity(hosts, kind, data):
    seen: dict[str, int] = {}
    minutes = []
    for host in hosts:  # each has a clock of its own, without gaps
        seen[host] = seen.get(host, -1) + 1
        minutes.append(seen[host])
    if min(seen.values()) == 0:
        return
    times = TIMES[0] + pd.to_timedelta(minutes, unit="min")
    values = np.arange(2.0 * len(hosts)).reshape(-1, 2)
    frame = pd.DataFrame({"a": values[:, 0], "host": pd.Series(hosts, dtype=kind), "time": times, "b": values[:, 1]})
    found = as_series(frame, reading=HOST)
    assert [one.entity for one in found] == list(dict.fromkeys(hosts))
    for one in found:
        mine = [i for i, host in enumerate(hosts) if host == one.entity]
        np.testing.assert_array_equal(one.values, values[mine])
        assert one.names == ("a", "b")
        assert one.clock.start == TIMES[0].value


def test_entities_are_names_even_where_they_look_like_numbers(tmp_path):
    path = tmp_path / "all.csv"
    path.write_text("host ,a,b\n007,1,2\n007,3,4\nNA,5,6\n7,7,8\n")
    assert [(one.entity, len(one)) for one in read(path, HOST)] == [("007", 2), ("NA", 1), ("7", 1)]
    frame = pd.DataFrame({"host": [1, 1, 2], "a": 1.0, "b": 2.0})
    assert [one.entity for one in as_series(frame, reading=HOST)] == ["1", "2"]


def test_a_counter_that_starts_anew_for_each_entity_is_no_variable():
    frame = pd.DataFrame({"t": [0, 0, 1, 1, 2], "host": list("abaab"), "x": 1.0, "y": 2.0})
    assert as_series(frame.assign(t=[0, 0, 1, 2, 1]), reading=HOST)[0].names == ("x", "y")
    assert as_series(frame.assign(t=[5.5, 0.1, 1, 2, 1]), reading=HOST)[0].names == ("t", "x", "y")


def test_an_index_of_entity_and_time(tmp_path):
    index = pd.MultiIndex.from_product([["p", "q"], TIMES], names=["host", "when"])
    frame = pd.DataFrame({"a": np.arange(12.0), "b": 0.0}, index=index)
    for reading in (HOST, Reading(entity="host", time="when")):
        p, q = as_series(frame, reading=reading)
        assert (p.entity, q.entity) == ("p", "q")
        assert q.values[:, 0].tolist() == [6, 7, 8, 9, 10, 11]
        assert q.clock.start == TIMES[0].value


def write(path, times, host="p", first=0.0, order=("a", "b"), **more):
    frame = pd.DataFrame({"time": times, "host": host, "a": first + np.arange(len(times)), "b": 1.0, **more})
    frame[["time", "host", *order, *more]].to_csv(path, index=False)
    return path


def test_an_entity_in_several_files_is_joined_in_the_order_of_time(tmp_path):
    late = write(tmp_path / "1.csv", TIMES[4:], first=4, order=("b", "a"))
    early = write(tmp_path / "2.csv", TIMES[:3])
    other = write(tmp_path / "3.csv", TIMES, host="q")
    p, q = read([late, early, other], HOST)
    assert (p.entity, q.entity, p.names) == ("p", "q", ("b", "a"))
    np.testing.assert_array_equal(p.values[:, 1], [0, 1, 2, np.nan, 4, 5])
    assert p.clock == q.clock


def refusal(paths, reading=HOST) -> str:
    with pytest.raises(DataError) as caught:
        read(paths, reading)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def test_parts_of_an_entity_that_cannot_be_joined(tmp_path):
    one, two = write(tmp_path / "1.csv", TIMES[:4]), write(tmp_path / "2.csv", TIMES[2:])
    assert refusal([one, two]) == (
        f"Entity 'p' is in both {one} and {two}, and their times overlap at 2024-01-01 00:02:00; remove the overlap "
        "from one of them, or average both with --every (in Python: Reading(every=...))."
    )
    write(two, TIMES[4:].tz_localize("UTC"))
    assert "only one of them has times with a time zone" in refusal([one, two])
    write(two, TIMES[:2] + pd.Timedelta("5min 20s"))
    assert refusal([one, two]).startswith(f"Entity 'p' of {one} and {two} should be sampled regularly, every 1min")
    two.write_text("host,a,b\np,1,2\n")
    assert f", but {two} has no column of times; add it there." in refusal([one, two])
    one.write_text(two.read_text())
    assert "and without a time column their order is unknown" in refusal([one, two])


def test_a_file_without_rows_is_left_out_if_its_entity_has_others(tmp_path):
    one, two = write(tmp_path / "1.csv", TIMES), write(tmp_path / "2.csv", TIMES[:0])
    for reading in (HOST, Reading(entity_name="p", exclude=["host"])):
        with pytest.warns(TsadcNotice, match="2.csv has no rows and was left out"):
            (p,) = read([one, two], reading)
        assert (p.entity, len(p)) == ("p", len(TIMES))
    assert (
        refusal([one, two], Reading(exclude=["host"])) == f"{two} has a header but no rows; add rows of measurements."
    )
    assert refusal([two]).startswith(f"{two} has a header but no rows")


def test_parts_that_overlap_are_averaged_on_a_grid(tmp_path):
    one, two = write(tmp_path / "1.csv", TIMES[:4]), write(tmp_path / "2.csv", TIMES[2:], first=10)
    with pytest.warns(TsadcNotice, match="not sorted by time"):
        (p,) = read([one, two], Reading(entity="host", every="1min"))
    assert p.values[:, 0].tolist() == [0, 1, 6, 7, 12, 13]


def test_a_cell_shared_by_two_files_is_the_mean_of_all_its_values(tmp_path):
    one, two = write(tmp_path / "1.csv", TIMES[:2]), write(tmp_path / "2.csv", TIMES[2:], first=2)
    (p,) = read([one, two], Reading(entity="host", every="3min"))
    assert p.values[:, 0].tolist() == [1, 4]


@pytest.mark.parametrize(
    ("frame", "reading", "expected"),
    [
        (pd.DataFrame({"hots": ["p"], "a": 1.0, "b": 2.0}), HOST, "has no column 'host'; did you mean `hots`"),
        (pd.DataFrame({"host": ["p", None], "a": 1.0, "b": 2.0}), HOST, "the entity column 'host' is empty at row 1"),
        (pd.DataFrame({"host": ["p", " "], "a": 1.0, "b": 2.0}), HOST, "the entity column 'host' is empty at row 1"),
        (
            pd.DataFrame({"host": ["p", "p", "q"], "time": TIMES[:3], "a": 1.0, "b": 2.0}),
            HOST,
            "Entity 'q' of the data has a single row",
        ),
        ({"x": pd.DataFrame({"host": ["p"], "a": 1.0, "b": 2.0})}, HOST, "already maps entity names to series"),
        (pd.DataFrame({"a": [1.0], "b": 2.0}), Reading(every="1min"), "has no time column, so `every` cannot be used"),
        (np.zeros((4, 2)), HOST, "is an array without times and column names"),
        (np.zeros((4, 2)), Reading(every="1min"), "is an array without times and column names"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(frame, reading, expected):
    with pytest.raises(DataError) as caught:
        as_series(frame, reading=reading)
    assert expected in str(caught.value)
