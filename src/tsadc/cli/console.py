"""What the terminal shows: progress with the time left, a verdict, a table."""

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

FIRST = os.environ.get("RANK", "0") == "0"  # under torchrun only one process speaks
# Names are shown as they are: a variable may be called [b] or :house:.
console = Console(quiet=not FIRST, highlight=False, markup=False, emoji=False)


def say(text: str) -> None:
    console.print(text, soft_wrap=True)


def complain(text: str) -> None:
    """One line on stderr."""
    print("tsadc:", " ".join(text.splitlines()), file=sys.stderr)


def show(rows: Sequence[tuple[str, str]]) -> None:
    """Two columns: what, and its value."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)


@contextlib.contextmanager
def progress_bar() -> Iterator[Callable[[Any], None]]:
    """A callback for training and scoring, drawn as a bar; where there is no terminal, a line per epoch."""
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
