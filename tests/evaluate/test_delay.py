import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import DataError
from tsadc.evaluate.delay import Delay, delay
from tsadc.windows import runs

pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def test_by_hand() -> None:
    """Found after 2 rows; missed, though flagged just before and after; found at once by an earlier alarm."""
    labels = np.array([0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1], dtype=bool)
    flags = np.array([0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0], dtype=bool)
    assert delay(labels, flags) == Delay(
        (2, None, 0), pytest.approx(2 / 3), pytest.approx(2 / 3), 1.0, pytest.approx(3 / 5)
    )


@given(pairs)
def test_equals_the_definition(rows: list[tuple[bool, bool]]) -> None:
    labels, flags = np.array([label for label, _ in rows]), np.array([flag for _, flag in rows])
    waits = [next((i - a for i in range(a, b) if flags[i]), None) for a, b in runs(labels)]
    found = delay(labels, flags)
    heard = [wait for wait in waits if wait is not None]
    assert found.delays == tuple(waits)
    assert found.detected == pytest.approx(len(heard) / len(waits))
    assert found.median == (pytest.approx(np.median(heard)) if heard else None)
    assert found.alarms == pytest.approx(sum(f for label, f in rows if not label) / sum(not label for label, _ in rows))


def test_flagging_everything_is_as_fast_as_can_be_and_says_at_what_price() -> None:
    labels = np.arange(20) % 5 == 0
    assert delay(labels, np.ones(20, dtype=bool)) == Delay((0, 0, 0, 0), 1.0, 1.0, 0.0, 1.0)


def test_nothing_flagged() -> None:
    assert delay(np.array([True, False]), np.array([False, False])) == Delay((None,), 0.0, None, None, 0.0)


def test_refusals() -> None:
    with pytest.raises(DataError, match="all alike"):
        delay(np.array([False, False]), np.array([True, False]))
    with pytest.raises(DataError, match="Each of the 1 rows"):
        delay(np.array([True, False]), np.array([True]))
