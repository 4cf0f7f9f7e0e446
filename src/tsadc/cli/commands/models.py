"""Commands that make models: fitted, merged, fitted again, adapted to further entities, and exported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsadc.cli.commands.options import (
    AddressOption,
    AlarmsOption,
    CalendarOption,
    Data,
    DetectorOption,
    EngineOption,
    ModelArgument,
    ModelOption,
    Options,
    OwnDetector,
    alarm_settings,
    planned_work,
    read_data,
    reads,
    uses_ray,
)
from tsadc.cli.signals import Terminated, stopped
from tsadc.detectors import DEFAULT
from tsadc.errors import ConfigError, DataError, OutputError

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector, ProgressCallback
    from tsadc.io.calendar import Calendar
    from tsadc.io.reading import Reading


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
        options_of_settings = {
            **{"--length": length, "--contamination": contamination, "--alarms": alarms, "--config": config},
            **{"--set": set_, "--epochs": epochs, "--seed": seed, "--resume": resume, "--clean": clean},
            **{"--review": review, "--preset": preset != "default"},
        }
        if refused := _first_given(options_of_settings):
            raise ConfigError(
                f"--continue uses the settings of its model, so that {refused} cannot be given; leave it out, or "
                "fit a new model."
            )
        if uses_ray(engine, address):
            raise ConfigError("--continue does not go together with --engine ray; leave one of them out.")
        own_detector = None if detector == DEFAULT else detector
        _continue(continue_, data, out, options, planned_work(calendar), own_detector)
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
    chosen, planned = choose(detector), planned_work(calendar)
    stated = {} if contamination is None else parse_assignments([f"contamination={contamination}"])
    stated |= alarm_settings(alarms, set_ or [])
    given = {"length": length, "seed": seed, "training": {"epochs": epochs}, **stated}
    settings = requested_settings(chosen, preset, config, set_ or [], given)
    try:
        with progress_bar() as progress:
            reading, unfitted = requested_reading(vars(options)), chosen(config=settings)
            if uses_ray(engine, address):
                local = {"--resume": resume, "--clean": clean, "--review": review, "--mergeable": mergeable}
                if refused := _first_given(local):
                    raise ConfigError(f"{refused} does not go together with --engine ray; leave one of them out.")
                echo(_fit_on_ray(unfitted, data, reading, out, workers, address, planned, progress))
                return
            history = check_history(read_data(data, options), data, unfitted, kept=reading.columns or ())
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


def _first_given(options: Mapping[str, Any]) -> str | None:
    """Return the name of the first option that was given."""
    return next((name for name, value in options.items() if value is not None and value is not False), None)


def _fit_on_ray(
    unfitted: Detector,
    data: list[Path],
    reading: Reading,
    out: Path,
    workers: int | None,
    address: str | None,
    calendar: Calendar | None,
    progress: ProgressCallback,
) -> str:
    """Fit a detector on a cluster: a network by processes that train it together, any other from summaries."""
    from tsadc.io.reading import to_remember

    remembered = to_remember(reading)
    if workers is not None or hasattr(unfitted.settings, "training"):
        from tsadc.cli.cluster_train import train_on_cluster

        args = (unfitted, data, reading, out, 1 if workers is None else workers)
        return train_on_cluster(*args, address=address, remembered=remembered, progress=progress, calendar=calendar)
    from tsadc.cli.cluster_fit import fit_on_cluster

    given = (unfitted, data, reading, out)
    return fit_on_cluster(*given, address=address, remembered=remembered, calendar=calendar, progress=progress)


def _continue(
    model: Path, data: list[Path], out: Path, options: Options, calendar: Calendar | None, detector: str | None
) -> None:
    """Add history to a model."""
    from tsadc.cli.console import echo, progress_bar
    from tsadc.cli.merging import continue_to

    with progress_bar() as progress:
        said = continue_to(
            model,
            lambda stored: read_data(data, options, stored),
            data,
            out,
            own=detector,
            strict=options.strict,
            calendar=calendar,
            progress=progress,
        )
    echo(said)


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
            lambda: read_data(data or [], options, origin),
            window,
            out,
            report,
            progress,
            own=detector,
            force=force,
            calendar=planned_work(calendar),
        )
    echo(said)


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
    series = read_data(data, options, {"reading": stored})
    series = match(series, fitted.variables_, strict=options.strict)
    check_new(series, data, fitted, other_levels=True)
    fitted.adapt(series).save(out)
    echo(f"Adapted to {', '.join(item.entity for item in series)}; the model is in {out}.")


def export(
    model: ModelArgument,
    to: Annotated[str, typer.Option(help="What the scorer consists of: onnx or python.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
) -> None:
    """Write a scorer of observations that runs without tsadc: Python with numpy alone, or ONNX for other languages."""
    from tsadc.cli.console import echo
    from tsadc.cli.export import export_model

    echo(export_model(model, to, out))
