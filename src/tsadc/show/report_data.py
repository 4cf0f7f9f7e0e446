"""The section "Data" of the report: what was found in the data itself, and a table of its variables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tsadc.io.doctor import Examination, Finding, VariableFacts
from tsadc.show.charts import drawing, line
from tsadc.show.html import Html, element, join, name, sortable_table
from tsadc.show.words import DASH, count, number, percent

LISTED = 200  # variables
COLUMNS = (
    ("Variable", False), ("Type", False), ("Unit", False), ("Min", True), ("1 %", True), ("Median", True),
    ("99 %", True), ("Max", True), ("Missing", True), ("Repeated", True), ("Resolution", True), ("First value", False),
    ("Last value", False), ("Over time", False),
)  # fmt: skip
WORDS = {"refuse": "Refused", "warn": "Warning", "note": "Note"}


def data_section(found: Examination) -> Html:
    """List the findings about the data, the most severe first, and describe every variable."""
    lead = element(
        "p",
        "Before scores were computed, the data was examined. "
        + (f"{count(len(found.findings), 'finding', 'findings')}:" if found.findings else "No problems were found."),
        class_="lead",
    )
    findings = element("ol", (_finding(finding) for finding in found.findings), class_="data-findings")
    with_unit = any(variable.unit for variable in found.variables)
    shown = [i for i, (title, _) in enumerate(COLUMNS) if with_unit or title != "Unit"]
    rows = (_row(variable, shown) for variable in found.variables[:LISTED])
    table = sortable_table([COLUMNS[i] for i in shown], rows, "scroll tall")
    left = len(found.variables) - LISTED
    more = element("p", f"{left:,} more variables are not listed.", class_="note") if left > 0 else None
    return join(lead, findings if found.findings else None, table, more)


def _finding(finding: Finding) -> Html:
    remedy = element("code", finding.remedy) if finding.remedy.startswith("--") else finding.remedy
    return element(
        "li",
        element("span", WORDS[finding.severity], class_=f"tag {finding.severity}"),
        element(
            "div",
            element("p", element("bdi", finding.evidence)),
            element("p", finding.consequence, class_="note"),
            element("p", "\N{RIGHTWARDS ARROW} ", element("bdi", remedy), class_="note"),
        ),
    )


def _row(variable: VariableFacts, shown: list[int]) -> Html:
    values = (
        variable.minimum, variable.percentile_1, variable.median, variable.percentile_99, variable.maximum,
    )  # fmt: skip
    cells = [
        element("td", name(variable.name), class_="variable"),
        element("td", variable.kind, class_="time"),
        element("td", name(variable.unit) if variable.unit else ""),
        *(_number(value) for value in values),
        _share(variable.missing),
        _share(variable.repeated),
        _number(variable.resolution),
        _time(variable.first),
        _time(variable.last),
        element("td", _sparkline(variable), class_="spark"),
    ]
    return element("tr", [cells[i] for i in shown])


def _number(value: float) -> Html:
    return element("td", number(value), class_="num", data_value=f"{value:.9g}" if np.isfinite(value) else None)


def _share(share: float) -> Html:
    return element(
        "td",
        percent(share) if np.isfinite(share) else DASH,
        class_="num",
        data_value=f"{share:.6g}" if share == share else None,
    )


def _time(time: pd.Timestamp | int | None) -> Html:
    if time is None:
        return element("td", DASH, class_="time")
    dated = isinstance(time, pd.Timestamp)
    text = f"{time:%Y-%m-%d %H:%M}" if dated else f"row {time:,}"
    return element(
        "td", text, class_="time", data_value=time.as_unit("ns").value if isinstance(time, pd.Timestamp) else time
    )


def _sparkline(variable: VariableFacts) -> Html | None:
    values = np.asarray(variable.sparkline, dtype=np.float64)
    known = values[np.isfinite(values)]
    if len(known) < 2:
        return None
    low, width = known.min(), known.max() - known.min()
    height = (values - low) / width if width > 0 else np.where(np.isfinite(values), 0.5, np.nan)
    return drawing(line(np.linspace(0, 1, len(values)), height, "measured"))
