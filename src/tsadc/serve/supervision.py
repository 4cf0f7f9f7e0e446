"""The scoring processes: they are started, woken when rows have come, started again when they end, and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO

from tsadc.serve.config import Config
from tsadc.serve.metrics import Problems, log
from tsadc.serve.scoring import Settings

FIRST_WAIT, MOST_WAIT = 1.0, 60.0  # seconds before something that failed is started again
STOPPING = 5.0  # seconds that scoring has to write its states
LONGEST_LINE = 10_000  # characters that are read at once of what scoring prints
MOST_LINES = 50  # of its errors in the log
MOST_SAID = 500  # characters of them in a message
CLASS = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)(: |$)")


class ScoringProcesses:
    """All scoring processes; each scores a part of the entities."""

    def __init__(self, config: Config, problems: Problems) -> None:
        self._processes = [ScoringProcess(config, problems, number) for number in range(config.server.processes)]

    @property
    def is_running(self) -> bool:
        return all(process.ready.is_set() for process in self._processes)

    @property
    def restarts(self) -> int:
        return sum(max(process.restarts, 0) for process in self._processes)

    @property
    def pids(self) -> list[int]:
        return [process.pid for process in self._processes if process.pid is not None]

    def wake(self) -> None:
        """Say that rows have come."""
        for process in self._processes:
            process.wake()

    def stop(self) -> None:
        """Stop all at the same time."""
        threads = [threading.Thread(target=process.stop) for process in self._processes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class ScoringProcess:
    """Keeps one scoring process running; it is started again when it ends."""

    def __init__(self, config: Config, problems: Problems, number: int = 0) -> None:
        self.problems = problems
        self.restarts = -1
        self.ready = threading.Event()
        self._settings = json.dumps(asdict(Settings.of(config, number))) + "\n"
        self._stopping = threading.Event()
        self._starting = threading.Lock()  # so that `stop` sees every process
        self._input = threading.Lock()  # so that nothing is written to the number of a closed pipe
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._supervise, name="scoring", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def wake(self) -> None:
        """Say that rows have come."""
        process = self._process  # until it is ready it must read its settings first, and then looks for rows by itself
        if process is None or process.stdin is None or not self.ready.is_set():
            return
        with self._input, contextlib.suppress(OSError):  # it has just ended, or is busy and has many such lines to read
            if not process.stdin.closed:
                os.write(process.stdin.fileno(), b"\n")

    def stop(self) -> None:
        """Let the process write its states and end; kill it if that takes too long."""
        self._stopping.set()
        with self._starting:
            process = self._process
        if process is not None and process.stdin is not None:
            with self._input, contextlib.suppress(OSError):  # it has ended before it read its settings
                process.stdin.close()
            try:
                process.wait(STOPPING if self.ready.is_set() else 0.0)  # one that is still starting has no states
            except subprocess.TimeoutExpired:
                process.kill()
        self._thread.join()

    def _supervise(self) -> None:
        wait = FIRST_WAIT
        while not self._stopping.is_set():
            began = time.monotonic()
            self._run()
            if self._stopping.is_set():
                return
            wait = FIRST_WAIT if time.monotonic() - began > MOST_WAIT else min(2 * wait, MOST_WAIT)
            self._stopping.wait(wait)

    def _run(self) -> None:
        # One thread: the other cores are for ingest, the database, and what else runs on the machine.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with self._starting:
            if self._stopping.is_set():
                return
            try:
                process = subprocess.Popen(
                    [sys.executable, "-m", "tsadc.serve.scoring"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    env=environment,
                )
            except OSError as error:
                self.problems.add("scoring", f"Scoring cannot be started now ({error}); it is tried again.")
                return
            self._process, self.restarts = process, self.restarts + 1
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        errors: deque[str] = deque(maxlen=MOST_LINES)
        drain = threading.Thread(target=errors.extend, args=(_lines(process.stderr),), daemon=True)
        drain.start()
        try:
            process.stdin.write(self._settings)
            process.stdin.flush()
            os.set_blocking(process.stdin.fileno(), False)
        except (OSError, ValueError):
            pass  # it ended at once, and why is in its errors; or `stop` has closed its input
        for line in _lines(process.stdout):
            if line.strip() == "ready":
                self.ready.set()
                continue
            try:
                self.problems.add(*json.loads(line))
            except (TypeError, ValueError):
                log.warning("Scoring wrote a line that cannot be understood: %.200s", line.rstrip())
        code = process.wait()
        drain.join()
        self.ready.clear()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with self._input, contextlib.suppress(OSError):  # of settings that the process did not live to read
                pipe.close()
        if not self._stopping.is_set():
            text = "".join(errors)
            if "\n" in text.strip():  # a traceback, for whoever can fix the program
                log.error("Scoring ended.\n%s", text[-LONGEST_LINE:].rstrip())
            said = last_said(text) or f"exit code {code}"
            self.problems.add("scoring", f"Scoring ended ({said}) and is started again; no row is lost.")


def last_said(errors: str) -> str:
    """Return the last line of what a process wrote before it ended, without the class of a Python error."""
    last = (errors.strip().splitlines() or [""])[-1]
    return CLASS.sub("", last.strip()[:MOST_SAID]).rstrip(".")


def _lines(pipe: IO[str]) -> Iterator[str]:
    """Yield the lines of a pipe; one that is very long comes in parts, so that it does not fill the memory."""
    while line := pipe.readline(LONGEST_LINE):
        yield line
