"""`tsadc bench table` and `tsadc bench report`: the records of a folder, as its plan or another one asks for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tsadc.atomic import write_file
from tsadc.bench import published
from tsadc.bench.cell import Cell, Record, digest, specified
from tsadc.bench.metrics import METRICS
from tsadc.bench.plan import Plan, read
from tsadc.bench.published import Published
from tsadc.bench.records import PLAN, cell_of, load
from tsadc.bench.summary import Grid, summarise
from tsadc.cli.chosen import selected, traits
from tsadc.cli.console import complain
from tsadc.cli.studies import study_table
from tsadc.config import nearest, read_toml
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.show import bench_formats as formats
from tsadc.show import curves_figure, dots_figure
from tsadc.show.bench_charts import panels
from tsadc.show.bench_markdown import insert, markdown, one_metric
from tsadc.show.bench_page import render
from tsadc.show.shell import write_page
from tsadc.show.words import count

FORMS = ("markdown", "csv", "latex")
T = TypeVar("T")


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
        """And, where the plan has cells without one or with one of other settings, words on which."""
        every = load(self.out) if self.out.exists() or self.plan is None else []
        cells = {_place(cell): cell for cell in self._cells()}
        if self.plan is not None:
            placed = [(one, _place(cell_of(one))) for one in every]
            every = [one | {"label": cells[place].label} for one, place in placed if place in cells]
        there = {_place(cell_of(one)) for one in every}
        wanted = self._only([(cell, traits(cell)) for cell in cells.values()]) if cells else []
        # A record of data of one's own does not say where that lies, which a cell needs to have its settings.
        known = [(one, traits(cell_of(one), one["settings"].get("scoring", ""))) for one in every]
        shown = self._only(known) if known else []
        return shown, " ".join(filter(None, [_lacking(wanted, there), _outdated(wanted, shown)]))

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
        metrics = plan.get("metrics", list(Plan.metrics))
        if not isinstance(metrics, list) or not metrics:
            raise ConfigError(f"`metrics` in {file} must be a list of names, but got {metrics!r}.")
        for metric in metrics:
            _check_metric(metric, str(file))
        others = published.parse(plan["published"]) if "published" in plan else None
        return str(plan.get("title") or self.name), str(plan.get("note", "")), tuple(metrics), others


def table(asked: Shown, form: str, *, into: Path | None, brief: bool = False, metric: str | None = None) -> str:
    """The records of a folder as tables, or as that of one metric; with `into` they go between the marks that bear its
    name there."""
    if form not in FORMS:
        raise ConfigError(f"--format takes {', '.join(FORMS)}, but got {form!r}.")
    if metric is not None:
        _check_metric(metric, "--metric")
        if brief:
            raise ConfigError("--metric is one table and --brief several; leave one of them out.")
    if asked.out.suffix == ".json":
        if metric is not None:
            raise ConfigError(f"{asked.out} is the record of a study, which has no metrics; leave out --metric.")
        return study_table(asked.out, into)
    (records, lacking), (_, note, metrics, others) = asked.records(), asked.about()
    metrics = metrics if metric is None else (metric,)
    summaries = summarise(records, asked.choosing) if records or not lacking or form != "markdown" else []
    if lacking and (metric is not None or form != "markdown"):
        complain(lacking)
    if form == "markdown" and metric is not None:
        text = one_metric(Grid(summaries), metric) if summaries else lacking
    elif form == "markdown":
        parts = [note, lacking, markdown(records, asked.choosing, metrics, brief) if summaries else ""]
        text = "\n\n".join(filter(None, [*parts, published.markdown(others, summaries) if others else ""]))
    else:
        made = formats.comma_separated if form == "csv" else formats.latex
        text = made(summaries, metrics).rstrip()
    if into is not None:
        insert(into, text, asked.name)
    return text


def _check_metric(metric: str, where: str) -> None:
    if metric not in METRICS:
        raise ConfigError(f"There is no metric {metric!r}, which {where} names{nearest(metric, METRICS)}")


def report(asked: Shown, page: Path) -> str:
    """The records of a folder as one page, or as a figure where that is to be an .svg: curves where an option of the
    data varies, dots otherwise."""
    (records, lacking), (title, note, metrics, others) = asked.records(), asked.about()
    if not records:
        whose = f"no records of the cells of {asked.plan}" if asked.plan else "no records"
        raise DataError(f"{asked.out} holds {whose}; run the benchmark first.")
    if page.suffix == ".svg":
        summaries = summarise(records, asked.choosing)
        drawn = curves_figure if panels(summaries) else dots_figure
        write_file(page, drawn.figure(summaries, metrics).encode())
        return f"The figure of {count(len(records), 'record', 'records')} is {page}."
    shown = render(
        records, title=title, note=note, metrics=metrics, choosing=asked.choosing, others=others, lacking=lacking
    )
    write_page(shown, page)
    return f"The report of {count(len(records), 'record', 'records')} is {page}."


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


def _outdated(cells: Sequence[Cell], records: Sequence[Record]) -> str:
    """How many are of settings, draws or a version that the same cell has no more; empty where none is."""
    now = {_place(cell): specified(cell) for cell in cells}
    kept = [(now[place], one) for one in records if (place := _place(cell_of(one))) in now]
    old = sum(digest(new) != digest({key: one.get(key) for key in new}) for new, one in kept)
    if not old:
        return ""
    what = "1 record was" if old == 1 else f"{old} records were"
    return f"{what} made with other settings or another version than now; `tsadc bench run` makes them again."
