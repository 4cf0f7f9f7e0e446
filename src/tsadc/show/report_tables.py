"""The tables of the report: all intervals, the comparison of detectors, and facts about the run."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tsadc.show.findings import Finding, Findings
from tsadc.show.html import Html, csv_link, element, facts, join, name, sortable_table
from tsadc.show.report_cards import MOST
from tsadc.show.result_files import inert, period_text, shares_json
from tsadc.show.words import DASH, count, iso8601, number, percent, precision, severity

LISTED = 1000
HIGHER_IS_BETTER = frozenset({"auroc", "ap", "average precision", "apr", "f1", "precision", "recall"})
COLUMNS = ("no", "entity", "start", "end", "duration", "severity", "score", "evidence", "main variable")
RIGHT = frozenset({"no", "duration", "severity", "score"})


def intervals(findings: Findings) -> Html:
    """List all intervals, worst first, with a CSV file to download. The script makes the columns sortable."""
    heads = [("No." if title == "no" else title.capitalize(), title in RIGHT) for title in COLUMNS]
    total = len(findings.intervals)
    link = csv_link(f"Download {count(total, 'interval', 'intervals')} as CSV", _csv(findings), "intervals.csv")
    more = f" The table lists only the {LISTED:,} worst." if total > LISTED else ""
    rows = [_row(finding) for finding in findings.intervals[:LISTED]]
    return join(element("p", link, more, class_="note"), sortable_table(heads, rows, "scroll tall"))


def planned_table(findings: Findings) -> Html:
    """List planned work, which was not judged."""
    heads = [(title, False) for title in ("Entity", "Start", "End", "Variables", "Note")]
    rows = []
    for track, span in findings.planned:
        names = track.series.names
        every = len(span.columns) == len(names)
        cells = (
            name(track.entity),
            track.times.short(span.start),
            track.times.short(span.stop),
            "all" if every else join([join(", " if i else "", name(names[k])) for i, k in enumerate(span.columns)]),
            span.note,
        )
        rows.append(element("tr", (element("td", cell) for cell in cells)))
    return sortable_table(heads, rows)


def _row(finding: Finding) -> Html:
    times, duration = finding.track.times, (finding.stop - finding.start) * finding.track.series.clock.interval
    card = finding.rank <= MOST
    rank = element("a", f"{finding.rank}", href=finding.link) if card else f"{finding.rank}"
    main = next(iter(finding.variables.items()), None)
    cells = (
        (rank, finding.rank),
        (name(finding.track.entity), None),
        (
            times.short(finding.start),
            finding.start * finding.track.series.clock.interval + finding.track.series.clock.start,
        ),
        (
            times.short(finding.stop),
            finding.stop * finding.track.series.clock.interval + finding.track.series.clock.start,
        ),
        (finding.duration, duration),
        (severity(finding.severity), finding.severity),
        (number(finding.score), finding.score),
        (finding.why[0], None),
        (join(name(main[0]), f" {percent(main[1])}") if main else DASH, None),
    )
    shown = [
        element(
            "td",
            text,
            data_value=value,
            class_="num" if title in RIGHT else "time" if title in ("start", "end") else None,
        )
        for title, (text, value) in zip(COLUMNS, cells, strict=True)
    ]
    return element("tr", shown, id=None if card else finding.key)


def _csv(findings: Findings) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    graded, explained = ["severity", "return_period", "score"], ["kind", "reason", "evidence", "variables"]
    writer.writerow(["no", "id", "entity", "start", "end", *graded, *explained])
    unit = precision(track.series.clock for track in findings.tracks)
    for finding in findings.intervals:
        times = finding.track.series.clock.at([finding.start, finding.stop])
        writer.writerow(
            [
                finding.rank,
                finding.id,
                inert(finding.track.entity),
                *(iso8601(times, unit) if isinstance(times, pd.DatetimeIndex) else times),
                repr(finding.severity),
                period_text(finding.period),
                repr(finding.score),
                finding.reason.kind if finding.reason else "other",
                inert(finding.why[1]),
                inert(finding.evidence),
                shares_json(finding.variables),
            ]
        )
    return out.getvalue()


def comparison_table(table: pd.DataFrame) -> Html:
    """Show a table of detectors and their metrics, with the best value of each known metric in bold."""
    frame = table
    if not isinstance(table.index, pd.RangeIndex):
        frame = (table if any(table.index.names) else table.rename_axis("")).reset_index()
    columns = [(str(title), frame.iloc[:, i]) for i, title in enumerate(frame.columns)]
    numeric = [
        pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values) for _, values in columns
    ]
    shown = [
        _figures(title, values) if right else [element("td", str(value)) for value in values]
        for (title, values), right in zip(columns, numeric, strict=True)
    ]
    heads = ((title, right) for (title, _), right in zip(columns, numeric, strict=True))
    return sortable_table(heads, (element("tr", cells) for cells in zip(*shown, strict=True)))


def _figures(title: str, values: pd.Series) -> list[Html]:
    """Format one column of numbers with the same number of decimals."""
    raw = values.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = raw[np.isfinite(raw)]
    whole = pd.api.types.is_integer_dtype(values)
    decimals = 0 if whole else 3 if not len(finite) or np.abs(finite).max() < 10 else 1
    metric = title.lower().removeprefix("paper_").replace("_", " ")
    best = finite.max() if len(finite) and metric in HIGHER_IS_BETTER else np.nan
    cells = []
    for value in raw:
        text = f"{value:,.{decimals}f}" if np.isfinite(value) else DASH
        cells.append(
            element("td", element("strong", text) if value == best else text, class_="num", data_value=f"{value:.9g}")
        )
    return cells


def about_table(findings: Findings, about: Mapping[str, str], version: str) -> Html:
    """List the facts about the run: those given by the user first, then those derived from the result."""
    series, times = findings.tracks[0].series, findings.tracks[0].times
    derived = {
        "Size": f"{count(len(findings.tracks), 'entity', 'entities')}, "
        f"{sum(len(track.series) for track in findings.tracks):,} rows, "
        f"{count(len(series.names), 'variable', 'variables')}",
        "Sampling interval": times.duration(1) if series.clock.dated else "unknown (no timestamps)",
        "Time zone": series.clock.timezone or "not given",
        "Threshold": number(findings.threshold),
        "Not scored": f"{count(findings.left_out, 'observation', 'observations')} with too few measured rows",
        "Created with": f"tsadc {version}",
    }
    if not findings.left_out:
        del derived["Not scored"]
    if not series.clock.dated:
        del derived["Time zone"]
    given = {key.lower() for key in about}
    pairs = [*about.items(), *(pair for pair in derived.items() if pair[0].lower() not in given)]
    return facts(pairs)
