from collections import Counter

import numpy as np
import pytest

from tsadc.data.contaminate import anomalous_count, halves
from tsadc.data.task import Task
from tsadc.errors import DataError

KINDS = [()] * 40 + [("x",), ("y",), ("z",), ("x", "y")] * 20
VALUES = np.arange(120.0)[:, None, None] * np.ones((1, 8, 2))


def places(task: Task) -> tuple[list[int], list[int]]:
    """Which observations train, and which are scored."""
    train, test = (given[:, 0, 0].astype(int).tolist() for given in (task.train, task.test))
    return train, test


def test_halves_give_every_observation_to_one_part() -> None:
    values = np.arange(30.0)[:, None, None] * np.ones((1, 8, 2))
    kinds = [("x",) if i % 3 else () for i in range(30)]
    task = halves(values, kinds, 0.2, 4)
    train, test = (given[:, 0, 0].astype(int).tolist() for given in (task.train, task.test))
    assert sorted(train + test) == list(range(30))
    assert sum(not kinds[i] for i in train) == 5
    assert sum(bool(kinds[i]) for i in train) == 1  # of 6
    assert task.answers.kinds == tuple(kinds[i] for i in test)
    again, other = halves(values, kinds, 0.2, 4), halves(values, kinds, 0.2, 5)
    np.testing.assert_array_equal(again.train, task.train)
    assert not np.array_equal(other.train, task.train)


def test_the_test_part_is_the_same_for_every_share_and_number_of_kinds() -> None:
    tasks = [
        halves(VALUES, KINDS, eta, 3, kappa=kappa, fixed_test=True) for eta in (0.0, 0.2, 0.3) for kappa in (None, 2, 3)
    ]
    tests = [places(task)[1] for task in tasks]
    assert all(test == tests[0] for test in tests)
    assert len(tests[0]) == 60
    assert sum(bool(KINDS[i]) for i in tests[0]) == 40
    assert all(not set(places(task)[0]) & set(tests[0]) for task in tasks)
    assert tasks[0].answers.kinds == tuple(KINDS[i] for i in tests[0])


def test_normal_observations_train_as_without_options() -> None:
    plain, varied = (
        places(task)[0] for task in (halves(VALUES, KINDS, 0.2, 3), halves(VALUES, KINDS, 0.2, 3, fixed_test=True))
    )
    assert [i for i in plain if not KINDS[i]] == [i for i in varied if not KINDS[i]]


@pytest.mark.parametrize(("eta", "anomalous"), [(0.0, 0), (0.1, 2), (0.2, 5), (0.3, 9)])
def test_the_share_comes_true_and_less_is_part_of_more(eta: float, anomalous: int) -> None:
    train = places(halves(VALUES, KINDS, eta, 3, fixed_test=True))[0]
    assert sum(bool(KINDS[i]) for i in train) == anomalous  # beside 20 normal ones
    assert set(train) <= set(places(halves(VALUES, KINDS, 0.4, 3, fixed_test=True))[0])


@pytest.mark.parametrize("seed", range(4))
def test_kinds_are_as_many_as_asked_for(seed: int) -> None:
    found = []
    for kappa in (1, 2, 3):
        train = places(halves(VALUES, KINDS, 0.2, seed, kappa=kappa, fixed_test=True))[0]
        found.append(set(Counter(kind for i in train for kind in KINDS[i])))
        assert len(found[-1]) == kappa
    assert found[0] < found[1] < found[2]


def test_what_is_not_there_to_contaminate_with_is_refused() -> None:
    few = [()] * 40 + [("x",)] * 4
    values = VALUES[: len(few)]
    with pytest.raises(DataError, match="needs 5 anomalous ones, but the data set has 2 to draw from"):
        halves(values, few, 0.2, 0, fixed_test=True)
    with pytest.raises(DataError, match="1 kinds of anomaly can contaminate alone, but 2 were requested"):
        halves(values, few, 0.1, 0, kappa=2, fixed_test=True)
    with pytest.raises(DataError, match=r"A share of 0\.1 is 2 observations, too few to show 3 kinds"):
        halves(VALUES, KINDS, 0.1, 0, kappa=3, fixed_test=True)


def test_a_share_is_of_all_that_train() -> None:
    assert anomalous_count(0.2, 80, 100, "it") == 20
    assert anomalous_count(0.0, 80, 0, "it") == 0
    with pytest.raises(DataError, match="needs 20 anomalous ones, but it has 19"):
        anomalous_count(0.2, 80, 19, "it")
