"""Commands and their options. Heavy imports happen inside the commands, so that --help answers at once."""

from __future__ import annotations

import functools
import inspect
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast, get_args, get_type_hints

import typer

from tsadc.cli.signals import TERMINATED, Terminated, stopped, stopping_on_sigterm
from tsadc.detectors import DEFAULT
from tsadc.errors import ConfigError, DataError, OutputError, TooShortError, TsadcError, TsadcNotice
from tsadc.nn.runtime.allocator import keep_freed_memory
from tsadc.optional import lacks_torch

if TYPE_CHECKING:
    from tsadc.io.calendar import Calendar
    from tsadc.series import Series

app = typer.Typer(
    help="Find anomalies in multivariate sensor data whose unlabelled history is itself contaminated.",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

data_app = typer.Typer(help="List and prepare the paper's data sets and open alternatives.", no_args_is_help=True)
app.add_typer(data_app, name="data")

bench_app = typer.Typer(help="Compare detectors on data sets according to a plan.", no_args_is_help=True)
app.add_typer(bench_app, name="bench")

Data = Annotated[
    list[Path],
    typer.Argument(
        help="Data files or folders; one file per entity (machine, patient). None with --sql.",
        readable=False,
        default_factory=list,
        show_default=False,
    ),
]
ModelOption = Annotated[Path, typer.Option("--model", help="Model folder written by `tsadc fit`.", readable=False)]
DetectorOption = Annotated[
    str,
    typer.Option(
        "--detector",
        help="Name of the detector: ensemble has no network and takes seconds, tsadc is the paper's method and knows "
        "expected values; docs/detectors.md lists all. Or one of your own: my_file.py:Class.",
    ),
]
OwnDetector = Annotated[
    str | None,
    typer.Option("--detector", help="FILE.py:CLASS, needed for a model of a detector of your own; runs the file."),
]
AlarmsOption = Annotated[
    str | None,
    typer.Option("--alarms", help="False alarms per entity that you accept, such as 2/day. (default: 1/week)"),
]
CalendarOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--calendar",
        help="Planned work that is neither judged nor learnt from: .ics, or .csv with entity, start, end.",
        readable=False,
    ),
]
ModelArgument = Annotated[Path, typer.Argument(help="Model folder written by `tsadc fit`.", readable=False)]
ResultsOption = Annotated[
    Path | None, typer.Option("--results", help="Folder written by `tsadc detect --out`.", readable=False)
]
ByOption = Annotated[str | None, typer.Option("--by", help="Who says so; kept with the verdict.")]
EngineOption = Annotated[
    str, typer.Option("--engine", help="local, or ray to use the cores of this machine or of a cluster.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="HOST:PORT of a Ray cluster, or auto. (default: this machine)")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be used, and list them.")]


@dataclass
class Options:
    """The options of every command that reads data."""

    time: Annotated[str | None, typer.Option("--time", help="Column with the time. (default: detected)")] = None
    entity: Annotated[str | None, typer.Option("--entity", help="Column with the name of each row's entity.")] = None
    every: Annotated[
        str | None, typer.Option("--every", help="Average rows onto a regular grid with this step, such as 1min.")
    ] = None
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Variables to use, separated by commas. (default: all)")
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Columns to leave out, separated by commas, such as labels.")
    ] = None
    difference: Annotated[
        list[str] | None,
        typer.Option("--difference", help="Counters to replace by their increments, separated by commas."),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option("--missing", help="Numbers and texts that mean not measured, such as -200,Bad,No Data."),
    ] = None
    separator: Annotated[
        str | None, typer.Option("--separator", help="Character between cells of a text file. (default: detected)")
    ] = None
    decimal: Annotated[
        str | None, typer.Option("--decimal", help="Mark of decimals, a point or a comma. (default: detected)")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of text files, such as cp1252. (default: detected)")
    ] = None
    skip_rows: Annotated[
        int | None, typer.Option("--skip-rows", help="Lines above the header of a text file. (default: detected)")
    ] = None
    dayfirst: Annotated[
        bool | None,
        typer.Option("--dayfirst/--monthfirst", help="Read 03/04/2024 as 3 April, or as 4 March. (default: detected)"),
    ] = None
    long: Annotated[
        str | None,
        typer.Option("--long", help="Columns of time, variable and value of a table with one row per value."),
    ] = None
    sheet: Annotated[str | None, typer.Option("--sheet", help="Sheet of Excel files. (default: the first)")] = None
    sql: Annotated[
        str | None, typer.Option("--sql", help="URL of a database to read instead of files; needs --query.")
    ] = None
    query: Annotated[str | None, typer.Option("--query", help="SQL query whose result is read with --sql.")] = None
    entity_name: Annotated[
        str | None, typer.Option("--entity-name", help="Join all files into one entity with this name.")
    ] = None
    entity_from: Annotated[
        str | None,
        typer.Option(
            "--entity-from", help=r"Pattern for file names, such as 'pump-(\d+)_.*', whose group is the entity."
        ),
    ] = None
    rate: Annotated[
        float | None, typer.Option("--rate", help="Resample recordings (WFDB, EDF, HDF5) to this many Hz.")
    ] = None
    skip_bad: SkipBad = False
    stream: Annotated[
        bool, typer.Option("--stream", help="Read .npy and .parquet files piece by piece: for data larger than memory.")
    ] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse data that lacks a variable, instead of reading it as not measured.")
    ] = False


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of `Options` as parameters of its own, because typer makes options of parameters."""
    own = get_type_hints(command, include_extras=True)
    kept = [
        parameter.replace(annotation=own[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]
    hints, fields = get_type_hints(Options, include_extras=True), vars(Options())
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in fields.items()
    ]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        command(options=Options(**{name: given.pop(name) for name in fields}), **given)

    called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
    called.__signature__ = inspect.Signature([*kept, *added])  # type: ignore[attr-defined]
    return called


def _budget(alarms: str | None, assignments: Sequence[str]) -> dict[str, Any]:
    """Return the settings for a number of alarms."""
    if alarms is None:
        return {}
    methods = [text.partition("=")[2].strip() for text in assignments if text.strip().startswith("threshold.method")]
    if methods and methods[-1] not in ("alarms", "auto"):
        raise ConfigError(
            f"--alarms chooses the threshold by `alarms`, but `threshold.method` is set to {methods[-1]}; leave one of "
            "them out."
        )
    return {"threshold": {"method": "alarms", "alarms": alarms}}


@app.callback()
def tsadc(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        from tsadc import __version__

        print(f"tsadc {__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder to write; an earlier demo is replaced.")] = Path("demo"),
    story: Annotated[
        bool,
        typer.Option(
            "--story", help="Then audit and clean the history and answer five questions, on a page of its own."
        ),
    ] = False,
) -> None:
    """Train the ensemble and TSAD-C on a simulated plant, detect on its unseen part, and write reports."""
    # Set before torch is imported: a network this small runs faster on one thread.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    keep_freed_memory()
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.demo import run

    with progress_bar() as progress:
        verdict = run(out, progress, story=story)
    echo(verdict)


@app.command()
@reads
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    length: Annotated[int | None, typer.Option(help="Rows per observation. (default: 600)")] = None,
    contamination: Annotated[
        str | None, typer.Option(help="Anomalous share of the history, or auto to estimate it. (default: auto)")
    ] = None,
    alarms: AlarmsOption = None,
    detector: DetectorOption = DEFAULT,
    preset: Annotated[
        str, typer.Option(help="default; with a network also tiny, for tsadc also paper, for the others published.")
    ] = "default",
    config: Annotated[Path | None, typer.Option(help="TOML file with settings.", readable=False)] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.name=value.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train a network for at most this many epochs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random numbers. (default: 0)")] = None,
    calendar: CalendarOption = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the interrupted training of a network.")] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Audit the history first, and leave out what is probably anomalous.")
    ] = False,
    review: Annotated[
        Path | None,
        typer.Option(help="Review file of `tsadc audit`, whose decisions say what to learn from.", readable=False),
    ] = None,
    mergeable: Annotated[
        bool,
        typer.Option(
            "--mergeable", help="Keep a summary of the history, for `tsadc merge` and `tsadc fit --continue`."
        ),
    ] = False,
    continue_: Annotated[
        Path | None,
        typer.Option("--continue", help="Model to add this history to; its settings are used.", readable=False),
    ] = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    workers: Annotated[
        int | None, typer.Option(help="With --engine ray, train a network in so many processes together.")
    ] = None,
    *,
    options: Options,
) -> None:
    """Learn what is normal from unlabelled history."""
    if workers is not None and engine != "ray":
        raise ConfigError("--workers is for --engine ray; add it.")
    if continue_ is not None:
        settings_given: dict[str, Any] = {
            **{"--length": length, "--contamination": contamination, "--alarms": alarms, "--config": config},
            **{"--set": set_, "--epochs": epochs, "--seed": seed, "--resume": resume, "--clean": clean},
            **{"--review": review, "--preset": preset != "default"},
        }
        if refused := [name for name, value in settings_given.items() if value is not None and value is not False]:
            raise ConfigError(
                f"--continue uses the settings of its model, so that {refused[0]} cannot be given; leave it out, or "
                "fit a new model."
            )
        if _uses_ray(engine, address):
            raise ConfigError("--continue does not go together with --engine ray; leave one of them out.")
        own = None if detector == DEFAULT else detector
        _continue(continue_, data, out, options, _calendar(calendar), own)
        return
    from tsadc.cli.console import echo, print_error, progress_bar
    from tsadc.cli.examination import check_history
    from tsadc.cli.reading import requested_reading
    from tsadc.cli.workflow import fit_model, requested_settings
    from tsadc.config import parse_assignments
    from tsadc.detectors.own_file import choose
    from tsadc.io.reading import to_remember

    if clean and review is not None:
        raise ConfigError("--clean leaves out what an audit suspects, also what --review keeps; give one of the two.")
    chosen, planned = choose(detector), _calendar(calendar)
    stated = {} if contamination is None else parse_assignments([f"contamination={contamination}"])
    given = {"length": length, "seed": seed, "training": {"epochs": epochs}, **stated, **_budget(alarms, set_ or [])}
    settings = requested_settings(chosen, preset, config, set_ or [], given)
    try:
        with progress_bar() as progress:
            reading, unfitted = requested_reading(vars(options)), chosen(config=settings)
            if _uses_ray(engine, address):
                from tsadc.cli.cluster_fit import fit_on_cluster

                others = {"--resume": resume, "--clean": clean, "--review": review, "--mergeable": mergeable}
                for name, value in others.items():
                    if value:
                        raise ConfigError(f"{name} does not go together with --engine ray; leave one of them out.")
                remembered = to_remember(reading)
                if workers is not None or hasattr(settings, "training"):
                    from tsadc.cli.cluster_train import train_on_cluster

                    size = 1 if workers is None else workers
                    args = (unfitted, data, reading, out, size)
                    echo(train_on_cluster(*args, address=address, remembered=remembered, calendar=planned))
                    return
                summary = fit_on_cluster(
                    unfitted,
                    data,
                    reading,
                    out,
                    address=address,
                    remembered=remembered,
                    calendar=planned,
                    progress=progress,
                )
                echo(summary)
                return
            history = check_history(_read(data, options), data, unfitted, kept=reading.columns or ())
            summary = fit_model(
                unfitted,
                history,
                out,
                resume=resume,
                clean=clean,
                mergeable=mergeable,
                progress=progress,
                reading=to_remember(reading),
                calendar=planned,
                review=review,
            )
    except (KeyboardInterrupt, Terminated) as stop:
        word, code = stopped(stop)
        saved = (out.with_name(out.name + ".partial") / "training.safetensors").exists()
        hint = "add --resume to the same command to continue after the last finished epoch"
        print_error(f"{word}; {hint if saved else 'nothing was saved, so start again with the same command'}.")
        raise typer.Exit(code) from None
    echo(summary)


def _continue(
    model: Path, data: list[Path], out: Path, options: Options, calendar: Calendar | None, own: str | None
) -> None:
    """Add history to a model."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.merging import continue_to

    with progress_bar() as progress:
        said = continue_to(
            model,
            lambda stored: _read(data, options, stored),
            data,
            out,
            own=own,
            strict=options.strict,
            calendar=calendar,
            progress=progress,
        )
    echo(said)


@app.command()
def merge(
    models: Annotated[list[Path], typer.Argument(help="Models that were fitted with --mergeable.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    detector: OwnDetector = None,
) -> None:
    """Merge models of different entities into one, without their data."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.merging import merge_to

    with progress_bar() as progress:
        said = merge_to(models, out, own=detector, progress=progress)
    echo(said)


@app.command()
@reads
def audit(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder to write: a page, tables and a review file.")],
    model: Annotated[
        Path | None,
        typer.Option(help="Model whose detector, settings and reading options to use.", readable=False),
    ] = None,
    length: Annotated[int | None, typer.Option(help="Rows per observation. (default: 600)")] = None,
    detector: Annotated[
        str | None, typer.Option("--detector", help=f"Name of the detector, or FILE.py:CLASS. (default: {DEFAULT})")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.name=value.")] = None,
    folds: Annotated[int, typer.Option(help="Parts of the history; each is judged by a model of the others.")] = 5,
    calendar: CalendarOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
    *,
    options: Options,
) -> None:
    """Find which parts of unlabelled history look anomalous, by models that were not trained on them."""
    from tsadc.cli.audit import audit_to
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.examination import check_history
    from tsadc.cli.reading import requested_reading
    from tsadc.cli.workflow import requested_settings
    from tsadc.detectors.own_file import choose
    from tsadc.detectors.store import load
    from tsadc.io.files import stem
    from tsadc.variables import match

    if model is not None and (length is not None or set_):
        given = "--length" if length is not None else "--set"
        raise ConfigError(f"--model brings the settings of the model, so {given} cannot be given too; leave one out.")
    on_ray = _uses_ray(engine, address)
    if on_ray and options.stream:
        raise ConfigError("--stream does not go together with --engine ray, which sends the history; leave out one.")
    planned = _calendar(calendar)
    title = f"Audit of {', '.join(stem(file) for file in data[:3]) or 'query'}"
    with progress_bar() as progress:
        if model is not None:
            judge = load(model, detector=detector)
            history = match(_read(data, options, judge.provenance_), judge.variables_)
        else:
            chosen = choose(detector or DEFAULT)
            judge = chosen(config=requested_settings(chosen, "default", None, set_ or [], {"length": length}))
            kept = requested_reading(vars(options)).columns or ()
            history = check_history(_read(data, options), data, judge, kept=kept)
        about = {} if model is None else {"model": str(model)}
        about |= {"calendar": ", ".join(map(str, calendar))} if calendar else {}
        runner = None
        if on_ray:
            from tsadc.cli.cluster_audit import on_cluster

            runner = on_cluster(judge, address)
        said = audit_to(
            judge,
            history,
            out,
            folds=folds,
            title=title,
            about=about,
            calendar=planned,
            progress=progress,
            runner=runner,
        )
    echo(said)


@app.command()
@reads
def clean(
    data: Data,
    audit: Annotated[Path, typer.Option(help="Folder that `tsadc audit` has written about this data.", readable=False)],
    out: Annotated[Path, typer.Option(help="Folder to write: the same files, and changes.csv.")],
    fill: Annotated[
        str, typer.Option(help="What becomes of suspect cells: expected, nan (missing) or drop (rows are left out).")
    ] = "expected",
    level: Annotated[
        float | None, typer.Option(help="Least probability of a suspect, unless the review was edited. (default: 0.5)")
    ] = None,
    samples: Annotated[
        int, typer.Option(help="Also write bands.csv: 90 % bands of the expected values, and so many draws.", min=0)
    ] = 0,
    calendar: CalendarOption = None,
    model: Annotated[Path | None, typer.Option(help="Model of the audit, if it had one.", readable=False)] = None,
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Write audited data again: what is suspect corrected, missing or left out, and all else as it was."""
    from tsadc.cli.clean import AuditFolder, check_request, clean_to
    from tsadc.cli.console import echo
    from tsadc.cli.examination import check_history
    from tsadc.cli.reading import requested_reading
    from tsadc.config import require
    from tsadc.detectors.cleaning import Fill
    from tsadc.detectors.ensemble.detector import Ensemble
    from tsadc.detectors.planned import expected_events, masked
    from tsadc.detectors.store import load
    from tsadc.io.rewrite import check_rewritable
    from tsadc.variables import match

    require(fill in get_args(Fill), "--fill", "'expected', 'nan' or 'drop'", fill)
    require(level is None or 0 < level <= 1, "--level", "above 0 and at most 1", level)
    audited = AuditFolder.open(audit)
    check_request(audited, out, fill, level, samples)
    fitted = None if model is None else load(model, detector=detector)
    stored = None if fitted is None else fitted.provenance_.get("reading")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # given when the data is read
        reading = requested_reading(vars(options), stored)
    check_rewritable(data, reading)
    if fitted is not None:
        series = match(_read(data, options, fitted.provenance_), fitted.variables_)
    else:
        series = check_history(_read(data, options), data, Ensemble(length=audited.length), kept=reading.columns or ())
    planned = expected_events(_calendar(calendar), () if fitted is None else fitted.verdicts_)
    if planned is not None:
        series = masked(series, planned, audited.length)
    chosen = cast(Fill, fill)
    echo(clean_to(data, series, audited, out, fill=chosen, level=level, samples=samples, reading=reading))


@app.command()
@reads
def detect(
    data: Data,
    model: ModelOption,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write: CSV tables, or Parquet if it ends in .parquet. Optional with --report."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="HTML report to write.")] = None,
    alarms: AlarmsOption = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another threshold or rule for events, such as event.merge=5, for this run."),
    ] = None,
    calendar: CalendarOption = None,
    update: Annotated[
        bool, typer.Option("--update", help="Add to the results in --out; what overlaps is judged again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the results in --out.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print summary, intervals and drift as JSON.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with code 3 if something is unusual or drifts.")
    ] = False,
    processes: Annotated[
        int, typer.Option(help="Processes that judge different entities at the same time.", min=1)
    ] = 1,
    engine: EngineOption = "local",
    address: AddressOption = None,
    partition: Annotated[
        str, typer.Option(help="With --engine ray, a folder of results for each day, or for each month.")
    ] = "day",
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Find when something is unusual, which variables are involved, and how unusual it is."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.examination import check_new
    from tsadc.cli.nightly import Existing, as_json, identity, nothing_to_judge
    from tsadc.cli.workflow import detect_to, rethreshold
    from tsadc.detectors.store import load
    from tsadc.io.files import stem
    from tsadc.variables import match

    if out is None and report is None and not json:
        raise OutputError(
            "Nothing would be written: give --out FOLDER for tables, --report FILE for a page, or --json to print them."
        )
    if out is None and (update or force):
        raise OutputError(f"--{'update' if update else 'force'} needs a folder of results; add --out FOLDER.")
    if update and force:
        raise OutputError("--update keeps the results in --out and --force replaces them; give one of the two.")
    if _uses_ray(engine, address):
        from tsadc.cli.cluster_detect import detect_on_cluster
        from tsadc.cli.reading import requested_reading

        others = {"--report": report is not None, "--update": update, "--json": json, "--processes": processes > 1}
        if out is None or any(others.values()):
            refused = next((name for name, given in others.items() if given), None)
            raise OutputError(
                f"{refused} does not go together with --engine ray, which writes tables by date and entity; leave it "
                "out."
                if refused
                else "--engine ray writes tables by date and entity; add --out FOLDER."
            )
        with progress_bar() as progress:
            fitted = rethreshold(load(model, detector=detector), set_ or [], _budget(alarms, set_ or []))
            said, unusual = detect_on_cluster(
                fitted,
                data,
                requested_reading(vars(options), fitted.provenance_.get("reading")),
                out,
                model=identity(model),
                address=address,
                partition=partition,
                force=force,
                calendar=_calendar(calendar),
                progress=progress,
            )
        echo(said)
        if exit_code and unusual:
            raise typer.Exit(3)
        return
    if partition != "day":
        raise ConfigError("--partition is for --engine ray; add it.")
    title = ", ".join(stem(file) for file in data[:3]) or "query"
    existing: Existing = "update" if update else "replace" if force else "refuse"
    planned = _calendar(calendar)
    with progress_bar(quiet=json) as progress:
        budget = _budget(alarms, set_ or [])
        fitted = rethreshold(load(model, detector=detector), set_ or [], budget)
        name = identity(model)
        try:
            series = _read_day(data, options, fitted.provenance_)
            if options.strict:
                series = match(series, fitted.variables_, strict=True)
            found = check_new(series, data, fitted)
            detected = detect_to(
                fitted,
                series,
                out,
                report,
                processes=processes,
                title=title,
                model=name,
                existing=existing,
                progress=progress,
                examination=found,
                calendar=planned,
            )
        except TooShortError as error:
            detected = nothing_to_judge(error)
    if json:
        print(as_json(detected, fitted.threshold_, out, report, name))
    else:
        echo(detected.summary)
    if exit_code and (len(detected.intervals) or detected.drift):
        raise typer.Exit(3)


@app.command()
@reads
def refit(
    model: Annotated[Path, typer.Argument(help="Model folder written by `tsadc fit`.", readable=False)],
    data: Annotated[
        list[Path] | None, typer.Argument(help="Recent data of all its entities, as for `tsadc fit`.", readable=False)
    ] = None,
    window: Annotated[str, typer.Option(help="Learn from the last part of the data, such as 90d or 12h.")] = "90d",
    out: Annotated[Path | None, typer.Option(help="Model folder to write; MODEL then stays as it is.")] = None,
    report: Annotated[Path | None, typer.Option(help="HTML page to write, which compares old and new.")] = None,
    calendar: CalendarOption = None,
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Swap MODEL and MODEL.previous, the model before the last refit.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace MODEL even by one that is not sound or has learnt less.")
    ] = False,
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Train a model again on recent data without what it flags, compare old and new, and replace the old one."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.refit import refit_model
    from tsadc.detectors.store import read_settings
    from tsadc.detectors.versions import roll_back

    if rollback:
        if data or options.sql:
            raise OutputError("--rollback needs no data; it only brings MODEL.previous back.")
        echo(roll_back(model, detector))
        return
    if not data and not options.sql:
        raise DataError("Recent data to learn from is missing: tsadc refit MODEL DATA.")
    with progress_bar() as progress:
        origin = read_settings(model).get("provenance")
        said = refit_model(
            model,
            lambda: _read(data or [], options, origin),
            window,
            out,
            report,
            progress,
            own=detector,
            force=force,
            calendar=_calendar(calendar),
        )
    echo(said)


@app.command()
def label(
    model: ModelArgument,
    verdict: Annotated[
        str | None,
        typer.Argument(help="true (an anomaly), false (a false alarm) or planned (planned work).", show_default=False),
    ] = None,
    results: ResultsOption = None,
    interval: Annotated[
        list[str] | None, typer.Option("--interval", help="Name of an interval in --results: its `id`.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="File of answers that the page of `tsadc review` saved.", readable=False)
    ] = None,
    note: Annotated[str | None, typer.Option(help="Free text, kept with the verdict.")] = None,
    by: ByOption = None,
    undo: Annotated[list[str] | None, typer.Option("--undo", help="Take back the verdict about this interval.")] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the verdicts of the model.")] = False,
    detector: OwnDetector = None,
) -> None:
    """Say which intervals were true anomalies, false alarms or planned work; the model learns from it at once."""
    from tsadc.cli.console import echo
    from tsadc.cli.label import Given, label_model, listing, read_answers
    from tsadc.detectors.feedback import as_answer

    if list_:
        if verdict or interval or answers or undo:
            raise ConfigError("--list changes nothing; give verdicts in a command of their own.")
        echo(listing(model, detector))
        return
    if not (interval or answers or undo):
        raise ConfigError(
            "Say which interval: --results FOUND --interval ID true, --answers FILE, --undo ID, or --list to see all."
        )
    if bool(interval) != (verdict is not None):
        need = "--interval needs a verdict: true, false or planned" if interval else "A verdict needs --interval ID"
        raise ConfigError(f"{need}; for example: tsadc label MODEL --results FOUND --interval ID false.")
    if interval and answers:
        raise ConfigError("--answers and --interval are two ways to give verdicts; use one of them at a time.")
    chosen = Given(dict.fromkeys(interval or [], as_answer(verdict)), {}) if interval else Given({}, {})
    given = read_answers(answers) if answers else chosen
    if answers and not given.verdicts and not undo:
        echo(f"{answers} has no answers, so the model stays as it is.")
        return
    echo(label_model(model, results, given, undo or [], note, by, detector))


@app.command()
def review(
    model: ModelArgument,
    results: Annotated[Path, typer.Option("--results", help="Folder written by `tsadc detect --out`.", readable=False)],
    page: Annotated[
        Path | None, typer.Option(help="HTML page to write, which asks in a browser. (default: ask here)")
    ] = None,
    most: Annotated[int, typer.Option(help="Ask about at most this many intervals.", min=1)] = 10,
    by: ByOption = None,
    detector: OwnDetector = None,
) -> None:
    """Ask about the intervals of a result, those first that teach most, in the terminal or on a page."""
    from tsadc.cli.console import echo
    from tsadc.cli.label import review_here, review_page

    if page is not None:
        echo(review_page(model, results, page, most, detector))
    else:
        echo(review_here(model, results, most, by, echo, detector))


@app.command()
@reads
def explain(
    model: Annotated[Path, typer.Argument(help="Model folder written by `tsadc fit`.", readable=False)],
    data: Data,
    at: Annotated[str, typer.Option(help="The moment to explain: a time, or a row number without times.")],
    of_entity: Annotated[str | None, typer.Option(help="Name of the entity, if the data has several.")] = None,
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Say why a moment is unusual: the reason, the variables with their usual bands, and what would not be unusual."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.explain import explain_at
    from tsadc.detectors.store import load

    with progress_bar() as progress:
        fitted = load(model, detector=detector)
        said = explain_at(fitted, _read(data, options, fitted.provenance_), at, of_entity, progress)
    echo(said)


@app.command()
@reads
def adapt(
    data: Data,
    model: ModelOption,
    out: Annotated[Path, typer.Option(help="Model folder to write.")],
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Learn the normal level and spread of further entities from their unlabelled history, without retraining."""
    from tsadc.cli.console import echo
    from tsadc.cli.examination import check_new
    from tsadc.detectors.store import load
    from tsadc.variables import match

    fitted = load(model, detector=detector)
    # Of the one entity that the model may know, this is not the history, unless the options say so.
    stored = {name: value for name, value in fitted.provenance_.get("reading", {}).items() if name != "entity_name"}
    series = _read(data, options, {"reading": stored})
    series = match(series, fitted.variables_, strict=options.strict)
    check_new(series, data, fitted, other_levels=True)
    fitted.adapt(series).save(out)
    echo(f"Adapted to {', '.join(item.entity for item in series)}; the model is in {out}.")


@app.command()
def export(
    model: ModelArgument,
    to: Annotated[str, typer.Option(help="What the scorer consists of: onnx or python.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write a scorer of observations that runs without tsadc: Python with numpy alone, or ONNX for other languages."""
    from tsadc.cli.console import echo
    from tsadc.cli.export import export_model

    echo(export_model(model, to, out))


@app.command()
@reads
def info(
    what: Annotated[
        list[Path],
        typer.Argument(
            help="A model folder, or data as for `tsadc fit`.", readable=False, default_factory=list, show_default=False
        ),
    ],
    length: Annotated[int | None, typer.Option(help="Rows per observation, for the estimate. (default: 600)")] = None,
    detector: DetectorOption = DEFAULT,
    preset: Annotated[
        str, typer.Option(help="default; with --detector tsadc also paper or tiny, for the estimate.")
    ] = "default",
    json: Annotated[bool, typer.Option("--json", help="Print JSON, without the estimate.")] = False,
    *,
    options: Options,
) -> None:
    """Describe a model; or examine data: its variables, problems that would mislead a model, and the cost of a fit."""
    from tsadc.cli.console import print_json, show
    from tsadc.cli.inspection import about_data, about_model, is_model, show_examination

    if len(what) == 1 and is_model(what[0]):
        about = about_model(what[0])
        print_json(dict(about)) if json else show(about)
        return
    from tsadc.cli.workflow import requested_settings
    from tsadc.detectors.own_file import choose
    from tsadc.io.doctor import examine

    cls = choose(detector)
    settings = requested_settings(cls, preset, None, [], {"length": length})
    series = _read(what, options)
    found = examine(series)
    if json:
        print_json(found.to_mapping())
        return
    about = about_data(series, found, cls(config=settings))  # may refuse, before anything is printed
    show_examination(found)
    show(about)


@app.command()
def serve(
    config: Annotated[Path | None, typer.Argument(help="The configuration, a TOML file.", readable=False)] = None,
    model: Annotated[
        Path | None, typer.Option("--model", help="Without a configuration: the model folder.", readable=False)
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Explain the configuration and start nothing.")] = False,
    rollback: Annotated[
        str | None, typer.Option("--rollback", metavar="NAME", help="Bring the former model of this name back.")
    ] = None,
) -> None:
    """Take rows over HTTP and from other sources, judge them as they come, and send alerts. (extra `serve`)"""
    from tsadc.cli.console import echo
    from tsadc.cli.serve import explain, roll_back, serve

    if rollback is not None:
        echo(roll_back(config, model, rollback))
    elif check:
        explain(config, model, echo)
    else:
        serve(config, model, echo)


@app.command()
def collect(
    url: Annotated[str, typer.Argument(help="Address of a Prometheus server, such as http://localhost:9090.")],
    query: Annotated[
        list[str], typer.Option("--query", help="PromQL, as NAME=QUERY or, for the names of the series, as QUERY.")
    ],
    out: Annotated[Path, typer.Option(help="CSV file to write.")],
    step: Annotated[str, typer.Option(help="Time from row to row, such as 15s.")] = "30s",
    hours: Annotated[float, typer.Option(help="How far to go back.")] = 24.0,
    entity: Annotated[str, typer.Option(help="Label whose value is the name of the entity.")] = "instance",
    ignore: Annotated[list[str] | None, typer.Option(help="Label that is no part of a variable's name.")] = None,
) -> None:
    """Write the history of a Prometheus server into a CSV file, to fit a model on. (extra `serve`)"""
    from tsadc.cli.console import echo
    from tsadc.cli.serve import collect

    echo(collect(url, query, out, step, hours, entity, ignore))


@app.command()
@reads
def backtest(
    model: Annotated[Path, typer.Argument(help="Model folder written by `tsadc fit`.", readable=False)],
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder to write: a page, alarms.csv and backtest.json.")],
    start: Annotated[
        str | None, typer.Option("--from", help="Replay from this time on. (default: the first row)")
    ] = None,
    end: Annotated[str | None, typer.Option("--to", help="Replay up to this time. (default: the last row)")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Configuration of the service, as for `tsadc serve`.", readable=False)
    ] = None,
    detector: OwnDetector = None,
    *,
    options: Options,
) -> None:
    """Replay the service over history: what it would have alarmed, when, and how many times a week."""
    from tsadc.cli.backtest import backtest_to, requested_rules
    from tsadc.cli.console import echo, progress_bar
    from tsadc.detectors.store import load
    from tsadc.variables import match

    rules = requested_rules(config, model)
    fitted = load(model, detector=detector)
    series = match(_read(data, options, fitted.provenance_), fitted.variables_, strict=options.strict)
    with progress_bar() as progress:
        said = backtest_to(fitted, series, out, rules, start=start, end=end, model=model, progress=progress)
    echo(said)


@app.command()
def watch(
    model: ModelArgument,
    source: Annotated[str, typer.Argument(help="A folder of tables that grow, or - for lines of CSV or JSON.")] = "-",
    every: Annotated[float, typer.Option(help="Seconds between looks into the folder.", min=0.1)] = 5.0,
    seconds: Annotated[
        float, typer.Option(help="Seconds from row to row, if the model was fitted on rows without times.", min=0.0)
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per change.")] = False,
) -> None:
    """Judge rows as they come, without a service, and print when an anomaly opens or ends. (extra `serve`)"""
    from tsadc.cli.console import echo
    from tsadc.cli.serve import watch

    watch(model, source, every, seconds, json, echo)


@data_app.command("list")
def list_data() -> None:
    """List the data sets that `prepare` can read, and how to obtain them."""
    from tsadc.cli.console import show
    from tsadc.cli.datasets import describe_all

    show(describe_all())


@data_app.command()
def prepare(
    name: Annotated[str, typer.Argument(help="Name of the data set, as in `tsadc data list`.")],
    raw: Annotated[Path, typer.Option(help="Folder with the original files.", readable=False)],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    set_: Annotated[list[str] | None, typer.Option("--set", help="Setting of the data set, as name=value.")] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Cut the original files of a data set into labelled observations, and compare the counts with the paper's."""
    from tsadc.cli.console import echo
    from tsadc.cli.datasets import prepare_to

    echo(prepare_to(name, raw, out, set_ or [], skip_bad=skip_bad))


Only = Annotated[
    list[str] | None,
    typer.Option(help="Only these jobs, as data=NAME, detector=NAME, seed=N or eta=X, separated by commas."),
]
Raw = Annotated[Path | None, typer.Option(help="The folder with data sets. (default: TSADC_DATA)", readable=False)]


@bench_app.command("run")
def bench_run(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.", readable=False)],
    out: Annotated[
        Path | None, typer.Option(help="The folder for records and scores. (default: results/PLAN)", readable=False)
    ] = None,
    processes: Annotated[int, typer.Option(help="Number of processes, each with one training at a time.")] = 1,
    only: Only = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="Instead of the plan's seeds: report, choose (development seeds, from 100 on), or numbers separated "
            "by commas."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the jobs and estimate their time; run none.")
    ] = False,
    again: Annotated[bool, typer.Option("--again", help="Re-run completed jobs.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="Re-run failed jobs.")] = False,
    engine: EngineOption = "local",
    address: AddressOption = None,
    raw: Raw = None,
) -> None:
    """Run the jobs of a plan that are not done or whose records are stale.

    After an interruption, run the same command again to continue."""
    # Before torch is loaded: parallel processes must not compete for cores with threads.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from tsadc.cli.bench_run import RunOptions, run

    ray = _uses_ray(engine, address)
    if ray and processes > 1:
        raise ConfigError("--processes is for this machine, and --engine ray uses all cores; leave one of them out.")
    chosen = tuple(only or ())
    options = RunOptions(plan, _raw(raw), out, processes, chosen, seeds, dry_run, again, retry, ray, address)
    raise typer.Exit(run(options))


Records = Annotated[Path, typer.Argument(help="The folder that `tsadc bench run` wrote.", readable=False)]
ByPlan = Annotated[
    Path | None,
    typer.Option("--plan", help="Show the jobs and metrics of this plan, not of the last run.", readable=False),
]
Choosing = Annotated[bool, typer.Option("--choosing", help="Show the development seeds (from 100 on).")]


@bench_app.command("table")
def bench_table(
    folder: Records,
    format_: Annotated[str, typer.Option("--format", help="markdown, csv or latex.")] = "markdown",
    out: Annotated[Path | None, typer.Option(help="Write the table to this file, not to the terminal.")] = None,
    brief: Annotated[
        bool, typer.Option("--brief", help="Only the plan's metrics, without details (Markdown).")
    ] = False,
    metric: Annotated[str | None, typer.Option(help="Only the table of this metric, such as auroc.")] = None,
    plan: ByPlan = None,
    only: Only = None,
    choosing: Choosing = False,
) -> None:
    """Show the records as tables, beside published figures if the plan has them."""
    from tsadc.cli.bench_show import ShowOptions, table

    text = table(ShowOptions(folder, plan, tuple(only or ()), choosing), format_, out=out, brief=brief, metric=metric)
    if out is None:
        print(text)


@bench_app.command("families")
def bench_families(
    folder: Records,
    out: Annotated[Path | None, typer.Option(help="Write the tables to this file, not to the terminal.")] = None,
    choices: Annotated[
        Path | None, typer.Option(help="A JSON file with the figures of candidates, to leave one family out.")
    ] = None,
    plan: ByPlan = None,
    only: Only = None,
    choosing: Choosing = False,
) -> None:
    """Show the records as means, regrets and ranks over families of data sets."""
    from tsadc.cli.bench_show import ShowOptions, families

    text = families(ShowOptions(folder, plan, tuple(only or ()), choosing), choices, out)
    if out is None:
        print(text)


@bench_app.command("report")
def bench_report(
    folder: Records,
    out: Annotated[Path, typer.Option(help="The page to write (.html), or one figure (.svg).")],
    plan: ByPlan = None,
    only: Only = None,
    choosing: Choosing = False,
) -> None:
    """Write the records as one page: sortable tables, ranks, curves and failures."""
    from tsadc.cli.bench_show import ShowOptions, report
    from tsadc.cli.console import echo

    echo(report(ShowOptions(folder, plan, tuple(only or ()), choosing), out))


def _uses_ray(engine: str, address: str | None) -> bool:
    """Return whether Ray was requested; raise if the options contradict each other."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"--engine must be local or ray, but got {engine!r}.")
    if engine == "local" and address is not None:
        raise ConfigError("--address names a Ray cluster; add --engine ray.")
    return engine == "ray"


def _raw(given: Path | None) -> Path:
    return given or Path(os.environ.get("TSADC_DATA") or ".")


def _calendar(files: list[Path] | None) -> Calendar | None:
    from tsadc.io.calendar import Calendar

    return Calendar.read(*files) if files else None


def _read(data: list[Path], options: Options, model: Mapping[str, Any] | None = None) -> tuple[Series, ...]:
    """Read the data with the given options, and with those that a model remembers, if its provenance is given."""
    from tsadc.cli.reading import requested_reading
    from tsadc.io.read import read

    if not options.stream:  # streaming is for data larger than memory: then freed memory is given back
        keep_freed_memory()
    return read(data, requested_reading(vars(options), (model or {}).get("reading")))


def _read_day(data: list[Path], options: Options, model: Mapping[str, Any]) -> tuple[Series, ...]:
    """Read new data. One file or query with too few rows is a day that has just begun; one file among several is a
    mistake."""
    try:
        return _read(data, options, model)
    except TooShortError as error:
        if options.sql or (len(data) == 1 and data[0].is_file()):
            raise
        raise DataError(str(error)) from None


def main() -> None:
    """Run a command; an error that the user can cause is one sentence on stderr and exit code 2."""
    warnings.showwarning = _show_notice
    warnings.filterwarnings("always", category=TsadcNotice)
    try:
        with stopping_on_sigterm():
            app()
    except Terminated:
        _refuse("terminated before it was done; run the same command again.", TERMINATED)
    except TsadcError as error:
        _refuse(str(error))
    except ModuleNotFoundError as error:
        if not lacks_torch(error):
            raise
        _refuse("This command needs the package torch: pip install 'tsadc[network]'.")
    except MemoryError as error:
        _refuse(f"There is not enough memory: {error or 'the data does not fit at once'}.")
    except OSError as error:
        _refuse(f"{error.filename} cannot be used: {error.strerror}." if error.filename else str(error))


def _refuse(sentence: str, code: int = 2) -> NoReturn:
    from tsadc.cli.console import print_error

    print_error(sentence)
    raise SystemExit(code) from None


def _show_notice(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    from tsadc.cli.console import IS_MAIN_PROCESS, print_error

    if IS_MAIN_PROCESS and issubclass(category, TsadcNotice):
        print_error(f"note: {message}")
