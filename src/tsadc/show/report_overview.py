"""The overview of the report: each entity's score over time with its intervals, and the true anomalies if known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tsadc.io.calendar import Span
from tsadc.series import Clock, Truth
from tsadc.show.charts import area, drawing, edges, highest, level_line, place, time_axis, time_ticks
from tsadc.show.findings import Finding, Findings, Track
from tsadc.show.html import Html, element, join, name
from tsadc.show.words import Times, count

COLUMNS = 400
MOST_ENTITIES = 60


@dataclass(frozen=True)
class Window:
    """The range of the x axis: `rows` rows of `clock`."""

    clock: Clock
    rows: int

    def share(self, tick: int) -> float:
        return (tick - self.clock.start) / (self.clock.interval * self.rows)


def shared_window(tracks: tuple[Track, ...]) -> Window | None:
    """Return one axis for all entities; None if their clocks differ in kind or they lie too far apart in time."""
    clocks = [track.series.clock for track in tracks]
    if len({(clock.dated, clock.interval) for clock in clocks}) > 1:
        return None
    start, stop = min(clock.start for clock in clocks), max(track.end for track in tracks)
    rows = (stop - start) // clocks[0].interval
    if rows > 3 * max(len(track.series) for track in tracks):
        return None
    return Window(replace(clocks[0], start=start), rows)


def strips(findings: Findings, listed: int) -> Html:
    """Draw one strip per entity: score, threshold, intervals, and the true anomalies if known."""
    chosen = _chosen(findings)
    window = shared_window(findings.tracks)
    rows = [_strip(findings, track, window, listed) for track in chosen]
    if window is not None:
        axis = time_axis(time_ticks(Times(window.clock), 0, window.rows, 9))
        rows.append(element("div", element("div", class_="who"), axis, class_="strip last"))
    hidden = len(findings.tracks) - len(chosen)
    more = f"Only the {len(chosen):,} entities with the highest scores are shown; {hidden:,} more are hidden."
    kind = "strips few" if len(chosen) <= 2 else "strips"
    return join(element("div", rows, class_=kind), element("p", more, class_="note") if hidden else None)


def _chosen(findings: Findings) -> list[Track]:
    tops = [np.nan_to_num(track.score, nan=-np.inf).max(initial=-np.inf) for track in findings.tracks]
    worst = np.argsort(-np.asarray(tops), kind="stable")[:MOST_ENTITIES]
    return [findings.tracks[i] for i in sorted(worst.tolist())]


def _strip(findings: Findings, track: Track, shared: Window | None, listed: int) -> Html:
    window = shared or Window(track.series.clock, len(track.series))
    rows = len(track.series)
    borders, top = edges(rows, COLUMNS), highest(track.score, COLUMNS)
    height = findings.height(top)
    own = place(window.share(track.series.clock.start), window.share(track.end))
    intervals = findings.of(track)
    score = drawing(
        area(borders, np.where(np.isfinite(top), 1.0, np.nan), 0.0, "scored"),
        area(borders, np.minimum(height, 0.5), 0.0, "below"),
        area(borders, height, 0.5, "above"),
        level_line(0.5, "threshold"),
    )
    plot = element(
        "div",
        score,
        (_planned(track, span, rows) for span in track.planned),
        (_mark(finding, rows, listed) for finding in intervals),
        class_="score",
        style=own,
        data_hover="score",
        data_clock=track.times.for_script(0, rows),
        data_wide=-(-rows // COLUMNS),
        data_values=" ".join("-" if np.isnan(value) else f"{value:.4g}" for value in top),
    )
    truth = [_true(track, true, rows) for true in track.truth]
    below = (
        element("div", element("div", truth, class_="truths", style=own), class_="track thin")
        if findings.truth
        else None
    )
    who = element(
        "div", name(track.entity), element("span", count(len(intervals), "interval", "intervals")), class_="who"
    )
    axis = None if shared else time_axis(time_ticks(track.times, 0, rows, 9))
    return element("div", who, element("div", element("div", plot, class_="track"), below, axis), class_="strip")


def _mark(finding: Finding, rows: int, listed: int) -> Html:
    style = place(finding.start / rows, finding.stop / rows)
    if finding.rank > listed:
        return element("i", class_="mark", style=style)
    text = ", ".join([f"No. {finding.rank}: {finding.when}", finding.grade, *list(finding.variables)[:1]])
    return element("a", class_="mark", style=style, href=finding.link, title=text, aria_label=text)


def _planned(track: Track, span: Span, rows: int) -> Html:
    style = place(max(span.start, 0) / rows, min(span.stop, rows) / rows)
    return element("i", class_="planned", style=style, title=track.planned_text(span))


def _true(track: Track, true: Truth, rows: int) -> Html:
    variables = f": {', '.join(true.variables)}" if true.variables else ""
    text = f"True anomaly, {true.kind}{variables}; {track.times.span(true.start, true.stop)}"
    return element("i", style=place(true.start / rows, true.stop / rows), title=text)
