"""A page as a strict reader and as a browser see it."""

from __future__ import annotations

import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tsadc.show.html import VOID

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to run the page's script")


class Page(HTMLParser):
    """Reads a page strictly: every tag closed in order, ids unique."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []
        assert len(set(self.ids)) == len(self.ids)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.seen if "id" in attributes]

    def of(self, tag: str, class_: str | None = None) -> list[dict[str, str | None]]:
        return [
            a for name, a in self.seen if name == tag and (class_ is None or class_ in (a.get("class") or "").split())
        ]


def dump(page: str, folder: Path) -> Dumped:
    """The page after a browser has run its script."""
    target = folder / "report.html"
    target.write_text(page)
    quiet = "--disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", *quiet.split(), "--disable-sync"]
    done = subprocess.run(
        [*command, f"--user-data-dir={folder / 'profile'}", "--window-size=1000,800", "--dump-dom", target.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"chromium would not start here (exit code {done.returncode})")
    return Dumped(done.stdout)


class Dumped(HTMLParser):
    """What the script did to the page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root: dict[str, str | None] = {}
        self.sort_buttons = self.visible_maps = 0
        self.tip: str | None = None
        self.tags: list[tuple[str, str | None]] = [("", None)]
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag == "html":
            self.root = attributes
        self.sort_buttons += tag == "button" and self.tags[-1][0] == "th"
        self.visible_maps += attributes.get("class") == "map" and "hidden" not in attributes
        self.tags.append((tag, attributes.get("id")))

    def handle_data(self, data):
        if self.tags[-1][1] == "tip":
            self.tip = data
