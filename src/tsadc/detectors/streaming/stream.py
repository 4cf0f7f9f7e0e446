"""Rows in, verdicts out: keeps the latest rows of every entity, and has them judged at ticks."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.detectors.streaming.judge import Judge
from tsadc.detectors.streaming.pushed import as_floats, as_ticks, in_order, names_of
from tsadc.detectors.streaming.rows import Rows
from tsadc.detectors.streaming.state import fingerprint, from_fields, pack, to_fields, unpack
from tsadc.detectors.streaming.track import Track
from tsadc.detectors.streaming.update import NOTHING, Decided, StreamUpdate
from tsadc.errors import ConfigError, DataError
from tsadc.io.clock import MAX_JITTER
from tsadc.io.memory import as_frame
from tsadc.series import Booleans, Clock, Floats

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

AT_ONCE = 8  # observations' worth of rows that are stored before they are scored
PER_OBSERVATION = 4  # ticks, by default
YEAR = 365 * 86_400 * 10**9  # nanoseconds
COUNTS = ("rows", "late", "repeated", "off_clock", "unknown_values", "infinite_values")


class Stream:
    """Rows in, verdicts out: made by `Detector.stream`, which explains it.

    Attributes
    ----------
    counts : dict of str to int
        How many rows were accepted (`rows`), and how many were refused: `late`, older than `reorder` allows;
        `repeated`, a time that has already come; `off_clock`, too far from the ticks of the clock. How many values were
        ignored: `unknown_values`, of variables that the model does not know, and `infinite_values`.
    every, reorder : int
        As given to `Detector.stream`.
    clock : Clock
        The clock of all rows; its `start` has no meaning.
    entities : tuple of str
        The entities that have sent rows.
    """

    def __init__(self, detector: Detector, every: int | None, reorder: int, clock: Clock | None) -> None:
        length = detector.settings.length
        if detector._audits:
            raise ConfigError(
                'A stream cannot be judged with mode="audit", which needs the whole record; fit with mode="causal".'
            )
        if every is not None and every not in range(length + 1):
            raise ConfigError(
                f"`every` must be a whole number of rows from 0 to {length}, the length of an observation, but got "
                f"{every}."
            )
        if reorder < 0:
            raise ConfigError(f"`reorder` must be 0 rows or more, but got {reorder}.")
        self.detector, self.length, self.names = detector, length, detector.variables_
        self.every = length // PER_OBSERVATION if every is None else int(every)
        self.reorder = reorder
        self.clock = replace(detector.clock_ if clock is None else clock, start=0)
        expected = detector.clock_.every
        if self.clock.every and expected and self.clock.every != expected:
            raise ConfigError(
                f"The clock has a row every {pd.Timedelta(self.clock.every)}, but the model was fitted to one every "
                f"{pd.Timedelta(expected)}; use its clock, or fit a model to this step."
            )
        self.counts = dict.fromkeys(COUNTS, 0)
        self._judge = Judge(detector, self.clock)
        self._back = max(length, self._judge.margin)
        self._fingerprint = fingerprint(detector, self.every, reorder, self.clock)
        self._tracks: dict[str, Track] = {}

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that have sent rows, in the order of their first ones."""
        return tuple(self._tracks)

    def push(
        self, entity: str, time: Any, row: Sequence[float] | Mapping[str, float] | pd.Series | Floats
    ) -> StreamUpdate:
        """Add one row of an entity.

        Parameters
        ----------
        entity : str
        time : int, datetime or Timestamp
            Time of the row: nanoseconds since 1970 in UTC if it is an integer; without dates a row number.
        row : sequence of float, mapping of str to float, or pandas Series
            The values, in the order of the model's variables or by name; NaN or no key where nothing was measured. A
            pandas Series with names must have exactly those of the model's variables, in any order.

        Returns
        -------
        StreamUpdate
            What this row has decided, which may be nothing.

        Raises
        ------
        DataError
            If the row does not have the model's variables, a value is no number, or the time is none.
        """
        if isinstance(row, Mapping):
            return self.push_many(entity, [time], [list(row.values())], tuple(row))
        if isinstance(row, pd.Series):
            return self.push_many(entity, [time], as_floats(row)[None], names_of(row.index, self.names))
        return self.push_many(entity, [time], as_floats(row)[None])

    def push_many(self, entity: str, times: Any, rows: Any, names: Sequence[str] | None = None) -> StreamUpdate:
        """Add rows of an entity, which is the same as to `push` them one after the other, and faster.

        Parameters
        ----------
        entity : str
        times : array of int or datetime64, DatetimeIndex or sequence of these, of shape (time,)
        rows : array of shape (time, variable), or data frame
            The columns of a data frame with names must be exactly the model's variables, in any order.
        names : sequence of str, optional
            The variable of each column; those that are not named were not measured. None: the names of a data frame,
            otherwise all variables of the model, in its order.

        Returns
        -------
        StreamUpdate
            What these rows have decided.

        Raises
        ------
        DataError
            If shapes or columns do not fit, a value is no number, or a time is none.
        """
        if not isinstance(entity, str):
            raise DataError(f"An entity must be a text, but got {reprlib.repr(entity)}.")
        ticks = as_ticks(times, dated=self.clock.dated)
        if not isinstance(rows, np.ndarray | list) and (frame := as_frame(rows)) is not None:
            rows, names = frame, names_of(frame.columns, self.names) if names is None else names
        values = as_floats(rows)
        width = len(self.names) if names is None else len(names)
        if values.ndim != 2 or values.shape[1] != width:
            raise DataError(
                f"Rows must have the shape (time, {width} variables), but got {values.shape}; pass `names` if they "
                "have other columns than the model."
            )
        if len(ticks) != len(values):
            raise DataError(f"{len(values)} rows of {entity!r} need as many times, but got {len(ticks)}.")
        values = self._values(values, names)
        decided, track = Decided(), self._tracks.get(entity)
        if track is not None and self._follow(track, ticks, values):
            if track.next > track.rows.newest + 1:
                return NOTHING
            self._advance(track, decided)
        elif len(ticks):
            self._check_unit(entity, ticks)
            track = track or self._begin(entity, int(ticks[0]))
            numbers, stray = self._numbers(track, ticks)
            if stray.any():
                self.counts["off_clock"] += int(stray.sum())
                numbers, values = numbers[~stray], values[~stray]
            self._add(track, numbers, values, decided)
            track.rows.shrink(self._low(track), self._usual_rows)
        return decided.update()

    def flush(self, entity: str | None = None) -> StreamUpdate:
        """End the series of an entity, or of all: decide what `detect` says about a series that ends with the last row.

        Later rows of the entity begin a new series.

        Parameters
        ----------
        entity : str, optional
            None: all entities.

        Returns
        -------
        StreamUpdate
        """
        decided = Decided()
        for name in self.entities if entity is None else [entity]:
            track = self._tracks.pop(name, None)
            if track is not None:
                self._advance(track, decided, ended=True)
        return decided.update()

    def forget(self, entity: str) -> None:
        """Drop the state of an entity without a verdict about its last rows.

        Parameters
        ----------
        entity : str
        """
        self._tracks.pop(entity, None)

    def state(self, entity: str) -> bytes:
        """Return the state of an entity, from which `restore` continues as if nothing had happened.

        Parameters
        ----------
        entity : str

        Returns
        -------
        bytes
            Arrays and plain values, no code.

        Raises
        ------
        DataError
            If no row of the entity has come.
        """
        if entity not in self._tracks:
            raise DataError(f"The stream has no entity {entity!r}.")
        track = self._tracks[entity]
        fields, arrays = to_fields(track, self._low(track))
        return pack({"model": self._fingerprint, **fields}, arrays)

    def restore(self, entity: str, state: bytes) -> None:
        """Continue an entity from its state, instead of its present one.

        Parameters
        ----------
        entity : str
        state : bytes
            What `state` returned, by a stream of the same model with the same `every`, `reorder` and `clock`.

        Raises
        ------
        DataError
            If it is the state of another entity, of another model or of a stream with other settings, or damaged.
        """
        fields, arrays = unpack(state)
        if fields.get("model") != self._fingerprint:
            raise DataError(
                f"The state of {entity!r} belongs to another model, or to a stream with other settings; push its last "
                "rows again."
            )
        if fields["name"] != entity:
            raise DataError(f"The state of {entity!r} was expected, but this is that of {fields['name']!r}.")
        track = from_fields(fields, arrays)
        if track.first is not None:
            track.gaps = self._judge.gaps(entity, fields["gap_end"])
        if track.gaps is not None:
            track.gaps.begin, track.gaps.rows = arrays["gap_begin"], arrays["gap_rows"]
        self._tracks[entity] = track

    def save(self, path: str | Path) -> None:
        """Write the state of all entities to a file, which replaces an earlier one in one step.

        Parameters
        ----------
        path : path

        Raises
        ------
        OutputError
            If the file cannot be written.
        """
        states = [self.state(entity) for entity in self.entities]
        sizes = [len(state) for state in states]
        header = pack({"entities": self.entities, "sizes": sizes, "counts": self.counts}, {})
        write_file(Path(path), b"".join([len(header).to_bytes(8, "little"), header, *states]))

    def load(self, path: str | Path) -> None:
        """Continue from a file that `save` has written, instead of the present state.

        Parameters
        ----------
        path : path

        Raises
        ------
        DataError
            If the file cannot be read, is damaged, or belongs to another model or a stream with other settings.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error
        place = 8 + int.from_bytes(data[:8], "little")
        fields, _ = unpack(data[8:place])
        if not {"entities", "sizes", "counts"} <= set(fields):
            raise DataError(f"{path} should hold the state of a whole stream, as `save` writes it, but holds another.")
        before, self._tracks = self._tracks, {}
        try:
            for entity, size in zip(fields["entities"], fields["sizes"], strict=True):
                self.restore(entity, data[place : place + size])
                place += size
        except DataError:
            self._tracks = before
            raise
        self.counts = fields["counts"]

    def _values(self, values: Floats, names: Sequence[str] | None) -> Floats:
        """Return the values in the order of the model's variables, NaN where they are infinite, and count those."""
        if names is not None and tuple(names) != self.names:
            values, unknown = in_order(values, names, self.names)
            self.counts["unknown_values"] += unknown
        infinite = np.isinf(values)
        if infinite.any():
            self.counts["infinite_values"] += int(infinite.sum())
            values = np.where(infinite, np.nan, values)
        return values

    def _check_unit(self, entity: str, ticks: NDArray[np.int64]) -> None:
        """Raise if the times lie in 1970 and are much closer together than the rows of the model."""
        first, last = int(ticks.min()), int(ticks.max())
        apart = (last - first) / max(len(ticks) - 1, 1)
        if self.clock.dated and 0 < last < YEAR and 0 < apart < self.clock.interval / 1000:
            raise DataError(
                f"The times of {entity!r}, from {first} to {last}, look like seconds or milliseconds; send datetimes, "
                "or integers of nanoseconds since 1970 in UTC."
            )

    def _begin(self, entity: str, tick: int) -> Track:
        interval = self.clock.interval
        if self.clock.dated:
            # A first row that is off the multiple by no more than jitter is taken to be on it, as in `even_start`.
            nearest = (tick + interval // 2) // interval * interval
            tick = nearest if abs(tick - nearest) <= MAX_JITTER * interval else tick
        number = (tick + interval // 10) // interval
        track = Track(entity, tick - number * interval, Rows(number - self.reorder, len(self.names)))
        self._tracks[entity] = track
        return track

    def _numbers(self, track: Track, ticks: NDArray[np.int64]) -> tuple[NDArray[np.int64], Booleans]:
        """Return the row number nearest to each time, and whether the time is too far from it."""
        interval = self.clock.interval
        numbers = (ticks - track.phase + interval // 2) // interval
        # Twice the jitter of `rows_of`, as the first row, which the others are compared with, may jitter too.
        stray = np.abs(ticks - track.phase - numbers * interval) > 2 * MAX_JITTER * interval
        return numbers, stray

    def _follow(self, track: Track, ticks: NDArray[np.int64], values: Floats) -> bool:
        """Store rows in the usual case, that they follow the newest one and there is room; return whether they do."""
        interval, count = self.clock.interval, len(ticks)
        if (
            count == 0
            or ticks[0] != track.phase + (track.rows.newest + 1) * interval
            or (count > 1 and not (ticks[1:] - ticks[:-1] == interval).all())
            or not track.rows.extend(values)
        ):
            return False
        self.counts["rows"] += count
        return True

    def _add(self, track: Track, numbers: NDArray[np.int64], values: Floats, decided: Decided) -> None:
        """Store rows and judge what they complete."""
        rows = track.rows
        begin = 0
        while begin < len(numbers):
            number = int(numbers[begin])
            if number > rows.newest:
                stop = begin + 1 + _increasing(numbers[begin:])
                self._append(track, numbers[begin:stop], values[begin:stop], decided)
                begin = stop
                continue
            if number < rows.newest - self.reorder or rows.has(number):
                again = number >= rows.newest - self.reorder - self._back and rows.has(number)
                self.counts["repeated" if again else "late"] += 1
            else:
                rows.store(numbers[begin : begin + 1], values[begin : begin + 1], self._low(track), self._usual_rows)
                self.counts["rows"] += 1
                self._advance(track, decided)
            begin += 1

    def _append(self, track: Track, numbers: NDArray[np.int64], values: Floats, decided: Decided) -> None:
        """Store rows that are newer than all others, in increasing order."""
        rows, begin = track.rows, 0
        while begin < len(numbers):
            number = int(numbers[begin])
            if number - rows.newest > self._back and rows.newest >= rows.base:
                self._advance(track, decided, known=number - self.reorder)
            stop = int(np.searchsorted(numbers, number + AT_ONCE * self.length))
            rows.store(numbers[begin:stop], values[begin:stop], self._low(track), self._usual_rows)
            self.counts["rows"] += stop - begin
            self._advance(track, decided)
            begin = stop

    @property
    def _usual_rows(self) -> int:
        return self._back + self.length + self.reorder

    def _low(self, track: Track) -> int:
        """Return the first row number that is still needed."""
        if track.first is None:
            return track.rows.base
        low = track.done - (track.done - track.origin) % self.length - self._back
        return min([low, *(section.starts[0] - self._judge.margin for section in track.sections)])

    def _advance(self, track: Track, decided: Decided, known: int | None = None, ended: bool = False) -> None:
        """Judge what the rows before `known`, by default all that can no longer change, have completed."""
        rows = track.rows
        if ended:
            known = rows.newest + 1
        elif known is None:
            known = rows.known(self.reorder)
        if track.first is None and not self._find_first(track, known):
            return
        if track.next > known and not ended:
            return
        ticks = self._due(track, known)
        if ended and not track.is_final(known, self.length):
            ticks.append(known + (track.origin - known) % self.length)
        coverage = {tick: rows.count(tick - self.length, tick) / self.length for tick in ticks}
        least = self._judge.rules.coverage
        scored = [tick for tick in ticks if coverage[tick] >= least and self._is_whole(track, tick)]
        evidence, scores = self._judge.score(track, scored)
        for tick in ticks:
            now = min(tick, known)
            self._judge.decide(track, tick, now, coverage[tick], evidence.get(tick), scores.get(tick), decided)
        if ended:
            self._judge.end(track, known, decided)

    def _is_whole(self, track: Track, tick: int) -> bool:
        """Return whether the rows before a tick may be judged. Provisional verdicts need rows from the beginning: after
        the first row and after gaps, parts of observations score high. Verdicts of `detect` do not wait for that."""
        assert track.first is not None
        start = tick - self.length
        return track.is_final(tick, self.length) or (
            start >= track.first and track.rows.count(start, start + self.every) > 0
        )

    def _find_first(self, track: Track, known: int) -> bool:
        """Set the first row and the grid of observations, if no earlier row can come."""
        rows = track.rows
        arrived = np.flatnonzero(rows.present)
        if not len(arrived) or known <= rows.base + int(arrived[0]):
            return False
        track.first = track.fed = rows.base + int(arrived[0])
        track.origin = 0 if self.clock.dated else track.first
        track.done = track.first - (track.first - track.origin) % self.length
        track.next = self._after(track, track.done)
        track.gaps = self._judge.gaps(track.name, track.first)
        track.raised = self._judge.raised(track.name, [])
        return True

    def _after(self, track: Track, row: int) -> int:
        """Return the first tick after a row number."""
        inside = (row - track.origin) % self.length
        step = (inside // self.every + 1) * self.every if self.every else self.length
        return row - inside + min(step, self.length)

    def _due(self, track: Track, known: int) -> list[int]:
        """Return the ticks up to `known` that may decide something. Long after the last row there is nothing left to
        decide, so that gaps cost nothing."""
        rows, ticks = track.rows, list[int]()
        arrived = rows.base + np.flatnonzero(rows.present[: max(known - rows.base, 0)])
        reach = 2 * self.length + self._judge.margin
        while track.next <= known:
            place = int(np.searchsorted(arrived, track.next))
            if (arrived[place - 1] if place else rows.dropped) >= track.next - reach:
                ticks.append(track.next)
                track.done = track.next
            else:
                upcoming = int(arrived[place]) if place < len(arrived) else known
                inside = (upcoming - track.origin) % self.length
                track.done = upcoming - (inside % self.every if self.every else inside)
            track.next = self._after(track, track.done)
        return ticks


def _increasing(numbers: NDArray[np.int64]) -> int:
    """Return after how many steps row numbers stop to increase."""
    falls = np.flatnonzero(np.diff(numbers) <= 0)
    return int(falls[0]) if len(falls) else len(numbers) - 1
