"""The tables at the end: all intervals, how detectors compare, and the facts."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tsadc.show.cards import MOST
from tsadc.show.findings import Finding, Findings
from tsadc.show.markup import Html, element, join, name
from tsadc.show.tables import blame_text
from tsadc.show.words import DASH, count, evidence, number, percent, severity

LISTED = 1000
HIGHER_IS_BETTER = frozenset({"auroc", "ap", "average precision", "apr", "f1", "precision", "recall"})
COLUMNS = ("no", "entity", "start", "end", "duration", "severity", "score", "evidence", "mainly")
RIGHT = frozenset({"no", "duration", "severity", "score"})


def intervals(findings: Findings) -> Html:
    """All intervals, worst first, and the same as a file. The script makes the columns sortable."""
    head = [
        element(
            "th",
            text.capitalize() + ("." if text == "no" else ""),
            scope="col",
            class_="num" if text in RIGHT else None,
        )
        for text in COLUMNS
    ]
    rows = [_row(finding) for finding in findings.found[:LISTED]]
    table = element("table", element("thead", element("tr", head)), element("tbody", rows), class_="sortable")
    data = base64.b64encode(_csv(findings).encode("utf-8", "replace")).decode()
    link = element(
        "a",
        f"Download {count(len(findings.found), 'interval', 'intervals')} as CSV",
        href=f"data:text/csv;charset=utf-8;base64,{data}",
        download="intervals.csv",
    )
    hidden = len(findings.found) - LISTED
    more = f" The table shows the {LISTED:,} worst, the file all." if hidden > 0 else ""
    return join(element("p", link, more, class_="note"), element("div", table, class_="scroll tall"))


def _row(finding: Finding) -> Html:
    times, duration = finding.track.times, (finding.stop - finding.start) * finding.track.series.clock.interval
    card = finding.rank <= MOST
    rank = element("a", f"{finding.rank}", href=finding.link) if card else f"{finding.rank}"
    cause = next(iter(finding.shares.items()), None)
    cells = (
        (rank, finding.rank),
        (name(finding.track.entity), None),
        (
            times.iso(finding.start),
            finding.start * finding.track.series.clock.interval + finding.track.series.clock.start,
        ),
        (
            times.iso(finding.stop),
            finding.stop * finding.track.series.clock.interval + finding.track.series.clock.start,
        ),
        (finding.duration, duration),
        (severity(finding.severity), finding.severity),
        (number(finding.score), finding.score),
        (evidence(finding.evidence)[0], None),
        (join(name(cause[0]), f" {percent(cause[1])}") if cause else DASH, None),
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
    writer.writerow(["no", "entity", "start", "end", "severity", "score", "evidence", "variables"])
    for finding in findings.found:
        times = finding.track.series.clock.at([finding.start, finding.stop])
        writer.writerow(
            [
                finding.rank,
                _harmless(finding.track.entity),
                *(time.isoformat() if isinstance(time, pd.Timestamp) else int(time) for time in times),
                repr(finding.severity),
                repr(finding.score),
                _harmless(finding.evidence),
                _harmless(blame_text(finding.shares)),
            ]
        )
    return out.getvalue()


def _harmless(text: str) -> str:
    """Spreadsheets run text that begins like a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def comparison_table(table: pd.DataFrame) -> Html:
    """A table of detectors and their figures, the best of each known measure in bold."""
    frame = table
    if not isinstance(table.index, pd.RangeIndex):
        frame = (table if any(table.index.names) else table.rename_axis("")).reset_index()
    columns = [(str(title), frame.iloc[:, i]) for i, title in enumerate(frame.columns)]
    numeric = [
        pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values) for _, values in columns
    ]
    head = [
        element("th", title, scope="col", class_="num" if right else None)
        for (title, _), right in zip(columns, numeric, strict=True)
    ]
    shown = [
        _figures(title, values) if right else [element("td", str(value)) for value in values]
        for (title, values), right in zip(columns, numeric, strict=True)
    ]
    rows = [element("tr", cells) for cells in zip(*shown, strict=True)]
    body = element("table", element("thead", element("tr", head)), element("tbody", rows), class_="sortable")
    return element("div", body, class_="scroll")


def _figures(title: str, values: pd.Series) -> list[Html]:
    """One column of numbers with as many decimals each, so that they line up."""
    raw = values.to_numpy(dtype=np.float64, na_value=np.nan)
    finite = raw[np.isfinite(raw)]
    whole = pd.api.types.is_integer_dtype(values)
    decimals = 0 if whole else 3 if not len(finite) or np.abs(finite).max() < 10 else 1
    measure = title.lower().removeprefix("paper_").replace("_", " ")
    best = finite.max() if len(finite) and measure in HIGHER_IS_BETTER else np.nan
    cells = []
    for value in raw:
        text = f"{value:,.{decimals}f}" if np.isfinite(value) else DASH
        cells.append(
            element("td", element("strong", text) if value == best else text, class_="num", data_value=f"{value:.9g}")
        )
    return cells


def facts(findings: Findings, about: Mapping[str, str], version: str) -> Html:
    """What the user says about the run, then what the result itself knows."""
    clock = findings.tracks[0].series.clock
    known = {
        "Size": f"{count(len(findings.tracks), 'entity', 'entities')}, "
        f"{sum(len(track.series) for track in findings.tracks):,} rows, "
        f"{count(len(findings.tracks[0].series.names), 'variable', 'variables')}",
        "Sampled": f"every {findings.tracks[0].times.duration(1)}" if clock.dated else "without timestamps",
        "Times": (clock.timezone or "as in the data, without a time zone") if clock.dated else "row numbers",
        "Threshold": number(findings.threshold),
        "Left out": f"{count(findings.left_out, 'observation', 'observations')} with too few rows",
        "Written by": f"tsadc {version}",
    }
    if not findings.left_out:
        del known["Left out"]
    pairs = [*((str(key), str(value)) for key, value in about.items())]
    pairs += [(key, value) for key, value in known.items() if key.lower() not in {given.lower() for given, _ in pairs}]
    return element("dl", (join(element("dt", key), element("dd", value)) for key, value in pairs), class_="facts")
