"""The page of the service: static files, without external requests. It shares its style with the report."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
OWN = ("index.html", "page.css", "page.js", "chart.js", "live.js", "words.js", "icon.svg")
REPORT_STYLE = "report.css"


class PageFile(NamedTuple):
    """A file as it is sent, and its media type."""

    content: bytes
    type: str


@cache
def page_file(name: str) -> PageFile | None:
    """Return a file of the page; None if there is no such file."""
    if name == REPORT_STYLE:
        content = files("tsadc.show").joinpath("page.css").read_bytes()
    elif name in OWN:
        content = files("tsadc.serve.page").joinpath(name).read_bytes()
    else:
        return None
    return PageFile(content, TYPES[name.rpartition(".")[2]])
