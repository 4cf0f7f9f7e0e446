"""Replay the service over history: which alarms it would have raised, and when.

    name      meaning
    alarm     an episode that was opened, or opened again after its entity had been silent
    time      of the row on whose arrival the alarm was raised
    first     first anomalous row, by the latest verdict about the episode
    delay     from `first` to `time`

The rows of an entity go through the same stream and the same rules of episodes as live ones, without a database. They
are pushed in large pieces. What a stream decides does not depend on the size of pushes, so only a piece that decides
something about an anomaly is pushed again row by row, to learn at which row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import ConfigError, DataError, listed
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats, Series
from tsadc.serve.config import Config, Server
from tsadc.serve.config import Model as ModelSettings
from tsadc.serve.lifecycle import Episode, Quiet, advance, expire, silence
from tsadc.serve.writers import Transition
from tsadc.wording import DAY

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector
    from tsadc.detectors.streaming import LiveInterval, LiveVerdict, Stream

WARM_UP = 34  # observations before the replay: those of the longest section of a stream, and two more
PIECE = 2  # observations that are pushed at once
SECOND = 10**9
WEEK = 7 * DAY
MONDAY = 4 * DAY  # the first one after 1970-01-01


@dataclass(frozen=True)
class Rules:
    """How the service treats a model's rows: what `[model.*]` and `[server]` of its configuration say.

    Attributes
    ----------
    reorder : int
        Rows that are waited for.
    seconds : float
        Time from row to row, if the model does not know it; 0: that of the data.
    provisional : bool
        Whether alarms are raised before an observation is complete.
    expire_minutes : float
    quiet : Quiet
        Planned work, whose alarms are muted.
    judges : callable
        Whether the model judges an entity.
    """

    reorder: int = ModelSettings.reorder
    seconds: float = ModelSettings.seconds
    provisional: bool = ModelSettings.provisional
    expire_minutes: float = Server.expire_minutes
    quiet: Quiet = field(default_factory=Quiet)
    judges: Callable[[str], bool] = lambda _: True


@dataclass(frozen=True)
class Alarm:
    """An alarm, and what became of its episode until the end of the replay. Times are nanoseconds since 1970 in UTC."""

    entity: str
    time: int
    first: int
    start: int
    end: int
    state: str  # open, resolved or expired
    withdrawn: bool  # the final verdict did not confirm it
    muted: bool
    score: float
    severity: float
    alarm_score: float
    alarm_severity: float
    kind: str
    reason: str
    evidence: str
    variables: Mapping[str, float]

    @property
    def delay(self) -> int:
        """Nanoseconds from the first anomalous row to the alarm."""
        return self.time - self.first


@dataclass(frozen=True)
class EntityReplay:
    """The replay of one entity: its clock, whose `start` is the first replayed row, and how many rows had values."""

    entity: str
    clock: Clock
    length: int  # rows of the replay, with those that are missing
    rows: int
    refused: int  # rows too late, repeated or off the clock
    alarms: tuple[Alarm, ...]
    verdicts: tuple[LiveVerdict, ...]

    @property
    def sent(self) -> list[Alarm]:
        """The alarms that were not muted."""
        return [alarm for alarm in self.alarms if not alarm.muted]

    def scores(self) -> Floats:
        """Return for each row by how much the score of its observation exceeds the threshold, which drift may have
        raised; NaN where none was judged."""
        out = np.full(self.length, np.nan)
        for verdict in self.verdicts:
            if verdict.final:
                first, stop = (self.row(tick) for tick in (verdict.start, verdict.end))
                out[max(first, 0) : max(stop, 0)] = verdict.score - verdict.threshold
        return out

    def row(self, tick: int) -> int:
        """Return the row at a time."""
        return (tick - self.clock.start) // self.clock.interval


@dataclass(frozen=True)
class Backtest:
    """What the service would have done from `start` to `end`, in nanoseconds since 1970 in UTC. `unit` is the distance
    from the median score of the history to the threshold, for charts."""

    start: int
    end: int
    unit: float
    entities: tuple[EntityReplay, ...]

    @property
    def weeks(self) -> float:
        return (self.end - self.start) / WEEK

    @property
    def alarms(self) -> list[Alarm]:
        """All alarms, muted ones too, in order of time."""
        return sorted(
            (alarm for part in self.entities for alarm in part.alarms), key=lambda alarm: (alarm.time, alarm.entity)
        )

    @property
    def sent(self) -> list[Alarm]:
        """The alarms that were not muted."""
        return [alarm for alarm in self.alarms if not alarm.muted]

    def by_week(self, alarms: Sequence[Alarm]) -> dict[int, int]:
        """Return how many of the alarms were raised in each week that the replay touches, by the Monday in UTC."""
        first, last = (_monday(tick) for tick in (self.start, self.end - 1))
        found = dict.fromkeys(range(first, last + 1, WEEK), 0)
        for alarm in alarms:
            found[_monday(alarm.time)] += 1
        return found


def _monday(tick: int) -> int:
    return (tick - MONDAY) // WEEK * WEEK + MONDAY


def rules_of(config: Config, folder: Path, quiet: Quiet) -> Rules:
    """Return the rules for a model folder: those of the configured model with this folder, or of the only one."""
    matching = [name for name, model in config.models.items() if Path(model.folder).resolve() == folder.resolve()]
    names = matching or (list(config.models) if len(config.models) == 1 else [])
    if not names:
        raise ConfigError(
            f"{folder} is the folder of none of the models {listed(list(config.models))} of the configuration; give "
            "the folder of one of them."
        )
    chosen = config.models[names[0]]
    return Rules(
        chosen.reorder,
        chosen.seconds,
        chosen.provisional,
        config.server.expire_minutes,
        quiet,
        lambda entity: config.model_of(entity) == names[0],
    )


def replay(
    detector: Detector,
    series: Sequence[Series],
    rules: Rules = Rules(),
    *,
    start: int | None = None,
    end: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Backtest:
    """Replay the service over history.

    Parameters
    ----------
    detector : Detector
        A fitted detector; it stays as it is.
    series : sequence of Series
        Rows with dates, with the variables of the detector.
    rules : Rules, optional
    start, end : int, optional
        The part to replay, in nanoseconds since 1970 in UTC, `end` exclusive. None: everything. Rows before `start` are
        pushed, too, as far as a stream remembers them; alarms before it are not counted.
    progress : callable, optional
        Called with the number of rows that are done and of all rows.

    Returns
    -------
    Backtest

    Raises
    ------
    DataError
        If the rows have no dates, have another step than the model's, or none lies in the part to replay.
    ConfigError
        If the detector needs the whole record.
    """
    chosen = [item for item in series if rules.judges(item.entity)]
    if not chosen:
        raise DataError("The configuration lets this model judge none of the entities of the data.")
    undated = next((item.entity for item in chosen if not item.clock.dated), None)
    if undated is not None:
        raise DataError(f"A replay needs the times of rows, but {undated!r} has none; name its column with --time.")
    low, high = min(item.clock.start for item in chosen), max(item.clock.tick(len(item)) for item in chosen)
    first, last = low if start is None else start, high if end is None else end
    begin, stop, data_begin, data_end = replace(chosen[0].clock, start=0, interval=1).at([first, last, low, high])
    if start is not None and end is not None and end <= start:
        raise DataError(f"The replay should begin at {begin} (--from), but end at {stop} (--to); swap them.")
    if first >= high:
        raise DataError(f"The replay should begin at {begin} (--from), but the data ends at {data_end}; begin earlier.")
    if last <= low:
        raise DataError(f"The replay should end at {stop} (--to), but the data begins at {data_begin}; end later.")
    spans = [_span(item, first, last, detector.settings.length) for item in chosen]
    if not any(before < stop for _, before, stop in spans):
        raise DataError("The data has no rows in this time; choose another one.")
    total, done = sum(stop - warm for warm, _, stop in spans), 0
    parts = []
    for item, (warm, before, stop) in zip(chosen, spans, strict=True):
        if before < stop:
            replayed = _Replay(detector, item, rules, (warm, before, stop), last)
            for rows in replayed.run():
                done += rows
                if progress is not None:
                    progress(done, total)
            parts.append(replayed.result())
    limit = detector._threshold(detector.threshold_)
    return Backtest(first, last, limit.value - limit.middle, tuple(parts))


def _span(series: Series, first: int, last: int, length: int) -> tuple[int, int, int]:
    """Return the row that is pushed first, the row at which the replay begins, and the one at which it ends."""
    clock = series.clock
    before, stop = (int(np.clip(-((clock.start - tick) // clock.interval), 0, len(series))) for tick in (first, last))
    return max(0, before - WARM_UP * length), before, stop


class _Replay:
    """The replay of one entity."""

    def __init__(self, detector: Detector, series: Series, rules: Rules, span: tuple[int, int, int], end: int) -> None:
        warm, before, stop = span
        self.name, self.rules, self.end = series.entity, rules, end
        expected = round(rules.seconds * SECOND) or detector.clock_.every
        if expected and series.clock.interval != expected:
            raise DataError(
                f"{self.name!r} has a row every {spell(series.clock.interval)}, but the model expects one every "
                f"{spell(expected)}; give data of this step, or fit a model to the other one."
            )
        self.clock = replace(series.clock, start=series.clock.tick(before))
        self.length = stop - before
        self.stream: Stream = detector.stream(
            every=None if rules.provisional else 0, reorder=rules.reorder, clock=series.clock
        )
        values = np.asarray(series.values[warm:stop], dtype=np.float64)
        measured = np.flatnonzero(np.isfinite(values).any(axis=1))  # other rows would not have come
        self.values = values[measured]
        self.times: NDArray[np.int64] = series.clock.start + (warm + measured) * series.clock.interval
        self.piece = PIECE * detector.settings.length
        self.silence = round(SECOND * silence(rules.expire_minutes, series.clock.interval))
        self.quiet = replace(rules.quiet, zones={"": series.clock.timezone})
        self.known: dict[str, Episode] = {}
        self.opened: list[
            tuple[Episode, int, int, bool]
        ] = []  # episode, time, its start then, and whether it was muted
        self.verdicts: list[LiveVerdict] = []

    def run(self) -> Iterator[int]:
        """Push all rows; yield how many rows of the series are done with each piece."""
        for first, stop in self._pieces():
            if first and self.times[first] - self.times[first - 1] > self.silence:
                self._expire(int(self.times[first - 1]))
            self.verdicts += self._push(first, stop)
            yield stop - first
        if len(self.times) and self.end - self.times[-1] > self.silence:
            self._expire(int(self.times[-1]))

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield pieces of rows. A silence in which episodes expire begins a new one."""
        silent = np.flatnonzero(np.diff(self.times) > self.silence) + 1
        borders = [0, *silent.tolist(), len(self.times)]
        for begin, end in pairwise(borders):
            for first in range(begin, end, self.piece):
                yield first, min(first + self.piece, end)

    def _push(self, first: int, stop: int) -> list[LiveVerdict]:
        """Push rows and return the verdicts; if they decide something about an anomaly, row by row."""
        state = self.stream.state(self.name) if self.name in self.stream.entities else None
        counts = dict(self.stream.counts)
        update = self.stream.push_many(self.name, self.times[first:stop], self.values[first:stop])
        if update.intervals:
            self.stream.counts = counts
            self.stream.forget(self.name)
            if state is not None:
                self.stream.restore(self.name, state)
            for i in range(first, stop):
                again = self.stream.push_many(self.name, self.times[i : i + 1], self.values[i : i + 1])
                if again.intervals:
                    self._apply(again.intervals, int(self.times[i]))
        return list(update.verdicts)

    def _apply(self, intervals: Sequence[LiveInterval], tick: int) -> None:
        def emit(episode: Episode, transition: Transition) -> None:
            if transition == "opened":  # one that was muted at first becomes an alarm when it is not any more
                self.opened = [alarm for alarm in self.opened if alarm[0] is not episode or not alarm[3]]
                self.opened.append((episode, tick, episode["start"], episode["muted"]))

        advance(self.known, intervals, self.name, "", self.quiet, tick / SECOND, emit)

    def _expire(self, last: int) -> None:
        for episode in self.known.values():
            if episode["state"] == "open":
                expire(episode, (last + self.silence) / SECOND)

    def result(self) -> EntityReplay:
        """Return what was found from the beginning of the replay on."""
        begin = self.clock.start
        alarms = tuple(
            Alarm(
                entity=self.name,
                time=tick,
                first=episode["start"] if episode["start"] <= tick else start,
                muted=muted,
                **{name: episode[name] for name in ALARM_FIELDS},
            )
            for episode, tick, start, muted in self.opened
            if tick >= begin
        )
        counts = self.stream.counts
        refused = sum(counts[name] for name in ("late", "repeated", "off_clock"))
        verdicts = tuple(verdict for verdict in self.verdicts if verdict.end > begin)
        rows = int((self.times >= begin).sum())
        return EntityReplay(self.name, self.clock, self.length, rows, refused, alarms, verdicts)


ALARM_FIELDS = (
    *("start", "end", "state", "withdrawn", "score", "severity", "alarm_score", "alarm_severity"),
    *("kind", "reason", "evidence", "variables"),
)
