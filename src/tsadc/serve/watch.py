"""Rows of a growing folder, or of the standard input -> verdicts on the terminal: the scoring of the service without
HTTP and without a store."""

from __future__ import annotations

import csv
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.errors import DataError
from tsadc.io.calendar import Calendar
from tsadc.series import Floats
from tsadc.serve.config import Model as ModelSettings
from tsadc.serve.decode import decode_json
from tsadc.serve.lifecycle import Quiet, advance
from tsadc.serve.queries import iso
from tsadc.serve.readers.folder import Folder, Settings
from tsadc.serve.rows import RowBatch, RowTable
from tsadc.serve.scoring import Model

ENTITY = "input"  # of lines that name none


class Positions:
    """How far the folder was read, in memory."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value


class Watch:
    """Judges rows, and passes what changes to `show`, as plain data."""

    def __init__(self, settings: ModelSettings, show: Callable[[dict[str, Any]], None]) -> None:
        self.model, self.show = Model("watch", settings.folder, seconds=settings.seconds), show
        self._places = {name: k for k, name in enumerate(self.model.variables)}
        self._known: dict[str, dict[str, Any]] = {}

    def push(self, rows: RowBatch | RowTable) -> None:
        """Judge rows; variables that the model lacks are left out."""
        table = RowTable.of(rows) if isinstance(rows, RowBatch) else rows
        values = self._columns(table)
        for entity in dict.fromkeys(table.entities):
            chosen = np.array([name == entity for name in table.entities])
            update = self.model.stream.push_many(entity, table.times[chosen], values[chosen])
            self._say(entity, update.intervals)

    def end(self) -> None:
        """Say what can be said about the last rows."""
        for entity in self.model.stream.entities:
            self._say(entity, self.model.stream.flush(entity).intervals)

    def _columns(self, table: RowTable) -> Floats:
        given = [k for k, name in enumerate(table.names) if name in self._places]
        if not given:
            raise DataError(f"None of the variables {', '.join(table.names)[:200]} is known to the model.")
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
    reader, positions = Folder("watch", Settings(path=str(folder), every=every)), Positions()
    while not stop.is_set():
        try:
            reader.run(watch.push, positions, stop)
        except DataError as error:
            if not folder.is_dir():
                raise
            complain(str(error))


def watch_lines(watch: Watch, lines: Iterable[str]) -> None:
    """Read lines: JSON with entity, time and values, or CSV with a header that has `time` and may have `entity`."""
    for rows in _tables(iter(lines)):
        watch.push(rows)
    watch.end()


def _tables(lines: Iterator[str]) -> Iterator[RowBatch | RowTable]:
    first = next((line for line in lines if line.strip()), "")
    if first.lstrip().startswith("{"):
        for line in itertools.chain([first], lines):
            if line.strip():
                yield from decode_json(b'{"rows": [' + line.encode() + b"]}")
        return
    header = [name.strip() for name in next(csv.reader([first]), [])]
    if "time" not in header:
        raise DataError("The first line must be JSON, or a header with `time`, such as time,entity,flow,pressure.")
    for number, cells in enumerate(csv.reader(lines), start=2):
        if not cells:
            continue
        if len(cells) != len(header):
            raise DataError(f"Line {number} has {len(cells)} cells, but the header has {len(header)}.")
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        moment, entity = row.pop("time"), row.pop("entity", ENTITY)
        try:
            values = {name: float(cell) if cell else None for name, cell in row.items()}
        except ValueError:
            raise DataError(f"Line {number} has a cell that is not a number: {', '.join(cells)[:200]}.") from None
        yield from decode_json(json.dumps({"rows": [{"entity": entity, "time": moment, "values": values}]}).encode())
