"""Commands about the history that a model is to learn from: what looks anomalous in it, and without that."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

from tsadc.cli.commands.options import (
    AddressOption,
    CalendarOption,
    Data,
    EngineOption,
    Options,
    OwnDetector,
    planned_work,
    read_data,
    reads,
    uses_ray,
)
from tsadc.detectors import DEFAULT
from tsadc.errors import ConfigError, TsadcNotice


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
    on_ray = uses_ray(engine, address)
    if on_ray and options.stream:
        raise ConfigError("--stream does not go together with --engine ray, which sends the history; leave out one.")
    planned = planned_work(calendar)
    title = f"Audit of {', '.join(stem(file) for file in data[:3]) or 'query'}"
    with progress_bar() as progress:
        if model is not None:
            judge = load(model, detector=detector)
            history = match(read_data(data, options, judge.provenance_), judge.variables_)
        else:
            chosen = choose(detector or DEFAULT)
            judge = chosen(config=requested_settings(chosen, "default", None, set_ or [], {"length": length}))
            kept = requested_reading(vars(options)).columns or ()
            history = check_history(read_data(data, options), data, judge, kept=kept)
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
        series = match(read_data(data, options, fitted.provenance_), fitted.variables_)
    else:
        judge = Ensemble(length=audited.length)
        series = check_history(read_data(data, options), data, judge, kept=reading.columns or ())
    planned = expected_events(planned_work(calendar), () if fitted is None else fitted.verdicts_)
    if planned is not None:
        series = masked(series, planned, audited.length)
    chosen = cast(Fill, fill)
    echo(clean_to(data, series, audited, out, fill=chosen, level=level, samples=samples, reading=reading))
