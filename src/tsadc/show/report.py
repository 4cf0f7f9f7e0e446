"""The report: one detection result as one self-contained HTML file.

The page loads nothing from the network. The same result gives the same bytes. This module holds the page's outline,
its summary at the top and its explanations; each longer section has a module of its own (`report_*`)."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from tsadc.detectors.result import Result
from tsadc.io.doctor import Examination
from tsadc.series import Truth
from tsadc.show.findings import Finding, Findings, Track, read
from tsadc.show.html import Html, Section, element, facts, join, name, outline, page, tiles, write_page
from tsadc.show.report_cards import MOST, cards
from tsadc.show.report_data import data_section
from tsadc.show.report_overview import strips
from tsadc.show.report_tables import LISTED, about_table, comparison_table, intervals, planned_table
from tsadc.show.report_variables import heat_maps, ranking
from tsadc.show.words import count, drift, is_stuck, number, percent

NAMED = 3  # variables in the summary
MAX_DRIFTED = 3  # entities in the summary
OVERVIEW = (
    "The score of each entity over time, maximum per pixel column. The dashed line is the threshold; the scale above "
    "it is compressed. Hatched parts were not scored. Click a marked interval for its details."
)
VARIABLES = (
    "In how many intervals each variable is listed, and in how many it contributes most. The maps show each "
    "variable's contribution over time, maximum per pixel column, relative to the 99.9th percentile outside the "
    "intervals."
)
GUIDE = (
    (
        "Score",
        "How far a row is from what the detector learned as normal, within its observation. Higher is more anomalous. "
        "The verdict is made from this score; the column `score` of the timeline ranks rows and may differ from it.",
    ),
    (
        "Threshold",
        "Observations with a higher score are anomalous. The threshold was set from the scores of the training "
        "history, without labels. Where recent scores of an entity lie above those of its history, it is raised; the "
        "overview shows scores relative to it.",
    ),
    (
        "Interval",
        "A run of rows with at least one score above the threshold. It extends in both directions while scores stay "
        "above the median score of the training history. Intervals separated by a short gap are merged. The end is "
        "the time of the first row after the interval.",
    ),
    (
        "Severity",
        "From 0 to 100: the chance, in percent, that a normal week of the entity has no score as high (10,080 rows if "
        "the data has no clock). Normal means without the part of the history that stands out. Beyond the scores of "
        "the history, severity is extrapolated. Below 90 is slight, from 90 moderate, from 99 severe. The return "
        "period says the same as a time: how much normal operation passes on average until a score as high.",
    ),
    (
        "False alarms",
        "How many are to be expected follows from the threshold: the share of normal scores above it, estimated from "
        "the history, times the number of observations that count as normal here.",
    ),
    (
        "Contribution",
        "Each variable's share of the squared contributions in the interval. Squaring gives one variable that is far "
        "off more weight than many that are slightly off. Shares below 5 % are not listed.",
    ),
)
PLANNED = (
    "Expected by a calendar or by a verdict, so what was measured then was not judged. It is drawn in grey, without "
    "values."
)
USUAL = (
    "Usual band",
    "Where about 98 % of the normal history lies: given the other variables at the time, if they say more about the "
    "variable than its own history does, otherwise anywhere in its history.",
)


def write(
    result: Result,
    path: str | Path,
    *,
    title: str,
    about: Mapping[str, str] | None = None,
    comparison: pd.DataFrame | None = None,
    truth: Sequence[Truth] = (),
    expected_by: str | None = None,
    examination: Examination | None = None,
) -> Path:
    """Write the report of a detection result to an HTML file.

    An existing file is replaced. The file appears whole or not at all.

    Parameters
    ----------
    result : Result
        What `detect` returned.
    path : str or Path
        The file to write. Missing folders are created.
    title : str
        The heading of the page.
    about : mapping of str to str, optional
        Facts for the section "About this report", such as the model, the data and the settings. They take precedence
        over the facts that the report derives from the result.
    comparison : DataFrame, optional
        A table to show as the section "Comparison", for example one row per detector and one column per metric.
    truth : sequence of Truth, optional
        The true anomalies, if they are known. They are drawn below the scores.
    expected_by : str, optional
        Who made the expected values of `result`, if not the detector that scored.
    examination : Examination, optional
        What `tsadc.examine` found in the data, to show as the section "Data".

    Returns
    -------
    Path
        The file that was written.

    Raises
    ------
    OutputError
        If `path` is a folder, a file that is not a report, or cannot be written.
    """
    text = render(
        result,
        title=title,
        about=about,
        comparison=comparison,
        truth=truth,
        expected_by=expected_by,
        examination=examination,
    )
    return write_page(text, path)


def render(
    result: Result,
    *,
    title: str,
    about: Mapping[str, str] | None = None,
    comparison: pd.DataFrame | None = None,
    truth: Sequence[Truth] = (),
    expected_by: str | None = None,
    examination: Examination | None = None,
) -> str:
    """Return the page as text. The parameters are those of `write`."""
    return page(title, _body(read(result, truth), title, about or {}, comparison, expected_by, examination))


def _body(
    findings: Findings,
    title: str,
    about: Mapping[str, str],
    table: pd.DataFrame | None,
    expected_by: str | None,
    examination: Examination | None,
) -> Html:
    sections = [_overview(findings), *_interval_sections(findings, expected_by)]
    if findings.planned:
        lead = element("p", PLANNED, class_="lead")
        sections.append(Section("planned", "Planned work", join(lead, planned_table(findings))))
    if table is not None:
        sections.append(Section("comparison", "Comparison", comparison_table(table)))
    if examination is not None:
        sections.append(Section("data", "Data", data_section(examination)))
    version = importlib.metadata.version("tsadc")
    sections.append(
        Section(
            "about", "About this report", join(about_table(findings, about, version), _guide(findings, expected_by))
        )
    )
    return outline(title, join(_verdict(findings), _tiles(findings)), sections)


def _overview(findings: Findings) -> Section:
    met = {id(true) for finding in findings.intervals for true in finding.truth}
    known = (
        " True anomalies are drawn in green below the scores; intervals overlap with "
        f"{len(met):,} of {len(findings.truth):,}."
    )
    note = element("p", OVERVIEW, known if findings.truth else None, class_="lead")
    return Section("overview", "Overview", join(note, strips(findings, LISTED)))


def _interval_sections(findings: Findings, expected_by: str | None) -> list[Section]:
    """Return the sections about intervals. If there are no intervals, only the heat maps remain."""
    total = len(findings.intervals)
    maps = join(element("p", VARIABLES, class_="lead"), ranking(findings), heat_maps(findings))
    variables = Section("variables", "Variables", maps)
    if not total:
        return [variables]
    note = f"The {MOST} worst of {total:,} intervals; the table below lists the others." if total > MOST else None
    lead = element("p", note, class_="lead") if note else None
    key = legend(findings, expected_by)
    return [
        Section("intervals", "Worst intervals", join(lead, key, cards(findings))),
        variables,
        Section("table", "All intervals", intervals(findings)),
    ]


def _verdict(findings: Findings) -> Html:
    """Return the summary in a few sentences; drift, which puts all else in doubt, comes first."""
    titled = [("Stuck sensor. " if is_stuck(found) else "Drift. ", found) for found in findings.drift]
    drifted = [element("p", element("strong", title), drift(found), class_="verdict drift") for title, found in titled]
    return join(*drifted[:MAX_DRIFTED], _more_drift(len(drifted)), _intervals_verdict(findings))


def _more_drift(total: int) -> Html | None:
    more = total - MAX_DRIFTED
    return element("p", f"{count(more, 'further entity has', 'further entities have')} drifted.") if more > 0 else None


def _intervals_verdict(findings: Findings) -> Html:
    where = _where(findings)
    if not findings.scored_rows:
        return element("p", element("strong", "Nothing could be scored"), where, ".", class_="verdict")
    if not findings.intervals:
        calm = "Nothing stands out from the recent past" if findings.drift else "Nothing unusual"
        return join(
            element("p", element("strong", calm), where, ".", class_="verdict calm"),
            element("p", _highest(findings), " ", findings.chance, class_="worst"),
        )
    amount = count(len(findings.intervals), "unusual interval", "unusual intervals")
    worst = findings.intervals[0]
    return join(
        element("p", element("strong", amount), where, ".", class_="verdict"),
        element("p", "The worst: ", element("a", _worst(worst), href=worst.link), ".", class_="worst"),
        element("p", findings.chance, class_="worst"),
    )


def _where(findings: Findings) -> Html:
    total = len(findings.tracks)
    if total == 1:
        among = _entity(findings.tracks[0], " in ", "")
    elif 0 < findings.affected < total:
        among = join(f" in {findings.affected:,} of {total:,} entities")
    elif findings.affected:
        among = join(" in both entities" if total == 2 else f" in all {total:,} entities")
    else:
        among = join(" in either entity" if total == 2 else f" in any of the {total:,} entities")
    return join(among, _period(findings))


def _period(findings: Findings) -> str:
    if len({track.series.clock.dated for track in findings.tracks}) > 1:
        return ""
    first = min(findings.tracks, key=lambda track: track.series.clock.start)
    last = max(findings.tracks, key=lambda track: track.end)
    return f" between {first.times.moment(0, weekday=False)} and {last.times.moment(len(last.series), weekday=False)}"


def _worst(worst: Finding) -> Html:
    variables = [
        join(", " if i else ", mainly ", name(variable), f" ({percent(share)})")
        for i, (variable, share) in enumerate(list(worst.variables.items())[:NAMED])
    ]
    return join(_entity(worst.track, "", ", "), worst.when, variables)


def _highest(findings: Findings) -> Html:
    tops = [np.nan_to_num(track.score, nan=-np.inf).max(initial=-np.inf) for track in findings.tracks]
    track = findings.tracks[int(np.argmax(tops))]
    return join(
        f"No score is above the threshold of {number(findings.threshold)}. The highest is {number(max(tops))}: ",
        _entity(track, "", ", "),
        f"{track.times.moment(int(np.nanargmax(track.score)))}.",
    )


def _entity(track: Track, before: str, after: str) -> Html:
    """Return the entity's name; nothing for a single series that was given no name."""
    return Html("") if track.entity == "series" else join(before, name(track.entity), after)


def _tiles(findings: Findings) -> Html:
    """Return four figures: how many intervals, how much time, which entities, which variables."""
    variables = [
        element("li", name(variable), element("span", f"{times:,}\N{MULTIPLICATION SIGN}", class_="figure"))
        for variable, times in list(findings.main_variables().items())[:NAMED]
    ]
    shown = element("dd", element("ol", variables) if variables else "none")
    return tiles(
        [
            ("Intervals", f"{len(findings.intervals):,}", _longest(findings)),
            ("Time flagged", percent(findings.flagged_share), f"of {findings.scored_rows:,} scored rows"),
            ("Entities affected", f"{findings.affected:,}", f"of {len(findings.tracks):,}"),
        ],
        element("div", element("dt", "Most frequent main variable"), shown, class_="tile wide"),
    )


def _longest(findings: Findings) -> str:
    if not findings.intervals:
        return "above the threshold"
    longest = max(
        findings.intervals, key=lambda finding: (finding.stop - finding.start) * finding.track.series.clock.interval
    )
    return f"longest: {longest.duration}"


def _guide(findings: Findings, expected_by: str | None) -> Html:
    """Return the explanation of the terms on the page."""
    who = expected_by or "the detector"
    expected = ("Expected", f"The value that {who} expected. Lines are interrupted where nothing was measured.")
    terms = [*GUIDE, *([USUAL] if _has_band(findings) else []), *([expected] if _has_expected(findings) else [])]
    return element("div", element("h3", "How to read this page"), facts(terms))


def _has_expected(findings: Findings) -> bool:
    return findings.tracks[0].expected is not None


def _has_band(findings: Findings) -> bool:
    return findings.tracks[0].usual is not None


def legend(findings: Findings, expected_by: str | None = None) -> Html:
    """Return the legend of the plots in the cards."""
    kinds = [("measured", "measured"), ("shaded", "anomalous interval")]
    if _has_band(findings):
        kinds.insert(1, ("usual", "usual band"))
    if _has_expected(findings):
        kinds.insert(1, ("expected", f"expected by {expected_by}" if expected_by else "expected"))
    return element(
        "p", (element("span", element("i", class_=f"swatch {kind}"), text) for kind, text in kinds), class_="legend"
    )
