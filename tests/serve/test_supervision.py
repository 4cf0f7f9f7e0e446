"""The scoring process is supervised until it is stopped, whatever it does; small programs stand in for it."""

import io
import json
import logging
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from live import wait_for

from tsadc.serve import supervision
from tsadc.serve.config import Config, Server
from tsadc.serve.metrics import Problems
from tsadc.serve.supervision import ScoringProcess, ScoringProcesses

Start = Callable[..., "subprocess.Popen[str]"]
SILENT = "exec cat > /dev/null"  # ends when its input does


@pytest.fixture
def instead(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Start], Any]], None]]:
    """Start something else as the scoring process."""
    real, started = subprocess.Popen, []

    def run(start: Callable[[Start], Any]) -> None:
        def popen(_: Any, **settings: Any) -> Any:
            def script(text: str) -> Any:
                started.append(real(["sh", "-c", text], **settings))
                return started[-1]

            return start(script)

        monkeypatch.setattr(supervision, "FIRST_WAIT", 0.01)
        monkeypatch.setattr(supervision.subprocess, "Popen", popen)

    yield run
    for process in started:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(BrokenPipeError):  # of settings that the process did not live to read
                pipe.close()


def ends(scoring: ScoringProcess) -> bool:
    stopping = threading.Thread(target=scoring.stop, daemon=True)
    stopping.start()
    stopping.join(20.0)
    return not stopping.is_alive()


def test_a_process_that_starts_while_it_is_stopped_is_ended(instead: Any) -> None:
    begun, go = threading.Event(), threading.Event()

    def start(script: Start) -> Any:
        begun.set()
        go.wait(20.0)
        return script("exec sleep 1000")

    instead(start)
    scoring = ScoringProcess(Config(), Problems())
    assert begun.wait(20.0)
    stopping = threading.Thread(target=scoring.stop, daemon=True)
    stopping.start()
    time.sleep(0.1)  # for `stop` to look at the process, which is not there yet
    go.set()
    stopping.join(10.0)
    assert not stopping.is_alive()


def test_a_process_reads_its_settings_before_it_is_woken(instead: Any) -> None:
    begun, problems = threading.Event(), Problems()

    def start(script: Start) -> Any:
        begun.wait(20.0)
        process = scoring._process = script('read first; echo "$first" >&2; exit 1')
        scoring.wake()  # as if rows came as soon as it has started
        return process

    instead(start)
    scoring = ScoringProcess(Config(), problems)
    begun.set()
    assert wait_for(lambda: problems.counts.get("scoring", 0))
    assert ends(scoring)
    assert '({"' in problems.recent()[0].sentence


def test_the_pipes_of_an_ended_process_are_closed(instead: Any) -> None:
    started: list[Any] = []

    def start(script: Start) -> Any:
        started.append(script("exec < /dev/null; exit 1"))
        time.sleep(0.1)  # it ends before its settings are written
        return started[-1]

    instead(start)
    problems = Problems()
    scoring = ScoringProcess(Config(), problems)
    assert wait_for(lambda: problems.counts.get("scoring", 0))
    assert ends(scoring)
    assert all(pipe.closed for process in started for pipe in (process.stdin, process.stdout, process.stderr))


def test_lines_that_are_not_understood_are_logged(instead: Any, caplog: pytest.LogCaptureFixture) -> None:
    lines = r"""printf 'nonsense\n{"a": 1}\n\377\n["rows", "Three rows.", 3]\nready\n'; """
    instead(lambda script: script(lines + SILENT))
    problems = Problems()
    with caplog.at_level(logging.WARNING):
        scoring = ScoringProcess(Config(), problems)
        assert scoring.ready.wait(20.0)
    assert problems.counts == {"rows": 3}
    assert [line for line in caplog.messages if "cannot be understood: nonsense" in line]
    assert scoring.restarts == 0
    assert ends(scoring)


def test_scoring_is_started_again_if_it_could_not_be_started(instead: Any) -> None:
    tries: list[int] = []

    def start(script: Start) -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise OSError(11, "Resource temporarily unavailable")
        return script("echo ready; " + SILENT)

    instead(start)
    problems = Problems()
    scoring = ScoringProcess(Config(), problems)
    assert scoring.ready.wait(20.0)
    assert problems.counts == {"scoring": 2}
    assert ends(scoring)


def test_of_what_a_process_complains_the_last_line_is_said(instead: Any) -> None:
    instead(lambda script: script("seq 10000 >&2; echo the reason >&2; exit 1"))
    problems = Problems()
    scoring = ScoringProcess(Config(), problems)
    assert wait_for(lambda: problems.counts.get("scoring", 0))
    assert ends(scoring)
    assert "(the reason)" in problems.recent()[0].sentence


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (
            "Traceback\n  File ...\ntsadc.errors.ModelFileError: It is truncated; restore it.\n",
            "It is truncated; restore it",
        ),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 9 GiB", "Unable to allocate 9 GiB"),
        ("MemoryError\n", ""),
        ("An error: it is late.\n", "An error: it is late"),
        ("", ""),
    ],
)
def test_no_class_of_an_error_is_said(errors: str, said: str) -> None:
    assert supervision.last_said(errors) == said


def test_of_a_long_line_a_part_is_said(instead: Any) -> None:
    instead(lambda script: script("head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1"))
    problems = Problems()
    scoring = ScoringProcess(Config(), problems)
    assert wait_for(lambda: problems.counts.get("scoring", 0))
    assert ends(scoring)
    assert f"({'x' * 100}" in problems.recent()[0].sentence
    assert len(problems.recent()[0].sentence) < 1000


def test_all_processes_run_and_are_stopped_at_the_same_time(instead: Any) -> None:
    # Each says which it is, and takes a second to end.
    script = 'read settings; echo "$settings" >> "$0"; echo ready; cat > /dev/null; sleep 1'
    with tempfile.NamedTemporaryFile("r") as file:
        instead(lambda start: start(script.replace("$0", file.name)))
        processes = ScoringProcesses(Config(Server(processes=4)), Problems())
        wait_for(lambda: processes.is_running)
        numbers = [(json.loads(line)["number"], json.loads(line)["processes"]) for line in file.read().splitlines()]
        pids = processes.pids
        began = time.monotonic()
        processes.stop()
        assert time.monotonic() - began < 3
    assert sorted(numbers) == [(number, 4) for number in range(4)]
    assert len(set(pids)) == 4
    assert processes.restarts == 0


def test_a_long_line_is_not_read_at_once() -> None:
    text = "x" * (2 * supervision.LONGEST_LINE) + "\nlast"
    assert [len(part) for part in supervision._lines(io.StringIO(text))] == [supervision.LONGEST_LINE] * 2 + [1, 4]
