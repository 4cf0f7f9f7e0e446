"""The command line. Each command is a few lines; what is heavy is imported inside, so that --help answers at once."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from tsadc.commands.allocator import keep_freed_memory
from tsadc.errors import TsadcError, TsadcNotice

app = typer.Typer(
    help="Find anomalies in multivariate sensor data whose unlabelled history is itself contaminated.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Data = Annotated[
    list[Path], typer.Argument(help="Data files or folders of them, one entity (machine, patient) per file.")
]
ModelOption = Annotated[Path, typer.Option("--model", help="The model folder that `tsadc fit` wrote.")]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder to write; an earlier demo is replaced.")] = Path("demo"),
) -> None:
    """Train on the simulated plant, detect on its unseen part, write a report."""
    from tsadc.commands.console import progress_bar, say
    from tsadc.commands.demo import run

    with progress_bar() as progress:
        verdict = run(out, progress)
    say(verdict)


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
    length: Annotated[int | None, typer.Option(help="Rows per observation.  [default: 600]")] = None,
    contamination: Annotated[float | None, typer.Option(help="Estimated anomalous share.  [default: 0.1]")] = None,
    preset: Annotated[str, typer.Option(help="default, paper or tiny.")] = "default",
    config: Annotated[Path | None, typer.Option(help="Settings in a TOML file.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="One setting, as section.name=value.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Train for at most this many epochs.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness.  [default: 0]")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an interrupted run stopped.")] = False,
) -> None:
    """Learn what is normal from unlabelled history."""
    from tsadc.commands.console import complain, progress_bar, say
    from tsadc.commands.workflow import fit_model, settings
    from tsadc.io.tables import read

    given = {"length": length, "contamination": contamination, "seed": seed, "training": {"epochs": epochs}}
    chosen = settings(preset, config, set_ or [], given)
    try:
        with progress_bar() as progress:
            verdict = fit_model(read(data), chosen, out, resume=resume, progress=progress)
    except KeyboardInterrupt:
        complain("interrupted; the same command with --resume goes on after the last finished epoch.")
        raise typer.Exit(130) from None
    say(verdict)


@app.command()
def detect(
    data: Data,
    model: ModelOption,
    out: Annotated[Path, typer.Option(help="The folder to write: CSV tables, or Parquet if it ends in .parquet.")],
    report: Annotated[Path | None, typer.Option(help="Also write an HTML report.")] = None,
) -> None:
    """Say when something is unusual, which variables are to blame, and how sure."""
    from tsadc.commands.console import progress_bar, say
    from tsadc.commands.workflow import detect_to
    from tsadc.detectors.store import load
    from tsadc.io.tables import read

    title = ", ".join(file.stem for file in data[:3])
    with progress_bar() as progress:
        verdict = detect_to(load(model), read(data), out, report, title=title, progress=progress)
    say(verdict)


@app.command()
def adapt(
    data: Data,
    model: ModelOption,
    out: Annotated[Path, typer.Option(help="The model folder to write.")],
) -> None:
    """Teach a model the normal level and spread of further entities, from their unlabelled history; no retraining."""
    from tsadc.commands.console import say
    from tsadc.detectors.store import load
    from tsadc.io.tables import read

    series = read(data)
    load(model).adapt(series).save(out)
    say(f"Adapted to {', '.join(one.entity for one in series)}; the model is in {out}.")


@app.command()
def info(what: Annotated[list[Path], typer.Argument(help="A model folder, or data as for `tsadc fit`.")]) -> None:
    """What a model is, or what data holds."""
    from tsadc.commands.console import show
    from tsadc.commands.inspection import about_data, about_model, is_model

    show(about_model(what[0]) if len(what) == 1 and is_model(what[0]) else about_data(what))


def main() -> None:
    """Run a command. What a user can cause ends in one sentence and exit code 2."""
    warnings.showwarning = _show_notice
    warnings.filterwarnings("always", category=TsadcNotice)
    keep_freed_memory()
    try:
        app()
    except TsadcError as error:
        _refuse(str(error))
    except OSError as error:
        _refuse(f"{error.filename} cannot be used: {error.strerror}." if error.filename else str(error))


def _refuse(sentence: str) -> NoReturn:
    from tsadc.commands.console import complain

    complain(sentence)
    raise SystemExit(2) from None


def _show_notice(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
    from tsadc.commands.console import FIRST, complain

    if FIRST and issubclass(category, TsadcNotice):
        complain(f"note: {message}")
