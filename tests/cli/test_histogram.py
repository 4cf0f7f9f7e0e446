import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tsadc.cli.histogram import LINES, WIDTH, histogram


def read(line: str) -> tuple[str, int, int]:
    """Where the range begins, the length of its bar, the number in it."""
    begins, bar, number = line[:11].strip(), line[12 : 12 + WIDTH], line[12 + WIDTH :]
    assert set(bar) <= {"#", " "}
    return begins, bar.count("#"), int(number)


def test_bars_by_hand():
    scores = np.array([0.0] * 4 + [4.5] * 10 + [6.0] + [15.5] * 5 + [99.0])
    # The highest fiftieth is from 65.6 on, so that of 16 ranges 2 lie below the threshold, 14 of 4.114 above.
    lines = histogram(scores, 8.0)
    assert lines[2] == f"  threshold {'-' * WIDTH} 6 above"
    found = [read(line) for line in lines[:2] + lines[3:]]
    assert len(found) == LINES
    assert found[:4] == [("0", 15, 4), ("4", 40, 11), ("8", 0, 0), ("12.11", 19, 5)]
    assert found[4:-1] == [(begins, 0, 0) for begins, _, _ in found[4:-1]]
    assert found[-1] == ("61.49", 4, 1)


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-1e6, 1e6)), st.floats(-2e6, 2e6))
def test_every_score_is_in_one_range_on_its_side_of_the_threshold(scores, threshold):
    lines = histogram(scores, threshold)
    (place,) = [i for i, line in enumerate(lines) if line.startswith("  threshold ---")]
    assert len(lines) <= LINES + 1
    assert sum(read(line)[2] for line in lines[:place]) == (scores <= threshold).sum()
    assert sum(read(line)[2] for line in lines[place + 1 :]) == (scores > threshold).sum()


@pytest.mark.parametrize("threshold", [0.5, 1.0, 2.0])
def test_scores_that_are_all_alike(threshold):
    lines = histogram(np.ones(5), threshold)
    assert f"{5 if threshold < 1 else 0} above" in "\n".join(lines)
