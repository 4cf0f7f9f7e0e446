import pytest

from tsadc.errors import ConfigError, DataError
from tsadc.io.reading import DEFAULT, Reading, choose, reason, spell

MINUTE = 60 * 10**9


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1min", MINUTE), ("30s", MINUTE // 2), ("1.5h", 90 * MINUTE), ("1min 30s", 90 * 10**9), ("2D", 2880 * MINUTE)],
)
def test_a_step_is_a_length_of_time(text, expected):
    assert Reading(every=text).interval == expected


def test_nothing_said_is_no_step():
    assert DEFAULT.interval is None


@pytest.mark.parametrize("text", ["", "5", "soon", "-1min", "0s", "1M", "NaT", "0.1ns", "min", "99999999D"])
def test_a_step_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="`every` must be a length of time such as 30s, 1min or 2h, but got"):
        Reading(every=text)


@pytest.mark.parametrize("interval", [1, 999, 1000, 10**6, 10**9, 90 * 10**9, MINUTE, 60 * MINUTE, 2880 * MINUTE])
def test_a_step_is_spelt_so_that_it_is_read_back(interval):
    assert Reading(every=spell(interval)).interval == interval


def test_steps_are_spelt_in_their_largest_unit():
    assert [spell(n * 10**6) for n in (1, 1000, 60_000, 3_600_000, 86_400_000)] == ["1ms", "1s", "1min", "1h", "1D"]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"rate": 0}, "`rate` must be a positive number of Hz"),
        ({"rate": float("nan")}, "`rate` must be"),
        ({"columns": "a"}, "`columns` must be a list of names, but got 'a'"),
        ({"columns": []}, "`columns` must be"),
        ({"time": "ts", "entity": "ts"}, "`entity` must be another column than `time`"),
        ({"stream": True, "every": "1min"}, "cannot be combined with `every`; drop one"),
        ({"stream": True, "entity": "host"}, "cannot be combined with `entity`; drop one"),
    ],
)
def test_settings_that_do_not_fit(settings, expected):
    with pytest.raises(ConfigError, match=expected):
        Reading(**settings)


def test_variables_are_picked_in_the_order_given_and_renamed():
    reading = Reading(columns=["c", "a"], rename={"a": "heat", "b": "unused"})
    assert reading.columns == ("c", "a")
    assert choose("abc", reading, "The data") == ([2, 0], ("c", "heat"))
    assert choose("abc", DEFAULT, "The data") == ([0, 1, 2], ("a", "b", "c"))


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        (Reading(columns=("heat", "flwo")), "The data has no column 'flwo'; did you mean `flow`?"),
        (Reading(rename={"x": "y"}), "The data has no column 'x'; there are `heat`, `flow`."),
        (Reading(rename={"heat": "flow"}), "The data would have two variables named 'flow'"),
        (Reading(columns=("heat", "heat")), "The data would have two variables named 'heat'"),
    ],
)
def test_names_that_are_not_there_or_come_twice(reading, expected):
    with pytest.raises(DataError) as caught:
        choose(["heat", "flow"], reading, "The data")
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize(
    ("interval", "text"), [(3_906_250, "3.90625ms"), (2_777_778, "2.777778ms"), (1500 * 10**6, "1500ms")]
)
def test_fractions_of_a_second_are_spelled_with_few_digits(interval, text):
    assert spell(interval) == text
    assert Reading(every=text).interval == interval


def test_the_words_of_programmers_are_not_passed_on():
    assert reason(IndexError("list index out of range")) == "it is empty, cut off or damaged"
    assert reason(ValueError("bad magic. Call us")) == "bad magic"


def test_a_reason_that_quotes_the_file_is_cut() -> None:
    assert reason(ValueError("x" * 5000)) == "x" * 300 + " ..."
