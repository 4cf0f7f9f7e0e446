"""The cards of the report, one per interval: time, severity, reason, plots of the main variables, and similar past
episodes."""

from __future__ import annotations

import numpy as np

from tsadc.detectors.episodes import Similar
from tsadc.series import Floats
from tsadc.show.charts import (
    between,
    drawing,
    envelope,
    level_line,
    line,
    place,
    tick_labels,
    time_axis,
    time_ticks,
    value_ticks,
)
from tsadc.show.findings import Finding, Findings
from tsadc.show.html import Html, element, join, name
from tsadc.show.words import Times, number, percent, return_period, severity, severity_word, whole_percent

MOST = 30
OPEN = 8  # cards shown at once; the others unfold
PLOTS = 3
COLUMNS = 180
MAX_DRAWN = 1e300


def cards(findings: Findings) -> Html:
    """Draw the `MOST` worst intervals."""
    shown = [_card(finding) for finding in findings.intervals[:MOST]]
    rest = shown[OPEN:]
    fold = element("summary", f"{len(rest):,} more")
    return join(shown[:OPEN], element("details", fold, rest, class_="more") if rest else None)


def _card(finding: Finding) -> Html:
    title, reason = finding.why
    used = "review.csv" if finding.suspect else "`tsadc label`"
    head = element(
        "header",
        element("span", f"{finding.rank}", class_="rank"),
        element("h3", name(finding.track.entity), element("span", finding.when)),
        element(
            "span",
            element(
                "code",
                finding.id,
                title=f"the name of this interval, for {used}",
            ),
            finding.duration,
            class_="duration",
        ),
        _severity(finding),
    )
    why = element(
        "div",
        element("h4", title),
        element("p", reason) if reason else None,
        _contributions(finding),
        _truth(finding),
        class_="why",
    )
    body = element("div", why, _plots(finding), class_="body")
    return element("article", head, body, _similar(finding), class_="card", id=finding.key)


def _severity(finding: Finding) -> Html:
    word, often, width = severity_word(finding.severity), return_period(finding.period), finding.severity
    text = f"{word}, {severity(finding.severity)}" if finding.severity >= 1 else word
    title = f"severity {text}"
    if finding.probability is not None:
        text, width = finding.grade, 100 * finding.probability
        title = text
    bar = element("span", element("i", style=f"width:{width:.4g}%"), class_="bar", aria_hidden="true")
    title = f"{title}; score {number(finding.score)}; a score like this: {often} of normal operation"
    return element("span", bar, text, element("span", often, class_="often"), class_="severity", title=title)


def _contributions(finding: Finding) -> Html:
    rows = [
        element(
            "li",
            element("span", name(variable), class_="label"),
            element("span", percent(share), class_="figure"),
            element("span", element("i", style=f"width:{100 * share:.4g}%"), class_="bar", aria_hidden="true"),
        )
        for variable, share in finding.variables.items()
    ]
    return element("ol", rows, class_="contributions")


def _truth(finding: Finding) -> Html | None:
    met = finding.truth
    if not met:
        return None
    kinds = [
        join("; " if i else "", true.kind, f" ({', '.join(true.variables)})" if true.variables else "")
        for i, true in enumerate(met)
    ]
    return element("p", "True anomaly: ", kinds, class_="true")


def _plots(finding: Finding) -> Html:
    track = finding.track
    duration = finding.stop - finding.start
    around = max(track.length // 2, min(duration, track.length))
    first, stop = max(finding.start - around, 0), min(finding.stop + around, len(track.series))
    variables = [variable for variable in finding.variables if variable in track.series.names][:PLOTS]
    plots = [_plot(finding, track.series.names.index(variable), first, stop) for variable in variables]
    axis = element("div", time_axis(time_ticks(track.times, first, stop)), class_="under")
    return element("div", plots, axis if plots else None, class_="plots")


def _plot(finding: Finding, column: int, first: int, stop: int) -> Html:
    track = finding.track
    measured = _drawable(track.series.values[first:stop, column])
    expected = None
    if track.expected is not None:
        # A model also fills in values that were never measured. They would look like jumps of the line.
        filled = _drawable(track.expected[first:stop, column])
        expected = np.where(np.isfinite(measured), filled, np.nan)
    band = None
    if track.usual is not None:
        lower, upper = (_drawable(limit[:, column]) for limit in track.usual.band(first, stop))
        band = lower, upper
    low, high = _range(measured, expected, band)
    rows = stop - first
    ticks = value_ticks(low, high, 3)
    labels = [
        element("span", text, style=f"bottom:{100 * (value - low) / (high - low):.4g}%")
        for value, text in zip(ticks, tick_labels(ticks), strict=True)
    ]
    shapes = [level_line((value - low) / (high - low), "grid") for value in ticks]
    if band is not None:
        chosen = envelope(band[0], COLUMNS)
        bottom, top = ((limit[chosen] - low) / (high - low) for limit in band)
        shapes.insert(0, between((chosen + 0.5) / rows, bottom, top, "usual"))
    for values, kind in ((expected, "expected"), (measured, "measured")):
        if values is not None:
            chosen = envelope(values, COLUMNS)
            shapes.append(line((chosen + 0.5) / rows, (values[chosen] - low) / (high - low), kind))
    shade = element("i", class_="shade", style=place((finding.start - first) / rows, (finding.stop - first) / rows))
    planned = [
        element(
            "i",
            class_="planned",
            style=place((max(span.start, first) - first) / rows, (min(span.stop, stop) - first) / rows),
            title=track.planned_text(span),
        )
        for span in track.planned
        if column in span.columns and span.start < stop and span.stop > first
    ]
    return element(
        "figure",
        element("figcaption", name(track.series.names[column])),
        element("div", labels, class_="values", aria_hidden="true"),
        element(
            "div",
            planned,
            shade,
            drawing(shapes),
            class_="plot",
            data_hover="values",
            data_clock=track.times.for_script(first, stop),
            data_low=f"{low:.9g}",
            data_high=f"{high:.9g}",
        ),
    )


def _similar(finding: Finding) -> Html | None:
    """Draw the past episodes that resemble the interval; None if the model knows of no past."""
    if finding.similar is None:
        return None
    if not finding.similar:
        return element("p", "Nothing similar in the history, or in this entity before.", class_="similar")
    figures = [_episode(finding, similar) for similar in finding.similar]
    return element("div", element("h4", "Similar before"), figures, class_="similar")


def _episode(finding: Finding, similar: Similar) -> Html:
    episode, picture = similar.episode, similar.episode.picture
    times = Times(episode.clock)
    entity = join(name(episode.entity), ", ") if episode.entity != finding.track.entity else None
    where = "in the history" if similar.origin == "history" else "in this data"
    facts = f"{whole_percent(similar.similarity)} similar, {times.duration(episode.rows)}, {where}"
    # The variable that is to blame now, too, shows the likeness best.
    shown = next((variable for variable in finding.variables if variable in picture.names), None)
    k = picture.names.index(shown) if shown else 0
    values = _drawable(picture.values[k])
    low, high = _range(values, None, None)
    drawn = line((np.arange(len(values)) + 0.5) / len(values), (values - low) / (high - low), "measured")
    shade = element("i", class_="shade", style=place(picture.start, picture.stop))
    caption = element("figcaption", entity, times.span(0, episode.rows), element("span", facts))
    return element(
        "figure",
        caption,
        element("div", shade, drawing(drawn), class_="plot"),
        element("p", name(picture.names[k])),
    )


def _drawable(values: Floats) -> Floats:
    """Limit the values so that the distance between any two is a number."""
    return np.clip(np.asarray(values, dtype=np.float64), -MAX_DRAWN, MAX_DRAWN)


def _range(measured: Floats, expected: Floats | None, band: tuple[Floats, Floats] | None) -> tuple[float, float]:
    """Return the range of the y axis: all values, the band and a margin."""
    values = np.concatenate([measured, *([] if expected is None else [expected]), *(band or ())])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    margin = 0.06 * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else max(0.05 * abs(high), 0.5)
    return low - margin, high + margin
