"""Write Markdown: tables, and text between the markers of a document."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tsadc.atomic import write_file
from tsadc.errors import DataError


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table; bars and line ends in its texts are escaped, as they would break it."""
    lines = ["| " + " | ".join(_escape(text) for text in line) + " |" for line in (head, *body)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def insert(document: Path, text: str, name: str = "quality") -> None:
    """Put `text` between the markers with this name in a document; append both if the markers are missing."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if document.is_dir():
        raise DataError(f"{document} is a folder, but a file is needed to put the table into; name the file.")
    if not document.exists():
        raise DataError(f"There is no file {document} to put the table into; correct the name or create it first.")
    try:
        old = document.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{document} cannot be read as text.") from None
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = old.partition(begin)
    _, marker, after = rest.partition(end)
    if not marker:
        raise DataError(f"{document} has {begin} without {end} after it; add this line where the table ends.")
    write_file(document, f"{before}{begin}\n\n{text}\n\n{end}{after}".encode())
