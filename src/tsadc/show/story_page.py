"""The page of `tsadc demo --story`: audit, cleaning and five verdicts, before and after."""

from __future__ import annotations

import numpy as np

from tsadc.bench.story import Story
from tsadc.detectors.audit import LEVEL, Suspect
from tsadc.show.charts import drawing, line, padded_range, place, time_axis, time_ticks
from tsadc.show.html import Html, Section, element, join, name, outline, page, sortable_table, tiles
from tsadc.show.words import Times, count, percent

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
    sure = [found.probability >= LEVEL for found in story.audit.suspects]
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
            name(found.entity),
            Times(found.clock).span(found.interval.start, found.interval.stop),
            percent(found.probability),
            found.interval.why(found.clock)[1],
            "anomalous" if true else "normal",
        )
        for found, true in zip(story.audit.suspects[:MOST_ROWS], story.confirmed.tolist(), strict=False)
    ]
    heads = [("entity", False), ("when", False), ("probability", True), ("why", False), ("the simulator says", False)]
    more = len(story.audit.suspects) - len(rows)
    note = element("p", f"{count(more, 'further interval is', 'further intervals are')} not shown.", class_="note")
    return join(sortable_table(heads, rows), note if more > 0 else None)


def _pictures(story: Story) -> Html:
    chosen = [found for found in story.audit.suspects if found.probability >= LEVEL][:PICTURES]
    return element("div", [_picture(story, found) for found in chosen], class_="plots")


def _picture(story: Story, found: Suspect) -> Html:
    series, cleaned = story.history[found.number], story.cleaned[found.number]
    duration = found.interval.stop - found.interval.start
    first, stop = max(found.interval.start - duration, 0), min(found.interval.stop + duration, len(series))
    column = series.names.index(found.blamed[0])
    measured = np.asarray(series.values[first:stop, column], dtype=np.float64)
    expected = np.asarray(cleaned.values[first:stop, column], dtype=np.float64)
    expected = np.where(expected == measured, np.nan, expected)  # only what was changed
    low, high = padded_range([*measured[np.isfinite(measured)], *expected[np.isfinite(expected)]])
    x = (np.arange(stop - first) + 0.5) / (stop - first)
    shapes = [
        line(x, (own - low) / (high - low), kind) for own, kind in ((measured, "measured"), (expected, "expected"))
    ]
    inside = (found.interval.start - first) / (stop - first), (found.interval.stop - first) / (stop - first)
    shade = element("i", class_="shade", style=place(*inside))
    axis = element("div", time_axis(time_ticks(Times(series.clock), first, stop)), class_="under")
    caption = element("figcaption", name(series.names[column]), " of ", name(series.entity))
    return join(element("figure", caption, element("div"), element("div", shade, drawing(shapes), class_="plot")), axis)


def _answers(story: Story) -> Html:
    asked = [
        _row(
            name(own.entity),
            f"{own.start} to {own.end}",
            own.reason,
            "a true anomaly" if own.true else "a false alarm",
        )
        for own in story.questions
    ]
    heads = [("entity", False), ("when", False), ("why", False), ("answer", False)]
    found = [
        _row(
            f"{row['answers']} the answers",
            f"{row['AP']:.3f}",
            str(row["alarms"]),
            str(row["false alarms"]),
            f"{row['anomalies found']} of {row['anomalies']}",
            numeric_from=1,
        )
        for _, row in story.verdicts.iterrows()
    ]
    columns = [("", False), ("AP", True), ("alarms", True), ("false alarms", True), ("anomalies found", True)]
    return join(sortable_table(heads, asked), sortable_table(columns, found))


def _row(*cells: Html | str, numeric_from: int | None = None) -> Html:
    return element(
        "tr",
        [
            element("td", cell, class_="num" if numeric_from is not None and i >= numeric_from else None)
            for i, cell in enumerate(cells)
        ],
    )
