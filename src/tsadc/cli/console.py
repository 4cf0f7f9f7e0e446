"""Terminal output: messages, tables, and progress with the time left."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

if TYPE_CHECKING:
    from tsadc.detectors.base import ScoringProgress
    from tsadc.nn.train import Progress as Trained

FIRST = os.environ.get("RANK", "0") == "0"  # under torchrun only the first process prints
# Markup is off because a variable may be called [b] or :house:.
console = Console(quiet=not FIRST, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    """Print on stdout."""
    console.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """Print one line on stderr."""
    print("tsadc:", " ".join(text.splitlines()), file=sys.stderr)


def show(rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of two columns: a name and its value."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[Any], None]]:
    """Yield a callback that draws progress as a bar, or prints one line per epoch if stdout is no terminal."""
    from tsadc.detectors.base import ScoringProgress

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn()]
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("reading", total=None, note="")

        def report(now: ScoringProgress | Trained) -> None:
            if isinstance(now, ScoringProgress):
                bar.update(task, description="scoring", completed=now.done, total=now.total, note="observations")
                return
            left = timedelta(seconds=round(now.seconds_left))
            note = f"epoch {now.epoch}/{now.epochs}  loss {now.loss:.4f}"
            if now.validation is not None:
                note += f"  validation {now.validation:.4f}"
            note += f"  {left} left"
            bar.update(task, description="training", completed=now.update, total=now.updates, note=note)
            if now.epoch_ended and not console.is_terminal:
                say(note)

        yield report
