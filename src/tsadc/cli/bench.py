"""`tsadc bench run`: run what of a plan is not done yet, and tell how it goes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.cell import Cell, Record, identity
from tsadc.bench.lock import alone_in
from tsadc.bench.plan import Plan, Seeds, read, require_once
from tsadc.bench.records import PLAN, SCORES, Store
from tsadc.bench.run import run_all
from tsadc.cli.chosen import selected, traits
from tsadc.cli.console import complain, say
from tsadc.data.catalogue import PROTOCOLS, present
from tsadc.data.protocols import CHOOSING, EVERYWHERE
from tsadc.errors import ConfigError, DataError, OutputError
from tsadc.show.words import count


@dataclass(frozen=True)
class Asked:
    """The options of `tsadc bench run`."""

    plan: Path
    out: Path
    raw: Path
    jobs: int = 1
    only: tuple[str, ...] = ()
    seeds: str | None = None
    dry_run: bool = False
    again: bool = False
    retry: bool = False


def run(asked: Asked) -> int:
    """The exit code: 0, or 1 where cells failed, or 130 where it was interrupted."""
    if asked.jobs < 1:
        raise ConfigError(f"--jobs takes a whole number from 1, but got {asked.jobs}.")
    plan = reseeded(read(asked.plan), asked.seeds)
    absent = plan.absent(asked.raw)
    _check_places(asked, absent)
    every = plan.cells()
    chosen = selected(every, [traits(cell) for cell in every], asked.only, "The plan has")
    cells = [cell for cell in chosen if cell.data not in absent]
    for cell in cells:
        identity(cell, asked.raw)  # refuses what cannot be run before anything is
    store = Store(asked.out, asked.out / SCORES)
    known = [(cell, store.current(cell, asked.raw, asked.retry)) for cell in cells]
    done = [(cell, record) for cell, record in known if record is not None]
    todo = [cell for cell, record in known if record is None or asked.again]
    for name in dict.fromkeys(cell.data for cell in chosen if cell.data in absent):
        say(f"{name} is not run: {asked.raw} has no {absent[name]}")
    if absent and not cells:
        raise DataError(f"{asked.raw} holds none of the plan's data sets; set TSADC_DATA to the folder that does.")
    say(f"{count(len(cells), 'cell', 'cells')}, {len(cells) - len(todo)} of them done before")
    failed = sum("error" in record for cell, record in done if cell not in todo)
    try:
        _check_draws(todo, asked.raw)
        if asked.dry_run:
            there = [(cell, store.current(cell, asked.raw)) for cell in every if cell.data not in absent]
            return _foretell(todo, [(cell, record) for cell, record in there if record is not None], asked.jobs)
        with alone_in(asked.out):
            write_file(asked.out / PLAN, asked.plan.read_bytes())
            for cell, record in done:
                store.relabel(cell, record)
            return _execute(todo, done, asked, store, failed)
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on where it stopped.")
        return 130


def _check_places(asked: Asked, absent: Mapping[str, str]) -> None:
    """Refuse a file where a folder is needed, and a folder of data that is not there though the plan needs it."""
    if asked.out.exists() and not asked.out.is_dir():
        raise OutputError(f"{asked.out} is a file, but --out needs a folder for the records; choose another name.")
    if (
        absent
        and not asked.raw.is_dir()
        and not any(present(one, asked.raw) for one in PROTOCOLS.values() if one.source)
    ):
        came = f"{asked.raw} is a file" if asked.raw.exists() else f"There is no folder {asked.raw}"
        raise DataError(f"{came}, but the folder with the data sets was expected; name it by --raw or TSADC_DATA.")


def _check_draws(cells: Sequence[Cell], raw: Path) -> None:
    """Refuse a share or a number of kinds that a data set has not enough of, before hours are spent on the others."""
    drawn = {(cell.column, cell.seed): cell for cell in cells if set(cell.split) - set(EVERYWHERE)}
    for cell in drawn.values():
        try:
            cell.task(raw)
        except DataError as error:
            raise DataError(f"{cell.column} cannot be drawn with seed {cell.seed}: {error}") from None


def _execute(todo: Sequence[Cell], done: list[tuple[Cell, Record]], asked: Asked, store: Store, failed: int) -> int:
    """`failed`: cells that did so before and are not run again."""
    started = time.monotonic()
    for number, (cell, record) in enumerate(run_all(todo, asked.raw, store, asked.jobs), start=1):
        failed += "error" in record
        done = [*(pair for pair in done if pair[0] != cell), (cell, record)]
        left = timedelta(seconds=round((time.monotonic() - started) / number * (len(todo) - number)))
        say(f"[{number}/{len(todo)}, {left} left{best(cell.column, done)}] {line(cell, record)}")
    if failed:
        complain(f"{count(failed, 'cell', 'cells')} failed; the records say why, and --retry runs them again.")
    return 1 if failed else 0


def _foretell(todo: Sequence[Cell], done: Sequence[tuple[Cell, Record]], jobs: int) -> int:
    expected = [(cell, estimate(cell, done)) for cell in todo]
    for cell, one in expected:
        say(f"{cell.column} {cell.label or cell.row} seed {cell.seed}: {_length(one and sum(one))}")
    # Those that share a training take it once.
    fits: dict[str, float] = {}
    for cell, one in expected:
        fits[cell.training] = max(fits.get(cell.training, 0.0), one[0] if one else 0.0)
    total = sum(fits.values()) + sum(one[1] for _, one in expected if one)
    unknown = sum(one is None for _, one in expected)
    rest = f", and {count(unknown, 'cell', 'cells')} of unknown length" if 0 < unknown < len(todo) else ""
    whole = _length(None if unknown == len(todo) else total / jobs)
    what = f"In all {count(len(fits), 'training', 'trainings')}, {whole} with {count(jobs, 'process', 'processes')}"
    say(f"{what}{rest}." if todo else "Nothing is left to run.")
    return 0


def _length(seconds: float | None) -> str:
    if seconds is None:
        return "of unknown length"
    return "under a second" if seconds < 1 else f"about {timedelta(seconds=round(seconds))}"


def estimate(cell: Cell, done: Sequence[tuple[Cell, Record]]) -> tuple[float, float] | None:
    """Seconds of fitting and of scoring, from records of the same row on the same data, or of the same detector on it;
    None without any."""
    fine = [(other, record) for other, record in done if "error" not in record and other.data == cell.data]
    for same in (lambda other: other.row == cell.row, lambda other: other.detector == cell.detector):
        found = [one for other, one in fine if same(other)]
        if found:
            scoring = [one["score_seconds"] * one["observations"] for one in found]
            return float(np.mean([one["fit_seconds"] for one in found])), float(np.mean(scoring))
    return None


def best(column: str, done: Sequence[tuple[Cell, Record]]) -> str:
    """The row with the highest mean AUROC on a data set so far."""
    rows: dict[str, list[float]] = {}
    for cell, record in done:
        if cell.column == column and "error" not in record:
            rows.setdefault(cell.label or cell.row, []).append(record["auroc"])
    if not rows:
        return ""
    first = max(rows, key=lambda row: np.mean(rows[row]))
    return f", best so far {first} {np.mean(rows[first]):.3f}"


def line(cell: Cell, record: Record) -> str:
    what = f"{cell.column} {cell.label or cell.row} seed {cell.seed}{' (choosing)' if cell.seed >= CHOOSING else ''}"
    if "error" in record:
        return f"{what}: failed, {record['error']['type']}: {record['error']['message']}"
    scores = f"AUROC {record['auroc']:.3f}, AP {record['ap']:.3f}, F1 {record['f1']:.3f}"
    times = f"fit {record['fit_seconds']:.1f} s, {1000 * record['score_seconds']:.1f} ms per observation"
    return f"{what}: {scores}, {times}"


def reseeded(plan: Plan, asked: str | None) -> Plan:
    """The plan with other seeds, if any are asked for."""
    if asked is None:
        return plan
    seeds: Seeds = "report" if asked == "report" else "choose" if asked == "choose" else _numbers(asked)
    return replace(plan, seeds=seeds, data=tuple(replace(data, seeds=None) for data in plan.data))


def _numbers(asked: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in asked.split(","))
    except ValueError:
        numbers = (-1,)
    if min(numbers) < 0:
        raise ConfigError(f"--seeds takes report, choose or whole numbers such as 0,1,2, but got {asked!r}.")
    require_once("--seeds", numbers)
    return numbers
