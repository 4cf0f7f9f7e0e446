"""Commands about live rows: the service, what it reads, and which alarms it would have raised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsadc.cli.commands.options import Data, ModelArgument, Options, OwnDetector, read_data, reads


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
    from tsadc.errors import ConfigError

    if rollback is not None and check:
        raise ConfigError("--check changes nothing, and --rollback brings a model back; give one of them.")
    if rollback is not None and rollback.startswith("-"):
        raise ConfigError(f"--rollback needs the name of a model, as in --rollback plant, but got {rollback}.")
    if rollback is not None:
        echo(roll_back(config, model, rollback))
    elif check:
        explain(config, model, echo)
    else:
        serve(config, model, echo)


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
    """Replay the service over history: which alarms it would have raised, when, and how many times a week."""
    from tsadc.cli.backtest import backtest_to, requested_rules
    from tsadc.cli.console import echo, progress_bar
    from tsadc.detectors.store import load
    from tsadc.variables import match

    rules = requested_rules(config, model)
    fitted = load(model, detector=detector)
    series = match(read_data(data, options, fitted.provenance_), fitted.variables_, strict=options.strict)
    with progress_bar() as progress:
        said = backtest_to(fitted, series, out, rules, start=start, end=end, model=model, progress=progress)
    echo(said)


def watch(
    model: ModelArgument,
    source: Annotated[str, typer.Argument(help="A folder of tables that grow, or - for lines of CSV or JSON.")] = "-",
    every: Annotated[float, typer.Option(help="Seconds between looks into the folder.")] = 5.0,
    seconds: Annotated[
        float, typer.Option(help="Seconds from row to row, if the model was fitted on rows without times.")
    ] = 0.0,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON per change.")] = False,
    entity: Annotated[
        str | None, typer.Option(help="Name of the entity of lines of CSV that have no column `entity`.")
    ] = None,
) -> None:
    """Judge rows as they come, without a service, and print when an anomaly opens or ends. (extra `serve`)"""
    from tsadc.cli.console import echo
    from tsadc.cli.serve import watch

    watch(model, source, every, seconds, json, entity, echo)
