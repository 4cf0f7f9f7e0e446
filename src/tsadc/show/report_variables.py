"""The variables of the report: a ranking by how often each is listed, and heat maps of contributions over time."""

from __future__ import annotations

import numpy as np

from tsadc.show.charts import drawing, edges, heat, highest, place, time_axis, time_ticks
from tsadc.show.findings import Findings, Track
from tsadc.show.html import Html, element, join, name
from tsadc.show.words import count, percent

COLUMNS = 160
MOST_VARIABLES = 60
MOST_ENTITIES = 24
# Shades begin above these multiples of the 99.9th percentile of contributions outside the intervals.
LEVELS = (1.0, 1.5, 2.0, 3.0, 5.0)
RANKING = (
    ("Variable", None),
    ("Main variable", "num"),
    ("Listed", "num"),
    ("Mean contribution", "num"),
    ("Intervals (dark: main variable)", "wide"),
)


def ranking(findings: Findings) -> Html | None:
    """List the variables of all intervals, the most frequent main variable first."""
    listed: dict[str, list[float]] = {}
    for finding in findings.intervals:
        for variable, share in finding.variables.items():
            listed.setdefault(variable, []).append(share)
    if not listed:
        return None
    main = findings.main_variables()
    order = sorted(listed, key=lambda variable: (-main.get(variable, 0), -sum(listed[variable])))
    most = max(len(shares) for shares in listed.values())
    rows = [_ranked(variable, main.get(variable, 0), listed[variable], most) for variable in order[:MOST_VARIABLES]]
    head = [element("th", text, scope="col", class_=kind) for text, kind in RANKING]
    return element(
        "div",
        element("table", element("thead", element("tr", head)), element("tbody", rows), class_="ranking"),
        class_="scroll",
    )


def _ranked(variable: str, main: int, shares: list[float], most: int) -> Html:
    bar = element(
        "span",
        element("i", class_="light", style=f"width:{100 * len(shares) / most:.4g}%"),
        element("i", style=f"width:{100 * main / most:.4g}%"),
        class_="bar two",
        aria_hidden="true",
    )
    figures = [f"{main:,}", f"{len(shares):,}", percent(float(np.mean(shares)))]
    cells = [element("td", text, class_="num") for text in figures]
    return element("tr", element("th", name(variable), scope="row"), cells, element("td", bar, class_="wide"))


def heat_maps(findings: Findings) -> Html:
    """Draw contributions by variable and time, one map per entity; the script shows one map at a time."""
    tracks = _chosen(findings)
    unit = _unit(findings)
    choice = element(
        "label",
        "Entity ",
        element("select", (element("option", track.entity, value=f"map-{i}") for i, track in enumerate(tracks))),
        class_="choice",
        hidden=True,
    )
    maps = [_heat_map(findings, track, unit, f"map-{i}") for i, track in enumerate(tracks)]
    hidden = len(findings.tracks) - len(tracks)
    more = f"The maps of {count(hidden, 'more entity', 'more entities')} are not shown."
    legend = element("p", "Contribution: ", [_step(i) for i in range(len(LEVELS))], class_="legend")
    return join(
        choice if len(tracks) > 1 else None, legend, maps, element("p", more, class_="note") if hidden else None
    )


def _step(position: int) -> Html:
    text = f"{LEVELS[position]:g}\N{MULTIPLICATION SIGN}"
    return element("span", element("i", class_=f"swatch level-{position + 1}"), text)


def _chosen(findings: Findings) -> list[Track]:
    """Return the entities in the order of their worst intervals, then those without intervals."""
    order = {id(track): position for position, track in enumerate(findings.tracks)}
    worst = {id(finding.track): -finding.score for finding in reversed(findings.intervals)}
    ranked = sorted(findings.tracks, key=lambda track: (worst.get(id(track), np.inf), order[id(track)]))
    return ranked[:MOST_ENTITIES]


def _unit(findings: Findings) -> float:
    """Return the 99.9th percentile of the contributions outside the intervals."""
    outside = [track.contributions[~track.flagged] for track in findings.tracks]
    values = np.concatenate([part[np.isfinite(part)] for part in outside])
    return float(np.quantile(values, 0.999)) if len(values) else 0.0


def _heat_map(findings: Findings, track: Track, unit: float, key: str) -> Html:
    shown = _shown(findings, track)
    top = highest(track.contributions, COLUMNS)[:, shown].T
    limits = np.asarray(LEVELS) * (unit if unit > 0 else 1.0)
    levels = np.where(np.isfinite(top), np.searchsorted(limits, np.nan_to_num(top)), 0)
    rows = len(track.series)
    labels = [element("span", name(track.series.names[k])) for k in shown]
    marks = [
        element("i", class_="mark", style=place(finding.start / rows, finding.stop / rows))
        for finding in findings.of(track)
    ]
    size = f"height:{16 * len(shown)}px"
    plot = element(
        "div",
        drawing(heat(levels, edges(rows, COLUMNS), len(LEVELS)), height=max(len(shown), 1), style=size),
        class_="cells",
        data_hover="cells",
        data_clock=track.times.for_script(0, rows),
    )
    left = len(track.series.names) - len(shown)
    caption = join(name(track.entity), f" ({len(shown)} of {len(track.series.names)} variables)" if left else None)
    return element(
        "figure",
        element("figcaption", caption),
        element("div", labels, class_="labels"),
        element("div", element("div", marks, class_="marks"), plot, time_axis(time_ticks(track.times, 0, rows))),
        class_="map",
        id=key,
    )


def _shown(findings: Findings, track: Track) -> list[int]:
    """Choose all variables or, if there are too many, the main variables and those with the highest peaks."""
    names = track.series.names
    if len(names) <= MOST_VARIABLES:
        return list(range(len(names)))
    main = findings.main_variables()
    peaks = np.nan_to_num(track.contributions, nan=0.0).max(axis=0)
    order = sorted(range(len(names)), key=lambda k: (-main.get(names[k], 0), -peaks[k]))
    return sorted(order[:MOST_VARIABLES])
