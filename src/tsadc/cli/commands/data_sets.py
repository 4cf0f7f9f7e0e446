"""Commands about the data sets of benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsadc.cli.commands.options import SkipBad

data_app = typer.Typer(help="List and prepare the paper's data sets and open alternatives.", no_args_is_help=True)


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
