"""The service: it starts and supervises ingest, scoring, readers and delivery, and stops them in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from tsadc.errors import ConfigError, DataError, TsadcError, listed
from tsadc.serve import schema
from tsadc.serve.config import PUSHED, Config, read_config
from tsadc.serve.ingest import Ingest
from tsadc.serve.metrics import Problem, Problems, log
from tsadc.serve.readers import Complaining, Reader
from tsadc.serve.refresh import Refresh
from tsadc.serve.rows import Overloaded, RowBatch
from tsadc.serve.scoring import Settings, load_models, model_digest
from tsadc.serve.store import Store, StoreError
from tsadc.serve.supervision import FIRST_WAIT, MOST_WAIT, ScoringProcesses
from tsadc.serve.teaching import teach
from tsadc.wording import count

LEARNT = 30.0  # seconds after the last verdict until scoring uses what was learnt
ENDING = 2.0  # seconds that readers, writers and refits have to end


class Positions:
    """How far a reader has come, in the store."""

    def __init__(self, store: Store, reader: str) -> None:
        self.store, self.reader = store, reader

    def get(self, key: str) -> str | None:
        return self.store.position(self.reader, key)

    def set(self, key: str, value: str) -> None:
        self.store.set_position(self.reader, key, value)

    def keep_only(self, keys: Container[str]) -> None:
        self.store.keep_positions(self.reader, keys)


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
        models = load_models(Settings.of(config))
        self.variables = {name: model.variables for name, model in models.items()}
        self.clocks = {name: model.clock for name, model in models.items()}
        self.store = Store(config.server.url, migrate=False)
        try:
            self.store.own()  # first: another service may use the store, whose tables stay as they are
            self.store.migrate()
            self._register()
            self.scoring = ScoringProcesses(config, self.problems)
            self.ingest = Ingest(self.store, config, self.variables, self.problems, lambda: self.scoring.wake())
        except BaseException:
            self.store.close()
            raise
        self.refresh = Refresh(self)
        self._begin()

    def _begin(self) -> None:
        """Start readers, delivery and refits."""
        self._ending = ending = threading.Event()  # of these threads, also of one that outlives a reload
        for problem in self.problems.lasting():  # of readers and writers that the configuration may lack now
            self.problems.release(problem.reason, problem.about)
        self._threads: list[threading.Thread] = []
        for name, part in self.config.readers.items():
            if part.kind not in PUSHED:
                self._start(f"reader {name}", self._reading(part.create(name, "readers"), ending), ending)
        if self.config.writers:
            from tsadc.serve.delivery import Delivery

            writers = [part.create(name, "writers") for name, part in self.config.writers.items()]
            delivery = Delivery(self.store, writers, self._turns, self._undelivered)
            self._start("delivery", lambda: delivery.run(ending), ending)
        self._start("refresh", lambda: self.refresh.run(ending), ending)

    def _undelivered(self, writer: str, sentence: str) -> None:
        self.problems.add("writer", sentence, about=writer)

    def _start(self, name: str, run: Callable[[], None], ending: threading.Event) -> None:
        """Run something in a thread until the end; if it fails, again after a while. Its failure is shown until it has
        run for a minute."""
        kind = name.partition(" ")[0]

        def supervise() -> None:
            wait = FIRST_WAIT
            while not ending.is_set():
                began = time.monotonic()
                recovered = threading.Timer(MOST_WAIT, self.problems.release, (kind, name))
                recovered.daemon = True
                recovered.start()
                try:
                    run()
                except TsadcError as error:
                    self.problems.hold(kind, f"{name}: {error}", name)
                except Exception as error:
                    log.exception("%s failed", name)
                    self.problems.hold(kind, f"{name} failed: {type(error).__name__}: {error}", name)
                finally:
                    recovered.cancel()
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

        if isinstance(reader, Complaining):
            reader.complain = lambda sentence: self.problems.add("body", sentence, about=f"reader {reader.name}")
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
            for name in ("host", "port", "store", "tokens"):
                if getattr(config.server, name) != getattr(self.config.server, name):
                    raise ConfigError(f"A new `server.{name}` needs a restart of the service.")
            models = load_models(Settings.of(config))
            variables = {name: model.variables for name, model in models.items()}
            old, self.config, self.variables = (self.config, self.variables), config, variables
            try:
                self._register()
            except BaseException:
                self.config, self.variables = old
                raise
        except TsadcError as error:
            self.problems.hold("configuration", f"The old configuration stays in force: {error}")
            return
        self.problems.release("configuration")
        self.clocks = {name: model.clock for name, model in models.items()}
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
                self.scoring = ScoringProcesses(self.config, self.problems)

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
        status = "degraded" if self.problems.lasting() else "ok"
        if not self.scoring.is_running:
            status = "starting" if not self.scoring.restarts and time.time() - self.started < 60 else "degraded"
        try:
            waiting, problems = self.store.undelivered(), list[Problem]()
        except StoreError as error:
            status, waiting = "failing", {}
            problems = [Problem("store", str(error), 1, time.time())]
        for writer, (number, failure) in waiting.items():
            if failure is not None and writer in self.config.writers:
                sentence = f"{count(number, 'event waits', 'events wait')} for the writer {writer!r}: {failure}"
                problems.append(Problem("writer", sentence, 1, time.time(), writer))
                status = "degraded" if status == "ok" else status
        waits = {problem.about for problem in problems if problem.reason == "writer"}
        problems += [
            problem for problem in self.problems.recent() if problem.reason != "writer" or problem.about not in waits
        ]
        return {
            "status": status,
            "backlog": self.ingest.backlog,
            "scoring": {
                "running": self.scoring.is_running,
                "restarts": self.scoring.restarts,
                "pids": self.scoring.pids,
            },
            "since": self.started,
            "problems": [
                {"reason": problem.reason, "problem": problem.sentence, "count": problem.count, "last": problem.when}
                for problem in problems
            ],
        }
