"""Work is given out to threads and comes back in order; what it waits for is another thread, never a clock."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import torch
from cores import cores, products
from threadpoolctl import threadpool_limits

from tsadc.nn.runtime import threads
from tsadc.nn.runtime.threads import available, parallel_map

PATIENCE = 60  # seconds until a test that would wait for ever fails


@pytest.fixture(autouse=True)
def _cores(request: pytest.FixtureRequest) -> Iterator[None]:
    """Two, or as many as the test's parameter `count` says."""
    with cores(request.node.callspec.params.get("count", 2) if hasattr(request.node, "callspec") else 2):
        yield


class Taken:
    """Items 0, 1, ..., and how many were asked for."""

    def __init__(self, count: int) -> None:
        self.count, self.items = 0, range(count)

    def __iter__(self) -> Iterator[int]:
        for item in self.items:
            self.count += 1
            yield item


@pytest.mark.parametrize(("count", "told", "expected"), [(4, 2, 2), (2, 4, 2), (1, 3, 1), (3, 3, 3), (8, 1, 1)])
def test_cores_and_torch_say_how_many(count: int, told: int, expected: int) -> None:
    torch.set_num_threads(told)
    assert available() == expected


def test_without_affinity_the_cores_of_the_machine_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    torch.set_num_threads(5)
    assert available() == 2
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert available() == 1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("ahead", [0, 1, 5])
@pytest.mark.parametrize("items", [0, 1, 2, 17])
def test_results_come_in_the_order_of_items(count: int, ahead: int, items: int) -> None:
    assert list(parallel_map(lambda n: n * n, range(items), ahead)) == [n * n for n in range(items)]


def test_a_late_item_holds_its_place() -> None:
    """The first item ends only after the second has ended."""
    second = threading.Event()

    def work(n: int) -> int:
        if n == 0:
            assert second.wait(PATIENCE)
        elif n == 1:
            second.set()
        return n

    assert list(parallel_map(work, range(5))) == list(range(5))


@pytest.mark.parametrize("count", [2, 3])
def test_as_many_work_at_once_as_there_are_threads_each_by_itself(count: int) -> None:
    together = threading.Barrier(count, timeout=PATIENCE)

    def work(_: int) -> tuple[int, int]:
        together.wait()
        return threading.get_ident(), torch.get_num_threads()

    done = list(parallel_map(work, range(2 * count)))
    assert len({thread for thread, _ in done}) == count
    assert {inner for _, inner in done} == {1}
    assert threading.get_ident() not in {thread for thread, _ in done}


@pytest.mark.parametrize("count", [1])
def test_with_one_thread_all_happens_here_and_when_asked_for(count: int) -> None:
    taken = Taken(5)
    results = parallel_map(lambda n: (n, threading.get_ident()), taken)
    assert taken.count == 0
    for n in range(5):
        assert next(results) == (n, threading.get_ident())
        assert taken.count == n + 1


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("ahead", [0, 1, 4])
def test_the_input_is_read_a_bounded_way_ahead(count: int, ahead: int) -> None:
    taken = Taken(40)
    for done, result in enumerate(parallel_map(lambda n: n, taken, ahead)):
        assert result == done
        assert taken.count == min(40, done + count + ahead)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_error_arrives_in_its_place(count: int) -> None:

    def work(n: int) -> int:
        if n >= 3:
            raise LookupError(n)
        return n

    results = parallel_map(work, range(9))
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(LookupError, match="3"):
        next(results)
    assert torch.get_num_threads() == count
    assert list(parallel_map(lambda n: n, range(4))) == [0, 1, 2, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_of_the_input_arrives(count: int) -> None:

    def broken() -> Iterator[int]:
        yield 0
        raise OSError("unreadable")

    with pytest.raises(OSError, match="unreadable"):
        list(parallel_map(lambda n: n, broken()))
    assert torch.get_num_threads() == count


def test_who_stops_early_leaves_nothing_to_do_and_the_threads_as_they_were() -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def work(n: int) -> int:
        begun.append(n)
        assert n == 0 or go_on.wait(PATIENCE)
        return n

    results = parallel_map(work, range(20), ahead=4)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert torch.get_num_threads() == 2
    go_on.set()
    # Both threads come to this only when the work before it is done or was taken back.
    together = threading.Barrier(2, timeout=PATIENCE)
    list(parallel_map(lambda _: together.wait(), range(2)))
    assert sorted(begun)[:1] == [0]
    assert set(begun) <= {0, 1, 2}


def test_inner_work_is_done_where_it_is_asked_for() -> None:
    """Otherwise outer work could hold every thread while it waits for one."""

    def work(n: int) -> tuple[list[int], bool]:
        here = threading.get_ident()
        inner = list(parallel_map(lambda m: (10 * n + m, threading.get_ident()), range(3)))
        return [value for value, _ in inner], all(place == here for _, place in inner)

    expected = [([10 * n, 10 * n + 1, 10 * n + 2], True) for n in range(6)]
    assert list(parallel_map(work, range(6))) == expected


@pytest.mark.parametrize("count", [1, 2])
def test_two_may_be_read_in_turn(count: int) -> None:
    both = zip(parallel_map(lambda n: n, range(7)), parallel_map(lambda n: -n, range(7)), strict=True)
    assert list(both) == [(n, -n) for n in range(7)]
    assert torch.get_num_threads() == count


@pytest.mark.parametrize("count", [1, 2])
def test_operations_have_no_threads_within_work_nor_while_items_are_made(count: int) -> None:
    """On one core, torch may still have been told otherwise."""
    torch.set_num_threads(max(count, 2))

    def inner() -> tuple[int, set[int]]:
        return torch.get_num_threads(), products()

    def items() -> Iterator[tuple[int, set[int]]]:
        for _ in range(4):
            yield inner()

    with threadpool_limits(2, user_api="blas"):
        assert list(parallel_map(lambda item: (item, inner()), items())) == [((1, {1}), (1, {1}))] * 4
        assert inner() == (2, {2})


@pytest.mark.parametrize("count", [1, 2])
def test_who_reads_the_results_has_its_threads(count: int) -> None:
    """Also those of products, once no work is under way."""
    torch.set_num_threads(2)
    with threadpool_limits(2, user_api="blas"):
        first, second = parallel_map(lambda n: n, range(3), ahead=5), parallel_map(lambda n: n, range(3), ahead=5)
        for results in (first, second, second, first):
            next(results)
            assert torch.get_num_threads() == 2
        assert (list(first), list(second)) == ([2], [2])
        assert products() == {2}


def test_threads_that_start_later_have_as_many_inside_operations_as_this_one() -> None:
    found: list[int] = []
    list(parallel_map(lambda n: n, range(5)))
    later = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    later.start()
    later.join()
    assert found == [2]


def test_gradient_mode_is_the_threads_own() -> None:
    with torch.no_grad():
        assert list(parallel_map(lambda _: torch.is_grad_enabled(), range(4))) == [True] * 4


FORKED = """
import os, signal, sys
import torch
from tsadc.nn.runtime import threads

threads.available = lambda: 2
assert list(threads.parallel_map(abs, range(4))) == [0, 1, 2, 3]
child = os.fork()
if child == 0:
    signal.alarm(20)
    os._exit(0 if list(threads.parallel_map(abs, range(4))) == [0, 1, 2, 3] else 1)
sys.exit(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    assert subprocess.run([sys.executable, "-W", "ignore", "-c", FORKED], timeout=100).returncode == 0


def test_threads_are_kept() -> None:
    first = set(parallel_map(lambda _: threading.get_ident(), range(8)))
    assert threads._pool(2, os.getpid()) is threads._pool(2, os.getpid())
    again = set(parallel_map(lambda _: threading.get_ident(), range(8)))
    assert len(first | again) <= 2
