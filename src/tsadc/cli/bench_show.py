"""`tsadc bench table`, `tsadc bench families` and `tsadc bench report`: show the records of a folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tsadc.atomic import write_file
from tsadc.bench import published
from tsadc.bench.families import leave_one_out, read_choices
from tsadc.bench.job import Job, Record
from tsadc.bench.metrics import METRICS
from tsadc.bench.plan import BenchmarkPlan, read
from tsadc.bench.published import Published
from tsadc.bench.records import PLAN, job_of, key_of, load, stale
from tsadc.bench.summary import Grid, summarise
from tsadc.cli.bench_select import selected, traits_of
from tsadc.cli.console import print_error
from tsadc.config import nearest, read_toml
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.show import bench_families, bench_published
from tsadc.show.bench_export import comma_separated, latex
from tsadc.show.bench_figures import figure
from tsadc.show.bench_markdown import markdown, one_metric
from tsadc.show.bench_page import render
from tsadc.show.html import write_page
from tsadc.show.words import count

FORMATS = ("markdown", "csv", "latex")
T = TypeVar("T")


@dataclass(frozen=True)
class ShowOptions:
    """The records to show. `plan` replaces the plan that the folder was last run with: its labels are used, and records
    of other jobs are left out."""

    folder: Path
    plan: Path | None = None
    only: tuple[str, ...] = ()
    choosing: bool = False

    def records(self) -> tuple[list[Record], str]:
        """Return the records, and a sentence on the plan's jobs without a record and on stale records, if any."""
        records = load(self.folder) if self.folder.exists() or self.plan is None else []
        if not records and self.plan is None and not (self.folder / PLAN).exists():
            raise DataError(f"{self.folder} holds no benchmark records; name a folder that `tsadc bench run` wrote.")
        jobs = {job.key: job for job in self._jobs()}
        if self.plan is not None:
            records = [{**record, "label": jobs[key_of(record)].label} for record in records if key_of(record) in jobs]
        known = {key_of(record) for record in records}
        wanted = self._select(list(jobs.values()), list(jobs.values())) if jobs else []
        shown = self._select(records, [job_of(record) for record in records]) if records else []
        return shown, " ".join(filter(None, [_missing(wanted, known), _stale(wanted, shown)]))

    def _jobs(self) -> list[Job]:
        """Return the jobs of the plan; none if the last run's plan cannot be read from its copy."""
        if self.plan is not None:
            return read(self.plan).jobs()
        try:
            return read(self.folder / PLAN).jobs()
        except TsadcError:
            return []

    def _select(self, items: list[T], jobs: list[Job]) -> list[T]:
        return selected(items, [traits_of(job) for job in jobs], self.only, "The records have")

    def about(self) -> tuple[str, str, tuple[str, ...], Published | None]:
        """Return the plan's title, note, metrics and published figures."""
        file = self.plan or self.folder / PLAN
        plan = read_toml(file, "plan") if self.plan or file.exists() else {}
        metrics = plan.get("metrics", list(BenchmarkPlan.metrics))
        if not isinstance(metrics, list) or not metrics:
            raise ConfigError(f"`metrics` in {file} must be a list of names, but got {metrics!r}.")
        for metric in metrics:
            _check_metric(metric, f", which {file} names")
        figures = published.parse(plan["published"]) if "published" in plan else None
        title = str(plan.get("title") or self.folder.resolve().name)
        return title, str(plan.get("note", "")), tuple(metrics), figures


def table(
    options: ShowOptions, form: str, *, out: Path | None = None, brief: bool = False, metric: str | None = None
) -> str:
    """Return the records as tables, or as the table of one metric; with `out`, write them to that file too."""
    if form not in FORMATS:
        raise ConfigError(f"--format takes {', '.join(FORMATS)}, but got {form!r}.")
    if metric is not None:
        _check_metric(metric)
        if brief:
            raise ConfigError("--metric and --brief cannot be combined; leave one of them out.")
    (records, remark), (title, note, metrics, figures) = options.records(), options.about()
    metrics = metrics if metric is None else (metric,)
    summaries = summarise(records, options.choosing) if records or not remark or form != "markdown" else []
    if form != "markdown":
        text = (comma_separated if form == "csv" else latex)(summaries, metrics).rstrip()
        if remark:
            print_error(remark)
    elif metric is not None:
        text = "\n\n".join(filter(None, [remark, one_metric(Grid(summaries), metric) if summaries else ""]))
    else:
        parts = [note, remark, markdown(records, options.choosing, metrics, brief) if summaries else ""]
        text = "\n\n".join(filter(None, [*parts, bench_published.markdown(figures, summaries) if figures else ""]))
    if out is not None:
        heading = f"# {title}\n\n" if form == "markdown" and metric is None else ""
        write_file(out, f"{heading}{text}\n".encode())
    return text


def families(options: ShowOptions, choices: Path | None = None, out: Path | None = None) -> str:
    """Return the records as tables over families of data sets, with the left-out figures of the candidates in
    `choices`; with `out`, write them to that file too."""
    (records, remark), (title, note, _, _) = options.records(), options.about()
    known = read_choices(choices) if choices is not None else None
    summaries = summarise(records, options.choosing) if records or not remark else []
    left_out = leave_one_out(known) if known is not None else None
    shown = bench_families.markdown(summaries, left_out) if summaries else ""
    text = "\n\n".join(filter(None, [note, remark, shown]))
    if out is not None:
        write_file(out, f"# {title}\n\n{text}\n".encode())
    return text


def _check_metric(metric: str, where: str = "") -> None:
    if metric not in METRICS:
        raise ConfigError(f"There is no metric {metric!r}{where}{nearest(metric, METRICS)}")


def report(options: ShowOptions, file: Path) -> str:
    """Write the records as one page, or as a figure if the file is an .svg: curves if an option of the data varies,
    otherwise dots. Return a sentence on it."""
    if file.suffix not in (".html", ".svg"):
        raise ConfigError(f"--out must end in .html or .svg, but got {file}.")
    (records, remark), (title, note, metrics, figures) = options.records(), options.about()
    if not records:
        whose = f"no records of the jobs of {options.plan}" if options.plan else "no records"
        raise DataError(f"{options.folder} holds {whose}; run the benchmark first.")
    number = count(len(records), "record", "records")
    if file.suffix == ".svg":
        write_file(file, figure(summarise(records, options.choosing), metrics).encode())
        return f"The figure of {number} is {file}."
    page = render(
        records, title=title, note=note, metrics=metrics, choosing=options.choosing, others=figures, lacking=remark
    )
    write_page(page, file)
    return f"The report of {number} is {file}."


def _missing(jobs: Sequence[Job], known: Collection[tuple[str, str, int]]) -> str:
    """Return how many jobs have no record, by data set; an empty text if all have one."""
    missing = Counter(job.data for job in jobs if job.key not in known)
    if not missing or missing.total() == len(jobs):
        return "Not run." if missing else ""
    every = Counter(job.data for job in jobs)
    where = [f"{data} {'all' if number == every[data] else number}" for data, number in missing.items()]
    return f"{missing.total()} of {count(len(jobs), 'job', 'jobs')} not run: {', '.join(where)}."


def _stale(jobs: Sequence[Job], records: Sequence[Record]) -> str:
    """Return how many records are stale; an empty text if none is."""
    now = {job.key: job for job in jobs}
    old = sum(stale(record, now[key]) for record in records if (key := key_of(record)) in now)
    if not old:
        return ""
    are = "is" if old == 1 else "are"
    return (
        f"{old} of {count(len(records), 'record', 'records')} {are} stale: the code or the settings have changed, or "
        "no hash of the code was recorded. `tsadc bench run` makes them again."
    )
