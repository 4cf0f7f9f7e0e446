"""The top of the page: the verdict in words, the figures that matter, and the score of every entity over time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tsadc.report.axes import time_ticks
from tsadc.report.charts import area, drawing, edges, highest, level_line, place, time_axis
from tsadc.report.findings import Finding, Findings, Track
from tsadc.report.markup import Html, element, join, name
from tsadc.report.words import Times, count, number, percent
from tsadc.series import Clock, Truth

COLUMNS = 400
MOST_ENTITIES = 60
BLAMED = 3


def verdict(findings: Findings) -> Html:
    """What was found, as one would say it."""
    where = _where(findings)
    if not findings.scored_rows:
        return element("p", "Nothing could be scored", where, ".", class_="verdict calm")
    if not findings.found:
        return join(
            element("p", element("strong", "Nothing unusual"), where, ".", class_="verdict calm"),
            element("p", *_highest(findings), class_="worst"),
        )
    worst = findings.found[0]
    return join(
        element("p", element("strong", count(len(findings.found), "unusual interval", "unusual intervals")), where, ".")
        .replace("<p>", '<p class="verdict">')
        and element(
            "p",
            element("strong", count(len(findings.found), "unusual interval", "unusual intervals")),
            where,
            ".",
            class_="verdict",
        ),
        element("p", "The worst: ", element("a", *_worst(worst), href=anchor(worst)), ".", class_="worst"),
    )


def _where(findings: Findings) -> Html:
    total = len(findings.tracks)
    if total == 1:
        among = Html("") if findings.tracks[0].entity == "series" else join(" in ", name(findings.tracks[0].entity))
    elif findings.found:
        among = join(f" in {findings.affected:,} of {total:,} entities")
    else:
        among = join(f" in {total:,} entities")
    return join(among, _period(findings))


def _period(findings: Findings) -> str:
    clocks = [track.series.clock for track in findings.tracks]
    if len({clock.dated for clock in clocks}) > 1:
        return ""
    first = min(findings.tracks, key=lambda track: track.series.clock.start)
    last = max(findings.tracks, key=lambda track: _end(track))
    return f" between {first.times.moment(0)} and {last.times.moment(len(last.series))}"


def _end(track: Track) -> int:
    return track.series.clock.start + len(track.series) * track.series.clock.interval


def _worst(worst: Finding) -> list[str]:
    who = [] if worst.track.entity == "series" else [name(worst.track.entity), ", "]
    blamed = list(worst.shares.items())[:BLAMED]
    causes = [join(", " if i else "", name(variable), f" ({percent(share)})") for i, (variable, share) in enumerate(blamed)]
    return [*who, worst.when, *([", mainly ", *causes] if causes else [])]


def _highest(findings: Findings) -> list[str]:
    tops = [np.nanmax(track.score) if np.isfinite(track.score).any() else -np.inf for track in findings.tracks]
    track = findings.tracks[int(np.argmax(tops))]
    row = int(np.nanargmax(track.score))
    return [
        f"No score rose above the threshold of {number(findings.threshold)}. The highest was {number(max(tops))}: ",
        *([] if track.entity == "series" else [name(track.entity), ", "]),
        f"{track.times.moment(row)}.",
    ]


def tiles(findings: Findings) -> Html:
    """Four figures: how many, how much, where, what."""
    causes = list(findings.main_causes().items())[:BLAMED]
    blamed = [
        element("li", name(variable), element("span", f"{times:,}\N{MULTIPLICATION SIGN}", class_="figure"))
        for variable, times in causes
    ]
    boxes = [
        ("Intervals", f"{len(findings.found):,}", _longest(findings)),
        ("Time flagged", percent(findings.flagged_share), f"of {findings.scored_rows:,} scored rows"),
        ("Entities affected", f"{findings.affected:,}", f"of {len(findings.tracks):,}"),
    ]
    simple = [
        element(
            "div",
            element("dt", label),
            element("dd", value, class_="big"),
            element("dd", note, class_="note"),
            class_="tile",
        )
        for label, value, note in boxes
    ]
    most = element("dd", element("ol", blamed) if blamed else DASHED, class_="list")
    return element("dl", simple, element("div", element("dt", "Most often to blame"), most, class_="tile wide"), class_="tiles")


DASHED = "no variable"


def _longest(findings: Findings) -> str:
    if not findings.found:
        return "above the threshold"
    longest = max(findings.found, key=lambda finding: (finding.stop - finding.start) * finding.track.series.clock.interval)
    return f"the longest {longest.duration}"


def anchor(finding: Finding) -> str:
    """Where on the page an interval is told; the page moves the link to the table if there is no card."""
    return f"#interval-{finding.rank}"


@dataclass(frozen=True)
class Window:
    """What the x axis covers, in rows of its clock from 0 on."""

    clock: Clock
    rows: int

    def share(self, tick: int) -> float:
        return (tick - self.clock.start) / (self.clock.interval * self.rows)


def shared_window(tracks: tuple[Track, ...]) -> Window | None:
    """One axis for all, unless they are of two kinds or lie too far apart in time to be seen together."""
    clocks = [track.series.clock for track in tracks]
    if len({(clock.dated, clock.interval) for clock in clocks}) > 1:
        return None
    start, stop = min(clock.start for clock in clocks), max(_end(track) for track in tracks)
    rows = (stop - start) // clocks[0].interval
    if rows > 3 * max(len(track.series) for track in tracks):
        return None
    return Window(replace(clocks[0], start=start), rows)


def strips(findings: Findings, listed: int) -> Html:
    """One row per entity: the score against the threshold, the intervals, and the truth where it is known."""
    chosen = _chosen(findings)
    window = shared_window(findings.tracks)
    rows = [_strip(findings, track, window, listed) for track in chosen]
    if window is not None:
        axis = time_axis(time_ticks(Times(window.clock), 0, window.rows, 7))
        rows.append(element("div", element("div", class_="who"), axis, class_="strip last"))
    hidden = len(findings.tracks) - len(chosen)
    more = f"The {len(chosen):,} entities with the highest scores are shown; {hidden:,} others are not."
    return join(element("div", rows, class_="strips"), element("p", more, class_="note") if hidden else None)


def _chosen(findings: Findings) -> list[Track]:
    tops = [np.nan_to_num(track.score, nan=-np.inf).max(initial=-np.inf) for track in findings.tracks]
    worst = np.argsort(-np.asarray(tops), kind="stable")[:MOST_ENTITIES]
    return [findings.tracks[i] for i in sorted(worst.tolist())]


def _strip(findings: Findings, track: Track, shared: Window | None, listed: int) -> Html:
    window = shared or Window(track.series.clock, len(track.series))
    rows = len(track.series)
    borders, top = edges(rows, COLUMNS), highest(track.score, COLUMNS)
    height = findings.height(top)
    own = place(window.share(track.series.clock.start), window.share(_end(track)))
    found = findings.of(track)
    score = drawing(
        area(borders, np.where(np.isfinite(top), 1.0, np.nan), 0.0, "scored"),
        area(borders, np.minimum(height, 0.5), 0.0, "below"),
        area(borders, height, 0.5, "above"),
        level_line(0.5, "threshold"),
    )
    plot = element(
        "div",
        score,
        (_mark(finding, rows, listed) for finding in found),
        class_="score",
        style=own,
        data_hover="score",
        data_clock=track.times.for_script(0, rows),
        data_values=" ".join("" if np.isnan(value) else f"{value:.4g}" for value in top).replace("  ", " - "),
    )
    truth = [_true(track, true, rows) for true in track.truth]
    below = element("div", element("div", truth, class_="truths", style=own), class_="track thin") if findings.truth else None
    who = element("div", name(track.entity), element("span", count(len(found), "interval", "intervals")), class_="who")
    axis = None if shared else time_axis(time_ticks(track.times, 0, rows, 7))
    return element("div", who, element("div", element("div", plot, class_="track"), below, axis), class_="strip")


def _mark(finding: Finding, rows: int, listed: int) -> Html:
    style = place(finding.start / rows, finding.stop / rows)
    if finding.rank > listed:
        return element("i", class_="mark", style=style)
    cause = next(iter(finding.shares), "")
    text = f"No. {finding.rank}: {finding.when}, severity {finding.severity:.2f}" + (f", {cause}" if cause else "")
    return element("a", class_="mark", style=style, href=anchor(finding), title=text, aria_label=text)


def _true(track: Track, true: Truth, rows: int) -> Html:
    blamed = f": {', '.join(true.variables)}" if true.variables else ""
    text = f"True anomaly, {true.kind}{blamed}; {track.times.span(true.start, true.stop)}"
    return element("i", style=place(true.start / rows, true.stop / rows), title=text)
