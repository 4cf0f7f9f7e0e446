import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsadc.series import Clock
from tsadc.show.charts import area, edges, envelope, heat, highest, line, place, tick_labels, time_ticks, value_ticks
from tsadc.show.words import Times

MINUTE = 60 * 10**9
values = arrays(np.float64, st.integers(1, 300), elements=st.floats(-1e6, 1e6) | st.just(np.nan))


@given(values, st.integers(1, 40))
def test_envelope_keeps_the_extremes_of_every_column(series, columns):
    rows = envelope(series, columns)
    assert len(rows) <= 2 * columns
    assert (np.diff(rows) > 0).all()
    kept = series[rows]
    if np.isfinite(series).any():
        assert np.nanmax(kept) == np.nanmax(series)
        assert np.nanmin(kept) == np.nanmin(series)
    if len(series) > 2 * columns:
        width = -(-len(series) // columns)
        for start in range(0, len(series), width):
            inside = series[start : start + width]
            shown = series[rows[(rows >= start) & (rows < start + width)]]
            if np.isfinite(inside).any():
                assert np.nanmax(shown) == np.nanmax(inside)
                assert np.nanmin(shown) == np.nanmin(inside)
            else:
                assert np.isnan(shown).all()
                assert len(shown) == 1


@given(values, st.integers(1, 40))
def test_highest_is_the_maximum_of_every_column(series, columns):
    top, borders = highest(series, columns), edges(len(series), columns)
    assert len(top) == len(borders) - 1 <= columns
    for i, value in enumerate(top):
        inside = series[round(borders[i] * len(series)) : round(borders[i + 1] * len(series))]
        inside = inside[np.isfinite(inside)]
        assert value == inside.max() if len(inside) else np.isnan(value)


def test_a_line_breaks_at_gaps_and_a_lonely_value_is_a_dot():
    drawn = line(np.array([0, 0.1, 0.2, 0.3, 0.4]), np.array([0, 1, np.nan, 0.5, np.nan]), "measured")
    assert drawn == '<path d="M0,2000L100,0M300,1000L300,1000" class="measured"></path>'


def test_an_area_rises_only_where_it_exceeds_its_base():
    drawn = area(np.array([0, 0.25, 0.5, 0.75, 1]), np.array([0.2, 0.75, np.nan, 1.0]), 0.5, "above")
    assert drawn == '<path d="M250,1000V500H500V1000M750,1000V0H1000V1000" class="above"></path>'


def test_heat_draws_each_cell_once():
    levels = np.array([[0, 1, 1, 2], [2, 0, 0, 1]])
    covered = np.zeros((3, 2, 4), dtype=int)
    for level, path in enumerate(heat(levels, np.array([0, 0.25, 0.5, 0.75, 1]), 2), start=1):
        for x, row, width in re.findall(r"M(\d+),(\d+)h(\d+)", path):
            covered[level, int(row), int(x) // 250 : (int(x) + int(width)) // 250] += 1
    np.testing.assert_array_equal(covered[1], levels == 1)
    np.testing.assert_array_equal(covered[2], levels == 2)


def test_place_stays_on_the_axis():
    assert place(0.25, 0.5) == "left:25%;width:25%"
    assert place(-1, 2) == "left:0%;width:100%"
    assert place(2, 3) == "left:100%;width:0%"


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
    assert tick_labels([0.0, 0.5, 1.0]) == ["0.0", "0.5", "1.0"]
    assert tick_labels([-1000.0, 0.0]) == ["\N{MINUS SIGN}1,000", "0"]
    assert tick_labels([]) == []


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
