"""The scoring process is supervised until it is stopped, whatever it does; small programs stand in for it."""

import io
import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from live import wait_for

from tsadc.serve import service
from tsadc.serve.config import Config
from tsadc.serve.metrics import Problems
from tsadc.serve.service import ScoringProcess

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

        monkeypatch.setattr(service, "FIRST_WAIT", 0.01)
        monkeypatch.setattr(service.subprocess, "Popen", popen)

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


def test_of_a_long_line_a_part_is_said(instead: Any) -> None:
    instead(lambda script: script("head -c 3000000 /dev/zero | tr '\\0' x >&2; exit 1"))
    problems = Problems()
    scoring = ScoringProcess(Config(), problems)
    assert wait_for(lambda: problems.counts.get("scoring", 0))
    assert ends(scoring)
    assert f"({'x' * 100}" in problems.recent()[0].sentence
    assert len(problems.recent()[0].sentence) < 1000


def test_a_long_line_is_not_read_at_once() -> None:
    text = "x" * (2 * service.LONGEST_LINE) + "\nlast"
    assert [len(part) for part in service._lines(io.StringIO(text))] == [service.LONGEST_LINE] * 2 + [1, 4]
