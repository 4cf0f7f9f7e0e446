import pytest

from tsadc.series import Clock
from tsadc.show.chance import by_chance, false_alarms, graded

MINUTES = Clock(0, 60 * 10**9, dated=True)
ROWS = Clock(0, 1, dated=False)
A_WEEK = 1 / 84  # of observations of 2 hours


@pytest.mark.parametrize(
    ("found", "expected", "sentence"),
    [
        (0, 0.04, "Fewer than 0.1 false alarms are to be expected in this much data."),
        (7, 0.04, "Fewer than 0.1 false alarms are to be expected in this much data."),
        (7, 0.43, "About 0.4 false alarms are to be expected in this much data, most likely slight ones."),
        (7, 1.0, "About 1 false alarm is to be expected in this much data, most likely a slight one."),
        (7, 2.04, "About 2 false alarms are to be expected in this much data, most likely slight ones."),
        (0, 2.4, "About 2.4 false alarms are to be expected in this much data."),
        (2000, 1234.5, "About 1,234 false alarms are to be expected in this much data, most likely slight ones."),
    ],
)
def test_the_expected_number_of_false_alarms(found, expected, sentence):
    assert false_alarms(found, expected, A_WEEK, 120, MINUTES) == sentence


@pytest.mark.parametrize(
    ("clock", "share", "often"), [(MINUTES, 1 / 5, "once in 10 hours"), (ROWS, 1 / 20, "once in 2,400 rows")]
)
def test_a_threshold_that_is_exceeded_more_than_twice_a_week_is_called_loose(clock, share, often):
    assert false_alarms(9, 3.0, share, 120, clock) == (
        "About 3 false alarms are to be expected in this much data, most likely slight ones. The threshold is loose: "
        f"normal operation of an entity exceeds it about {often}, so slight intervals say little. A longer "
        "history, or fewer accepted alarms (--alarms), would make it stricter."
    )
    assert "loose" not in false_alarms(0, 3.0, share, 120, clock)
    assert "loose" not in false_alarms(9, 3.0, 2 / 84, 120, clock)


def test_a_severity_below_one_is_a_word():
    assert graded(0.3, "once in 3 hours") == "slight (once in 3 hours)"
    assert graded(1.0, "once in 36 hours") == "severity 1 (once in 36 hours)"
    assert graded(99.9, "once in 20 years") == "severity > 99 (once in 20 years)"


def test_report_and_notebook_say_it(result, calm, tmp_path):
    for found in (result, calm):
        sentence = by_chance(found)
        assert sentence in found.report(tmp_path / "report.html").read_text()
        assert sentence in found._repr_html_()
