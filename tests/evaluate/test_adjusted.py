import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import ConfigError, DataError
from tsadc.evaluate.adjusted import WHY_NOT, point_adjusted
from tsadc.evaluate.ranking import Cut, cut
from tsadc.windows import runs

LABELS = np.array([0, 1, 1, 1, 1, 0, 0, 1, 1, 0], dtype=bool)
pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def test_it_has_to_be_asked_for() -> None:
    with pytest.raises(ConfigError, match="misleading=True"):
        point_adjusted(LABELS, LABELS)


def test_by_hand() -> None:
    """One row of four found is four; one false alarm; the other event is missed."""
    flags = np.array([1, 0, 0, 1, 0, 0, 0, 0, 0, 0], dtype=bool)
    found = point_adjusted(LABELS, flags, misleading=True)
    assert found.cut == Cut(4 / 5, pytest.approx(4 / 6), pytest.approx(2 * 4 / (5 + 6)))
    assert cut(LABELS, flags).f1 == pytest.approx(2 / 8)


def test_the_value_comes_with_its_warning() -> None:
    found = point_adjusted(LABELS, LABELS, misleading=True)
    assert found.why_not == WHY_NOT
    assert "thrown at random" in found.why_not


@given(pairs)
def test_it_is_never_below_the_plain_figure(rows: list[tuple[bool, bool]]) -> None:
    labels, flags = np.array([label for label, _ in rows]), np.array([flag for _, flag in rows])
    found = point_adjusted(labels, flags, misleading=True).cut
    plain = cut(labels, flags)
    touched = sum(b - a for a, b in runs(labels) if flags[a:b].any())
    assert found.recall == pytest.approx(touched / labels.sum())
    assert found.precision >= plain.precision
    assert found.f1 >= plain.f1


def test_random_flags_get_a_high_value() -> None:
    """Events of 200 rows, a tenth of all; one row in fifty is flagged at random. So the sentence is true."""
    labels = np.arange(40000) % 2000 < 200
    flags = np.random.default_rng(0).random(40000) < 0.02
    assert cut(labels, flags).f1 < 0.05
    assert point_adjusted(labels, flags, misleading=True).cut.f1 > 0.85


def test_refusals() -> None:
    with pytest.raises(DataError, match="only one sort"):
        point_adjusted(np.array([True, True]), np.array([True, False]), misleading=True)
