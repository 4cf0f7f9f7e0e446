"""The page of `tsadc refit`: what the old and the new model say about the last days."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tsadc.detectors.refit import DAY, Refit
from tsadc.detectors.result import SeriesResult
from tsadc.show.charts import excess_chart, place, time_axis, time_ticks
from tsadc.show.html import Html, Section, element, facts, join, name, outline, page, tiles
from tsadc.show.words import Times, count, number, percent

COLUMNS = 400
MOST_ENTITIES = 20
EXPLANATION = (
    "Both models score the same observations. Each strip shows the score of one entity over the window, maximum per "
    "pixel column, with the threshold at half the height: the old model above, the new one below. Scores of different "
    "models are comparable only through their thresholds and their ranks."
)
TRAINED_ON = (
    "The new model was trained on these days, too, without the rows that the old one flags. The numbers here are of "
    "its training scores: with an ensemble, each is by a model that has not learnt from the observation; without one, "
    "the new model may flag a little less here than on days to come."
)


def render(refit: Refit, *, title: str, verdict: str, about: dict[str, str]) -> str:
    """Return the page as text."""
    (old, new), (often, now_often) = refit.flagged, refit.alarms_per_day
    compared = int(refit.recent.sum())
    boxes = [
        ("Same verdict", percent(refit.agreement), f"of {compared:,} observations"),
        ("Flagged", f"{new:,}", f"before: {old:,}"),
        ("Alarms per day and entity", number(now_often), f"before: {number(often)}"),
        ("Rank correlation", number(refit.correlation), "of the scores"),
    ]
    days = f"Compared on the last {count(max(1, round(refit.days)), 'day', 'days')}."
    said = element("p", element("strong", verdict), class_="verdict" if refit.objections() else "verdict calm")
    top = join(said, element("p", f"{days} {TRAINED_ON}", class_="worst"), tiles(boxes))
    trained_on = f"{len(refit.detector.decision_scores_):,} observations, {refit.removed:,} flagged rows left out"
    history = [("learnt from", trained_on), ("history per entity", learnt(refit))]
    sections = [
        Section("scores", "Scores", join(element("p", EXPLANATION, class_="lead"), _strips(refit))),
        Section("about", "About this page", facts([*history, *about.items()])),
    ]
    return page(title, outline(title, top, sections))


def _strips(refit: Refit) -> Html:
    rows = []
    for i, series in enumerate(refit.window[:MOST_ENTITIES]):
        for label, result in (("before", refit.old), ("now", refit.new)):
            who = element("div", name(series.entity), f" {label}", class_="who")
            drawn = _strip(result.parts[i], result.threshold, result.middle)
            axis = time_axis(time_ticks(Times(series.clock), 0, len(series), 9)) if result is refit.new else None
            rows.append(element("div", who, element("div", drawn, axis), class_="strip"))
    hidden = len(refit.window) - MOST_ENTITIES
    more = f"{count(hidden, 'entity is', 'entities are')} not shown."
    return join(element("div", rows, class_="strips"), element("p", more, class_="note") if hidden > 0 else None)


def _strip(part: SeriesResult, threshold: float, middle: float) -> Html:
    excess = part.step_scores.astype(np.float64) - part.raised - threshold
    plot = element("div", excess_chart(excess, threshold - middle, COLUMNS), class_="score", style=place(0, 1))
    return element("div", plot, class_="track")


def learnt(refit: Refit) -> str:
    """Return how many observations per entity the old and the new model were trained on, and how much time that is."""
    before, now = (f"{learnt:,.0f} observations ({_days(refit, learnt)})" for learnt in refit.history)
    return f"{now}; before, {before}"


def _days(refit: Refit, observations: float) -> str:
    days = observations * refit.old.length * refit.window[0].clock.interval / DAY
    return f"{days:,.0f} days" if days >= 10 else f"{days:.2g} days"


def span(refit: Refit) -> str:
    """Return the dates of the window."""
    first = min(series.clock.start for series in refit.window)
    last = max(series.clock.start + len(series) * series.clock.interval for series in refit.window)
    return f"{pd.Timestamp(first):%Y-%m-%d %H:%M} to {pd.Timestamp(last):%Y-%m-%d %H:%M} UTC"
