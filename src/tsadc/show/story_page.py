"""The page of `tsadc demo --story`: audit, cleaning and five verdicts, before and after."""

from __future__ import annotations

import numpy as np

from tsadc.bench.story import Story
from tsadc.detectors.audit import LEVEL, Suspect
from tsadc.show.charts import drawing, line, padded_range, place, time_axis, time_ticks
from tsadc.show.html import Html, Section, element, join, name, outline, page, sortable_table, tiles
from tsadc.show.words import Times, count, likely, percent

PICTURES = 3
MOST_ROWS = 12
LEAD = (
    "The plant's history contains anomalies, and the detector is not given their labels. The simulator knows them: it "
    "answers the questions as a colleague would, and counts at the end what was right."
)
AUDIT = (
    "tsadc audit trains one model per fold and lets it judge only what it has not learnt from. "
    "Each interval has a probability of being anomalous."
)
CLEANING = (
    "tsadc clean and tsadc.Decontaminator replace suspected cells by what the other cells lead to expect; the "
    "other cells stay as they are. The line in colour is the cleaned value."
)
VERDICTS = (
    "tsadc review asks about the intervals that teach most. The answers change the weights of the views and the "
    "threshold, without training. What was asked about does not count in the table."
)


def render(story: Story, *, title: str) -> str:
    """Return the page as text."""
    sure = [suspect.probability >= LEVEL for suspect in story.audit.suspects]
    right = int(story.confirmed[sure].sum())
    before, after = (row for _, row in story.verdicts.iterrows())
    boxes = [
        ("Anomalous share of the history", percent(story.audit.share), f"true: {percent(story.true_share)}"),
        ("Suspected intervals", f"{sum(sure)}", f"{right} of them are true anomalies"),
        (
            "AP on new data, cleaned history",
            f"{story.precision['without suspects']:.3f}",
            f"dirty: {story.precision['as it is']:.3f}; truly clean: {story.precision['without true anomalies']:.3f}",
        ),
        (
            f"AP after {count(len(story.questions), 'answer', 'answers')}",
            f"{after['AP']:.3f}",
            f"before: {before['AP']:.3f}",
        ),
    ]
    headline = f"The audit suspects {count(sum(sure), 'interval', 'intervals')} of the history; {right} are anomalous."
    said = element("p", element("strong", headline), class_="verdict")
    top = join(said, element("p", LEAD, class_="worst"), tiles(boxes))
    sections = [
        Section("audit", "1. How dirty is the history?", join(element("p", AUDIT, class_="lead"), _suspects(story))),
        Section("cleaning", "2. Clean it", join(element("p", CLEANING, class_="lead"), _pictures(story))),
        Section("verdicts", "3. Answer five questions", join(element("p", VERDICTS, class_="lead"), _answers(story))),
    ]
    return page(title, outline(title, top, sections))


def _suspects(story: Story) -> Html:
    rows = [
        _row(
            (name(suspect.entity), "time"),
            (Times(suspect.clock).span(suspect.interval.start, suspect.interval.stop), "time"),
            (likely(suspect.probability).removeprefix("probability "), "num"),
            (suspect.interval.why(suspect.clock)[1], "reason"),
            ("anomalous" if true else "normal", None),
        )
        for suspect, true in zip(story.audit.suspects[:MOST_ROWS], story.confirmed.tolist(), strict=False)
    ]
    heads = [("entity", False), ("when", False), ("probability", True), ("why", False), ("the simulator says", False)]
    more = len(story.audit.suspects) - len(rows)
    note = element("p", f"{count(more, 'further interval is', 'further intervals are')} not shown.", class_="note")
    return join(sortable_table(heads, rows), note if more > 0 else None)


def _pictures(story: Story) -> Html:
    chosen = [suspect for suspect in story.audit.suspects if suspect.probability >= LEVEL][:PICTURES]
    return element("div", [_picture(story, suspect) for suspect in chosen], class_="plots")


def _picture(story: Story, suspect: Suspect) -> Html:
    series, cleaned = story.history[suspect.number], story.cleaned[suspect.number]
    duration = suspect.interval.stop - suspect.interval.start
    first, stop = max(suspect.interval.start - duration, 0), min(suspect.interval.stop + duration, len(series))
    column = series.names.index(suspect.blamed[0])
    measured = np.asarray(series.values[first:stop, column], dtype=np.float64)
    expected = np.asarray(cleaned.values[first:stop, column], dtype=np.float64)
    expected = np.where(expected == measured, np.nan, expected)  # only what was changed
    low, high = padded_range([*measured[np.isfinite(measured)], *expected[np.isfinite(expected)]])
    x = (np.arange(stop - first) + 0.5) / (stop - first)
    shapes = [
        line(x, (values - low) / (high - low), kind)
        for values, kind in ((measured, "measured"), (expected, "expected"))
    ]
    inside = (suspect.interval.start - first) / (stop - first), (suspect.interval.stop - first) / (stop - first)
    shade = element("i", class_="shade", style=place(*inside))
    axis = element("div", time_axis(time_ticks(Times(series.clock), first, stop)), class_="under")
    caption = element("figcaption", name(series.names[column]), " of ", name(series.entity))
    return join(element("figure", caption, element("div"), element("div", shade, drawing(shapes), class_="plot")), axis)


def _answers(story: Story) -> Html:
    answers = [
        _row(
            (name(asked.entity), "time"),
            (Times(asked.clock).span(asked.start, asked.stop), "time"),
            (asked.reason, "reason"),
            ("a true anomaly" if asked.true else "a false alarm", "time"),
        )
        for asked in story.questions
    ]
    heads = [("entity", False), ("when", False), ("why", False), ("answer", False)]
    measured = [
        _row(
            (f"{row['answers']} the answers", None),
            (f"{row['AP']:.3f}", "num"),
            (str(row["alarms"]), "num"),
            (str(row["false alarms"]), "num"),
            (f"{row['anomalies found']} of {row['anomalies']}", "num"),
        )
        for _, row in story.verdicts.iterrows()
    ]
    columns = [("", False), ("AP", True), ("alarms", True), ("false alarms", True), ("anomalies found", True)]
    return join(sortable_table(heads, answers), sortable_table(columns, measured))


def _row(*cells: tuple[Html | str, str | None]) -> Html:
    """Return a row of a table, of cells with their style."""
    return element("tr", [element("td", cell, class_=style) for cell, style in cells])
