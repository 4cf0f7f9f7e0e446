"""Commands for a first look: a demo, and what a model or data consists of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tsadc.cli.commands.options import DetectorOption, Options, read_data, reads
from tsadc.detectors import DEFAULT
from tsadc.nn.runtime.allocator import keep_freed_memory


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

    chosen = choose(detector)
    settings = requested_settings(chosen, preset, None, [], {"length": length})
    series = read_data(what, options)
    examination = examine(series)
    if json:
        print_json(examination.to_mapping())
        return
    about = about_data(series, examination, chosen(config=settings))  # may refuse, before anything is printed
    show_examination(examination)
    show(about)
