"""The sentences that explain the page to its reader."""

from __future__ import annotations

from tsadc.show.markup import Html, element, join

OVERVIEW = (
    "The score of every entity over time, highest value per column. The line is the threshold; the farther above "
    "it, the more the height is compressed. Hatched parts were not scored. Marked intervals lead to their cards."
)
VARIABLES = (
    "How often each variable was named and was the main cause, and when it contributed. The maps show the highest "
    "contribution per column, as a multiple of what 1 in 1,000 values exceeds outside the intervals."
)
LEGEND = (("measured", "measured"), ("expected", "expected"), ("shaded", "the interval"))
GUIDE = (
    ("Score", "How far a moment is from what the detector learnt to be normal; higher is more unusual."),
    (
        "Threshold",
        "The score from which a moment counts as unusual. It was set on the scores of unlabelled history; no labels "
        "were used. What is said of normal observations is about those of the history, without the part of it that "
        "is taken to be anomalous.",
    ),
    (
        "Severity",
        "The share of normal observations with a lower score: at 0.99, 1 in 100 of them scores higher. Beyond the "
        "scores of the history it is extrapolated. Below 0.99 is called slight, from 0.999 severe.",
    ),
    (
        "Share of blame",
        "Each variable's part of the deviation within the interval, squared, so that one far off outweighs many "
        "that are a little off. Shares under 5 % go unnamed.",
    ),
    (
        "Interval",
        "It holds a row above the threshold, and reaches both ways as long as scores stay above the typical highest "
        "score of the history. Intervals that almost touch are one. It ends where the next row begins.",
    ),
    ("Expected", "What the detector would have expected to measure. Gaps in a line are missing measurements."),
)


def guide() -> Html:
    """How to read the page."""
    terms = [join(element("dt", term), element("dd", meaning)) for term, meaning in GUIDE]
    return element("div", element("h3", "How to read this page"), element("dl", terms, class_="facts"))


def legend(with_expected: bool) -> Html:
    """The lines of the plots in the cards."""
    kinds = [(kind, text) for kind, text in LEGEND if with_expected or kind != "expected"]
    return element(
        "p", (element("span", element("i", class_=f"swatch {kind}"), text) for kind, text in kinds), class_="legend"
    )
