"""Terminal output: messages, tables, and progress with the time left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.table import Table

if TYPE_CHECKING:
    from tsadc.detectors.base import ProgressCallback, ScoringProgress
    from tsadc.nn.train import TrainingProgress

IS_MAIN_PROCESS = os.environ.get("RANK", "0") == "0"  # torchrun sets RANK; only the main process writes to stdout
INSIDE = r"(?:'[^']*'|[^()'])"  # brackets: a text, or anything else but brackets
IN_PYTHON = re.compile(rf" \(in Python: (?:{INSIDE}|\({INSIDE}*\))*\)")
DIRECTIONS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
# Markup is off because a variable may be called [b] or :house:.
console = Console(quiet=not IS_MAIN_PROCESS, highlight=False, markup=False, emoji=False)


def echo(text: str) -> None:
    """Print on stdout, in the main process only."""
    console.print("\n".join(map(visible, text.split("\n"))), soft_wrap=True)


def print_error(text: str) -> None:
    """Print one line on stderr, in every process."""
    print("tsadc:", visible(_of_options(" ".join(text.splitlines()))), file=sys.stderr)


def _of_options(text: str) -> str:
    """Return a message without what its advice means in Python: here only options can be given."""
    return IN_PYTHON.sub("", text)


def visible(text: str) -> str:
    """Escape what is no character to look at: names come from files, and a terminal obeys control sequences."""
    return "".join(mark if _is_visible(mark) else mark.encode("unicode_escape").decode() for mark in text)


def _is_visible(mark: str) -> bool:
    # Controls, half characters (of file names that are not UTF-8), and what changes the direction of the text.
    return unicodedata.category(mark) not in ("Cc", "Cs") and unicodedata.bidirectional(mark) not in DIRECTIONS


def print_json(data: Any) -> None:
    """Print strict JSON on stdout, in the main process only."""
    if IS_MAIN_PROCESS:
        print(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def show(rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of two columns: a name and its value."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(visible(name), "\n".join(map(visible, _of_options(value).split("\n"))))
    console.print(table)


@contextlib.contextmanager
def progress_bar(*, quiet: bool = False) -> Iterator[ProgressCallback]:
    """Yield a callback that draws progress as a bar, or prints one line per epoch if stdout is no terminal; if `quiet`,
    it does neither."""
    from tsadc.detectors.base import ScoringProgress

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"), TimeElapsedColumn()]
    with RichProgress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("working", total=None, note="")

        def report(now: TrainingProgress | ScoringProgress) -> None:
            if isinstance(now, ScoringProgress):
                bar.update(task, description="scoring", completed=now.done, total=now.total, note=now.unit)
                return
            left = timedelta(seconds=round(now.seconds_left))
            note = f"epoch {now.epoch}/{now.epochs}  loss {now.loss:.4f}"
            if now.validation is not None:
                note += f"  validation {now.validation:.4f}"
            note += f"  {left} left"
            bar.update(task, description="training", completed=now.update, total=now.updates, note=note)
            if now.epoch_ended and not console.is_terminal and not quiet:
                echo(note)

        yield report
