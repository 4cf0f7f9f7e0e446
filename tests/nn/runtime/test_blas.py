import threading
from types import SimpleNamespace

import numpy as np
import pytest
from cores import cores, products
from threadpoolctl import threadpool_limits

from tsadc.detectors.base import Detector
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.nn.runtime import blas
from tsadc.nn.runtime.blas import each_within, single_threaded_blas

PATIENCE = 60  # seconds until a test that would wait for ever fails


def test_products_run_alone_and_have_their_threads_back_afterwards() -> None:
    with threadpool_limits(2, user_api="blas"):
        assert products() == {2}
        with single_threaded_blas():
            assert products() == {1}
            with single_threaded_blas():
                assert products() == {1}
            assert products() == {1}
        assert products() == {2}


def test_the_last_to_leave_lifts_the_limit_whichever_thread_that_is() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with single_threaded_blas():
            entered.set()
            assert leave.wait(PATIENCE)

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=other)
        with single_threaded_blas():
            thread.start()
            assert entered.wait(PATIENCE)
        assert products() == {1}
        leave.set()
        thread.join()
        assert products() == {2}
        with single_threaded_blas():
            assert products() == {1}
        assert products() == {2}


def test_after_an_error_the_limit_is_lifted() -> None:
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(LookupError), single_threaded_blas():
            raise LookupError
        assert products() == {2}


def test_items_are_made_within_and_given_away_outside() -> None:
    with threadpool_limits(2, user_api="blas"):
        made = each_within(single_threaded_blas, (products() for _ in range(3)))
        for inside in made:
            assert (inside, products()) == ({1}, {2})
        assert list(each_within(single_threaded_blas, [])) == []


@pytest.mark.parametrize("kind", [Ensemble, RobustZ])
def test_parts_that_are_read_in_turn_leave_the_threads_as_they_were(kind: type[Detector]) -> None:
    data = np.random.default_rng(0).normal(size=(10 * 16, 3))
    with threadpool_limits(2, user_api="blas"):
        detector = kind(length=16).fit(data)
        first, second = detector.detect_parts(data, rows=16), detector.detect_parts(data, rows=16)
        for parts in (first, second, first, second):
            next(parts)
            assert products() == {2}
        del first
        list(second)
        assert products() == {2}


@pytest.mark.parametrize("count", [1, 2])
def test_detectors_fit_score_and_adapt_within(monkeypatch, count) -> None:
    seen: list[set[int]] = []
    for name in ("_fit", "_adapt"):
        inner = getattr(Ensemble, name)

        def noting(self, *given, inner=inner):
            seen.append(products())
            return inner(self, *given)

        monkeypatch.setattr(Ensemble, name, noting)
    score = Ensemble._score_values

    def scoring(self, observations):
        for found in score(self, observations):
            seen.append(products())
            yield found

    monkeypatch.setattr(Ensemble, "_score_values", scoring)
    data = np.random.default_rng(0).normal(size=(10, 16, 3))
    with cores(count), threadpool_limits(2, user_api="blas"):
        detector = Ensemble(length=16).fit(data)
        detector.decision_function(data[:3])
        detector.adapt({"new": data})
        assert products() == {2}
    assert seen == [{1}] * (1 + 3 + 1)  # fitting scores the history itself


class Library:
    """Of products or of something else, with 4 threads."""

    def __init__(self, filepath: str, user_api: str = "blas") -> None:
        self.filepath, self.user_api, self.number = filepath, user_api, 4

    def get_num_threads(self) -> int:
        return self.number

    def set_num_threads(self, number: int) -> None:
        self.number = number


def test_a_library_that_is_loaded_later_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = [Library("first"), Library("other", "openmp")]
    looked: list[int] = []

    def look() -> SimpleNamespace:
        looked.append(len(loaded))
        return SimpleNamespace(lib_controllers=list(loaded))

    modules = dict.fromkeys("abc")
    monkeypatch.setattr(blas, "ThreadpoolController", look)
    monkeypatch.setattr(blas.sys, "modules", modules)
    limit = blas._Limit()
    for _ in range(3):
        limit.enter()
        assert [one.number for one in loaded] == [1, 4]
        limit.leave()
    assert [one.number for one in loaded] == [4, 4]
    assert looked == [2]  # once: no module was imported since
    limit.enter()
    loaded.append(Library("late"))
    modules["late"] = None
    limit.enter()
    assert [one.number for one in loaded] == [1, 4, 1]
    limit.leave()
    assert [one.number for one in loaded] == [1, 4, 1]
    limit.leave()
    assert [one.number for one in loaded] == [4, 4, 4]
    assert looked == [2, 3]
