"""Commands that run benchmarks and show their records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tsadc.cli.commands.options import AddressOption, EngineOption, uses_ray
from tsadc.errors import ConfigError

bench_app = typer.Typer(help="Compare detectors on data sets according to a plan.", no_args_is_help=True)

Records = Annotated[Path, typer.Argument(help="The folder that `tsadc bench run` wrote.", readable=False)]
Raw = Annotated[Path | None, typer.Option(help="The folder with data sets. (default: TSADC_DATA)", readable=False)]
Only = Annotated[
    list[str] | None,
    typer.Option(help="Only these jobs, as data=NAME, detector=NAME, seed=N or eta=X, separated by commas."),
]
ByPlan = Annotated[
    Path | None,
    typer.Option("--plan", help="Show the jobs and metrics of this plan, not of the last run.", readable=False),
]
Choosing = Annotated[bool, typer.Option("--choosing", help="Show the development seeds (from 100 on).")]


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

    ray = uses_ray(engine, address)
    if ray and processes > 1:
        raise ConfigError("--processes is for this machine, and --engine ray uses all cores; leave one of them out.")
    chosen = tuple(only or ())
    options = RunOptions(plan, _raw(raw), out, processes, chosen, seeds, dry_run, again, retry, ray, address)
    raise typer.Exit(run(options))


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


def _raw(given: Path | None) -> Path:
    return given or Path(os.environ.get("TSADC_DATA") or ".")
