"""Rows of a growing folder, or of the standard input -> verdicts on the terminal: the scoring of the service without
HTTP and without a store."""

from __future__ import annotations

import csv
import itertools
import threading
import time
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.config import shown
from tsadc.errors import DataError, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.series import Floats
from tsadc.serve.config import Model as ModelSettings
from tsadc.serve.config import Server
from tsadc.serve.decode import decode_line, decode_row
from tsadc.serve.lifecycle import Quiet, advance
from tsadc.serve.misfits import Pace, not_judged, not_learnt, other_rate
from tsadc.serve.queries import iso
from tsadc.serve.readers.folder import Folder, Settings
from tsadc.serve.rows import RowBatch, RowTable
from tsadc.serve.scoring import Model
from tsadc.wording import count

MOST_COMPLAINTS = 20  # sentences about lines
MOST_UNKNOWN = 100  # variables that are remembered
SECOND = 10**9


class Positions:
    """How far the folder was read, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value

    def keep_only(self, keys: Container[str]) -> None:
        self.values = {key: value for key, value in self.values.items() if key in keys}


class Watch:
    """Judges rows, and passes what changes to `show`, as plain data."""

    def __init__(self, settings: ModelSettings, show: Callable[[dict[str, Any]], None]) -> None:
        self.model, self.show = Model("watch", settings.folder, seconds=settings.seconds), show
        self.future = 0  # rows ahead of the clock, after which the right ones would be late
        self._places = {name: k for k, name in enumerate(self.model.variables)}
        self._known: dict[str, dict[str, Any]] = {}
        self._unknown: dict[str, None] = {}  # variables, in order
        self._paces: dict[str, Pace] = {}
        self._rates: dict[str, int] = {}

    def push(self, rows: RowBatch | RowTable) -> None:
        """Judge rows; variables that the model lacks are left out."""
        table = RowTable.of(rows) if isinstance(rows, RowBatch) else rows
        values = self._columns(table)
        timely = table.times <= (time.time() + Server.future) * SECOND
        self.future += len(table) - int(timely.sum())
        for entity in dict.fromkeys(table.entities):
            chosen = timely & np.array([name == entity for name in table.entities])
            if not chosen.any():
                continue
            if entity not in self._paces and self.model.detector.unknown_entities([entity]):
                notice(not_learnt(entity, Path(self.model.folder).name, self.model.folder).sentence)
            update = self.model.stream.push_many(entity, table.times[chosen], values[chosen])
            pace = self._paces.setdefault(entity, Pace(self.model.clock.interval))
            if seen := pace.add(table.times[chosen]):
                self._rates[entity] = seen
            self._say(entity, update.intervals)

    def end(self) -> None:
        """Say what can be said about the last rows."""
        for entity in self.model.stream.entities:
            self._say(entity, self.model.stream.flush(entity).intervals)

    def left_out(self) -> str:
        """Return a sentence about what was not judged, and why; empty if all was."""
        interval = self.model.clock.interval
        sentence = not_judged({**self.model.stream.counts, "future": self.future}, list(self._unknown), interval)
        if not self._rates:
            return sentence
        entity, seen = next(iter(self._rates.items()))
        return f"{sentence} {other_rate(entity, Path(self.model.folder).name, seen, interval).sentence}".strip()

    def no_variable(self, names: Sequence[str]) -> DataError:
        """Return an error about rows that have no variable of the model."""
        has = f"the model, which has {listed(self.model.variables)}"
        if not names:
            return DataError(f"It has no values; send some of those of {has}.")
        return DataError(f"None of the variables {listed(names)} is known to {has}.")

    def _columns(self, table: RowTable) -> Floats:
        given = [k for k, name in enumerate(table.names) if name in self._places]
        if not given:
            raise self.no_variable(table.names)
        if len(self._unknown) < MOST_UNKNOWN:
            self._unknown |= dict.fromkeys(name for name in table.names if name not in self._places)
        values = np.full((len(table), len(self._places)), np.nan)
        values[:, [self._places[table.names[k]] for k in given]] = table.values[:, given]
        return values

    def _say(self, entity: str, intervals: Any) -> None:
        def emit(episode: dict[str, Any], transition: str) -> None:
            kept = ("id", "severity", "score", "kind", "reason", "variables", "withdrawn")
            times = {name: iso(episode[name]) for name in ("start", "end")}
            self.show({"entity": entity, "transition": transition, **times, **{name: episode[name] for name in kept}})

        known = self._known.setdefault(entity, {})
        advance(known, intervals, entity, "", Quiet((), Calendar()), time.time(), emit)
        ended = [key for key, episode in known.items() if episode["state"] != "open"]
        for key in ended[:-8]:  # the latest may still change
            del known[key]


def watch_folder(
    watch: Watch, folder: Path, every: float, stop: threading.Event, complain: Callable[[str], None]
) -> None:
    """Read what is in a folder, and what comes, until `stop`. `complain` is called with a sentence about files that
    cannot be read; the others are read all the same."""
    if folder.is_file():
        raise DataError(
            f"{folder} is a file, but `tsadc watch` reads a folder; give the folder that it is in, or its lines, if it "
            f"is a CSV: tsadc watch MODEL - < {folder}."
        )
    reader, positions = Folder("watch", Settings(path=str(folder), every=every)), Positions()
    while not stop.is_set():
        try:
            reader.run(watch.push, positions, stop)
        except DataError as error:
            if not folder.is_dir():
                raise
            elsewhere = "a reader of `tsadc serve`, as `tsadc watch` has no such option"
            complain(str(error).replace(f"[reader.{reader.name}]", elsewhere))


def watch_lines(watch: Watch, lines: Iterable[str], entity: str, complain: Callable[[str], None]) -> None:
    """Read lines: JSON with entity, time and values, or CSV with a header that has `time` and may have `entity`, for
    which the argument `entity` stands in. `complain` is called with a sentence about lines that cannot be used, the
    first few and their number; the others are judged all the same."""
    wrong = 0
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    first = next(numbered, (1, ""))
    is_json = first[1].lstrip().startswith("{")
    decode = decode_line if is_json else _csv_decoder(first[1], watch, entity)
    for number, line in itertools.chain([first] * is_json, numbered):
        try:
            for rows in decode(line):
                watch.push(rows)
        except DataError as error:
            wrong += 1
            if wrong <= MOST_COMPLAINTS:
                complain(f"Line {number} is left out: {error}")
    if wrong > MOST_COMPLAINTS:
        complain(f"{count(wrong - MOST_COMPLAINTS, 'more line is', 'more lines are')} left out.")
    watch.end()


def _csv_decoder(first: str, watch: Watch, default: str) -> Callable[[str], list[RowTable]]:
    """Return what decodes the lines after the first one of a CSV, its header. Each line is read by itself, so that a
    stray quote or line break damages no other."""
    header = [name.strip() for name in _cells(first)]
    if "time" not in header:
        raise DataError(
            "The first line must be JSON, or a header with `time` and commas, such as time,entity,flow,pressure, but "
            f"got {shown(first.strip())}."
        )
    variables = [name for name in header if name not in ("time", "entity")]
    if not any(name in watch.model.variables for name in variables):
        raise watch.no_variable(variables)

    def decode(line: str) -> list[RowTable]:
        cells = _cells(line)
        if len(cells) != len(header):
            raise DataError(f"It has {count(len(cells), 'cell', 'cells')}, but the header has {len(header)}.")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        moment, entity = row.pop("time"), row.pop("entity", default)
        values = {name: _number(name, cell) for name, cell in row.items()}
        time_ = int(moment) if moment.isascii() and moment.isdigit() else moment
        return decode_row({"entity": entity, "time": time_, "values": values})

    return decode


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        most = csv.field_size_limit()
        raise DataError(f"It has a carriage return inside, or a cell of more than {most:,} characters.") from None


def _number(name: str, cell: str) -> float | None:
    try:
        return float(cell) if cell else None
    except ValueError:
        raise DataError(f"The value {shown(cell)} of {shown(name)} is not a number.") from None
