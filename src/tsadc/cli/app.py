"""The commands in the order of `tsadc --help`, and what becomes of errors.

Heavy imports happen inside the commands, so that --help answers at once."""

from __future__ import annotations

import warnings
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from tsadc.cli.commands.anomalies import detect, explain, label, review
from tsadc.cli.commands.bench import bench_app
from tsadc.cli.commands.data_sets import data_app
from tsadc.cli.commands.first_look import demo, info
from tsadc.cli.commands.history import audit, clean
from tsadc.cli.commands.live import backtest, collect, serve, watch
from tsadc.cli.commands.models import adapt, export, fit, merge, refit
from tsadc.cli.signals import Interrupted, Terminated, stopped, stopping_on_sigterm
from tsadc.errors import TsadcError, TsadcNotice
from tsadc.optional import INSTALL_TORCH, lacks_torch


class Commands(TyperGroup):
    """The commands. Typer itself would end on Ctrl-C without a sentence."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    cls=Commands,
    help="Find anomalies in multivariate sensor data whose unlabelled history is itself contaminated.",
    no_args_is_help=True,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

for command in (
    *(demo, fit, merge, audit, clean, detect, refit, label, review, explain, adapt, export, info),
    *(serve, collect, backtest, watch),
):
    app.command()(command)
app.add_typer(data_app, name="data")
app.add_typer(bench_app, name="bench")


@app.callback()
def tsadc(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    if version:
        from tsadc import __version__

        print(f"tsadc {__version__}")
        raise typer.Exit


def main() -> None:
    """Run a command; an error that the user can cause is one sentence on stderr and exit code 2."""
    warnings.showwarning = _show_notice
    warnings.filterwarnings("always", category=TsadcNotice)
    try:
        with stopping_on_sigterm():
            app()
    except (KeyboardInterrupt, Interrupted, Terminated) as stop:
        word, code = stopped(stop)
        _refuse(f"{word} before it was done; run the same command again.", code)
    except TsadcError as error:
        _refuse(str(error))
    except ModuleNotFoundError as error:
        if not lacks_torch(error):
            raise
        _refuse(f"This command needs the package torch: {INSTALL_TORCH}.")
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
