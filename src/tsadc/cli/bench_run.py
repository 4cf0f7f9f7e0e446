"""`tsadc bench run`: run the jobs of a plan that have no current record, and report progress."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.job import Job, Record, identity
from tsadc.bench.plan import BenchmarkPlan, Seeds, read, require_once
from tsadc.bench.records import LOCK, PLAN, Key, Store, current, exclusive, key_of, load
from tsadc.bench.run import run_all
from tsadc.cli.bench_select import selected, traits_of
from tsadc.cli.console import echo, print_error
from tsadc.cli.signals import Terminated, stopped
from tsadc.data.catalogue import PROTOCOLS, present
from tsadc.data.protocols import CHOOSING
from tsadc.errors import ConfigError, DataError, OutputError
from tsadc.show.words import count

RESULTS = Path("results")
NOTHING_LEFT = "Nothing is left to run."
Seconds = tuple[float, float]  # of fitting and of scoring


@dataclass(frozen=True)
class RunOptions:
    """The options of `tsadc bench run`; without `out`, records go to `results/PLAN`."""

    plan: Path
    raw: Path
    out: Path | None = None
    processes: int = 1
    only: tuple[str, ...] = ()
    seeds: str | None = None
    dry_run: bool = False
    again: bool = False
    retry: bool = False
    ray: bool = False
    address: str | None = None

    @property
    def folder(self) -> Path:
        """Where records go."""
        return self.out or RESULTS / self.plan.stem


def run(options: RunOptions) -> int:
    """Run a plan. Return the exit code: 0, 1 if jobs failed, 130 if interrupted."""
    if options.processes < 1:
        raise ConfigError(f"--processes must be at least 1, but got {options.processes}.")
    plan = _with_seeds(read(options.plan), options.seeds)
    absent = plan.absent(options.raw)
    _check_folders(options, absent)
    all_jobs = plan.jobs()
    jobs = _select(all_jobs, absent, options)
    _check_settings_and_data(jobs, options.raw)
    records = {key_of(record): record for record in load(options.folder)} if options.folder.exists() else {}
    done = {job.key: (job, records[job.key]) for job in jobs if current(records.get(job.key), job, options.raw)}
    skipped = {key: record for key, (_, record) in done.items() if not _runs_again(record, options)}
    todo = [job for job in jobs if job.key not in skipped]
    stale = sum(job.key in records for job in jobs) - len(done)
    outdated = f", {stale} with stale records" if stale else ""
    echo(f"{count(len(jobs), 'job', 'jobs')}, {len(skipped)} already done{outdated}")
    try:
        _check_draws(todo, options.raw)
        if options.dry_run:
            known = [(job, records[job.key]) for job in all_jobs if job.key in records]
            _print_estimates([(job, _estimate(job, known)) for job in todo], options.processes)
            return 0
        with exclusive(options.folder):
            write_file(options.folder / PLAN, options.plan.read_bytes())
            _update_labels(done.values(), options.folder)
            failed = sum("error" in record for record in skipped.values()) + _execute(todo, done, options)
    except (KeyboardInterrupt, Terminated) as stop:
        word, code = stopped(stop)
        print_error(f"{word}; run the same command again to continue.")
        return code
    if not todo:
        echo(NOTHING_LEFT)
    echo(f"Records are in {options.folder}; show them with `tsadc bench table {options.folder}`.")
    if failed:
        print_error(f"{count(failed, 'job', 'jobs')} failed; the records say why, and --retry runs them again.")
    return 1 if failed else 0


def _select(jobs: Sequence[Job], absent: Mapping[str, str], options: RunOptions) -> list[Job]:
    """Return the jobs that --only selects and whose data is present; print which data sets are not."""
    selection = selected(jobs, [traits_of(job) for job in jobs], options.only, "The plan has")
    for name in dict.fromkeys(job.dataset for job in selection if job.dataset in absent):
        echo(f"{name} is not run: {options.raw} has no {absent[name]}")
    present_jobs = [job for job in selection if job.dataset not in absent]
    if absent and not present_jobs:
        raise DataError(f"{options.raw} holds none of the plan's data sets; set TSADC_DATA to the folder that does.")
    return present_jobs


def _runs_again(record: Record, options: RunOptions) -> bool:
    return options.again or (options.retry and "error" in record)


def _update_labels(done: Iterable[tuple[Job, Record]], folder: Path) -> None:
    """Rewrite the current records whose label has changed in the plan."""
    for job, record in done:
        if record["label"] != job.label:
            Store(folder).keep({**record, "label": job.label}, {})


def _check_settings_and_data(jobs: Sequence[Job], raw: Path) -> None:
    """Raise if a job has invalid settings or its data cannot be read, before any other is run."""
    for job in jobs:
        identity(job, raw)


def _check_folders(options: RunOptions, absent: Mapping[str, str]) -> None:
    """Raise if --out is a file or a folder of something else, or if there is no folder with the data of the plan."""
    if options.folder.exists() and not options.folder.is_dir():
        raise OutputError(f"{options.folder} is a file, but --out needs a folder for the records; choose another name.")
    if options.folder.is_dir():
        names = [file.name for file in options.folder.iterdir()]
        if names and not any(name in (PLAN, LOCK) or name.endswith(".jsonl") for name in names):
            raise OutputError(
                f"{options.folder} holds other files and no benchmark records; choose a new or empty folder with --out."
            )
    known = [protocol for protocol in PROTOCOLS.values() if protocol.source]
    if absent and not options.raw.is_dir() and not any(present(protocol, options.raw) for protocol in known):
        came = f"{options.raw} is a file" if options.raw.exists() else f"There is no folder {options.raw}"
        raise DataError(f"{came}, but the folder with the data sets was expected; set it with --raw or TSADC_DATA.")


def _check_draws(jobs: Sequence[Job], raw: Path) -> None:
    """Raise if a data set has too few anomalies for its options, before hours are spent on others."""
    for job in {(job.data, job.seed): job for job in jobs if job.split}.values():
        try:
            job.task(raw)
        except DataError as error:
            raise DataError(f"{job.data} cannot be drawn with seed {job.seed}: {error}") from None


def _execute(todo: Sequence[Job], done: dict[Key, tuple[Job, Record]], options: RunOptions) -> int:
    """Run jobs, add them to `done`, print a line on each, and return how many failed."""
    started = time.monotonic()
    failed = 0
    if options.ray:
        from tsadc.cli.cluster_bench import run_on_cluster

        finished = run_on_cluster(todo, options.raw, Store(options.folder), options.address)
    else:
        finished = run_all(todo, options.raw, Store(options.folder), options.processes)
    for number, (job, record) in enumerate(finished, start=1):
        failed += "error" in record
        done[job.key] = job, record
        left = timedelta(seconds=round((time.monotonic() - started) / number * (len(todo) - number)))
        echo(f"[{number}/{len(todo)}, {left} left{_best(job.data, done.values())}] {_line(job, record)}")
    return failed


def _print_estimates(estimates: Sequence[tuple[Job, Seconds | None]], processes: int) -> None:
    for job, seconds in estimates:
        echo(f"{job.data} {job.label} seed {job.seed}: {_duration(seconds and sum(seconds))}")
    echo(_total(estimates, processes) if estimates else NOTHING_LEFT)


def _total(estimates: Sequence[tuple[Job, Seconds | None]], processes: int) -> str:
    """Return a sentence on the time of all jobs. Jobs that share a training need it once."""
    fits: dict[str, float] = {}
    for job, seconds in estimates:
        fits[job.training] = max(fits.get(job.training, 0.0), seconds[0] if seconds else 0.0)
    total = sum(fits.values()) + sum(seconds[1] for _, seconds in estimates if seconds)
    unknown = sum(seconds is None for _, seconds in estimates)
    rest = f"; time of {count(unknown, 'job', 'jobs')} unknown" if 0 < unknown < len(estimates) else ""
    duration = _duration(None if unknown == len(estimates) else total / processes)
    trainings = count(len(fits), "training", "trainings")
    return f"Total: {trainings} with {count(processes, 'process', 'processes')}, {duration}{rest}."


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "time unknown"
    return "under a second" if seconds < 1 else f"about {timedelta(seconds=round(seconds))}"


def _estimate(job: Job, done: Sequence[tuple[Job, Record]]) -> Seconds | None:
    """Return the seconds of fitting and of scoring, from records of the same variant on the same data set or else of
    the same detector on it; None if there are none."""
    fine = [(other, record) for other, record in done if "error" not in record and other.dataset == job.dataset]
    for same in (lambda other: other.variant == job.variant, lambda other: other.detector == job.detector):
        records = [record for other, record in fine if same(other)]
        if records:
            scoring = [record["score_seconds"] * record["observations"] for record in records]
            return float(np.mean([record["fit_seconds"] for record in records])), float(np.mean(scoring))
    return None


def _best(data: str, done: Iterable[tuple[Job, Record]]) -> str:
    """Return words on the label with the highest mean AUROC on the data so far; VUS-PR if it scores rows only."""
    values: dict[str, list[float]] = {}
    for job, record in done:
        if job.data == data and "error" not in record:
            score = record["vus_pr_tsb"] if record["auroc"] is None else record["auroc"]
            values.setdefault(job.label, []).append(score)
    if not values:
        return ""
    first = max(values, key=lambda label: np.mean(values[label]))
    return f", best so far {first} {np.mean(values[first]):.3f}"


def _line(job: Job, record: Record) -> str:
    """Return a line on a finished job."""
    name = f"{job.data} {job.label} seed {job.seed}{' (development)' if job.seed >= CHOOSING else ''}"
    if "error" in record:
        return f"{name}: failed, {record['error']}"
    if record["auroc"] is None:
        scores = f"VUS-PR {record['vus_pr_tsb']:.3f}, VUS-ROC {record['vus_roc_tsb']:.3f} (TSB-AD)"
    else:
        scores = f"AUROC {record['auroc']:.3f}, AP {record['ap']:.3f}, F1 {record['f1']:.3f}"
    times = f"fit {record['fit_seconds']:.1f} s, {1000 * record['score_seconds']:.1f} ms per observation"
    return f"{name}: {scores}, {times}"


def _with_seeds(plan: BenchmarkPlan, given: str | None) -> BenchmarkPlan:
    """Return the plan with the seeds that --seeds gives, if any."""
    if given is None:
        return plan
    seeds: Seeds = "report" if given == "report" else "choose" if given == "choose" else _parse_seeds(given)
    return replace(plan, seeds=seeds, data=tuple(replace(data, seeds=None) for data in plan.data))


def _parse_seeds(given: str) -> tuple[int, ...]:
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise ConfigError(f"--seeds takes report, choose or whole numbers such as 0,1,2, but got {given!r}.")
    numbers = tuple(int(part) for part in parts)
    require_once("--seeds", numbers)
    return numbers
