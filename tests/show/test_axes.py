import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.series import Clock
from tsadc.show.axes import plain, time_ticks, value_ticks
from tsadc.show.words import Times

MINUTE = 60 * 10**9


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 8))
def test_value_ticks_are_few_even_and_inside(low, size, most):
    ticks = value_ticks(low, low + size, most)
    assert len(ticks) <= most
    assert all(low - 1e-6 * size <= tick <= low + size + 1e-6 * size for tick in ticks)
    if len(ticks) > 2:
        np.testing.assert_allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-3)


def test_value_ticks_are_round():
    assert value_ticks(-0.3, 1.1, 4) == [0.0, 0.5, 1.0]
    assert value_ticks(980, 1720, 4) == [1000, 1200, 1400, 1600]
    assert value_ticks(1, 1) == []


def test_labels_have_the_decimals_they_need():
    assert plain([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert plain([-1000.0, 0.0]) == ["\N{MINUS SIGN}1,000", "0"]
    assert plain([]) == []


def test_hours_and_midnight():
    clock = Clock(pd.Timestamp("2026-01-13 20:30").value, MINUTE, dated=True)
    ticks = time_ticks(Times(clock), 0, 360, 7)
    assert [tick.label for tick in ticks] == ["21:00", "22:00", "23:00", "14 Jan", "01:00", "02:00"]
    np.testing.assert_allclose([tick.place for tick in ticks], (30 + 60 * np.arange(6)) / 360)


def test_ticks_jump_with_the_clock_in_spring():
    clock = Clock(pd.Timestamp("2026-03-29 00:00", tz="UTC").value, MINUTE, dated=True, timezone="Europe/Berlin")
    ticks = {tick.label: tick.place for tick in time_ticks(Times(clock), 0, 240, 7)}
    assert ticks["01:00"] == 0
    assert ticks["03:00"] == 60 / 240
    assert ticks["04:00"] == 120 / 240


@pytest.mark.parametrize("days", [0.001, 0.5, 3, 20, 90, 400, 4000])
def test_any_span_gets_some_ticks_but_not_many(days):
    clock = Clock(pd.Timestamp("2020-01-17 03:20").value, max(int(days * 86_400 * 10**9) // 500, 1), dated=True)
    ticks = time_ticks(Times(clock), 0, 500, 7)
    assert 2 <= len(ticks) <= 7
    assert all(0 <= tick.place <= 1 for tick in ticks)
    assert (np.diff([tick.place for tick in ticks]) > 0).all()


def test_undated_ticks_are_row_numbers():
    ticks = time_ticks(Times(Clock()), 100, 1100, 6)
    assert [(tick.label, tick.place) for tick in ticks] == [
        ("200", 0.1),
        ("400", 0.3),
        ("600", 0.5),
        ("800", 0.7),
        ("1,000", 0.9),
    ]
