"""One HTML file with everything in it: no network, no fonts, no libraries. The same result gives the same bytes."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from tsadc.detectors.result import Result
from tsadc.series import Truth
from tsadc.show.blame import heat_maps, ranking
from tsadc.show.cards import MOST, cards
from tsadc.show.findings import Findings, read
from tsadc.show.guide import OVERVIEW, VARIABLES, guide, legend
from tsadc.show.listing import LISTED, comparison_table, facts, intervals
from tsadc.show.markup import Html, element, join
from tsadc.show.overview import strips
from tsadc.show.shell import page, write_page
from tsadc.show.verdict import tiles, verdict


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
    return write_page(render(result, title=title, about=about, comparison=comparison, truth=truth), path)


def render(
    result: Result,
    *,
    title: str,
    about: Mapping[str, str] | None = None,
    comparison: pd.DataFrame | None = None,
    truth: Sequence[Truth] = (),
) -> str:
    """The page as text; see `write`."""
    return page(title, _body(read(result, truth), title, about or {}, comparison))


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
