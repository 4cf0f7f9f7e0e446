import re

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsadc.show.charts import area, edges, envelope, heat, highest, line, place

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
