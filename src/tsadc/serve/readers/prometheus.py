"""PromQL range queries, repeated -> rows.

Each query has a name, which is the name of the variable; labels become the entity and the rest of the name, see
`labels.py`. All queries are evaluated at the same times, multiples of `step`, so rows are complete and on a regular
clock, whatever the times of the scrapes. After an interruption the reader goes on where it stopped."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import pandas as pd

from tsadc.config import require
from tsadc.errors import ConfigError, DataError
from tsadc.serve.endpoint import Endpoint
from tsadc.serve.readers import Positions, Submit, hand_over
from tsadc.serve.readers.labels import Decoded, LabelMapping, SeriesIndex, to_batches
from tsadc.serve.readers.remote_write import series_name
from tsadc.serve.readers.tables import pace
from tsadc.serve.rows import RowBatch
from tsadc.serve.writers import DeliveryError

POSITION = "until"
MOST_STEPS = 1000  # of one query, to keep answers small; Prometheus refuses more than 11,000
MOST_ANSWER = 2**28  # bytes
SECOND = 10**9


@dataclass(frozen=True)
class Settings(LabelMapping, Endpoint):
    """The server, the queries, and when they are evaluated.

    Parameters
    ----------
    url, token_variable, timeout
        See `Endpoint`. The address without a path, such as http://localhost:9090.
    queries : tuple of pairs
        Names of variables and their PromQL, such as ``[["cpu", "rate(node_cpu_seconds_total[1m])"]]``. With an empty
        name, variables have the names of the series, as in remote write.
    step : float, default 30
        Seconds from row to row: that of the model.
    delay : float, default 30
        Seconds that the latest row lies behind, so that late scrapes are part of it.
    history : float, default 3600
        How many seconds to go back when the reader runs for the first time.
    entity, ignore, keep, rename
        See `LabelMapping`.
    """

    queries: tuple[tuple[str, str], ...] = ()
    step: float = 30.0
    delay: float = 30.0
    history: float = 3600.0

    def __post_init__(self) -> None:
        LabelMapping.__post_init__(self)
        Endpoint.__post_init__(self)
        require(0.001 <= self.step <= 86400, "step", "from 0.001 to 86400 seconds", self.step)
        require(self.delay >= 0, "delay", "0 or more seconds", self.delay)
        require(self.history >= 0, "history", "0 or more seconds", self.history)
        names = [name for name, _ in self.queries if name]
        require(len(set(names)) == len(names), "queries", "pairs of a name and PromQL, each name once", names)


class Prometheus:
    """Asks a Prometheus server for values."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings

    def run(self, submit: Submit, positions: Positions, stop: Event) -> None:
        """Query until `stop` is set."""
        step = round(self.settings.step * SECOND)
        for _ in pace(stop, self.settings.step):
            now = time.time_ns()
            last = (now - round(self.settings.delay * SECOND)) // step
            stored = positions.get(POSITION)
            first = (now - round(self.settings.history * SECOND)) // step if stored is None else int(stored) // step + 1
            while first <= last and not stop.is_set():
                end = min(last, first + MOST_STEPS - 1)
                for batch in self.rows(first * step, end * step):
                    hand_over(batch, submit, stop, self.name)
                positions.set(POSITION, str(end * step))
                first = end + 1

    def rows(self, start: int, end: int) -> list[RowBatch]:
        """Return the rows from `start` to `end`, in nanoseconds since 1970, both multiples of the step.

        Raises
        ------
        DataError
            If the server does not answer, or none of its series can be used, whatever its values. Those that are not a
            number, as those of a ratio of zeros, count as not measured.
        """
        index = SeriesIndex(self.settings)
        parts: list[Any] = []
        for name, query in self.settings.queries:
            for series in self._ask(query, start, end):
                labels = [(str(label), str(value)) for label, value in series["metric"].items()]
                given, labels = series_name(labels)
                codes = index.add(b"", name or given, labels)
                samples = np.array([(float(stamp), float(value)) for stamp, value in series["values"]]).reshape(-1, 2)
                parts.append((np.full(len(samples), codes[0]), np.full(len(samples), codes[1]), samples))
        if not parts:
            return []
        samples = np.concatenate([part[2] for part in parts])
        entities, variables = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        times = np.round(samples[:, 0] * 1000).astype(np.int64) * 10**6
        decoded: Decoded = to_batches(self.name, index, entities, variables, times, samples[:, 1], partial=False)
        if not index.entities:
            raise DataError(
                f"The queries of the reader {self.name!r} gave only {', '.join(index.reasons)}; change them, or "
                f"`entity` and `ignore` of [reader.{self.name}]."
            )
        return _joined(self.name, decoded.batches)

    def _ask(self, query: str, start: int, end: int) -> list[Mapping[str, Any]]:
        times = {name: f"{tick / SECOND:.3f}" for name, tick in (("start", start), ("end", end))}
        form = urllib.parse.urlencode({"query": query, **times, "step": f"{self.settings.step:g}"})
        try:
            answer = self.settings.request(f"/api/v1/query_range?{form}", method="GET", most=MOST_ANSWER)
            if answer["data"]["resultType"] != "matrix":
                raise KeyError
            found: list[Mapping[str, Any]] = answer["data"]["result"]
            for series in found:
                _ = series["metric"].items(), series["values"]
        except DeliveryError as error:
            raise DataError(f"The query {query[:100]!r} failed: {error}.") from None
        except (KeyError, TypeError, AttributeError):
            raise DataError(f"{self.settings.url} does not answer like Prometheus; check `url`.") from None
        return found


def _joined(source: str, batches: Iterable[RowBatch]) -> list[RowBatch]:
    """Join the rows of each entity, which may have different variables, in order of time, in which they are scored."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for batch in batches:
        frame = pd.DataFrame(batch.values, index=batch.times, columns=list(batch.names))
        frames.setdefault(batch.entity, []).append(frame)
    joined = {entity: pd.concat(parts).sort_index() for entity, parts in frames.items()}
    return [
        RowBatch(source, entity, tuple(frame.columns), frame.index.to_numpy(), frame.to_numpy())
        for entity, frame in joined.items()
    ]


def history(settings: Settings, start: int, end: int) -> pd.DataFrame:
    """Return what the reader would have read between two times, in nanoseconds since 1970, as a table with the columns
    `time` and `entity` and one per variable."""
    reader = create("collect", settings)
    step = round(settings.step * SECOND)
    first, last = -(-start // step), end // step
    parts = []
    for begin in range(first, last + 1, MOST_STEPS):
        for batch in reader.rows(begin * step, min(begin + MOST_STEPS - 1, last) * step):
            frame = pd.DataFrame(batch.values, columns=list(batch.names))
            frame.insert(0, "entity", batch.entity)
            frame.insert(0, "time", pd.to_datetime(batch.times, utc=True))
            parts.append(frame)
    if not parts:
        raise DataError(f"{settings.url} has no values for these queries in this time; check the queries and the time.")
    return pd.concat(parts).sort_values(["entity", "time"], ignore_index=True)


def create(name: str, settings: Settings) -> Prometheus:
    """Return the reader."""
    if not settings.url or not settings.queries:
        raise ConfigError(f"The reader {name!r} needs `url`, the address of Prometheus, and `queries`.")
    settings.token()
    return Prometheus(name, settings)
