"""Which variables: how often each is to blame, and when it was out of the ordinary."""

from __future__ import annotations

import numpy as np

from tsadc.show.axes import time_ticks
from tsadc.show.charts import drawing, edges, heat, highest, place, time_axis
from tsadc.show.findings import Findings, Track
from tsadc.show.markup import Html, element, join, name
from tsadc.show.words import count, percent

COLUMNS = 160
MOST_VARIABLES = 60
MOST_ENTITIES = 24
# Shades begin above these multiples of the contribution that 1 in 1000 ordinary values exceeds.
LEVELS = (1.0, 1.5, 2.0, 3.0, 5.0)
RANKING = (
    ("Variable", None),
    ("Main cause", "num"),
    ("Named", "num"),
    ("Mean share", "num"),
    ("Named, dark where the main cause", "wide"),
)


def ranking(findings: Findings) -> Html | None:
    """Every variable that was named, the most often blamed first."""
    named: dict[str, list[float]] = {}
    for finding in findings.found:
        for variable, share in finding.shares.items():
            named.setdefault(variable, []).append(share)
    if not named:
        return None
    main = findings.main_causes()
    order = sorted(named, key=lambda variable: (-main.get(variable, 0), -sum(named[variable])))
    most = max(len(shares) for shares in named.values())
    rows = [_ranked(variable, main.get(variable, 0), named[variable], most) for variable in order[:MOST_VARIABLES]]
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
    """Variables by time, one map per entity; the script shows one at a time."""
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
    more = f"The maps of {count(hidden, 'further entity', 'further entities')} are left out."
    legend = element("p", "Contribution: ", [_step(i) for i in range(len(LEVELS))], class_="legend")
    return join(
        choice if len(tracks) > 1 else None, legend, maps, element("p", more, class_="note") if hidden else None
    )


def _step(position: int) -> Html:
    text = f"{LEVELS[position]:g}\N{MULTIPLICATION SIGN}"
    return element("span", element("i", class_=f"swatch level-{position + 1}"), text)


def _chosen(findings: Findings) -> list[Track]:
    """The entities in order of their worst interval, then those without."""
    order = {id(track): position for position, track in enumerate(findings.tracks)}
    worst = {id(finding.track): -finding.score for finding in reversed(findings.found)}
    ranked = sorted(findings.tracks, key=lambda track: (worst.get(id(track), np.inf), order[id(track)]))
    return ranked[:MOST_ENTITIES]


def _unit(findings: Findings) -> float:
    """The contribution that 1 in 1000 values outside the intervals exceeds."""
    ordinary = [track.contributions[~track.flagged] for track in findings.tracks]
    values = np.concatenate([part[np.isfinite(part)] for part in ordinary])
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
    """All variables, or the most blamed and then the loudest, in the order of the data."""
    names = track.series.names
    if len(names) <= MOST_VARIABLES:
        return list(range(len(names)))
    causes = findings.main_causes()
    peaks = np.nan_to_num(track.contributions, nan=0.0).max(axis=0)
    order = sorted(range(len(names)), key=lambda k: (-causes.get(names[k], 0), -peaks[k]))
    return sorted(order[:MOST_VARIABLES])
