"""Judge the series of many entities in several processes; the results are those of one process, in the same order."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from tsadc.detectors.result import Result
from tsadc.errors import TsadcError, TsadcNotice
from tsadc.nn.runtime.processes import end_with_parent, interruptions_held
from tsadc.series import Floats, Observations, Place, Series

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

AHEAD = 2  # series for each process that are judged or wait, so that memory is bounded
# Processes are forked from a server that has only imported modules, which takes milliseconds. Not from this one: forked
# after torch has started threads, a process may hang. Windows has no such server.
START = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"

_detector: Detector  # of a child process


def prepare() -> None:
    """Let a server import what processes need while this one does something else. It ends with this process."""
    if START == "forkserver":
        from multiprocessing.forkserver import ensure_running, set_forkserver_preload

        set_forkserver_preload(["tsadc.detectors.ensemble.detector", "tsadc.detectors.parallel"])
        with interruptions_held():
            ensure_running()


def judge(
    detector: Detector, observations: Observations, rows: int | None, processes: int, done: Callable[[int], None]
) -> Iterator[Result]:
    """Yield the results of all series, each as a whole, or in parts of about `rows` rows.

    `done` is called with the number of observations of each series that has been judged."""
    pool = ProcessPoolExecutor(processes, multiprocessing.get_context(START), _begin, (detector,))
    waiting: deque[tuple[Series, int, Future[list[Result]]]] = deque()
    try:
        for series, indices in zip(observations.series, observations.by_series(), strict=True):
            places = tuple(Place(0, observations.places[i].start) for i in indices)
            alone = Observations((series,), places, observations.length)
            with interruptions_held():  # this may start a process
                future = pool.submit(_judge, alone, rows)
            waiting.append((series, len(indices), future))
            if len(waiting) >= AHEAD * processes:
                yield from _finished(*waiting.popleft(), done)
        while waiting:
            yield from _finished(*waiting.popleft(), done)
    except BrokenExecutor:
        raise TsadcError(
            "A process that was judging has ended, perhaps for lack of memory; use fewer with --processes."
        ) from None
    except BaseException:
        for process in list((pool._processes or {}).values()):  # what they judge now is of no use
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(
    series: Series, count: int, future: Future[list[Result]], done: Callable[[int], None]
) -> Iterator[Result]:
    """Yield the results of a series, with its values."""
    results, first = future.result(), 0
    done(count)
    for result in results:
        stop = first + sum(len(part.scores) for part in result.parts)
        yield _with_values(result, series.values[first:stop])
        first = stop


def _with_values(result: Result, values: Floats) -> Result:
    """Return a result of one series with these values of its rows, none or all; half of its size are values."""
    [part] = result.parts
    return replace(result, parts=(replace(part, series=replace(part.series, values=values)),))


def _begin(detector: Detector) -> None:
    global _detector
    end_with_parent()
    warnings.simplefilter("ignore", TsadcNotice)  # given by the parent
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    _detector = detector


def _judge(observations: Observations, rows: int | None) -> list[Result]:
    verdicts = _detector._verdicts(observations, None)
    results = verdicts.whole_series() if rows is None else verdicts.parts(rows)
    return [_with_values(result, observations.series[0].values[:0]) for result in results]
