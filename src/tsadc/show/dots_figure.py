"""What every row got on every data set as one SVG file, for a document: rows down, data sets across. A row by its own
pooling shares the line of the same row fused by the ensemble: what the head adds is the way between two dots."""

from __future__ import annotations

from collections.abc import Sequence

from tsadc.bench.metrics import by_chance, format_value, high_end, low_end
from tsadc.bench.records import job_of
from tsadc.bench.summary import Grid, Summary
from tsadc.errors import DataError
from tsadc.show.axes import plain, value_ticks
from tsadc.show.bench_markdown import RANKING
from tsadc.show.markup import Html, element, join

OWN = " scoring=own"  # in a label's name
WIDE, LINE = 150, 18  # a panel, a line of it
LEFT, TOP, GAP, BELOW = 270, 34, 24, 62
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#334}.title{font-weight:600}.grid{stroke:#ccd}.chance{stroke:#889;"
    "stroke-dasharray:3 3}.way{stroke:#bcc5d6;stroke-width:5;opacity:.6}.span{stroke:#0072b2}.own .span{stroke:#d55e00}"
    ".cheap .span{stroke:#009e73}.dot{fill:#0072b2}.own .dot{fill:#d55e00}.cheap .dot{fill:#009e73}"
    "@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.grid{stroke:#475569}.way{stroke:#64748b}}"
)
MEANING = {"": "fused by the ensemble", "own": "by its own pooling", "cheap": "without a network"}


def figure(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Of the first metric. Dots are means over seeds, lines the means of their 90 % intervals where there are some."""
    metric = metrics[0]
    found = Grid([one for one in summaries if one.values(metric)], metric)
    if not found.summaries:
        raise DataError(f"None of these records has {metric}; a figure needs some.")
    names = list(dict.fromkeys(label.replace(OWN, "") for label in found.labels))
    values = [value for one in found.summaries for value in _places(one, metric)]
    air = 0.04 * (max(values) - min(values) or abs(values[0]) or 1.0)
    low, high = min(values) - air, max(values) + air
    height = LINE * len(names)
    parts = [
        element("text", name, x=LEFT - 12, y=TOP + LINE * (i + 0.5) + 4, text_anchor="end")
        for i, name in enumerate(names)
    ]
    for i, data in enumerate(found.data):
        panel = _panel(found, data, metric, names, low, high)
        parts.append(element("g", panel, transform=f"translate({LEFT + (WIDE + GAP) * i} {TOP})"))
    classes = [kind for kind in MEANING if any(_kind(one) == kind for one in found.summaries)]
    for i, kind in enumerate(classes):
        swatch = join(element("circle", class_="dot", cx=4, cy=-4, r=4), element("text", MEANING[kind], x=14, y=0))
        parts.append(element("g", swatch, class_=kind, transform=f"translate({LEFT + 170 * i} {TOP + height + 46})"))
    width = LEFT + max((WIDE + GAP) * len(found.data), 170 * len(classes))
    label = f"Mean {metric} over seeds of {len(found.labels)} rows on {', '.join(found.data)}"
    return (
        element(
            "svg",
            element("style", Html(STYLE)),
            parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {TOP + height + BELOW}",
            role="img",
            aria_label=label,
        )
        + "\n"
    )


def _kind(one: Summary) -> str:
    if not one.network:
        return "cheap"
    return "own" if any(job_of(record).scoring == "own" for record in one.records) else ""


def _places(one: Summary, metric: str) -> list[float]:
    """The mean, and the ends of the interval if there is one."""
    some = (one.mean(metric), one.mean(metric, low_end), one.mean(metric, high_end))
    return [value for value in some if value is not None]


def _panel(found: Grid, data: str, metric: str, names: Sequence[str], low: float, high: float) -> Html:
    def x(value: float) -> float:
        return round(WIDE * (value - low) / (high - low), 1)

    height = LINE * len(names)
    shapes = [element("text", f"{data}, {metric}", x=0, y=-12, class_="title")]
    ticks = value_ticks(low, high, 4)
    for value, text in zip(ticks, plain(ticks), strict=True):
        shapes.append(element("line", class_="grid", x1=x(value), y1=0, x2=x(value), y2=height))
        shapes.append(element("text", text, x=x(value), y=height + 16, text_anchor="middle"))
    chance = found.whole(data).mean(metric, by_chance)
    if metric in RANKING and chance is not None and low <= chance <= high:
        shapes.append(element("line", class_="chance", x1=x(chance), y1=0, x2=x(chance), y2=height))
    for i, name in enumerate(names):
        both = [one for one in found.of(data) if one.label.replace(OWN, "") == name]
        y = LINE * (i + 0.5)
        ends = [x(_places(one, metric)[0]) for one in both]
        if len(ends) == 2:
            shapes.append(element("line", class_="way", x1=min(ends), y1=y, x2=max(ends), y2=y))
        for one, place in zip(both, ends, strict=True):
            shapes.append(_dot(one, metric, place, [x(value) for value in _places(one, metric)], y))
    return join(shapes)


def _dot(one: Summary, metric: str, place: float, reach: Sequence[float], y: float) -> Html:
    title = element("title", f"{one.label}: {format_value(metric, one.mean(metric))}")
    span = element("line", class_="span", x1=min(reach), y1=y, x2=max(reach), y2=y)
    return element("g", title, span, element("circle", class_="dot", cx=place, cy=y, r=4), class_=_kind(one))
