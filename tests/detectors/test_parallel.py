"""Several processes judge the series of many entities as one does."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

from machines import LENGTH, machines, unfitted
from terminal import ALONE, tsadc
from tsadc.detectors import parallel
from tsadc.errors import ConfigError
from tsadc.windows import cut

pytestmark = pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")


def test_the_result_is_that_of_one_process(tmp_path: Path):
    """In Python, as a whole and in parts, and as tables of the command; progress counts every observation."""
    series = machines()
    detector = unfitted().fit(series).set_threshold(method="tail", share=0.2)
    alone, seen = detector.detect(series), []
    together = detector.detect(series, processes=2, progress=seen.append)
    for name in ("intervals", "timeline", "variables", "observations", "similar"):
        assert_frame_equal(getattr(together, name), getattr(alone, name))
    for part, own in zip(together.parts, alone.parts, strict=True):
        np.testing.assert_array_equal(part.series.values, own.series.values)
    assert len(alone.intervals)
    assert seen[-1].done == seen[-1].total == len(alone.observations)
    parts = detector.detect_parts(series, rows=3 * LENGTH, processes=3)
    expected = detector.detect_parts(series, rows=3 * LENGTH)
    for part, own in zip(parts, expected, strict=True):
        assert_frame_equal(part.timeline, own.timeline)
        np.testing.assert_array_equal(part.parts[0].series.values, own.parts[0].series.values)
    detector.save(tmp_path / "model")
    for item in series[:3]:
        np.save(tmp_path / f"{item.entity}.npy", item.values)
    files = sorted(tmp_path.glob("*.npy"))
    for count in (1, 2):
        answer = tsadc(
            "detect", *files, "--model", tmp_path / "model", "--out", tmp_path / str(count), "--processes", count
        )
        assert answer.code == 0, answer.err
    for table in sorted((tmp_path / "1").iterdir()):
        assert table.read_bytes() == (tmp_path / "2" / table.name).read_bytes()


def test_no_process_is_refused():
    detector = unfitted().fit(machines())
    with pytest.raises(ConfigError, match="`processes` must be at least 1, but got 0"):
        detector.detect(machines(), processes=0)


SIGNALLED = """
import os, signal
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import forkserver, get_context
from tsadc.detectors import parallel
signal.signal(signal.SIGINT, lambda number, frame: None)
parallel.prepare()
server = forkserver._forkserver._forkserver_pid
os.killpg(os.getpgid(0), signal.SIGINT)
with ProcessPoolExecutor(1, get_context("forkserver")) as pool:
    print(pool.submit(os.getppid).result() == server)
"""


@pytest.mark.skipif(parallel.START != "forkserver", reason="no server of processes here")
def test_an_interruption_leaves_the_server_of_processes_alone_while_it_starts():
    words = (sys.executable, "-c", SIGNALLED)
    answer = subprocess.run(words, capture_output=True, text=True, env=ALONE, start_new_session=True)
    assert (answer.stdout, answer.stderr) == ("True\n", "")


class Slow:
    """A detector that takes a minute for each series."""

    def _verdicts(self, observations: object, progress: None) -> None:
        time.sleep(60)


def test_an_interruption_ends_what_is_being_judged():
    observations = cut(machines(), LENGTH, 0.5).observations
    threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        list(parallel.judge(Slow(), observations, None, 2, lambda count: None))
    end = time.monotonic() + 20
    while multiprocessing.active_children():
        assert time.monotonic() < end
        time.sleep(0.05)
