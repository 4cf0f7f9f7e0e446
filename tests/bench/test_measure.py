import numpy as np
import pandas as pd
import pytest

from tsadc.bench.measure import arrays, check_order, measure
from tsadc.data.task import Answers
from tsadc.errors import DataError


def test_parts_and_kinds_are_measured_on_their_own() -> None:
    kinds = ((), ("x",), (), ("y",), ("x", "y"), ())
    answers = Answers(kinds, tuple("aaabbb"), {"b alone": np.array([False] * 3 + [True] * 3)})
    table = pd.DataFrame({"score": [0.0, 3.0, 2.0, 1.0, 4.0, 1.5], "left_score": [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]})
    table["anomalous"] = table["score"] > 1.8
    found = measure(table, answers)
    assert found["auroc"] == pytest.approx(7 / 9, abs=1e-5)
    assert (found["precision"], found["recall"]) == (pytest.approx(2 / 3, abs=1e-5), pytest.approx(2 / 3, abs=1e-5))
    assert found["flagged"] == 0.5
    assert found["kinds"] == {"x": 1.0, "y": pytest.approx(4 / 6, abs=1e-5)}
    assert found["parts"]["b alone"]["auroc"] == 0.5
    assert set(found["parts"]["b alone"]) == {"auroc", "ap"}
    one_kind = Answers(((), ("x",)), ("a", "a"))
    assert measure(table[:2], one_kind)["kinds"] == {}


def test_scores_must_be_of_the_observations_there_are_answers_to() -> None:
    answers = Answers(((), ("x",)), ("a", "b"))
    check_order(pd.DataFrame({"entity": ["a", "b"]}), answers)
    with pytest.raises(DataError, match="Expected scores of the 2 labelled observations in their order, but"):
        check_order(pd.DataFrame({"entity": ["b", "a"]}), answers)


def test_arrays_hold_all_that_measuring_needs() -> None:
    table = pd.DataFrame({"score": [0.5, 2.0], "left_score": [0.25, 1.0]})
    found = arrays(table, Answers(((), ("x", "y")), ("a", "b")), 1.5)
    assert {name: array.tolist() for name, array in found.items()} == {
        "score": [0.5, 2.0],
        "left_score": [0.25, 1.0],
        "anomalous": [False, True],
        "entity": ["a", "b"],
        "kinds": ["", "x|y"],
        "threshold": 1.5,
    }
    assert found["left_score"].dtype == np.float32
