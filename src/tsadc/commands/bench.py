"""`tsadc bench`: run what of a plan is not done yet, and tell how it goes; tables and a page of what there is."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import numpy as np

from tsadc.bench import formats, protocols, published
from tsadc.bench.cell import Cell, Record, flat, identity
from tsadc.bench.lock import alone_in
from tsadc.bench.metrics import METRICS
from tsadc.bench.plan import Plan, Seeds, read, require_once
from tsadc.bench.points import MISLEADING
from tsadc.bench.protocols import CHOOSING, PROTOCOLS
from tsadc.bench.published import Published
from tsadc.bench.records import SCORES, Store, cell_of, load, write
from tsadc.bench.run import run_all
from tsadc.bench.summary import summarise
from tsadc.bench.table import insert, markdown
from tsadc.commands.console import complain, say
from tsadc.commands.studies import study_table
from tsadc.config import nearest, read_toml
from tsadc.errors import ConfigError, DataError, OutputError, TsadcError
from tsadc.evaluate.adjusted import WHY_NOT
from tsadc.report.bench_page import render
from tsadc.report.curves_figure import figure
from tsadc.report.shell import write_page
from tsadc.report.words import count

PLAN = "plan.toml"
NEXT = re.compile(r",(?=\s*[\w.]+\s*=)")  # a comma that no name of a detector holds
FORMS = ("markdown", "csv", "latex")
T = TypeVar("T")


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
    if plan.misleading and MISLEADING in plan.metrics:
        say(WHY_NOT)
    if asked.dry_run:
        return _foretell(todo, done, asked.jobs)
    try:
        with alone_in(asked.out):
            write(asked.out / PLAN, asked.plan.read_bytes())
            for cell, record in done:
                store.relabel(cell, record)
            return _execute(todo, done, asked, store, failed)
    except KeyboardInterrupt:
        complain("interrupted; the same command goes on where it stopped.")
        return 130
    except BrokenExecutor:
        raise TsadcError("A process was killed, perhaps for want of memory; go on with --jobs 1.") from None


def _check_places(asked: Asked, absent: Mapping[str, str]) -> None:
    """Refuse a file where a folder is needed, and a folder of data that is not there though the plan needs it."""
    if asked.out.exists() and not asked.out.is_dir():
        raise OutputError(f"{asked.out} is a file, but --out needs a folder for the records; choose another name.")
    if (
        absent
        and not asked.raw.is_dir()
        and not any(protocols.present(one, asked.raw) for one in PROTOCOLS.values() if one.source)
    ):
        came = f"{asked.raw} is a file" if asked.raw.exists() else f"There is no folder {asked.raw}"
        raise DataError(f"{came}, but the folder with the data sets was expected; name it by --raw or TSADC_DATA.")


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
    seconds = [(cell, estimate(cell, done)) for cell in todo]
    for cell, expected in seconds:
        say(f"{cell.column} {cell.label or cell.row} seed {cell.seed}: {_length(expected)}")
    # Those that share a training take it once.
    longest: dict[str, float] = {}
    for cell, expected in seconds:
        longest[cell.training] = max(longest.get(cell.training, 0.0), expected or 0.0)
    total = sum(longest.values())
    unknown = sum(one is None for _, one in seconds)
    rest = f", and {count(unknown, 'cell', 'cells')} of unknown length" if 0 < unknown < len(todo) else ""
    whole = _length(None if unknown == len(todo) else total / jobs)
    what = f"In all {count(len(longest), 'training', 'trainings')}, {whole} with {count(jobs, 'process', 'processes')}"
    say(f"{what}{rest}." if todo else "Nothing is left to run.")
    return 0


def _length(seconds: float | None) -> str:
    if seconds is None:
        return "of unknown length"
    return "under a second" if seconds < 1 else f"about {timedelta(seconds=round(seconds))}"


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
    require_once("--seeds", numbers)
    return numbers


def selected(some: Sequence[T], known: Sequence[Mapping[str, set[str]]], only: Sequence[str], where: str) -> list[T]:
    """Those that have one of the values given for each key; `known` is what each can be chosen by."""
    wanted: dict[str, set[str]] = {}
    for part in (part.strip() for text in only for part in NEXT.split(text)):
        key, equals, value = part.partition("=")
        if not equals:
            raise ConfigError(f"--only takes key=value, separated by commas, but got {part!r}.")
        wanted.setdefault(key.strip(), set()).add(_spelt(value.strip()))
    for key, values in wanted.items():
        have = sorted({name for one in known for name in one})
        if key not in have:
            raise ConfigError(f"--only knows no {key!r}{nearest(key, have)}")
        every = sorted({value for one in known for value in one.get(key, ())})
        missing = sorted(values - set(every))
        if missing:
            raise ConfigError(f"{where} no {key} {missing[0]!r}{nearest(missing[0], every)}")
    return [
        one
        for one, mine in zip(some, known, strict=True)
        if all(values & mine.get(key, set()) for key, values in wanted.items())
    ]


def _spelt(value: str) -> str:
    """Numbers as `traits` has them."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return value


def traits(cell: Cell, head: str | None = None) -> dict[str, set[str]]:
    """What a cell can be chosen by. A detector goes by its name, its row and its label."""
    split = {name: {f"{value:g}"} for name, value in flat(cell.split)}
    if head is None and cell.network:
        head = cell.config().head  # type: ignore[attr-defined]
    names = {cell.detector, cell.row, cell.label} - {""}
    more = {"head": {head}} if head else {}
    more |= {"label": {cell.label}} if cell.label else {}
    return {"data": {cell.data}, "detector": names, "preset": {cell.preset}, "seed": {str(cell.seed)}, **more, **split}


def _lacking(cells: Sequence[Cell], there: Set[tuple[str, str, int]]) -> str:
    """How many have no record, and on which data sets; empty where all have one."""
    left = Counter(cell.column for cell in cells if _place(cell) not in there)
    if not left or left.total() == len(cells):
        return "Not run." if left else ""
    every = Counter(cell.column for cell in cells)
    where = [f"{column} {'all' if some == every[column] else some}" for column, some in left.items()]
    return f"{left.total()} of {count(len(cells), 'cell', 'cells')} not run: {', '.join(where)}."


def _place(cell: Cell) -> tuple[str, str, int]:
    return cell.column, cell.row, cell.seed


@dataclass(frozen=True)
class Shown:
    """Which records of a folder are shown, and as what. `plan` replaces the one that the folder was last run by: rows
    are called as it does, and what is not of its cells is left out."""

    out: Path
    plan: Path | None = None
    only: tuple[str, ...] = ()
    choosing: bool = False

    @property
    def name(self) -> str:
        """Of the marks that it goes between."""
        return self.plan.stem if self.plan else self.out.resolve().name

    def records(self) -> tuple[list[Record], str]:
        """And, where the plan has cells without one, words on which."""
        every = load(self.out) if self.out.exists() or self.plan is None else []
        cells = {_place(cell): cell for cell in self._cells()}
        if self.plan is not None:
            placed = [(one, _place(cell_of(one))) for one in every]
            every = [one | {"label": cells[place].label} for one, place in placed if place in cells]
        there = {_place(cell_of(one)) for one in every}
        asked = self._only([(cell, traits(cell)) for cell in cells.values()]) if cells else []
        # A record of data of one's own does not say where that lies, which a cell needs to have its settings.
        known = [(one, traits(cell_of(one), one["settings"].get("head", ""))) for one in every]
        return self._only(known) if known else [], _lacking(asked, there)

    def _cells(self) -> list[Cell]:
        """Of the plan, or of the one that was run last, if its data lies where its copy says."""
        if self.plan is not None:
            return read(self.plan).cells()
        try:
            return read(self.out / PLAN).cells()
        except TsadcError:
            return []

    def _only(self, some: list[tuple[T, dict[str, set[str]]]]) -> list[T]:
        return selected([one for one, _ in some], [traits for _, traits in some], self.only, "The records have")

    def about(self) -> tuple[str, str, tuple[str, ...], Published | None]:
        """Title, note, metrics and what others published, as the plan says them."""
        file = self.plan or self.out / PLAN
        plan = read_toml(file, "plan") if self.plan or file.exists() else {}
        metrics = tuple(plan.get("metrics", Plan.metrics))
        wrong = next((name for name in metrics if name not in METRICS), None)
        if wrong is not None:
            raise ConfigError(f"There is no metric {wrong!r}, which {file} names{nearest(wrong, METRICS)}")
        others = published.parse(plan["published"]) if "published" in plan else None
        return str(plan.get("title") or self.name), str(plan.get("note", "")), metrics, others

    @property
    def goals(self) -> bool:
        """Whether the plan is of the study whose tables show the goals of this project."""
        file = self.plan or self.out / PLAN
        return file.exists() and read_toml(file, "plan").get("goals") is True


def table(asked: Shown, form: str, *, into: Path | None, brief: bool = False) -> str:
    """The records of a folder as a table; with `into` it goes between the marks that bear its name there."""
    if form not in FORMS:
        raise ConfigError(f"--format takes {', '.join(FORMS)}, but got {form!r}.")
    if asked.out.suffix == ".json":
        return study_table(asked.out, into)
    (records, lacking), (_, note, metrics, others) = asked.records(), asked.about()
    if form == "markdown":
        summaries = summarise(records, asked.choosing) if records or not lacking else []
        parts = [note, lacking, markdown(records, asked.choosing, metrics, brief, asked.goals) if summaries else ""]
        text = "\n\n".join(filter(None, [*parts, published.markdown(others, summaries) if others else ""]))
    else:
        made = formats.comma_separated if form == "csv" else formats.latex
        text = made(summarise(records, asked.choosing), metrics).rstrip()
        if MISLEADING in metrics:
            complain(WHY_NOT)
    if into is not None:
        insert(into, text, asked.name)
    return text


def report(asked: Shown, page: Path) -> str:
    """The records of a folder as one page, or their curves as a figure where that is to be an .svg."""
    title, note, metrics, others = asked.about()
    records, lacking = asked.records()
    if not records:
        whose = f"no records of the cells of {asked.plan}" if asked.plan else "no records"
        raise DataError(f"{asked.out} holds {whose}; run the benchmark first.")
    if page.suffix == ".svg":
        write(page, figure(summarise(records, asked.choosing), metrics).encode())
        return f"The figure of {count(len(records), 'record', 'records')} is {page}."
    shown = render(
        records, title=title, note=note, metrics=metrics, choosing=asked.choosing, others=others, lacking=lacking
    )
    write_page(shown, page)
    return f"The report of {count(len(records), 'record', 'records')} is {page}."
