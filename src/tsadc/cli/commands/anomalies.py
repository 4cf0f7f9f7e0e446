"""Commands about anomalies in new data: found, explained, and confirmed or rejected by people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsadc.cli.commands.options import (
    AddressOption,
    AlarmsOption,
    CalendarOption,
    Data,
    EngineOption,
    ModelArgument,
    ModelOption,
    Options,
    OwnDetector,
    alarm_settings,
    planned_work,
    read_data,
    read_day,
    reads,
    uses_ray,
)
from tsadc.cli.signals import Terminated, stopped
from tsadc.errors import ConfigError, OutputError, TooShortError

ResultsOption = Annotated[
    Path | None, typer.Option("--results", help="Folder written by `tsadc detect --out`.", readable=False)
]
ByOption = Annotated[str | None, typer.Option("--by", help="Who says so; kept with the verdict.")]


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
    from tsadc.cli.workflow import detect_to, refuse_inside, rethreshold
    from tsadc.detectors.store import load
    from tsadc.io.files import stem
    from tsadc.variables import match

    on_cluster = uses_ray(engine, address)
    if out is None and on_cluster:
        raise OutputError("--engine ray writes tables by date and entity; add --out FOLDER.")
    if out is None and report is None and not json:
        raise OutputError(
            "Nothing would be written: give --out FOLDER for tables, --report FILE for a page, or --json to print them."
        )
    if out is None and (update or force):
        raise OutputError(f"--{'update' if update else 'force'} needs a folder of results; add --out FOLDER.")
    if update and force:
        raise OutputError("--update keeps the results in --out and --force replaces them; give one of the two.")
    if on_cluster:
        from tsadc.cli.cluster_detect import detect_on_cluster
        from tsadc.cli.reading import requested_reading

        others = {"--report": report is not None, "--update": update, "--json": json, "--processes": processes > 1}
        if refused := next((name for name, given in others.items() if given), None):
            raise OutputError(
                f"{refused} does not go together with --engine ray, which writes tables by date and entity; leave it "
                "out."
            )
        assert out is not None
        refuse_inside(out, [model], "a model")
        with progress_bar() as progress:
            fitted = rethreshold(load(model, detector=detector), set_ or [], alarm_settings(alarms, set_ or []))
            try:
                said, unusual = detect_on_cluster(
                    fitted,
                    data,
                    requested_reading(vars(options), fitted.provenance_.get("reading")),
                    out,
                    model=identity(model),
                    address=address,
                    partition=partition,
                    force=force,
                    calendar=planned_work(calendar),
                    progress=progress,
                )
            except (KeyboardInterrupt, Terminated) as stop:
                from tsadc.cli.console import print_error

                word, code = stopped(stop)
                print_error(f"{word}; run the same command again{' without --force' if force else ''} to continue.")
                raise typer.Exit(code) from None
        echo(said)
        if exit_code and unusual:
            raise typer.Exit(3)
        return
    if partition != "day":
        raise ConfigError("--partition is for --engine ray; add it.")
    title = ", ".join(stem(file) for file in data[:3]) or "query"
    existing: Existing = "update" if update else "replace" if force else "refuse"
    if processes > 1:
        from tsadc.detectors import parallel

        parallel.prepare()
    planned = planned_work(calendar)
    with progress_bar(quiet=json) as progress:
        budget = alarm_settings(alarms, set_ or [])
        fitted = rethreshold(load(model, detector=detector), set_ or [], budget)
        name = identity(model)
        try:
            series = read_day(data, options, fitted.provenance_)
            if options.strict:
                series = match(series, fitted.variables_, strict=True)
            examination = check_new(series, data, fitted)
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
                examination=examination,
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
        said = explain_at(fitted, read_data(data, options, fitted.provenance_), at, of_entity, progress)
    echo(said)


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
