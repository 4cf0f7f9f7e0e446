"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Names may hold bars and line ends, which would break a table."""
    lines = ["| " + " | ".join(_plain(cell) for cell in line) + " |" for line in (head, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _plain(cell: str) -> str:
    return " ".join(cell.split()).replace("|", "\\|")
