"""Streaming: rows that arrive one by one -> the verdicts of `Detector.detect`, as soon as they are final.

    name          meaning
    row number    position of a row on the clock: since 1970 for dates, otherwise the row number of the input
    newest        latest row number that has arrived
    tick          row number at which verdicts are made, from all rows before it: the end of every observation, and
                  every `every` rows within it for provisional verdicts
    section       consecutive anomalous observations, whose intervals may still grow
    settled       a section that ended: an observation that is not anomalous, or was left out, followed it
    margin        rows around an interval that its reason is decided from

Everything that is emitted is decided at ticks, from rows that can no longer change. It is therefore a function of the
rows of an entity in the order of their arrival, and does not depend on the sizes of pushes or on other entities.

State is bounded: about two observations of values per entity, and while a section lasts, its values and its evidence,
at most `LONGEST` observations. There, an interval is cut in two. Apart from that, what is final equals what `detect`
says about the whole series, to the bit. Past episodes that resemble an interval (`Result.similar`) and `Result.drift`
need the whole series, and are not part of a stream.
"""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.detectors.drift import RECENT, raised_by
from tsadc.detectors.missing import LONGER, Missing
from tsadc.detectors.result import Evidence, Interval, SeriesResult, as_period, assemble, with_missing
from tsadc.detectors.stream_state import Fields, fingerprint, pack, unpack
from tsadc.detectors.usual import MARGIN, Quantiles, window_of
from tsadc.errors import ConfigError, DataError, listed
from tsadc.io.clock import MAX_JITTER
from tsadc.io.memory import as_frame
from tsadc.series import Booleans, Clock, Floats, Observations, Place, Series
from tsadc.windows import runs

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

LONGEST = 32  # observations of a section
AT_ONCE = 8  # observations' worth of rows that are stored before they are scored
PER_OBSERVATION = 4  # ticks, by default
NO_NUMBERS = "mMc"  # kinds of arrays that NumPy would convert
LATEST = np.iinfo(np.int64).max  # nanoseconds or row number
PLAIN = (
    "name",
    "phase",
    "first",
    "origin",
    "done",
    "next",
    "fed",
    "scores",
    "raised",
)  # what JSON can hold of an entity
COUNTS = ("rows", "late", "repeated", "off_clock", "unknown_values", "infinite_values")


@dataclass(frozen=True)
class LiveVerdict:
    """What a stream says about one observation.

    Attributes
    ----------
    entity : str
    start, end : int
        Its rows, `end` exclusive: nanoseconds since 1970 in UTC, or row numbers if the data has no dates.
    score, threshold : float
        The score, and the threshold, which drift may have raised.
    anomalous : bool
        Whether the score is above the threshold.
    severity : float
        As in `Result.intervals`.
    variables : dict of str to float
        Shares of the blame, largest first, as in `Result.intervals`; empty if it is not anomalous.
    final : bool
        Whether it is the verdict of `detect`. Otherwise it is about the last `length` rows, which overlap two
        observations of `detect`.
    coverage : float
        Share of the rows that have values.
    """

    entity: str
    start: int
    end: int
    score: float
    threshold: float
    anomalous: bool
    severity: float
    variables: dict[str, float]
    final: bool
    coverage: float


@dataclass(frozen=True)
class LiveInterval:
    """What a stream says about one anomaly.

    It is emitted again whenever it may have changed, under the same `id`, and for the last time when it is `final` or
    `withdrawn`.

    Attributes
    ----------
    id, entity, score, severity, return_period, kind, reason, evidence, variables
        As in `Result.intervals`.
    start, end : int
        Its rows, `end` exclusive: nanoseconds since 1970 in UTC, or row numbers if the data has no dates.
    open : bool
        Whether it may still become longer.
    final : bool
        Whether it is an interval of `detect`, and will not change any more.
    provisional : bool
        Whether it comes from a provisional verdict. Its `id` is not that of an interval of `detect`.
    withdrawn : bool
        Whether it is provisional and the final verdict did not confirm it.
    replaces : tuple of str
        The `id` of the provisional intervals that this one confirms.
    """

    id: str
    entity: str
    start: int
    end: int
    score: float
    severity: float
    return_period: pd.Timedelta | float
    kind: str
    reason: str
    evidence: str
    variables: dict[str, float]
    open: bool
    final: bool
    provisional: bool = False
    withdrawn: bool = False
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamUpdate:
    """What a push has decided, in the order of time.

    Attributes
    ----------
    verdicts : tuple of LiveVerdict
    intervals : tuple of LiveInterval
    """

    verdicts: tuple[LiveVerdict, ...] = ()
    intervals: tuple[LiveInterval, ...] = ()


NOTHING = StreamUpdate()


@dataclass
class _Found:
    """What has been decided since the push began."""

    verdicts: list[LiveVerdict] = field(default_factory=list)
    intervals: list[LiveInterval] = field(default_factory=list)

    def update(self) -> StreamUpdate:
        if not self.verdicts and not self.intervals:
            return NOTHING
        return StreamUpdate(tuple(self.verdicts), tuple(self.intervals))


@dataclass
class _Section:
    """Consecutive anomalous observations: the row number that each begins at, its evidence and `raised`."""

    starts: list[int] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    raised: list[float] = field(default_factory=list)
    settled: bool = False
    due: int = 0  # row number at which its next interval is final, if it is settled
    reported: set[str] = field(default_factory=set)  # the final ones


class _Gaps:
    """Where variables stop reporting, as in `missing.py`, from one tick to the next."""

    def __init__(self, learnt: Quantiles, length: int, first: int) -> None:
        self.expected, self.least = learnt.present, length
        self.least_empty = max(length, LONGER * learnt.gap + 1)
        self.begin, self.rows = np.zeros((2, len(learnt.present)), dtype=np.int64)
        self.end = first  # row number after the last one with a value

    def feed(self, first: int, known: Booleans) -> list[Missing]:
        """Return what ended in the rows from `first` on; `known` (time, variable) says which values are measured."""
        places = np.flatnonzero(known.any(axis=1))
        if not len(places) or not self.expected.any():
            return []
        found: dict[tuple[int, int], list[int]] = {}
        rows = first + places
        before = np.concatenate([[self.end], rows[:-1] + 1])
        for i in np.flatnonzero(rows - before >= self.least_empty).tolist():
            found[int(before[i]), int(rows[i])] = list(range(len(self.expected)))
        absent = ~known[places]
        for k in np.flatnonzero(self.expected & (absent.any(axis=0) | (self.rows > 0))).tolist():
            if self.rows[k] and not absent[0, k]:
                self._close(k, self.end, found)
            for start, stop in runs(absent[:, k]):
                if not self.rows[k]:
                    self.begin[k] = rows[start]
                self.rows[k] += stop - start
                if stop < len(places):
                    self._close(k, int(rows[stop - 1]) + 1, found)
        self.end = int(rows[-1]) + 1
        return [Missing(*span, tuple(sorted(variables))) for span, variables in sorted(found.items())]

    def _close(self, k: int, stop: int, found: dict[tuple[int, int], list[int]]) -> None:
        if self.rows[k] >= self.least:
            found.setdefault((int(self.begin[k]), stop), []).append(k)
        self.rows[k] = 0

    def lasting(self, now: int) -> list[Missing]:
        """Return what lasts until the row number `now`, which follows the last row."""
        found: dict[tuple[int, int], list[int]] = {}
        for k in np.flatnonzero(self.rows >= self.least).tolist():
            found.setdefault((int(self.begin[k]), self.end), []).append(k)
        if now - self.end >= self.least_empty and self.expected.any():
            found[self.end, now] = list(range(len(self.expected)))
        return [Missing(*span, tuple(variables)) for span, variables in sorted(found.items())]


class _Rows:
    """The latest rows of an entity; row number `base + i` is at position i."""

    def __init__(self, base: int, variables: int) -> None:
        self.base, self.newest = base, base - 1
        self.dropped = base - 1  # the latest row number that was measured or pushed and is no longer kept
        self.values = np.full((0, variables), np.nan)
        self.present = np.zeros(0, dtype=bool)  # which rows have arrived
        self.measured = np.zeros(0, dtype=bool)  # which of them have values

    def store(self, numbers: NDArray[np.int64], values: Floats, low: int, usual: int) -> None:
        """Store rows; those before `low` are no longer needed. `usual` is the number of rows that are usually kept."""
        last = int(numbers[-1])
        if last - self.base >= len(self.values):
            self._make_room(last, low, usual)
        at = numbers - self.base
        self.values[at] = values
        self.present[at] = True
        self.measured[at] = np.isfinite(values).any(axis=1)
        self.newest = max(self.newest, last)

    def _make_room(self, last: int, low: int, usual: int) -> None:
        """Drop the rows before `low`, and provide for those up to `last`."""
        base = max(self.base, low)
        gone = np.flatnonzero(self.present[: base - self.base])
        if len(gone):
            self.dropped = self.base + int(gone[-1])
        needed = last - base + 1
        first, count = base - self.base, max(self.newest + 1 - base, 0)
        size = min(usual, 2 * needed) if needed <= usual else needed + needed // 4  # grows in few steps
        for name, fill in (("values", np.nan), ("present", False), ("measured", False)):
            old = getattr(self, name)
            new = old if len(old) == size else np.empty((size, *old.shape[1:]), dtype=old.dtype)
            new[:count] = old[first : first + count]
            new[count:] = fill
            setattr(self, name, new)
        self.base = base

    def shrink(self, low: int, usual: int) -> None:
        """Return the memory of many rows that were stored at once."""
        if len(self.values) > 2 * usual and self.newest - low < usual:
            self._make_room(self.newest, low, usual)

    def has(self, number: int) -> bool:
        """Return whether a row has arrived, as far as it is still kept."""
        return 0 <= number - self.base < len(self.present) and bool(self.present[number - self.base])

    def between(self, first: int, stop: int) -> Floats:
        """Return the values of rows [first, stop), NaN where none is kept."""
        start, end = max(first, self.base), min(stop, self.base + len(self.values))
        if (start, end) == (first, stop):
            return self.values[first - self.base : stop - self.base]
        out = np.full((stop - first, self.values.shape[1]), np.nan)
        if end > start:
            out[start - first : end - first] = self.values[start - self.base : end - self.base]
        return out

    def count(self, first: int, stop: int) -> int:
        """Return how many of the rows [first, stop) have values."""
        return int(np.count_nonzero(self.measured[max(first - self.base, 0) : max(stop - self.base, 0)]))


@dataclass
class _Entity:
    """The state of one entity. `phase` is the time of row number 0; `origin` is a row number at which an observation
    begins; `first` is that of the first row, None as long as an earlier one may still come."""

    name: str
    phase: int
    rows: _Rows
    gaps: _Gaps | None = None
    first: int | None = None
    origin: int = 0
    done: int = 0  # the latest tick
    next: int = 0  # the tick after it
    fed: int = 0  # rows before it were given to `gaps`
    scores: list[float] = field(default_factory=list)  # the latest ones, as far as drift looks back
    raised: float = 0.0
    sections: list[_Section] = field(default_factory=list)  # in order of time; only the last may not be settled
    provisional: list[LiveInterval] = field(default_factory=list)  # not yet confirmed or withdrawn

    @property
    def section(self) -> _Section | None:
        """The section that may still grow."""
        return self.sections[-1] if self.sections and not self.sections[-1].settled else None


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
        if every is not None and not 0 <= every <= length:
            raise ConfigError(f"`every` must be 0 to {length} rows, the length of an observation, but got {every}.")
        if reorder < 0:
            raise ConfigError(f"`reorder` must be 0 rows or more, but got {reorder}.")
        self.detector, self.length, self.names = detector, length, detector.variables_
        self.every = length // PER_OBSERVATION if every is None else every
        self.reorder = reorder
        self.clock = replace(detector.clock_ if clock is None else clock, start=0)
        expected = detector.clock_.every
        if self.clock.every and expected and self.clock.every != expected:
            raise ConfigError(
                f"The clock has a row every {pd.Timedelta(self.clock.every)}, but the model was fitted to one every "
                f"{pd.Timedelta(expected)}; use its clock, or fit a model to this step."
            )
        self.counts = dict.fromkeys(COUNTS, 0)
        self._rules = detector._verdicts(Observations((), (), length), None)
        self._explainer = replace(detector._explainer(), episodes=None)
        window = window_of(length)
        self._margin = 4 * window + (window + 1) // 2 + MARGIN  # of `reason_of` and of `SeriesUsual.predicted`
        self._back = max(length, self._margin)
        self._least_gap = max(length, self._rules.events.minimum)
        self._fingerprint = fingerprint(detector, self.every, reorder, self.clock)
        self._entities: dict[str, _Entity] = {}

    @property
    def entities(self) -> tuple[str, ...]:
        """The entities that have sent rows, in the order of their first ones."""
        return tuple(self._entities)

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
            return self.push_many(entity, [time], _as_floats(row)[None], self._named(row.index))
        return self.push_many(entity, [time], _as_floats(row)[None])

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
        ticks = self._ticks(times)
        if not isinstance(rows, np.ndarray | list) and (frame := as_frame(rows)) is not None:
            rows, names = frame, self._named(frame.columns) if names is None else names
        values = _as_floats(rows)
        width = len(self.names) if names is None else len(names)
        if values.ndim != 2 or values.shape[1] != width:
            raise DataError(
                f"Rows must have the shape (time, {width} variables), but got {values.shape}; pass `names` if they "
                "have other columns than the model."
            )
        if len(ticks) != len(values):
            raise DataError(f"{len(values)} rows of {entity!r} need as many times, but got {len(ticks)}.")
        values = self._values(values, names)
        found, own = _Found(), self._entities.get(entity)
        if own is not None and self._follow(own, ticks, values):
            if own.next > own.rows.newest + 1:
                return NOTHING
            self._advance(own, found)
        elif len(ticks):
            own = own or self._begin(entity, int(ticks[0]))
            numbers, stray = self._numbers(own, ticks)
            if stray.any():
                self.counts["off_clock"] += int(stray.sum())
                numbers, values = numbers[~stray], values[~stray]
            self._add(own, numbers, values, found)
            own.rows.shrink(self._low(own), self._usual_rows)
        return found.update()

    def _follow(self, own: _Entity, ticks: NDArray[np.int64], values: Floats) -> bool:
        """Store rows in the usual case, that they follow the newest one and there is room; return whether they do."""
        rows, interval, count = own.rows, self.clock.interval, len(ticks)
        begin = rows.newest + 1 - rows.base
        if (
            count == 0
            or begin + count > len(rows.values)
            or ticks[0] != own.phase + (rows.newest + 1) * interval
            or (count > 1 and not (ticks[1:] - ticks[:-1] == interval).all())
        ):
            return False
        rows.values[begin : begin + count] = values
        rows.present[begin : begin + count] = True
        rows.measured[begin : begin + count] = ~np.isnan(values).all(axis=1)
        rows.newest += count
        self.counts["rows"] += count
        return True

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
        found = _Found()
        for name in self.entities if entity is None else [entity]:
            own = self._entities.pop(name, None)
            if own is not None:
                self._advance(own, found, ended=True)
        return found.update()

    def forget(self, entity: str) -> None:
        """Drop the state of an entity without a verdict about its last rows.

        Parameters
        ----------
        entity : str
        """
        self._entities.pop(entity, None)

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
        if entity not in self._entities:
            raise DataError(f"The stream has no entity {entity!r}.")
        own = self._entities[entity]
        fields, arrays = _to_fields(own, self._low(own))
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
        own = _from_fields(fields, arrays)
        learnt = self._rules.learnt(entity)
        if own.first is not None and learnt is not None:
            own.gaps = _Gaps(learnt, self._least_gap, fields["gap_end"])
            own.gaps.begin, own.gaps.rows = arrays["gap_begin"], arrays["gap_rows"]
        self._entities[entity] = own

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
        before, self._entities = self._entities, {}
        try:
            for entity, size in zip(fields["entities"], fields["sizes"], strict=True):
                self.restore(entity, data[place : place + size])
                place += size
        except DataError:
            self._entities = before
            raise
        self.counts = fields["counts"]

    def _named(self, labels: pd.Index) -> list[str] | None:
        """Return the names of the columns of a data frame, which must be the variables; None if they are positions."""
        if labels.dtype.kind in "iu" and labels.equals(pd.RangeIndex(len(labels))):
            return None
        names = [str(label) for label in labels]
        missing = [name for name in self.names if name not in names]
        unknown = [name for name in names if name not in self.names]
        if missing or unknown:
            wrong = [f"lack {listed(missing)}"] * bool(missing) + [f"have {listed(unknown)}"] * bool(unknown)
            raise DataError(
                f"The columns must be the {len(self.names)} variables of the model, but they {' and '.join(wrong)}; "
                "rename them, or pass `names` to `push_many` if some are not measured or not known."
            )
        return names

    def _values(self, values: Floats, names: Sequence[str] | None) -> Floats:
        """Return the values in the order of the model's variables, NaN where they are infinite, and count those."""
        if names is not None and tuple(names) != self.names:
            values = self._matched(values, names)
        infinite = np.isinf(values)
        if infinite.any():
            self.counts["infinite_values"] += int(infinite.sum())
            values = np.where(infinite, np.nan, values)
        return values

    def _matched(self, values: Floats, names: Sequence[str]) -> Floats:
        """Return the values in the order of the model's variables."""
        if len(set(names)) < len(names):
            raise DataError(f"Every column needs a name of its own, but got {listed(list(names))}.")
        out = np.full((len(values), len(self.names)), np.nan)
        places = {name: k for k, name in enumerate(self.names)}
        for column, name in zip(values.T, names, strict=True):
            if name in places:
                out[:, places[name]] = column
            else:
                self.counts["unknown_values"] += len(column)
        return out

    def _ticks(self, times: Any) -> NDArray[np.int64]:
        try:
            array = np.asarray(times)
        except ValueError:  # sequences of different lengths
            array = np.zeros(())
        if array.ndim != 1:
            raise DataError(f"Times must be a sequence with one time per row, but got {reprlib.repr(times)}.")
        if array.dtype.kind == "i" or (array.dtype.kind == "u" and (array <= LATEST).all()):
            return array.astype(np.int64, copy=False)
        if not self.clock.dated and array.size:
            raise DataError(f"The model counts rows, so a time must be a row number, but got {array[0]!r}.")
        try:
            # pandas takes a float for nanoseconds, but it may as well be seconds or days.
            if array.dtype.kind == "f" or (array.dtype.kind == "O" and any(isinstance(time, float) for time in array)):
                raise ValueError
            found = pd.DatetimeIndex(pd.to_datetime(times, utc=True)).as_unit("ns")
        except (ValueError, TypeError, OverflowError):
            found = pd.DatetimeIndex([pd.NaT])
        if found.isna().any():
            raise DataError(
                "Times must be datetimes from 1678 to 2261, or integers of nanoseconds since 1970 in UTC, but got "
                f"{array[0] if array.size else times!r}."
            )
        return np.asarray(found.asi8)

    def _begin(self, entity: str, tick: int) -> _Entity:
        interval = self.clock.interval
        if self.clock.dated:
            # A first row that is off the multiple by no more than jitter is taken to be on it, as in `even_start`.
            nearest = (tick + interval // 2) // interval * interval
            tick = nearest if abs(tick - nearest) <= MAX_JITTER * interval else tick
        number = (tick + interval // 10) // interval
        own = _Entity(entity, tick - number * interval, _Rows(number - self.reorder, len(self.names)))
        self._entities[entity] = own
        return own

    def _numbers(self, own: _Entity, ticks: NDArray[np.int64]) -> tuple[NDArray[np.int64], Booleans]:
        """Return the row number nearest to each time, and whether the time is too far from it."""
        interval = self.clock.interval
        numbers = (ticks - own.phase + interval // 2) // interval
        # Twice the jitter of `rows_of`, as the first row, which the others are compared with, may jitter too.
        stray = np.abs(ticks - own.phase - numbers * interval) > 2 * MAX_JITTER * interval
        return numbers, stray

    def _add(self, own: _Entity, numbers: NDArray[np.int64], values: Floats, found: _Found) -> None:
        """Store rows and judge what they complete."""
        rows = own.rows
        begin = 0
        while begin < len(numbers):
            number = int(numbers[begin])
            if number > rows.newest:
                stop = begin + 1 + _increasing(numbers[begin:])
                self._append(own, numbers[begin:stop], values[begin:stop], found)
                begin = stop
                continue
            if number < rows.newest - self.reorder or rows.has(number):
                again = number >= rows.newest - self.reorder - self._back and rows.has(number)
                self.counts["repeated" if again else "late"] += 1
            else:
                rows.store(numbers[begin : begin + 1], values[begin : begin + 1], self._low(own), self._usual_rows)
                self.counts["rows"] += 1
                self._advance(own, found)
            begin += 1

    def _append(self, own: _Entity, numbers: NDArray[np.int64], values: Floats, found: _Found) -> None:
        """Store rows that are newer than all others, in increasing order."""
        rows, begin = own.rows, 0
        while begin < len(numbers):
            number = int(numbers[begin])
            if number - rows.newest > self._back and rows.newest >= rows.base:
                self._advance(own, found, known=number - self.reorder)
            stop = int(np.searchsorted(numbers, number + AT_ONCE * self.length))
            rows.store(numbers[begin:stop], values[begin:stop], self._low(own), self._usual_rows)
            self.counts["rows"] += stop - begin
            self._advance(own, found)
            begin = stop

    @property
    def _usual_rows(self) -> int:
        return self._back + self.length + self.reorder

    def _low(self, own: _Entity) -> int:
        """Return the first row number that is still needed."""
        if own.first is None:
            return own.rows.base
        low = own.done - (own.done - own.origin) % self.length - self._back
        return min([low, *(section.starts[0] - self._margin for section in own.sections)])

    def _known(self, own: _Entity) -> int:
        """Return the row number before which nothing can change any more."""
        rows = own.rows
        if self.reorder == 0:
            return rows.newest + 1
        first = max(rows.newest - self.reorder, rows.base)
        waiting = ~rows.present[first - rows.base : rows.newest + 1 - rows.base]
        return first + int(waiting.argmax()) if waiting.any() else rows.newest + 1

    def _advance(self, own: _Entity, found: _Found, known: int | None = None, ended: bool = False) -> None:
        """Judge what the rows before `known`, by default all that can no longer change, have completed."""
        rows = own.rows
        if ended:
            known = rows.newest + 1
        elif known is None:
            known = self._known(own)
        if own.first is None and not self._find_first(own, known):
            return
        if own.next > known and not ended:
            return
        ticks = self._due(own, known)
        end = None
        if ended and (known - own.origin) % self.length:
            end = known + (own.origin - known) % self.length
            ticks.append(end)
        coverage = {tick: rows.count(tick - self.length, tick) / self.length for tick in ticks}
        scored = [tick for tick in ticks if coverage[tick] >= self._rules.coverage and self._is_whole(own, tick)]
        evidence, scores = self._score(own, scored)
        for tick in ticks:
            now = min(tick, known)
            self._judge(own, tick, now, coverage[tick], evidence.get(tick), scores.get(tick), found)
        if ended:
            self._end(own, known, found)

    def _is_whole(self, own: _Entity, tick: int) -> bool:
        """Return whether the rows before a tick may be judged. Provisional verdicts need rows from the beginning: after
        the first row and after gaps, parts of observations score high. Verdicts of `detect` do not wait for that."""
        assert own.first is not None
        start = tick - self.length
        return self._is_final(own, tick) or (start >= own.first and own.rows.count(start, start + self.every) > 0)

    def _is_final(self, own: _Entity, tick: int) -> bool:
        """Return whether an observation of `detect` ends at a tick."""
        return (tick - own.origin) % self.length == 0

    def _find_first(self, own: _Entity, known: int) -> bool:
        """Set the first row and the grid of observations, if no earlier row can come."""
        rows = own.rows
        arrived = np.flatnonzero(rows.present)
        if not len(arrived) or known <= rows.base + int(arrived[0]):
            return False
        own.first = own.fed = rows.base + int(arrived[0])
        own.origin = 0 if self.clock.dated else own.first
        own.done = own.first - (own.first - own.origin) % self.length
        own.next = self._after(own, own.done)
        learnt = self._rules.learnt(own.name)
        if learnt is not None:
            own.gaps = _Gaps(learnt, self._least_gap, own.first)
        own.raised = float(raised_by([0.0], self._rules.usual(own.name))[0])
        return True

    def _after(self, own: _Entity, row: int) -> int:
        """Return the first tick after a row number."""
        inside = (row - own.origin) % self.length
        step = (inside // self.every + 1) * self.every if self.every else self.length
        return row - inside + min(step, self.length)

    def _due(self, own: _Entity, known: int) -> list[int]:
        """Return the ticks up to `known` that may decide something. Long after the last row there is nothing left to
        decide, so that gaps cost nothing."""
        rows, ticks = own.rows, list[int]()
        arrived = rows.base + np.flatnonzero(rows.present[: max(known - rows.base, 0)])
        reach = 2 * self.length + self._margin
        while own.next <= known:
            place = int(np.searchsorted(arrived, own.next))
            if (arrived[place - 1] if place else rows.dropped) >= own.next - reach:
                ticks.append(own.next)
                own.done = own.next
            else:
                upcoming = int(arrived[place]) if place < len(arrived) else known
                inside = (upcoming - own.origin) % self.length
                own.done = upcoming - (inside % self.every if self.every else inside)
            own.next = self._after(own, own.done)
        return ticks

    def _series(self, own: _Entity, first: int, stop: int) -> Series:
        clock = replace(self.clock, start=own.phase + first * self.clock.interval)
        return Series(own.rows.between(first, stop), self.names, clock, own.name)

    def _score(self, own: _Entity, ticks: Sequence[int]) -> tuple[dict[int, Evidence], dict[int, float]]:
        """Return the scores of the observations that end at `ticks`, and the evidence of the unusual ones."""
        if not ticks:
            return {}, {}
        assert own.first is not None
        first = max(own.first, ticks[0] - self.length)
        series = self._series(own, first, min(ticks[-1], own.rows.newest + 1))

        def observations(chosen: Iterable[int]) -> Observations:
            return Observations((series,), tuple(Place(0, t - self.length - first) for t in chosen), self.length)

        scores = dict(zip(ticks, self._rules.scores(observations(ticks)).tolist(), strict=True))
        # Evidence, which costs more than a score, is needed above the threshold; drift only raises it.
        unusual = [tick for tick in ticks if scores[tick] > self._rules.threshold.value]
        evidence = dict(zip(unusual, self.detector._evidence(observations(unusual), None), strict=True))
        return evidence, scores

    def _judge(
        self,
        own: _Entity,
        tick: int,
        now: int,
        coverage: float,
        evidence: Evidence | None,
        score: float | None,
        found: _Found,
    ) -> None:
        """Judge the observation that ends at a tick. `now` is the tick, or the end of the series if that comes first;
        without a score, the observation is left out."""
        final = self._is_final(own, tick)
        self._feed(own, now, found)
        threshold = self._rules.threshold.value + own.raised
        above = score is not None and score > threshold
        blamed: dict[str, float] = {}
        if above:
            assert evidence is not None
            alone = _Section([tick - self.length], [replace(evidence, expected=None)], [own.raised])
            if not final:
                blamed = self._foresee(own, alone, now, found)
            else:
                section = own.section
                if section is None:
                    own.sections.append(_Section())
                    section = own.sections[-1]
                section.starts += alone.starts
                section.evidence += alone.evidence
                section.raised += alone.raised
                blamed = _blamed(self._part(own, alone, now)[0].intervals)
        if score is not None:
            assert own.first is not None
            start, end = max(tick - self.length, own.first), now
            graded = self._rules.threshold.severity(score - own.raised)
            found.verdicts.append(
                LiveVerdict(
                    own.name,
                    self._tick(own, start),
                    self._tick(own, end),
                    score,
                    threshold,
                    above,
                    graded,
                    blamed,
                    final,
                    coverage,
                )
            )
        if not final:
            self._finish(own, now, found)
            return
        if score is not None:
            own.scores = [*own.scores, score][-RECENT:]
            own.raised = float(raised_by([*own.scores, 0.0], self._rules.usual(own.name), len(own.scores))[0])
        self._grow(own, above, now, found)
        self._finish(own, now, found)
        if own.gaps is not None:
            for run in own.gaps.lasting(now):
                found.intervals.append(self._missing(own, run, final=False))

    def _feed(self, own: _Entity, now: int, found: _Found) -> None:
        """Report the sensors that have stopped reporting and report again."""
        if own.gaps is not None:
            stop = min(now, own.rows.newest + 1)
            first = max(own.fed, own.rows.base)
            if stop > first:
                known = np.isfinite(own.rows.between(first, stop))
                found.intervals += [self._missing(own, run, final=True) for run in own.gaps.feed(first, known)]
        own.fed = now

    def _missing(self, own: _Entity, run: Missing, *, final: bool) -> LiveInterval:
        rules, series = self._rules, self._series(own, run.start, run.start)
        alone = Observations((series,), (), self.length)
        nothing = assemble(alone, [], rules.threshold, rules.events, np.zeros(0), rules.view_names)
        shifted = replace(run, start=0, stop=run.stop - run.start)
        [part] = with_missing(nothing, [shifted], rules.threshold).parts
        return self._live(part.series, part.intervals[0], open=not final, final=final)

    def _part(self, own: _Entity, section: _Section, now: int) -> tuple[SeriesResult, int]:
        """Return what is found in a section from the rows before `now`, and the row number that it begins at."""
        assert own.first is not None
        rules = self._rules
        first = max(own.first, section.starts[0] - self._margin)
        stop = min(now, section.starts[-1] + self.length + self._margin)
        places = tuple(Place(0, start - first) for start in section.starts)
        piece = Observations((self._series(own, first, stop),), places, self.length)
        raised = np.array(section.raised)
        result = assemble(piece, section.evidence, rules.threshold, rules.events, raised, rules.view_names)
        return result.parts[0], first

    def _explained(self, part: SeriesResult) -> SeriesResult:
        return self._explainer._explained(part)

    def _foresee(self, own: _Entity, alone: _Section, now: int, found: _Found) -> dict[str, float]:
        """Report provisional intervals, unless they continue one that is open; return the blamed variables."""
        part, first = self._part(own, alone, now)
        part = self._explained(part)
        begun = now - (now - own.origin) % self.length  # rows before it are judged already
        merge = self._rules.events.merge
        section = own.section
        continued = section is not None and section.starts[-1] + self.length == begun
        for interval in part.intervals:
            start, stop = first + interval.start, first + interval.stop
            if stop <= begun or (continued and start < begun + merge):
                continue
            live = self._live(part.series, interval, open=True, final=False, provisional=True)
            earlier = [other for other in own.provisional if other.start < live.end and other.end > live.start]
            if earlier:
                live = replace(live, id=earlier[0].id)
                own.provisional.remove(earlier[0])
            own.provisional.append(live)
            found.intervals.append(live)
        return _blamed(part.intervals)

    def _grow(self, own: _Entity, above: bool, now: int, found: _Found) -> None:
        """Report the intervals of the section that may still grow, after an observation, or settle it."""
        section = own.section
        waiting, own.provisional = own.provisional, []
        if section is not None:
            section.settled = not above or len(section.starts) == LONGEST
            waiting = self._report(own, section, now, waiting, found)
        found.intervals += [replace(other, open=False, withdrawn=True) for other in waiting]

    def _report(
        self, own: _Entity, section: _Section, now: int, waiting: list[LiveInterval], found: _Found, ended: bool = False
    ) -> list[LiveInterval]:
        """Report the intervals of a section that were not final before; return what remains of the provisional ones in
        `waiting`."""
        part, first = self._part(own, section, now)
        part = self._explained(part)
        last = section.starts[-1] + self.length
        fixed = last if section.settled or ended else self._fixed(part, min(last, now) - first) + first
        near = self._rules.events.merge * self.clock.interval
        section.due = last + self._margin
        for interval in part.intervals:
            stop = first + interval.stop
            closed = stop <= fixed
            final = closed and (ended or now >= stop + self._margin)
            live = self._live(part.series, interval, open=not closed, final=final)
            if live.id in section.reported:
                continue
            if final:
                section.reported.add(live.id)
            else:
                section.due = min(section.due, stop + self._margin)
            same = [other for other in waiting if other.start < live.end + near and other.end > live.start - near]
            waiting = [other for other in waiting if other not in same]
            found.intervals.append(replace(live, replaces=tuple(other.id for other in same)))
        return waiting

    def _fixed(self, part: SeriesResult, stop: int) -> int:
        """Return the row before which an interval ends that cannot become longer, whatever follows row `stop`."""
        rules = self._rules
        lowest = min(rules.threshold.middle, rules.threshold.value)
        lasting = part.step_scores[:stop].astype(np.float64) - part.raised[:stop] > lowest
        ends = np.flatnonzero(~lasting)
        begun = int(ends[-1]) + 1 if len(ends) else 0  # of rows that may turn out to belong to an interval
        return begun - rules.events.merge

    def _finish(self, own: _Entity, now: int, found: _Found) -> None:
        """Report the intervals of settled sections that have become final."""
        for section in [section for section in own.sections if section.settled]:
            if now >= section.due:
                self._report(own, section, now, [], found)
            if now >= section.starts[-1] + self.length + self._margin:
                own.sections.remove(section)

    def _end(self, own: _Entity, now: int, found: _Found) -> None:
        """Report everything that the end of a series decides."""
        for section in own.sections:
            own.provisional = self._report(own, section, now, own.provisional, found, ended=True)
        found.intervals += [replace(other, open=False, withdrawn=True) for other in own.provisional]
        if own.gaps is not None:
            self._feed(own, now, found)
            found.intervals += [self._missing(own, run, final=True) for run in own.gaps.lasting(now)]

    def _tick(self, own: _Entity, number: int) -> int:
        return own.phase + number * self.clock.interval

    def _live(
        self, series: Series, interval: Interval, *, open: bool, final: bool, provisional: bool = False
    ) -> LiveInterval:
        kind, reason = interval.why(series.clock)
        return LiveInterval(
            id=interval.id(series),
            entity=series.entity,
            start=series.clock.tick(interval.start),
            end=series.clock.tick(interval.stop),
            score=interval.score,
            severity=interval.severity,
            return_period=as_period(interval.return_period, series.clock),
            kind=kind,
            reason=reason,
            evidence=interval.evidence,
            variables=interval.variables,
            open=open,
            final=final,
            provisional=provisional,
        )


def _as_floats(values: Any) -> Floats:
    """Return values as floats, NaN for None; raise if one is no number, or rows have different lengths."""
    if type(values) is np.ndarray and values.dtype.char == "d":
        return values
    try:
        array = values.to_numpy(na_value=np.nan) if isinstance(values, pd.DataFrame | pd.Series) else values
        if isinstance(array, np.ndarray) and array.dtype.kind in NO_NUMBERS:
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"Values must be numbers, NaN where nothing was measured, but got {reprlib.repr(values)}."
        ) from None


def _increasing(numbers: NDArray[np.int64]) -> int:
    """Return after how many steps row numbers stop to increase."""
    falls = np.flatnonzero(np.diff(numbers) <= 0)
    return int(falls[0]) if len(falls) else len(numbers) - 1


def _blamed(intervals: Iterable[Interval]) -> dict[str, float]:
    """Return the variables of the interval that scores highest."""
    worst = max(intervals, key=lambda interval: interval.score, default=None)
    return {} if worst is None else worst.variables


def _to_fields(own: _Entity, low: int) -> tuple[Fields, dict[str, NDArray[Any]]]:
    """Return the state of an entity; rows before `low` are left out."""
    rows = own.rows
    kept = slice(max(low - rows.base, 0), max(rows.newest + 1 - rows.base, 0))
    before = np.flatnonzero(rows.present[: kept.start])
    arrays: dict[str, NDArray[Any]] = {"values": rows.values[kept], "present": rows.present[kept]}
    sections = []
    for i, section in enumerate(own.sections):
        for name in ("steps", "contributions", "causes"):
            arrays[f"{name} {i}"] = np.stack([getattr(evidence, name) for evidence in section.evidence])
        views = [(evidence.score, evidence.view_scores) for evidence in section.evidence]
        own_fields = {name: getattr(section, name) for name in ("starts", "raised", "settled", "due")}
        sections.append({**own_fields, "reported": sorted(section.reported), "views": views})
    if own.gaps is not None:
        arrays |= {"gap_begin": own.gaps.begin, "gap_rows": own.gaps.rows}
    provisional = []
    for interval in own.provisional:
        period = interval.return_period
        given = period.value if isinstance(period, pd.Timedelta) else period
        provisional.append({**asdict(interval), "return_period": given})
    fields: Fields = {
        **{name: getattr(own, name) for name in PLAIN},
        "base": rows.base + kept.start,
        "newest": rows.newest,
        "dropped": rows.base + int(before[-1]) if len(before) else rows.dropped,
        "sections": sections,
        "provisional": provisional,
        "gap_end": None if own.gaps is None else own.gaps.end,
    }
    return fields, arrays


def _from_fields(fields: Fields, arrays: Mapping[str, NDArray[Any]]) -> _Entity:
    """Return the entity whose state `_to_fields` has returned, without `gaps`."""
    rows = _Rows(fields["base"], arrays["values"].shape[1])
    rows.newest, rows.dropped = fields["newest"], fields["dropped"]
    rows.values, rows.present = arrays["values"], arrays["present"]
    rows.measured = np.isfinite(rows.values).any(axis=1)
    own = _Entity(rows=rows, **{name: fields[name] for name in PLAIN})
    for i, section in enumerate(fields["sections"]):
        pieces = zip(*(arrays[f"{name} {i}"] for name in ("steps", "contributions", "causes")), strict=True)
        evidence = [Evidence(*views, *piece) for views, piece in zip(section.pop("views"), pieces, strict=True)]
        own.sections.append(_Section(evidence=evidence, **{**section, "reported": set(section["reported"])}))
    for interval in fields["provisional"]:
        given = interval["return_period"]
        period = pd.Timedelta(given, unit="ns") if isinstance(given, int) else given
        own.provisional.append(
            LiveInterval(**{**interval, "return_period": period, "replaces": tuple(interval["replaces"])})
        )
    return own
