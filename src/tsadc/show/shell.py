"""Wrap content into a self-contained page with its style and script, and write it to a file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from tsadc.atomic import write_file
from tsadc.errors import OutputError
from tsadc.show.markup import Html, element


def page(title: str, content: Html, more: tuple[str, ...] = ()) -> str:
    """Return the page as text. `more` names further style and script files, appended to those that all pages share."""
    script = "".join(_file(f"{name}.js") for name in ("page", *more))
    style = "".join(_file(f"{name}.css") for name in ("page", *more))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Only this script may run, even if a name in the data contains another one.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element("body", content, element("script", Html(script)))
    return "<!doctype html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def write_page(text: str, path: str | Path) -> Path:
    """Write or replace the file; it appears whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"The report needs a file name, but {target} is a folder; add a name such as report.html.")
    write_file(target, text.encode("utf-8", "replace"))
    return target


def _file(name: str) -> str:
    return (files("tsadc.show") / name).read_text(encoding="utf-8")
