"""`tsadc bench`: run what of a plan is not done yet, and tell how it goes; tables and a page of what there is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from tsadc.bench import formats
from tsadc.bench.cell import Cell, Record, flat, identity
from tsadc.bench.plan import Plan, Seeds, read
from tsadc.bench.protocols import CHOOSING
from tsadc.bench.records import SCORES, Store, load, write
from tsadc.bench.run import run_all
from tsadc.bench.summary import summarise
from tsadc.bench.table import insert, markdown
from tsadc.commands.console import complain, say
from tsadc.config import nearest, read_toml
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.report.bench_page import render
from tsadc.report.shell import write_page
from tsadc.report.words import count

PLAN = "plan.toml"
FORMS = ("markdown", "csv", "latex")


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
    plan = reseeded(read(asked.plan), asked.seeds)
    absent = plan.absent(asked.raw)
    cells = selected([cell for cell in plan.cells() if cell.data not in absent], asked.only)
    for cell in cells:
        identity(cell, asked.raw)  # refuses what cannot be run before anything is
    store = Store(asked.out, asked.out / SCORES)
    known = [(cell, store.current(cell, asked.raw, asked.retry)) for cell in cells]
    done = [(cell, record) for cell, record in known if record is not None]
    todo = [cell for cell, record in known if record is None or asked.again]
    for name, source in absent.items():
        say(f"{name} is not run: {asked.raw} has no {source}")
    if absent and not cells and not asked.only:
        raise DataError(f"{asked.raw} holds none of the plan's data sets; set TSADC_DATA to the folder that does.")
    say(f"{count(len(cells), 'cell', 'cells')}, {len(cells) - len(todo)} of them done before")
    if asked.dry_run:
        return _foretell(todo, done, asked.jobs)
    write(asked.out / PLAN, asked.plan.read_bytes())
    try:
        return _execute(todo, done, asked, store)
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on where it stopped.")
        return 130
    except BrokenExecutor:
        raise TsadcError("A process was killed, perhaps for want of memory; go on with --jobs 1.") from None


def _execute(todo: Sequence[Cell], done: list[tuple[Cell, Record]], asked: Asked, store: Store) -> int:
    started, failed = time.monotonic(), 0
    for number, (cell, record) in enumerate(run_all(todo, asked.raw, store, asked.jobs), start=1):
        failed += "error" in record
        done = [*(pair for pair in done if pair[0] != cell), (cell, record)]
        left = timedelta(seconds=round((time.monotonic() - started) / number * (len(todo) - number)))
        say(f"[{number}/{len(todo)}, {left} left{best(cell.column, done)}] {line(cell, record)}")
    if failed:
        complain(f"{count(failed, 'cell', 'cells')} failed; the records say why, and --retry runs them again.")
    return 1 if failed else 0


def _foretell(todo: Sequence[Cell], done: Sequence[tuple[Cell, Record]], jobs: int) -> int:
    seconds = [(cell, estimate(cell, done)) for cell in todo]
    for cell, expected in seconds:
        about = "of unknown length" if expected is None else f"about {timedelta(seconds=round(expected))}"
        say(f"{cell.column} {cell.label or cell.row} seed {cell.seed}: {about}")
    # Those that share a training take it once.
    longest: dict[str, float] = {}
    for cell, expected in seconds:
        longest[cell.training] = max(longest.get(cell.training, 0.0), expected or 0.0)
    total = sum(longest.values())
    unknown = sum(one is None for _, one in seconds)
    rest = f", and {count(unknown, 'cell', 'cells')} of unknown length" if unknown else ""
    say(f"In all about {timedelta(seconds=round(total / jobs))} with {count(jobs, 'process', 'processes')}{rest}.")
    return 0


def estimate(cell: Cell, done: Sequence[tuple[Cell, Record]]) -> float | None:
    """Seconds, from records of the same row on the same data, or of the same detector on it; None without any."""
    fine = [(other, record) for other, record in done if "error" not in record and other.data == cell.data]
    for same in (lambda other: other.row == cell.row, lambda other: other.detector == cell.detector):
        times = [one["fit_seconds"] + one["score_seconds"] * one["observations"] for other, one in fine if same(other)]
        if times:
            return float(np.mean(times))
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
    return numbers


def selected(cells: Sequence[Cell], only: Sequence[str]) -> list[Cell]:
    """The cells that have one of the values given for each key."""
    wanted: dict[str, set[str]] = {}
    for part in (part.strip() for text in only for part in text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"--only takes key=value, separated by commas, but got {part!r}.")
        wanted.setdefault(key.strip(), set()).add(value.strip())
    traits = [_traits(cell) for cell in cells]
    for key, values in wanted.items():
        have = sorted({name for known in traits for name in known})
        if key not in have:
            raise ConfigError(f"--only knows no {key!r}{nearest(key, have)}.")
        every = sorted({value for known in traits for value in known.get(key, ())})
        missing = sorted(values - set(every))
        if missing:
            raise ConfigError(f"The plan has no {key} {missing[0]!r}{nearest(missing[0], every)}.")
    return [
        cell
        for cell, known in zip(cells, traits, strict=True)
        if all(values & known.get(key, set()) for key, values in wanted.items())
    ]


def _traits(cell: Cell) -> dict[str, set[str]]:
    """What a cell can be chosen by. A detector goes by its name, its row and its label."""
    split = {name: {f"{value:g}"} for name, value in flat(cell.split)}
    head = {"head": {cell.config().head}} if cell.network else {}  # type: ignore[attr-defined]
    names = {cell.detector, cell.row, cell.label} - {""}
    return {"data": {cell.data}, "detector": names, "preset": {cell.preset}, "seed": {str(cell.seed)}, **head, **split}


def table(out: Path, form: str, *, choosing: bool, into: Path | None, brief: bool = False) -> str:
    """The records of a folder as a table; with `into` it goes between the marks that bear the folder's name there."""
    records, (_, _, metrics) = load(out), about(out)
    if form not in FORMS:
        raise ConfigError(f"--format takes {', '.join(FORMS)}, but got {form!r}.")
    if form == "markdown":
        text = markdown(records, choosing, metrics, brief)
    else:
        made = formats.comma_separated if form == "csv" else formats.latex
        text = made(summarise(records, choosing), metrics).rstrip()
    if into is not None:
        insert(into, text, out.resolve().name)
    return text


def report(out: Path, page: Path, *, choosing: bool) -> str:
    """The records of a folder as one page."""
    title, note, metrics = about(out)
    records = load(out)
    if not records:
        raise DataError(f"{out} holds no records; run the benchmark first.")
    write_page(render(records, title=title, note=note, metrics=metrics, choosing=choosing), page)
    return f"The report of {count(len(records), 'record', 'records')} is {page}."


def about(out: Path) -> tuple[str, str, tuple[str, ...]]:
    """Title, note and metrics, as the plan that was run last says them."""
    file = out / PLAN
    plan = read_toml(file) if file.exists() else {}
    metrics = tuple(plan.get("metrics", Plan.metrics))
    return str(plan.get("title") or out.resolve().name), str(plan.get("note", "")), metrics
