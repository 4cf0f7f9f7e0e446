"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars and line ends in its texts are escaped, as they would break it."""
    lines = ["| " + " | ".join(_escape(text) for text in line) + " |" for line in (head, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
