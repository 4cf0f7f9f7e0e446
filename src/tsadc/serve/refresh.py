"""Refresh models while the service runs: scheduled refits, candidates, roll back, and proposals of a new normal.

    place              content
    MODEL              the model in use
    MODEL.previous     the model before it, for `roll_back`
    MODEL.candidate    a new model that was not used yet

A refit runs in a process of its own (`refresh_job.py`). If nothing speaks against the new model, it is used at once;
otherwise it stays a candidate until a person accepts or refuses it. Folders are exchanged by a rename. Scoring then
begins again with the new model: rows wait in the store meanwhile, so none is lost, and open episodes go on.

    state of a refresh   running, used, replaced, candidate, refused, failed
    state of a proposal  open, adapting, accepted, refused, ended

An entity that is above the threshold for good (`detectors/drift.py`) because the levels of variables moved is proposed
as the new normal. If a person accepts, its level and spread are learnt again from the rows since then. A refused
proposal does not come back while the same period lasts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from tsadc.config import parse_json
from tsadc.detectors.drift import LEAST_DRIFT, RECENT, Drift, drifting
from tsadc.detectors.refit import duration
from tsadc.detectors.store import load
from tsadc.detectors.versions import previous, replace_model, roll_back
from tsadc.errors import RefitError, TsadcError
from tsadc.serve import schema
from tsadc.serve.config import Schedule, live_clock
from tsadc.serve.metrics import log
from tsadc.serve.queries import NotFound, iso, moment
from tsadc.serve.refresh_job import Job, as_line, rows_of
from tsadc.serve.scoring import model_digest
from tsadc.serve.supervision import last_said

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector
    from tsadc.serve.service import Service

LOOK = 30.0  # seconds between looks at schedules and drift
LOOKED_BACK = 3 * RECENT  # observations in which drift is looked for
AT_ONCE = 5  # entities whose drift is examined in one look
SECOND = 10**9
# Of a proposal whose adaptation failed; its period may be over meanwhile.
_OPEN_AGAIN = sa.case((schema.proposals.c.lasting, "open"), else_="ended")
BUSY = "A model is being trained or replaced now; try again when that is done."


class Refresh:
    """Replaces the models of a running service.

    Parameters
    ----------
    service : Service
    """

    def __init__(self, service: Service) -> None:
        self.service, self.store = service, service.store
        self._busy = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._loaded: dict[str, tuple[str, Detector]] = {}  # by name of the model, with its digest
        self._examined = 0  # the entity whose drift was examined last
        self._failed: dict[int, str] = {}  # by proposal: why its latest adaptation failed
        self._fail_running("The service ended before the refit did.")
        adapting = schema.proposals.c.state == "adapting"
        with self.store.writing() as connection:  # of a service that was killed
            connection.execute(sa.update(schema.proposals).where(adapting).values(state=_OPEN_AGAIN))

    def run(self, stop: threading.Event) -> None:
        """Carry out schedules and look for new levels until `stop` is set."""
        while not stop.wait(LOOK):
            with suppress(RefitError), self._alone():
                self._fail_running("Its end could not be stored.")
            for schedule in self.service.config.schedules.values():
                if self._is_due(schedule, time.time()):
                    self.refresh(schedule.model, schedule)
            self.look()

    def _fail_running(self, note: str) -> None:
        """Store that what is stored as a running refit has failed."""
        ended = {"state": "failed", "finished": time.time(), "note": note}
        with self.store.writing() as connection:
            running = schema.refreshes.c.state == "running"
            connection.execute(sa.update(schema.refreshes).where(running).values(**ended))

    def stop(self) -> None:
        """End a refit that runs."""
        process = self._process
        if process is not None:
            process.kill()

    def _detector(self, name: str) -> Detector:
        digest = model_digest(self._folder(name))
        if name not in self._loaded or self._loaded[name][0] != digest:
            self._loaded[name] = digest, load(self._folder(name))
        return self._loaded[name][1]

    def _is_due(self, schedule: Schedule, now: float) -> bool:
        refreshed, model = schema.refreshes.c, schema.models.c
        with self.store.reading() as connection:
            last = connection.scalar(
                sa.select(sa.func.max(refreshed.started)).where(refreshed.model == schedule.model)
            ) or connection.scalar(sa.select(sa.func.min(model.since)).where(model.name == schedule.model))
        return bool(last is not None and now - last >= duration(schedule.every) / SECOND)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise RefitError(BUSY)
        try:
            yield
        finally:
            self._busy.release()

    def _folder(self, name: str) -> Path:
        if name not in self.service.config.models:
            raise NotFound(f"There is no model {name[:60]!r}.")
        return Path(self.service.config.models[name].folder).resolve()

    # Refits

    def refresh(self, name: str, schedule: Schedule | None = None) -> dict[str, Any]:
        """Train a model again on stored rows; use the new one if nothing speaks against it.

        Parameters
        ----------
        name : str
        schedule : Schedule, optional
            None: the one in the configuration, or the default one.

        Returns
        -------
        dict
            As `candidate` returns.

        Raises
        ------
        NotFound
            If there is no such model.
        RefitError
            If a model is being replaced already.
        """
        self._folder(name)
        schedules = [known for known in self.service.config.schedules.values() if known.model == name]
        schedule = schedule or (schedules[0] if schedules else Schedule(model=name))
        with self._alone():
            values = {"model": name, "state": "running", "started": time.time(), "comparison": {}, "note": ""}
            with self.store.writing() as connection:
                self.store.next_change(connection)  # so that pages look again
                insert = sa.insert(schema.refreshes).values(**values).returning(schema.refreshes.c.id)
                number = connection.execute(insert).scalar_one()
            try:
                self._refit(name, number, schedule)
            except Exception as error:
                note = _said(error)
                self.service.problems.add("refresh", f"The refit of the model {name!r} failed: {note}")
                self._fail_running(note)
        return self.candidate(name)

    def _refit(self, name: str, number: int, schedule: Schedule) -> None:
        comparison = self._run(self._job(name, schedule), schedule)
        objections = comparison["objections"]
        if objections:
            note = f"Not used: {'; '.join(objections)}."
        else:
            note = "" if schedule.swap else "It waits until a person accepts it."
        self._supersede(name)
        self._finish(number, "candidate", comparison, note)
        if not note:
            self._use_candidate(name, number, "refreshed")

    def begin(self, name: str) -> dict[str, Any]:
        """Train a model again in the background."""
        self._folder(name)
        self._begin(f"The refit of the model {name!r}", lambda: self.refresh(name))
        return {"model": name, "state": "running"}

    def _begin(self, what: str, replace: Callable[[], object]) -> None:
        """Replace a model in the background; `what` begins the sentence that says it if that fails."""
        if self._busy.locked():
            raise RefitError(BUSY)

        def run() -> None:
            try:
                replace()
            except Exception as error:
                self.service.problems.add("refresh", f"{what} failed: {_said(error)}")

        threading.Thread(target=run, name="refresh", daemon=True).start()

    def _job(self, name: str, schedule: Schedule, **more: Any) -> Job:
        model, server = self.service.config.models[name], self.service.config.server
        return Job(
            server.url,
            name,
            model.folder,
            str(_candidate(self._folder(name))),
            duration(schedule.history),
            schedule.megabytes,
            model.reorder,
            model.seconds,
            model.provisional,
            list(server.calendars),
            **more,
        )

    def _run(self, job: Job, schedule: Schedule) -> dict[str, Any]:
        """Do a job in a process of its own; raise if it fails or takes too long."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "tsadc.serve.refresh_job"]
        reading, writing = os.pipe()  # not one of `Popen`, which `communicate` closes: its end ends the process
        with open(writing, "wb", buffering=0) as requests:
            with open(reading) as source:
                self._process = process = subprocess.Popen(
                    command, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
                )
            with suppress(BrokenPipeError):  # it ended at once, and why is in its errors
                requests.write(as_line(job).encode())
            out, errors = self._answer(process, schedule)
        lines = out.splitlines()
        if process.returncode or not lines:
            said = last_said(errors) or f"exit code {process.returncode}"
            raise RefitError(
                f"The refit ended early ({said}), perhaps because it needs more than {job.megabytes} MB, "
                "`megabytes` of its schedule."
            )
        answer = parse_json(lines[-1].encode())
        if "error" in answer:
            raise RefitError(str(answer["error"]))
        return dict(answer["comparison"])

    def _answer(self, process: subprocess.Popen[str], schedule: Schedule) -> tuple[str, str]:
        """Wait for the end of a process and return what it wrote; end it and raise if it takes too long."""
        try:
            return process.communicate(timeout=60 * schedule.minutes)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise RefitError(
                f"The refit took more than {schedule.minutes:g} minutes and was ended; raise `minutes`, or shorten "
                "`history`."
            ) from None
        finally:
            self._process = None

    def _finish(self, number: int, state: str, comparison: Mapping[str, Any], note: str) -> None:
        table = schema.refreshes.c
        values = {"state": state, "finished": time.time(), "comparison": dict(comparison), "note": note}
        with self.store.writing() as connection:
            self.store.next_change(connection)  # so that pages look again
            connection.execute(sa.update(schema.refreshes).where(table.id == number).values(**values))

    def _supersede(self, name: str) -> None:
        """An earlier candidate, whose folder has been replaced, is no longer one."""
        table = schema.refreshes.c
        earlier = (table.model == name) & (table.state == "candidate")
        with self.store.writing() as connection:
            values = {"state": "refused", "note": "A later refit replaced it."}
            connection.execute(sa.update(schema.refreshes).where(earlier).values(**values))

    def _use_candidate(self, name: str, number: int, note: str, said: str = "") -> None:
        """Put the candidate in place of the model; `note` is for the history of models, `said` for the refit."""
        folder = self._folder(name)
        candidate = _candidate(folder)
        replace_model(folder, candidate)
        with self.store.writing() as connection:
            self.store.next_change(connection)  # scoring changes episodes, too, and in another order
            table, episode = schema.refreshes.c, schema.episodes.c
            refresh = table.id == number
            started, comparison = connection.execute(sa.select(table.started, table.comparison).where(refresh)).one()
            values = {"state": "used", "comparison": {**comparison, "digest": model_digest(folder)}, "note": said}
            connection.execute(sa.update(schema.refreshes).where(refresh).values(**values))
            scores = [{"key": key, "by": score} for key, score in comparison.get("episode_scores", {}).items()]
            if scores:
                update = sa.update(schema.episodes).where(episode.id == sa.bindparam("key"))
                connection.execute(update.values(present_score=sa.bindparam("by")), scores)
        self._use(name, note, started)
        shutil.rmtree(candidate, ignore_errors=True)

    def _use(self, name: str, note: str, since: float) -> None:
        """Let the service use what is in the folder of a model now, and teach it the verdicts given after `since`."""
        self.service.use_models()
        table = schema.models.c
        current = (table.name == name) & (table.state == "current")
        with self.store.writing() as connection:
            connection.execute(sa.update(schema.models).where(current).values(note=note))
            episode = schema.episodes.c
            later = (episode.model == name) & (episode.verdict_time >= since)
            judged = list(connection.scalars(sa.select(episode.id).where(later)))
        for key in judged:
            self.service.teach(key)

    def candidate(self, name: str) -> dict[str, Any]:
        """Return the latest refit of a model: its state, and the comparison with the model that was in use then."""
        self._folder(name)
        found = self._latest(name)
        if found is None:
            raise NotFound(f"The model {name!r} has not been trained again yet.")
        return found

    def candidates(self) -> list[dict[str, Any]]:
        """Return the latest refit of every model that has one."""
        return [found for name in self.service.config.models if (found := self._latest(name)) is not None]

    def _latest(self, name: str) -> dict[str, Any] | None:
        table, model = schema.refreshes.c, schema.models.c
        query = sa.select(schema.refreshes).where(table.model == name).order_by(table.id.desc()).limit(1)
        in_use = sa.select(model.digest).where((model.name == name) & (model.state == "current"))
        with self.store.reading() as connection:
            row = connection.execute(query).mappings().one_or_none()
            digest = connection.scalar(in_use)
        if row is None:
            return None
        # Compared with the model in use, as that may be replaced without this service, too.
        replaced = row["state"] == "used" and row["comparison"].get("digest", digest) != digest
        own = ("episode_scores", "digest")
        return {
            **{key: row[key] for key in ("id", "model", "note")},
            "state": "replaced" if replaced else row["state"],
            **{key: moment(row[key]) for key in ("started", "finished")},
            "comparison": {key: value for key, value in row["comparison"].items() if key not in own},
        }

    def accept(self, name: str, by: str) -> dict[str, Any]:
        """Use a candidate."""
        with self._alone():
            number = self._waiting(name)
            accepted = f"accepted by {by}" if by else "accepted"
            self._use_candidate(name, number, f"refreshed, {accepted}", f"A{accepted[1:]}.")
        return self.candidate(name)

    def refuse(self, name: str, by: str) -> dict[str, Any]:
        """Remove a candidate."""
        with self._alone():
            number, table = self._waiting(name), schema.refreshes.c
            with self.store.writing() as connection:
                values = {"state": "refused", "note": f"Refused by {by}." if by else "Refused."}
                connection.execute(sa.update(schema.refreshes).where(table.id == number).values(**values))
            shutil.rmtree(_candidate(self._folder(name)), ignore_errors=True)
        return self.candidate(name)

    def _waiting(self, name: str) -> int:
        latest = self.candidate(name)
        if latest["state"] != "candidate" or not _candidate(self._folder(name)).exists():
            raise RefitError(f"The model {name!r} has no candidate that waits; its last refit is {latest['state']}.")
        return int(latest["id"])

    def roll_back(self, name: str) -> dict[str, Any]:
        """Use the former model again; a second call undoes it."""
        with self._alone():
            folder = self._folder(name)
            table = schema.models.c
            with self.store.reading() as connection:
                current = (table.name == name) & (table.state == "current")
                since = connection.scalar(sa.select(table.since).where(current))
            roll_back(folder)
            self._use(name, "rolled back", since or 0.0)
            return {"model": name, "state": "rolled back", "previous": str(previous(folder))}

    # New levels

    def look(self) -> None:
        """Propose entities that have a new level, and end proposals whose period is over."""
        lasting = self._lasting()
        entity = schema.entities.c
        with self.store.reading() as connection:
            query = sa.select(entity.id, entity.name, entity.model, entity.score).where(entity.score.is_not(None))
            known = connection.execute(query.order_by(entity.id)).all()
        examined = 0
        # Those that were not examined last time come first: a sensor that stays stuck is examined in every look.
        for number, name, model, score in sorted(known, key=lambda row: row.id <= self._examined):
            if model not in self.service.config.models:
                continue
            detector = self._detector(model)
            if score <= detector.threshold_ and number not in lasting:
                continue
            ends, scores = self._recent(number)
            if drifting(scores, detector.threshold_) is None:
                self._end(lasting.get(number))
            elif number not in lasting and examined < AT_ONCE:
                examined += 1
                self._examined = number
                self._propose(number, name, model, detector, ends[0])

    def _lasting(self) -> dict[int, int]:
        """Return the proposals whose period lasts, by entity."""
        table = schema.proposals.c
        with self.store.reading() as connection:
            rows = connection.execute(sa.select(table.entity, table.id).where(table.lasting)).all()
        return {entity: number for entity, number in rows}  # noqa: C416 -- rows are no plain tuples

    def _recent(self, entity: int) -> tuple[list[int], list[float]]:
        """Return the beginning and the score of the latest final verdicts, oldest first."""
        table = schema.scores.c
        query = sa.select(table.start, table.score).where((table.entity == entity) & table.final)
        with self.store.reading() as connection:
            rows = connection.execute(query.order_by(table.end.desc()).limit(LOOKED_BACK)).all()[::-1]
        return [row.start for row in rows], [row.score for row in rows]

    def _end(self, number: int | None) -> None:
        if number is None:
            return
        table = schema.proposals.c
        state = sa.case((table.state == "open", "ended"), else_=table.state)
        with self.store.writing() as connection:
            update = sa.update(schema.proposals).where(table.id == number)
            connection.execute(update.values(lasting=False, state=state))

    def _propose(self, number: int, name: str, model: str, detector: Detector, since: int) -> None:
        clock = live_clock(model, detector.clock_, self.service.config.models[model].seconds)
        series = rows_of(self.store, model, detector.variables_, clock, since, name)
        found = [drift for drift in detector.detect(series).drift if drift.entity == name] if series else []
        if not found or not _is_level(found[0]):
            return
        drift: Drift = found[0]
        values = {
            "entity": number,
            "state": "open",
            "lasting": True,
            "since": int(drift.since.value),  # type: ignore[union-attr]
            "above": drift.above,
            "observations": drift.observations,
            "variables": [asdict(moved) for moved in drift.variables],
            "created": time.time(),
            "by": "",
        }
        with self.store.writing() as connection:
            connection.execute(sa.insert(schema.proposals).values(**values))

    def proposals(self, number: int | None = None) -> list[dict[str, Any]]:
        """Return proposals, latest first."""
        table, entity = schema.proposals.c, schema.entities.c
        query = sa.select(schema.proposals, entity.name, entity.model).join(schema.entities, entity.id == table.entity)
        if number is not None:
            query = query.where(table.id == number)
        with self.store.reading() as connection:
            rows = connection.execute(query.order_by(table.id.desc()).limit(1000)).mappings().all()
        kept = ("id", "model", "state", "lasting", "above", "observations", "variables", "by")
        return [
            {
                "entity": row["name"],
                "since": iso(row["since"]),
                **{key: moment(row[key]) for key in ("created", "decided")},
                **{key: row[key] for key in kept},
                "note": self._failed.get(row["id"], "") if row["state"] == "open" else "",
            }
            for row in rows
        ]

    def _open(self, number: int) -> dict[str, Any]:
        """Return a proposal that is open; raise if there is none, or it was decided."""
        found = self.proposals(number)
        if not found:
            raise NotFound(f"There is no proposal {number}.")
        if found[0]["state"] != "open":
            raise RefitError(f"The proposal {number} is {found[0]['state']} already.")
        return found[0]

    def begin_adapting(self, number: int, by: str) -> dict[str, Any]:
        """Accept a proposal in the background."""
        proposal = self._open(number)
        self._begin(f"Learning the new level of {proposal['entity']!r}", lambda: self.decide(number, True, by))
        return {**proposal, "state": "adapting", "note": ""}

    def decide(self, number: int, accepted: bool, by: str) -> dict[str, Any]:
        """Accept a proposal, which adapts the model to the entity, or refuse it."""
        proposal = self._open(number)
        if accepted:
            began = time.time()
            with self._alone():
                self._failed.pop(number, None)
                self._set_proposal(number, state="adapting")
                try:
                    self._adapt(proposal, began)
                except BaseException as error:
                    self._failed[number] = f"The model could not learn the new level: {error}"
                    self._set_proposal(number, state=_OPEN_AGAIN)
                    raise
        self._set_proposal(number, state="accepted" if accepted else "refused", decided=time.time(), by=by)
        return self.proposals(number)[0]

    def _adapt(self, proposal: Mapping[str, Any], began: float) -> None:
        """Let a model learn the new level of an entity."""
        name, entity, table = proposal["model"], proposal["entity"], schema.proposals.c
        schedule = Schedule(model=name)
        with self.store.reading() as connection:
            since = connection.scalar(sa.select(table.since).where(table.id == proposal["id"]))
        self._run(self._job(name, schedule, entity=entity, since=since), schedule)
        self._supersede(name)
        replace_model(self._folder(name), _candidate(self._folder(name)))
        self._use(name, f"adapted to {entity}", began)
        shutil.rmtree(_candidate(self._folder(name)), ignore_errors=True)

    def _set_proposal(self, number: int, **values: Any) -> None:
        with self.store.writing() as connection:
            self.store.next_change(connection)  # so that pages look again
            connection.execute(sa.update(schema.proposals).where(schema.proposals.c.id == number).values(**values))


def _said(error: Exception) -> str:
    """Return the sentence of an error; one that is not expected goes to the log with its traceback."""
    if isinstance(error, TsadcError):
        return str(error)
    log.error("A refit failed", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _candidate(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.candidate")


def _is_level(drift: Drift) -> bool:
    """Return whether levels have moved; a sensor that is missing or stuck is broken, and no new normal."""
    return drift.observations >= LEAST_DRIFT and bool(drift.variables) and not drift.missing and not drift.stuck
