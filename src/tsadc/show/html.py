"""Build HTML pages: escaped elements, the blocks that pages share, and the self-contained file.

Every string is escaped unless it is `Html`. Names of entities and variables come from untrusted files, so only this
module writes angle brackets."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from tsadc.atomic import write_file
from tsadc.errors import OutputError

GENERATOR = "tsadc"  # by which a page is known that may be replaced
HEAD = 2000  # bytes in which its marks are; version 0.2.0 wrote only the second
MARKS = (f'name="generator" content="{GENERATOR}"'.encode(), b"script-src &#x27;sha256-")
VOID = frozenset({"br", "hr", "input", "link", "meta"})


class Html(str):
    """Text that is already markup."""

    __slots__ = ()


def element(tag: str, *children: str | Iterable[str] | None, **attributes: object) -> Html:
    """Return `<tag ...>children</tag>`. In attribute names a trailing underscore is dropped and others become hyphens.
    The values None and False omit the attribute, True writes it without a value."""
    head = "".join(_attribute(name, value) for name, value in attributes.items())
    if tag in VOID:
        return Html(f"<{tag}{head}>")
    return Html(f"<{tag}{head}>{join(*children)}</{tag}>")


def join(*children: str | Iterable[str] | None) -> Html:
    """Concatenate the children, escaping plain text."""
    out: list[str] = []
    for child in children:
        if isinstance(child, Html):
            out.append(child)
        elif isinstance(child, str):
            out.append(escape(child, quote=False))
        elif child is not None:
            out.append(join(*child))
    return Html("".join(out))


def name(text: str) -> Html:
    """Isolate a name given by the user, so that its writing direction cannot reorder the surrounding text."""
    return element("bdi", text)


def _attribute(name: str, value: object) -> str:
    if value is None or value is False:
        return ""
    plain = name.rstrip("_").replace("_", "-")
    return f" {plain}" if value is True else f' {plain}="{escape(str(value))}"'


@dataclass(frozen=True)
class Section:
    """A section of a page. The navigation links to it by its `key`."""

    key: str
    title: str
    content: Html

    def html(self) -> Html:
        return join("\n", element("section", element("h2", self.title), self.content, id=self.key))


def outline(title: str, summary: Html, sections: Sequence[Section]) -> Html:
    """Return the content of a page: heading, theme button, summary, navigation, sections."""
    theme = element("button", "Dark", type="button", id="theme", hidden=True)
    links = (element("a", section.title, href=f"#{section.key}") for section in sections)
    top = element(
        "header",
        element("div", element("h1", title), theme, class_="title"),
        summary,
        element("nav", links, aria_label="Sections"),
        class_="top",
    )
    return element("main", top, (section.html() for section in sections), "\n")


def tiles(boxes: Iterable[tuple[str, str, str]], *more: Html) -> Html:
    """Return a row of boxes, each with a label, a large figure and a note; `more` are further boxes."""
    plain = [
        element(
            "div",
            element("dt", label),
            element("dd", figure, class_="big"),
            element("dd", note, class_="note"),
            class_="tile",
        )
        for label, figure, note in boxes
    ]
    return element("dl", plain, more, class_="tiles")


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Return a list of terms, capitalised, and their values."""
    rows = (join(element("dt", term[:1].upper() + term[1:]), element("dd", str(value))) for term, value in pairs)
    return element("dl", rows, class_="facts")


def sortable_table(heads: Iterable[tuple[str, bool]], rows: Iterable[Html], class_: str = "scroll") -> Html:
    """Return a table that the script makes sortable. `heads` are the column titles and whether they hold numbers."""
    titles = [element("th", title, scope="col", class_="num" if numeric else None) for title, numeric in heads]
    table = element("table", element("thead", element("tr", titles)), element("tbody", rows), class_="sortable")
    return element("div", table, class_=class_)


def csv_link(text: str, content: str, file: str) -> Html:
    """Return a link that downloads the content of a CSV file, which is part of the page."""
    data = base64.b64encode(content.encode("utf-8", "replace")).decode()
    return element("a", text, href=f"data:text/csv;charset=utf-8;base64,{data}", download=file)


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
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Html(style)),
    )
    body = element("body", content, element("script", Html(script)))
    return "<!doctype html>\n" + element("html", head, "\n", body, lang="en") + "\n"


def write_page(text: str, path: str | Path) -> Path:
    """Write the file, or replace an earlier page; it appears whole or not at all."""
    target = Path(path)
    if target.is_dir():
        raise OutputError(f"The report needs a file name, but {target} is a folder; add a name such as report.html.")
    refuse_other_file(target)
    write_file(target, text.encode("utf-8", "replace"))
    return target


def refuse_other_file(path: Path) -> None:
    """Raise if the file is there but is not a page of ours, which may be replaced."""
    if path.exists() and not is_page(path):
        raise OutputError(f"{path} exists and is not a report of tsadc, so it is not replaced; choose another name.")


def is_page(path: Path) -> bool:
    """Return whether the file is a page that this module wrote, now or in an earlier version."""
    with contextlib.suppress(OSError):
        with path.open("rb") as file:
            head = file.read(HEAD)
        return head.startswith(b"<!doctype html>") and any(mark in head for mark in MARKS)
    return False


def _file(name: str) -> str:
    return (files("tsadc.show") / name).read_text(encoding="utf-8")
