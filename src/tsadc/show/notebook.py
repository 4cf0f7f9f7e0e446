"""How results and detectors look in a notebook: small pieces of HTML without scripts, all names escaped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tsadc.detectors.base import Detector
from tsadc.detectors.result import Result, SeriesResult
from tsadc.series import Floats
from tsadc.show.chance import by_chance
from tsadc.show.charts import edges, highest
from tsadc.show.html import Html, element, facts, join, name
from tsadc.show.words import count, evidence, is_stuck, number, percent, return_period, severity
from tsadc.windows import runs

MOST = 5  # intervals and entities
COLUMNS = 300
HEIGHT = 40
ALARM = "#c4501f"


def headline(result: Result) -> str:
    """Return in one line how much is unusual, in how much data, and how many entities have drifted or stuck sensors."""
    entities = len(result.parts)
    rows = sum(len(part.series) for part in result.parts)
    data = f"{count(rows, 'row', 'rows')} of {count(entities, 'entity', 'entities')}"
    stuck = sum(map(is_stuck, result.drift))
    moved = len(result.drift) - stuck
    drifted = f"; {count(moved, 'entity has', 'entities have')} drifted" if moved else ""
    drifted += f"; {count(stuck, 'entity has', 'entities have')} stuck sensors" if stuck else ""
    if not len(result.intervals):
        return f"{'Nothing stands out from the recent past' if drifted else 'Nothing unusual'} in {data}{drifted}"
    found = count(len(result.intervals), "unusual interval", "unusual intervals")
    share = sum(int(part.anomalous.sum()) for part in result.parts) / rows
    return f"{found} in {data} ({percent(share)} of the rows){drifted}"


def result_html(result: Result) -> str:
    """Return the headline, the worst intervals and the scores of each entity."""
    worst = result.worst(MOST)
    hidden = len(result.intervals) - len(worst)
    more = f"{hidden:,} more in result.intervals." if hidden else None
    strips = [_strip(part, result) for part in _first(result.parts)]
    unseen = len(result.parts) - len(strips)
    return element(
        "div",
        element("p", element("strong", headline(result)), ". ", by_chance(result)),
        _table(worst) if len(worst) else None,
        element("p", more) if more else None,
        strips,
        element("p", f"{count(unseen, 'entity is', 'entities are')} not shown.") if unseen else None,
    )


def _first(parts: Sequence[SeriesResult]) -> list[SeriesResult]:
    """Return the entities with the most anomalous rows."""
    return sorted(parts, key=lambda part: -int(part.anomalous.sum()))[:MOST]


def _table(intervals: pd.DataFrame) -> Html:
    titles = ("entity", "start", "end", "severity", "return period", "score", "why", "variables")
    rows = []
    for row in intervals.to_dict("records"):
        shares = [
            join(", " if i else None, name(variable), f" {percent(share)}")
            for i, (variable, share) in enumerate(row["variables"].items())
        ]
        why = row.get("reason") or evidence(row["evidence"])[0]
        cells = (
            name(row["entity"]),
            str(row["start"]),
            str(row["end"]),
            severity(row["severity"]),
            return_period(row["return_period"]),
            number(row["score"]),
        )
        rows.append(element("tr", (element("td", cell) for cell in (*cells, str(why), join(shares)))))
    head = element("tr", (element("th", title, scope="col") for title in titles))
    return element("table", element("thead", head), element("tbody", rows))


def _strip(part: SeriesResult, result: Result) -> Html:
    """Draw the score of one entity over time as steps, rows in intervals coloured, and the threshold as a line."""
    scores = highest(part.step_scores.astype(np.float64) - part.raised, COLUMNS)
    flagged = highest(part.anomalous.astype(np.float64), COLUMNS) > 0
    unit = max(result.threshold - result.middle, 1e-12)
    height = np.clip((scores - result.middle) / unit, -1.0, 3.0)  # the threshold is at 1
    y = HEIGHT * (1 - (height + 1) / 4)
    x = 1000 * edges(len(part.series), COLUMNS)
    drawn = [
        _steps(x, y, np.isfinite(y) & ~flagged, "currentColor", 0.35),
        _steps(x, y, np.isfinite(y) & flagged, ALARM, 0.9),
        element(
            "path",
            d=f"M0 {HEIGHT / 2}H1000",
            stroke="currentColor",
            stroke_dasharray="6 6",
            vector_effect="non-scaling-stroke",
        ),
    ]
    style = f"display:block;width:100%;height:{HEIGHT}px"
    label = f"Scores of {part.series.entity}"
    svg = element(
        "svg",
        drawn,
        viewBox=f"0 0 1000 {HEIGHT}",
        preserveAspectRatio="none",
        style=style,
        role="img",
        aria_label=label,
    )
    return element("figure", element("figcaption", name(part.series.entity)), svg, style="margin:.5em 0")


def _steps(x: Floats, y: Floats, chosen: Floats, colour: str, opacity: float) -> Html:
    pieces = []
    for start, stop in runs(chosen.astype(bool)):
        tops = "".join(f"V{y[i]:.1f}H{x[i + 1]:.1f}" for i in range(start, stop))
        pieces.append(f"M{x[start]:.1f} {HEIGHT}{tops}V{HEIGHT}Z")
    return element("path", d="".join(pieces), fill=colour, fill_opacity=opacity)


def detector_html(detector: Detector) -> str:
    """Return what a fitted detector is, what it learnt from, and its threshold."""
    data = detector.provenance_["data"]
    above = count(int(detector.labels_.sum()), "training observation", "training observations")
    rows = [
        ("trained on", learnt(detector)),
        ("variables", ", ".join(detector.variables_[:8]) + (", ..." if len(detector.variables_) > 8 else "")),
        ("entities", ", ".join(list(detector.scaler_.entities)[:8]) + (", ..." if data["entities"] > 8 else "")),
        ("contamination", str(detector.contamination_)),
        ("threshold", f"{number(detector.threshold_)}; {above} above it"),
    ]
    return element("div", element("p", element("strong", name(type(detector).__name__)), ", fitted."), facts(rows))


def learnt(detector: Detector) -> str:
    """Return how much data a detector was fitted to."""
    data = detector.provenance_["data"]
    return (
        f"{count(data['observations'], 'observation', 'observations')} of {data['length']} rows, "
        f"{count(data['variables'], 'variable', 'variables')}, {count(data['entities'], 'entity', 'entities')}"
    )
