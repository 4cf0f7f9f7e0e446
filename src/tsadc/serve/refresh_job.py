"""Train a model again on the rows of the store, or adapt it to an entity's new level, in a process of its own:
`python -m tsadc.serve.refresh_job`.

The parent writes a `Job` as a line of JSON to the standard input. The new model is written to a folder, and a line of
JSON to the standard output: the comparison with the present model, or one sentence about what went wrong. The process
limits its own memory, and the parent the time. It ends when its input does, so that it does not outlive the parent. The
model in use is only read.

What is flagged is not learnt from, nor what a person called true or planned; see `detectors/refit.py`. Old and new
are compared on the last days: seven, or a quarter of a shorter history. Both are replayed over them as live rows would
be judged (`backtest.py`). The new model has learnt from these days, too; its agreement is therefore measured with the
scores of training, which the ensemble computes in folds."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import sqlalchemy as sa

from tsadc.detectors.refit import Refit, refit
from tsadc.detectors.store import load
from tsadc.errors import DataError, RefitError, TsadcError, TsadcNotice, listed
from tsadc.io.calendar import Calendar, Planned
from tsadc.series import Clock, Series
from tsadc.serve import schema
from tsadc.serve.backtest import Rules, replay
from tsadc.serve.config import live_clock
from tsadc.serve.store import Store
from tsadc.serve.stored_rows import rows_between
from tsadc.wording import DAY

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MOST_MORE, SLACK = 2, 3  # alarms of the new model: at most twice as many as of the present one, and three more
LEAST_AGREEMENT = 0.9  # share of the observations of the last days
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """What to do, as plain data.

    Attributes
    ----------
    url : str
        The store.
    name, folder : str
        The model in use.
    reorder, seconds, provisional
        As in `[model.*]`.
    out : str
        Folder to write; an earlier one is replaced.
    history : int
        Nanoseconds of rows to learn from.
    megabytes : int
        Maximum memory.
    calendars : sequence of str
    entity : str
        Adapt to this entity instead of training again; empty: train.
    since : int
        Since when the entity has its new level.
    """

    url: str
    name: str
    folder: str
    out: str
    history: int
    megabytes: int
    reorder: int = 0
    seconds: float = 0.0
    provisional: bool = True
    calendars: Sequence[str] = ()
    entity: str = ""
    since: int = 0


def rows_of(
    store: Store, model: str, names: tuple[str, ...], clock: Clock, since: int, entity: str = ""
) -> list[Series]:
    """Return the stored rows of a model's entities from a time on, as series on the model's clock."""
    table = schema.entities.c
    chosen = (table.model == model) & (table.name == entity) if entity else table.model == model
    found = []
    with store.reading() as connection:
        for number, name in connection.execute(
            sa.select(table.id, table.name).where(chosen).order_by(table.name)
        ).all():
            rows = rows_between(connection, number, since)
            if len(rows):
                found.append(rows.series(name, names, clock))
    return found


def newest(store: Store, model: str) -> int:
    """Return the time of the latest row of a model's entities."""
    query = sa.select(sa.func.max(schema.entities.c.last_time)).where(schema.entities.c.model == model)
    with store.reading() as connection:
        found = connection.scalar(query)
    if found is None:
        raise RefitError(f"The store has no rows of the model {model!r} to learn from yet.")
    return int(found)


def judged_episodes(store: Store, model: str, since: int) -> list[dict[str, Any]]:
    """Return the episodes of a model's entities from a time on."""
    episode, entity = schema.episodes.c, schema.entities.c
    columns = (
        episode.id,
        episode.interval,
        entity.name,
        episode.start,
        episode.end,
        episode.verdict,
        episode.withdrawn,
    )
    query = sa.select(*columns).join(schema.entities, entity.id == episode.entity)
    with store.reading() as connection:
        rows = connection.execute(query.where((entity.model == model) & (episode.end > since))).mappings().all()
    return [dict(row) for row in rows]


def train(job: Job, store: Store) -> dict[str, Any]:
    """Train the model again, save it, and return the comparison."""
    detector = load(Path(job.folder))
    clock = live_clock(job.name, detector.clock_, job.seconds)
    end = newest(store, job.name) + clock.interval
    length = detector.settings.length
    series = rows_of(store, job.name, detector.variables_, clock, end - job.history)
    window = [part for part in series if len(part) >= length]
    if not window:
        raise RefitError(f"No entity of the model {job.name!r} has as many rows as an observation, {length}, yet.")
    episodes = judged_episodes(store, job.name, end - job.history)
    calendar = Calendar.read(*job.calendars)
    teacher = load(Path(job.folder))
    done = refit(teacher, window, force=True, calendar=_teach(teacher, window, episodes, calendar))
    shutil.rmtree(job.out, ignore_errors=True)
    done.detector.save(job.out)
    rules = Rules(job.reorder, job.seconds, job.provisional)
    return compare(detector, done, window, episodes, rules)


def _teach(detector: Detector, window: Sequence[Series], episodes: Sequence[Row], calendar: Calendar) -> Calendar:
    """Teach the detector what people said about episodes, unless it knows; return the calendar with what is left out of
    learning, since no interval of the present model is about it."""
    known = {verdict.id for verdict in detector.verdicts_}
    judged = [episode for episode in episodes if episode["verdict"] is not None and episode["interval"] not in known]
    if not judged:
        return calendar
    result = detector.detect(window, calendar=calendar)
    answers: dict[str, str | bool | None] = {}
    left_out = []
    for episode in judged:
        same = [
            interval.id(part.series)
            for part in result.parts
            if part.series.entity == episode["name"]
            for interval in part.intervals
            if part.series.clock.tick(interval.start) < episode["end"]
            and part.series.clock.tick(interval.stop) > episode["start"]
        ]
        answers |= dict.fromkeys(same, str(episode["verdict"]))
        if not same and episode["verdict"] != "false":
            left_out.append(Planned(episode["start"], episode["end"], episode["name"], ticks=True))
    if answers:
        detector.feedback(result, answers)
    return Calendar((*calendar.entries, *left_out))


def compare(
    present: Detector, done: Refit, window: Sequence[Series], episodes: Sequence[Row], rules: Rules
) -> dict[str, Any]:
    """Return how the present and the new model judge the last days, and what speaks against the new one."""
    new, start = done.detector, done.start
    replays = [replay(detector, window, rules, start=start) for detector in (present, new)]
    alarms = [len(replayed.alarms) for replayed in replays]
    missed = [
        episode["id"]
        for episode in episodes
        if episode["verdict"] == "true"
        and episode["start"] >= start
        and not any(
            alarm.entity == episode["name"] and alarm.start < episode["end"] and alarm.end > episode["start"]
            for alarm in replays[1].alarms
        )
    ]
    drifting = [[drift.entity for drift in result.drift] for result in (done.old, done.new)]
    forgotten = sorted(set(present.scaler_.entities) - {part.entity for part in window})
    objections = done.objections()
    if alarms[1] > MOST_MORE * alarms[0] + SLACK:
        objections.append(f"it raises {alarms[1]} alarms in the last {done.days:.3g} days, the present one {alarms[0]}")
    if done.agreement < LEAST_AGREEMENT:
        objections.append(f"it agrees with the present one on {done.agreement:.0%} of the last observations only")
    if missed:
        objections.append(f"it misses what a person called a true anomaly: {listed(missed)}")
    if more := sorted(set(drifting[1]) - set(drifting[0])):
        objections.append(f"{listed(more)} drift according to the new model, but not according to the present one")
    if forgotten:
        objections.append(f"it forgets {listed(forgotten)}, of which no rows came")
    scores: dict[str, float] = {}
    for episode in episodes:
        if (score := _highest(done, episode)) is not None:
            scores[str(episode["id"])] = score
    old_flags, new_flags = done.flagged
    return {
        "learnt_from": {
            "observations": len(new.decision_scores_),
            "entities": len(window),
            "days": round(max(len(part) * part.clock.interval for part in window) / DAY, 3),
            "rows_left_out": done.removed,
        },
        "compared": {"days": round(done.days, 3), "observations": int(done.recent.sum())},
        "threshold": {"present": present.threshold_, "candidate": new.threshold_},
        "alarms": {"present": alarms[0], "candidate": alarms[1]},
        "flagged": {"present": old_flags, "candidate": new_flags},
        "agreement": done.agreement,
        "rank_correlation": done.correlation if np.isfinite(done.correlation) else None,
        "drifting": {"present": drifting[0], "candidate": drifting[1]},
        "lost_variables": list(done.lost),
        "forgotten_entities": forgotten,
        "missed_episodes": missed,
        "objections": objections,
        "episode_scores": scores,
    }


def _highest(done: Refit, episode: Row) -> float | None:
    """Return the highest score of the new model in an episode."""
    scored = done.new.scored
    scores = []
    for place, score in zip(scored.places, done.new.scores, strict=True):
        series = scored.series[place.series]
        begin = series.clock.tick(place.start)
        end = begin + done.new.length * series.clock.interval
        if series.entity == episode["name"] and begin < episode["end"] and end > episode["start"]:
            scores.append(float(score))
    return max(scores, default=None)


def adapt(job: Job, store: Store) -> dict[str, Any]:
    """Adapt the model to the new level of an entity and save it."""
    detector = load(Path(job.folder))
    clock = live_clock(job.name, detector.clock_, job.seconds)
    series = rows_of(store, job.name, detector.variables_, clock, job.since, job.entity)
    if not series:
        raise DataError(f"The store has no rows of {job.entity!r} since its new level began.")
    detector.adapt(series)
    shutil.rmtree(job.out, ignore_errors=True)
    detector.save(job.out)
    return {"adapted_to": job.entity, "rows": len(series[0])}


def main() -> None:
    """Do the job on the standard input."""
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_input, daemon=True).start()
    limit = job.megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    os.nice(5)  # scoring goes first
    warnings.simplefilter("ignore", TsadcNotice)
    answer: dict[str, Any]
    try:
        store = Store(job.url, migrate=False)
        answer = {"comparison": adapt(job, store) if job.entity else train(job, store)}
    except TsadcError as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": f"The refit needs more than {job.megabytes} MB; raise `megabytes`, or shorten `history`."}
    print(json.dumps(answer), flush=True)


def _end_with_input() -> None:
    while os.read(0, 1):  # not `sys.stdin`, whose lock would be held when Python ends
        pass
    os._exit(1)


def as_line(job: Job) -> str:
    """Return a job as its line of JSON."""
    return json.dumps(asdict(job)) + "\n"


if __name__ == "__main__":
    main()
