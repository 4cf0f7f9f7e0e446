import numpy as np
import pytest

from tsadc.errors import DataError
from tsadc.evaluate.inputs import as_flags, flagged_rows, scored_rows

LABELS = np.array([False, True, False])


def test_numbers_stand_for_booleans() -> None:
    labels, flags = flagged_rows(np.array([0, 1, 1]), np.array([1.0, 0.0, 1.0]))
    assert labels.tolist() == [False, True, True]
    assert flags.tolist() == [True, False, True]
    assert labels.dtype == flags.dtype == np.bool_


def test_what_is_given_stays_as_it_is() -> None:
    flags = LABELS.copy()
    found = as_flags(flags)
    found[0] = True
    assert flags.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("labels", "flags", "sentence"),
    [
        (
            [True, False],
            [True, False, True],
            r"Each of the 3 rows needs one label, but the labels have the shape \(2,\)",
        ),
        ([True, True], [True, False], "they are all alike"),
        ([False, False], [True, False], "they are all alike"),
        ([], [], "they are all alike"),
        ([0, 1], [0.0, np.nan], "A flag must be True or False, 1 or 0, but that of row 1 is nan"),
        ([0, 2], [0, 1], "A label must be True or False, 1 or 0, but that of row 1 is 2"),
    ],
)
def test_flags_that_cannot_be_judged_are_refused(labels: list, flags: list, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        flagged_rows(np.array(labels), np.array(flags))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_scores_must_be_finite(bad: float) -> None:
    with pytest.raises(DataError, match=f"that of row 2 is {bad}"):
        scored_rows(LABELS, np.array([0.0, 1.0, bad]))


def test_scores_and_labels_pass() -> None:
    labels, scores = scored_rows(LABELS, np.array([1, 2, 3]))
    assert labels.tolist() == LABELS.tolist()
    assert scores.tolist() == [1.0, 2.0, 3.0]
