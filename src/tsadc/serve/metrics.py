"""What the service counts and complains about: `/metrics`, and the sentences of `/v1/health`."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from tsadc.errors import DataError
from tsadc.serve import schema
from tsadc.serve.queries import open_proposals
from tsadc.serve.store import StoreError

if TYPE_CHECKING:
    from tsadc.serve.service import Service

RECENT = 600.0  # seconds that a problem is shown after it last occurred
MOST_PROBLEMS = 50
MOST_ENTITIES = 1_000  # with figures of their own in `/metrics`
EVERY = 60.0  # seconds between two log lines about the same problem
MOST_LOGGED = 5  # problems of the same reason in that time
log = logging.getLogger("tsadc.serve")


@dataclass
class Problem:
    """A problem that occurred `count` times, last at `when` (seconds since 1970). `about` names who has it."""

    reason: str
    sentence: str
    count: int
    when: float
    about: str = ""


class Problems:
    """The problems of senders, readers, writers and the store, for those who can fix them.

    Each has a reason, one word that is counted in `/metrics`, and a sentence. The latest sentences are kept; of
    several sentences with the same reason and the same `about`, only the latest is kept."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._recent: dict[tuple[str, str], Problem] = {}
        self._lasting: dict[tuple[str, str], Problem] = {}
        self._logged: dict[str, dict[str, float]] = {}  # reason -> about or sentence -> when
        self._lock = threading.Lock()

    def add(self, reason: str, sentence: str, count: int = 1, about: str = "") -> None:
        """Count a problem that occurred `count` times, and write it to the log unless it, or several of the same
        reason, were logged a moment ago."""
        now = time.time()
        with self._lock:
            self.counts[reason] = self.counts.get(reason, 0) + count
            key = reason, about or sentence
            before = self._recent.pop(key, None)
            total = count if before is None else before.count + count
            self._recent[key] = Problem(reason, sentence, total, now, about)  # the latest comes last
            if len(self._recent) > MOST_PROBLEMS:
                del self._recent[next(iter(self._recent))]
            logged = {name: when for name, when in self._logged.get(reason, {}).items() if now - when < EVERY}
            silent = key[1] in logged or len(logged) >= MOST_LOGGED
            self._logged[reason] = logged if silent else {**logged, key[1]: now}
        if not silent:
            log.warning("%s", sentence)

    def hold(self, reason: str, sentence: str, about: str = "") -> None:
        """Count a problem, write it to the log, and show it until it is released or replaced by another one of this
        reason and `about` the same part of the service."""
        with self._lock:
            before = self._lasting.get((reason, about))
            self.counts[reason] = self.counts.get(reason, 0) + 1
            total = before.count + 1 if before is not None and before.sentence == sentence else 1
            self._lasting[reason, about] = Problem(reason, sentence, total, time.time(), about)
        if total == 1:
            log.warning("%s", sentence)

    def release(self, reason: str, about: str = "") -> None:
        """Stop showing the problem that is held for this reason, since it is over."""
        with self._lock:
            self._lasting.pop((reason, about), None)

    def lasting(self) -> list[Problem]:
        """Return the problems that last."""
        with self._lock:
            return list(self._lasting.values())

    def refusal(self, reason: str, sentence: str, about: str = "") -> DataError:
        """Count a problem and return it as an error to raise."""
        self.add(reason, sentence, about=about)
        return DataError(sentence)

    def recent(self) -> list[Problem]:
        """Return the problems of the last minutes, latest first, after those that last."""
        least = time.time() - RECENT
        with self._lock:
            recent = [problem for problem in reversed(self._recent.values()) if problem.when >= least]
            return [*self._lasting.values(), *recent]


def exposition(service: Service) -> bytes:
    """Return the metrics in the text format of Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Metrics(service))
    return generate_latest(registry)


class _Metrics(Collector):
    """Reads what is measured when it is asked for. Entities with the most severe episodes come first, and only so many
    of them have figures of their own."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def collect(self) -> Iterator[Metric]:
        service = self.service
        rows = CounterMetricFamily("tsadc_rows", "Rows by what became of them.", labels=["source", "outcome"])
        for (source, outcome), count in list(service.ingest.counts.items()):
            rows.add_metric([source, outcome], count)
        yield rows
        problems = CounterMetricFamily("tsadc_problems", "Refused requests and failures.", labels=["reason"])
        for reason, count in list(service.problems.counts.items()):
            problems.add_metric([reason], count)
        yield problems
        yield GaugeMetricFamily("tsadc_backlog_rows", "Stored rows that wait to be scored.", service.ingest.backlog)
        yield GaugeMetricFamily("tsadc_scoring_up", "Whether scoring runs.", int(service.scoring.is_running))
        yield CounterMetricFamily("tsadc_scoring_restarts", "Restarts of scoring.", max(service.scoring.restarts, 0))
        try:
            total, states, proposals, judged = self._read()
            waiting = service.store.undelivered()
        except StoreError:
            yield GaugeMetricFamily("tsadc_store_up", "Whether the store can be used.", 0)
            return
        yield GaugeMetricFamily("tsadc_store_up", "Whether the store can be used.", 1)
        events = GaugeMetricFamily("tsadc_waiting_events", "Events that a writer has not accepted.", labels=["writer"])
        for writer in service.config.writers:
            events.add_metric([writer], waiting[writer][0] if writer in waiting else 0)
        yield events
        yield GaugeMetricFamily("tsadc_entities", "Known entities.", total)
        episodes = GaugeMetricFamily("tsadc_episodes", "Episodes by state.", labels=["state"])
        for state, count in states:
            episodes.add_metric([state], count)
        yield episodes
        yield GaugeMetricFamily("tsadc_proposals_open", "New levels that wait for a decision.", proposals)
        for name, about in (("score", "Latest score."), ("threshold", "Threshold."), ("anomalous", "Alarm state.")):
            family = GaugeMetricFamily(f"tsadc_{name}", f"{about} By entity.", labels=["entity"])
            for entity in judged:
                family.add_metric([entity.name], float(getattr(entity, name)))
            yield family
        blame = GaugeMetricFamily(
            "tsadc_contribution", "Share of a variable in an alarm.", labels=["entity", "variable"]
        )
        for entity in judged:
            for variable, share in (entity.variables or {}).items() if entity.anomalous else ():
                blame.add_metric([entity.name, variable], share)
        yield blame

    def _read(self) -> tuple[int, Sequence[Any], int, Sequence[Any]]:
        """Return the number of entities, those of episodes by state and of open proposals, and the entities with
        figures of their own."""
        entity, episode = schema.entities.c, schema.episodes.c
        with self.service.store.reading() as connection:
            total = connection.scalar(sa.select(sa.func.count()).select_from(schema.entities))
            states = connection.execute(
                sa.select(episode.state, sa.func.count()).group_by(episode.state).select_from(schema.episodes)
            ).all()
            judged = connection.execute(
                sa.select(entity.name, entity.score, entity.threshold, entity.anomalous, entity.variables)
                .where(entity.score.is_not(None))
                .order_by(entity.anomalous.desc(), entity.severity.desc(), entity.name)
                .limit(MOST_ENTITIES)
            ).all()
            proposals = open_proposals(connection)
        return total or 0, states, proposals, judged
