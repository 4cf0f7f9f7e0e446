"""One HTML file with everything in it: no network, no fonts, no libraries. The same result gives the same bytes."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pandas as pd

from tsadc.detectors.result import Result
from tsadc.errors import OutputError
from tsadc.report.blame import heat_maps, ranking
from tsadc.report.cards import MOST, cards
from tsadc.report.findings import Findings, read
from tsadc.report.guide import OVERVIEW, VARIABLES, guide, legend
from tsadc.report.listing import LISTED, comparison_table, facts, intervals
from tsadc.report.markup import Html, element, join
from tsadc.report.overview import strips
from tsadc.report.verdict import tiles, verdict
from tsadc.series import Truth


def write(
    result: Result,
    path: str | Path,
    *,
    title: str,
    about: Mapping[str, str] | None = None,
    comparison: pd.DataFrame | None = None,
    truth: Sequence[Truth] = (),
) -> Path:
    """Write the report of `result` to the file `path`, replacing one that is there.

    Parameters
    ----------
    title
        The heading.
    about
        Facts for the reader: the model, the data, the settings.
    comparison
        A table to show beside the findings, such as the measures of several detectors.
    truth
        The true anomalies, where they are known; shown below the scores.
    """
    target = Path(path)
    if target.is_dir():
        raise OutputError(
            f"The report needs the name of a file, but {target} is a folder; add a name such as report.html."
        )
    text = render(result, title=title, about=about, comparison=comparison, truth=truth)
    data = text.encode("utf-8", "replace")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".partial", dir=target.parent)
    except OSError as error:
        raise OutputError(f"The report cannot be written to {target}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except OSError as error:
        Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"The report cannot be written to {target}: {error.strerror}.") from None
    return target


def render(
    result: Result,
    *,
    title: str,
    about: Mapping[str, str] | None = None,
    comparison: pd.DataFrame | None = None,
    truth: Sequence[Truth] = (),
) -> str:
    """The page as text; see `write`."""
    findings = read(result, truth)
    script, style = _file("page.js"), _file("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Only this very script may run, whatever a name in the data tries.
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
    body = element("body", _body(findings, title, about or {}, comparison), element("script", Html(script)))
    return "<!doctype html>\n" + element("html", head, "\n", body, lang="en") + "\n"


@dataclass(frozen=True)
class Section:
    key: str
    title: str
    content: Html

    def html(self) -> Html:
        return join("\n", element("section", element("h2", self.title), self.content, id=self.key))


def _body(findings: Findings, title: str, about: Mapping[str, str], table: pd.DataFrame | None) -> Html:
    sections = [_overview(findings), *_found(findings)]
    if table is not None:
        sections.append(Section("comparison", "Comparison", comparison_table(table)))
    version = importlib.metadata.version("tsadc")
    sections.append(Section("about", "About this report", join(facts(findings, about, version), guide())))
    theme = element("button", "Dark", type="button", id="theme", hidden=True)
    top = element(
        "header",
        element("div", element("h1", title), theme, class_="title"),
        verdict(findings),
        tiles(findings),
        element("nav", (element("a", one.title, href=f"#{one.key}") for one in sections), aria_label="Sections"),
        class_="top",
    )
    return element("main", top, (one.html() for one in sections), "\n")


def _overview(findings: Findings) -> Section:
    met = {id(true) for finding in findings.found for true in finding.truth}
    known = f" True anomalies are drawn below the scores: an interval touches {len(met):,} of {len(findings.truth):,}."
    note = element("p", OVERVIEW, known if findings.truth else None, class_="lead")
    return Section("overview", "Overview", join(note, strips(findings, LISTED)))


def _found(findings: Findings) -> list[Section]:
    """The sections that speak of intervals; without any, the heat maps remain."""
    total = len(findings.found)
    maps = join(element("p", VARIABLES, class_="lead"), ranking(findings), heat_maps(findings))
    variables = Section("variables", "Variables", maps)
    if not total:
        return [variables]
    note = f"The {MOST} worst of {total:,} intervals; the table below lists the others." if total > MOST else None
    lead = element("p", note, class_="lead") if note else None
    key = legend(findings.tracks[0].expected is not None)
    return [
        Section("intervals", "What happened", join(lead, key, cards(findings))),
        variables,
        Section("table", "All intervals", intervals(findings)),
    ]


def _file(name: str) -> str:
    return (files("tsadc.report") / name).read_text(encoding="utf-8")
