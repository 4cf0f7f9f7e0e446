"""The service: it starts and supervises ingest, scoring, readers and delivery, and stops them in order."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import sqlalchemy as sa

from tsadc.detectors.store import read_settings
from tsadc.errors import ConfigError, DataError, TsadcError, listed
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import PUSHED, Config, live_clock, read_config
from tsadc.serve.ingest import Ingest
from tsadc.serve.metrics import Problems, log
from tsadc.serve.readers import Reader
from tsadc.serve.refresh import Refresh
from tsadc.serve.rows import Overloaded, RowBatch
from tsadc.serve.scoring import Settings, model_digest
from tsadc.serve.store import Store, StoreError
from tsadc.serve.teaching import teach

FIRST_WAIT, MOST_WAIT = 1.0, 60.0  # seconds before something that failed is started again
LEARNT = 30.0  # seconds after the last verdict until scoring uses what was learnt
STOPPING = 5.0  # seconds that scoring has to write its states
LONGEST_LINE = 10_000  # characters that are read at once of what scoring prints
MOST_SAID = 500  # characters of it in a message
ENDING = 2.0  # seconds that readers, writers and refits have to end


class ScoringProcess:
    """Keeps the scoring process running; it is started again when it ends."""

    def __init__(self, config: Config, problems: Problems) -> None:
        self.problems = problems
        self.restarts = -1
        self.ready = threading.Event()
        self._settings = json.dumps(asdict(Settings.of(config))) + "\n"
        self._stopping = threading.Event()
        self._starting = threading.Lock()  # so that `stop` sees every process
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._supervise, name="scoring", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self.ready.is_set()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def wake(self) -> None:
        """Say that rows have come."""
        process = self._process
        if process is not None and process.stdin is not None:
            try:
                os.write(process.stdin.fileno(), b"\n")
            except (OSError, ValueError):  # it has just ended, or is busy and has many such lines to read
                return

    def stop(self) -> None:
        """Let the process write its states and end; kill it if that takes too long."""
        self._stopping.set()
        with self._starting:
            process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):  # it has ended before it read its settings
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
        errors: deque[str] = deque(maxlen=5)
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
        for pipe in (process.stdout, process.stderr):
            pipe.close()
        self.ready.clear()
        if not self._stopping.is_set():
            said = errors[-1].strip()[:MOST_SAID] if errors else f"exit code {code}"
            self.problems.add("scoring", f"Scoring ended ({said}) and is started again; no row is lost.")


def _lines(pipe: IO[str]) -> Iterator[str]:
    """Yield the lines of a pipe; one that is very long comes in parts, so that it does not fill the memory."""
    while line := pipe.readline(LONGEST_LINE):
        yield line


class Positions:
    """How far a reader has come, in the store."""

    def __init__(self, store: Store, reader: str) -> None:
        self.store, self.reader = store, reader

    def get(self, key: str) -> str | None:
        return self.store.position(self.reader, key)

    def set(self, key: str, value: str) -> None:
        self.store.set_position(self.reader, key, value)


class Service:
    """Everything but HTTP.

    Parameters
    ----------
    config : Config
    file : Path, optional
        Where it came from, to read it again.

    Raises
    ------
    TsadcError
        If the store cannot be opened, another service uses it, or a model does not fit what it holds.
    """

    def __init__(self, config: Config, file: Path | None = None) -> None:
        self.config, self.file = config, file
        self.problems = Problems()
        self.started = time.time()
        self.stopping = threading.Event()
        self._changing = threading.RLock()  # one change of the configuration or of scoring at a time
        self._turns: dict[str, threading.Lock] = {}
        self._taught: threading.Timer | None = None
        self.variables = _variables(config)
        self.clocks = {name: _clock(name, config) for name in config.models}
        self.store = Store(config.server.url)
        try:
            self.store.own()
            self._register()
            self.scoring = ScoringProcess(config, self.problems)
            self.ingest = Ingest(self.store, config, self.variables, self.problems, lambda: self.scoring.wake())
        except BaseException:
            self.store.close()
            raise
        self.refresh = Refresh(self)
        self._begin()

    def _begin(self) -> None:
        """Start readers, delivery and refits."""
        self._ending = ending = threading.Event()  # of these threads, also of one that outlives a reload
        self._threads: list[threading.Thread] = []
        for name, part in self.config.readers.items():
            if part.kind not in PUSHED:
                self._start(f"reader {name}", self._reading(part.create(name, "readers"), ending), ending)
        if self.config.writers:
            from tsadc.serve.delivery import Delivery

            writers = [part.create(name, "writers") for name, part in self.config.writers.items()]
            delivery = Delivery(self.store, writers, self._turns)
            self._start("delivery", lambda: delivery.run(ending), ending)
        self._start("refresh", lambda: self.refresh.run(ending), ending)

    def _start(self, name: str, run: Callable[[], None], ending: threading.Event) -> None:
        """Run something in a thread until the end; if it fails, again after a while."""

        def supervise() -> None:
            wait = FIRST_WAIT
            while not ending.is_set():
                began = time.monotonic()
                try:
                    run()
                except TsadcError as error:
                    self.problems.add(name.partition(" ")[0], f"{name}: {error}")
                except Exception as error:
                    log.exception("%s failed", name)
                    self.problems.add(name.partition(" ")[0], f"{name} failed: {type(error).__name__}: {error}")
                wait = FIRST_WAIT if time.monotonic() - began > MOST_WAIT else wait
                ending.wait(wait)
                wait = min(2 * wait, MOST_WAIT)

        thread = threading.Thread(target=supervise, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _reading(self, reader: Reader, ending: threading.Event) -> Callable[[], None]:
        def submit(batch: RowBatch) -> None:
            while not ending.is_set():
                try:
                    self.ingest.submit(batch)
                    return
                except Overloaded as error:
                    ending.wait(error.retry_after)
                except StoreError:
                    ending.wait(FIRST_WAIT)
            raise DataError("The service is stopping.")

        return lambda: reader.run(submit, Positions(self.store, reader.name), ending)

    def _register(self) -> None:
        """Enter the models in use into the history of models; refuse one whose variables differ from stored rows."""
        table, entity = schema.models.c, schema.entities.c
        with self.store.writing() as connection:
            for name, model in self.config.models.items():
                current = (table.name == name) & (table.state == "current")
                known = connection.execute(sa.select(schema.models).where(current)).mappings().one_or_none()
                used = connection.scalar(
                    sa.select(sa.func.count()).where(entity.model == name).select_from(schema.entities)
                )
                names = list(self.variables[name])
                if known and used and known["variables"] != names:
                    raise ConfigError(
                        f"The store has rows of the model {name!r} with the variables {listed(known['variables'])}, "
                        f"but {model.folder} has {listed(names)}; use another name for the model, or another store."
                    )
                digest = model_digest(Path(model.folder))
                if known and known["digest"] == digest and known["folder"] == model.folder:
                    continue
                now = time.time()
                connection.execute(sa.update(schema.models).where(current).values(state="previous", until=now))
                values = {"name": name, "folder": model.folder, "digest": digest, "variables": names}
                connection.execute(sa.insert(schema.models).values(**values, state="current", since=now, note=""))
            stored = set(connection.scalars(sa.select(entity.model).distinct()))
        if gone := sorted(stored - set(self.config.models)):
            raise ConfigError(
                f"The store has entities of the model {gone[0]!r}, which the configuration lacks; add "
                f"[model.{gone[0]}], or use another store."
            )

    def reload(self) -> None:
        """Read the configuration again. If it cannot be used, everything stays as it is."""
        if self.file is None:
            self.problems.add("configuration", "The service was started without a configuration, so none is reloaded.")
            return
        with self._changing:
            if not self.stopping.is_set():
                self._reload(self.file)

    def _reload(self, file: Path) -> None:
        try:
            config = read_config(file)
            fixed = ("host", "port", "store", "tokens")
            if any(getattr(config.server, name) != getattr(self.config.server, name) for name in fixed):
                raise ConfigError(f"A new `server.{'`, `server.'.join(fixed)}` needs a restart of the service.")
            variables = _variables(config)
            clocks = {name: _clock(name, config) for name in config.models}
            old, self.config, self.variables = (self.config, self.variables), config, variables
            try:
                self._register()
            except BaseException:
                self.config, self.variables = old
                raise
        except TsadcError as error:
            self.problems.add("configuration", f"The old configuration stays in force: {error}")
            return
        self.clocks = clocks
        self._end()
        self.ingest.use(config, variables)
        self.restart_scoring()
        self._begin()
        log.info("The configuration %s is in force.", file)

    def restart_scoring(self) -> None:
        """Let scoring begin again with the present models; rows wait meanwhile."""
        with self._changing:
            if not self.stopping.is_set():
                self.scoring.stop()
                self.scoring = ScoringProcess(self.config, self.problems)

    def teach(self, name: str) -> bool:
        """Let the model learn from the verdict about an episode; return whether it did. Scoring uses what was learnt
        when no further verdict has come for a while."""
        episode, entity = schema.episodes.c, schema.entities.c
        query = sa.select(schema.episodes, entity.name).join(schema.entities, entity.id == episode.entity)
        with self.store.reading() as connection:
            row = dict(connection.execute(query.where(episode.id == name)).mappings().one())
        try:
            teach(self.store, Path(self.config.models[row["model"]].folder), self.clocks[row["model"]], row)
        except (TsadcError, OSError) as error:
            self.problems.add(
                "verdict", f"The verdict about {name} is kept, but the model did not learn from it: {error}"
            )
            return False
        if self._taught is not None:
            self._taught.cancel()
        self._taught = threading.Timer(LEARNT, self.restart_scoring)
        self._taught.daemon = True
        self._taught.start()
        return True

    def use_models(self) -> None:
        """Use what is in the folders of the models now, and enter it into the history."""
        with self._changing:
            self._register()
            self.restart_scoring()

    def _end(self) -> None:
        """Stop readers, delivery and refits."""
        self._ending.set()
        last = time.monotonic() + ENDING
        for thread in self._threads:
            thread.join(max(0.0, last - time.monotonic()))

    def close(self) -> None:
        """Stop: no new rows, accepted ones are stored, states are written."""
        self.stopping.set()
        self.refresh.stop()
        with self._changing:
            self._end()
            self.ingest.close()
            self.scoring.stop()
            self.store.close()

    def health(self) -> dict[str, Any]:
        """Return whether all is well, and sentences about what is not."""
        said = [
            {"reason": problem.reason, "problem": problem.sentence, "count": problem.count, "last": problem.when}
            for problem in self.problems.recent()
        ]
        status = "ok"
        if not self.scoring.is_running:
            status = "starting" if self.scoring.restarts <= 0 and time.time() - self.started < 60 else "degraded"
        try:
            waiting = self.store.undelivered()
        except StoreError as error:
            status, waiting = "failing", {}
            said.insert(0, {"reason": "store", "problem": str(error), "count": 1, "last": time.time()})
        for writer, (number, failure) in waiting.items():
            if failure is not None and writer in self.config.writers:
                sentence = f"{number} events wait for the writer {writer!r}: {failure}"
                said.insert(0, {"reason": "writer", "problem": sentence, "count": number, "last": time.time()})
                status = "degraded" if status == "ok" else status
        return {
            "status": status,
            "backlog": self.ingest.backlog,
            "scoring": {
                "running": self.scoring.is_running,
                "restarts": max(self.scoring.restarts, 0),
                "pid": self.scoring.pid,
            },
            "since": self.started,
            "problems": said,
        }


def _variables(config: Config) -> dict[str, tuple[str, ...]]:
    """Return the variables of each model."""
    models = config.models.items()
    return {name: tuple(map(str, read_settings(Path(model.folder))["variables"])) for name, model in models}


def _clock(name: str, config: Config) -> Clock:
    model = config.models[name]
    return live_clock(name, Clock(**read_settings(Path(model.folder))["clock"]), model.seconds)
