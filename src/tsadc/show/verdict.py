"""The top of the page: the verdict in words, and the figures that matter."""

from __future__ import annotations

import numpy as np

from tsadc.show.findings import Finding, Findings, Track
from tsadc.show.markup import Html, element, join, name
from tsadc.show.words import count, number, percent

BLAMED = 3


def verdict(findings: Findings) -> Html:
    """What was found, as one would say it."""
    where = _where(findings)
    if not findings.scored_rows:
        return element("p", element("strong", "Nothing could be scored"), where, ".", class_="verdict")
    if not findings.found:
        return join(
            element("p", element("strong", "Nothing unusual"), where, ".", class_="verdict calm"),
            element("p", _highest(findings), class_="worst"),
        )
    amount = count(len(findings.found), "unusual interval", "unusual intervals")
    worst = findings.found[0]
    return join(
        element("p", element("strong", amount), where, ".", class_="verdict"),
        element("p", "The worst: ", element("a", _worst(worst), href=worst.link), ".", class_="worst"),
    )


def tiles(findings: Findings) -> Html:
    """Four figures: how many, how much, where, what."""
    boxes = [
        ("Intervals", f"{len(findings.found):,}", _longest(findings)),
        ("Time flagged", percent(findings.flagged_share), f"of {findings.scored_rows:,} scored rows"),
        ("Entities affected", f"{findings.affected:,}", f"of {len(findings.tracks):,}"),
    ]
    plain = [
        element(
            "div",
            element("dt", label),
            element("dd", value, class_="big"),
            element("dd", note, class_="note"),
            class_="tile",
        )
        for label, value, note in boxes
    ]
    blamed = [
        element("li", name(variable), element("span", f"{times:,}\N{MULTIPLICATION SIGN}", class_="figure"))
        for variable, times in list(findings.main_causes().items())[:BLAMED]
    ]
    causes = element("dd", element("ol", blamed) if blamed else "no variable")
    return element(
        "dl", plain, element("div", element("dt", "Most often to blame"), causes, class_="tile wide"), class_="tiles"
    )


def _where(findings: Findings) -> Html:
    total = len(findings.tracks)
    if total == 1:
        among = _of(findings.tracks[0], " in ", "")
    elif 0 < findings.affected < total:
        among = join(f" in {findings.affected:,} of {total:,} entities")
    else:
        among = join(" in both entities" if total == 2 else f" in all {total:,} entities")
    return join(among, _period(findings))


def _period(findings: Findings) -> str:
    if len({track.series.clock.dated for track in findings.tracks}) > 1:
        return ""
    first = min(findings.tracks, key=lambda track: track.series.clock.start)
    last = max(findings.tracks, key=lambda track: track.end)
    return f" between {first.times.moment(0, weekday=False)} and {last.times.moment(len(last.series), weekday=False)}"


def _worst(worst: Finding) -> Html:
    causes = [
        join(", " if i else ", mainly ", name(variable), f" ({percent(share)})")
        for i, (variable, share) in enumerate(list(worst.shares.items())[:BLAMED])
    ]
    return join(_of(worst.track, "", ", "), worst.when, causes)


def _highest(findings: Findings) -> Html:
    tops = [np.nan_to_num(track.score, nan=-np.inf).max(initial=-np.inf) for track in findings.tracks]
    track = findings.tracks[int(np.argmax(tops))]
    return join(
        f"No score rose above the threshold of {number(findings.threshold)}. The highest was {number(max(tops))}: ",
        _of(track, "", ", "),
        f"{track.times.moment(int(np.nanargmax(track.score)))}.",
    )


def _of(track: Track, before: str, after: str) -> Html:
    """The entity's name; a lone series that nobody named goes without."""
    return Html("") if track.entity == "series" else join(before, name(track.entity), after)


def _longest(findings: Findings) -> str:
    if not findings.found:
        return "above the threshold"
    longest = max(findings.found, key=lambda found: (found.stop - found.start) * found.track.series.clock.interval)
    return f"the longest {longest.duration}"
