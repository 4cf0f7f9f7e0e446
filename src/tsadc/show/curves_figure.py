"""Curves over an option of a data set as one SVG file, for a document: panels of data sets down, metrics across."""

from __future__ import annotations

from collections.abc import Sequence

from tsadc.bench.summary import Summary, ranked
from tsadc.show.axes import plain, value_ticks
from tsadc.show.bench_charts import Panel, panels
from tsadc.show.markup import Html, element, join

WIDE, HIGH = 210, 130  # a panel
LEFT, TOP, RIGHT, BELOW = 52, 34, 12, 34  # around a panel
LINE = 18  # of the legend
# Okabe and Ito's colours, told apart with any eyes; the yellow is darker, for white paper. The last two are others.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a89a00", "#777777", "#8c564b", "#9467bd")
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#334}.title{font-weight:600}.grid{stroke:#ccd}.band{opacity:.15}"
    "path{fill:none;stroke-width:1.8}@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.grid{stroke:#475569}}"
)


def figure(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """The bands reach from the lowest seed to the highest. Some option must vary in the records."""
    shown = panels(summaries)
    order = [label for label in ranked(summaries, metrics[0]) if any(label in panel.curves for panel in shown)]
    colours = dict(zip(order, PALETTE, strict=False))
    across, down = LEFT + WIDE + RIGHT, TOP + HIGH + BELOW
    parts = [
        element("g", _panel(panel, metric, colours), transform=f"translate({across * i + LEFT} {down * j + TOP})")
        for j, panel in enumerate(shown)
        for i, metric in enumerate(metrics)
    ]
    columns = max(1, len(metrics) // 2)
    parts += [
        element(
            "g",
            _swatch(label, colour),
            transform=f"translate({LEFT + 2 * across * (i % columns)} {_place(i, columns, down * len(shown))})",
        )
        for i, (label, colour) in enumerate(colours.items())
    ]
    height = down * len(shown) + LINE * (-(-len(colours) // columns) + 1)
    label = f"Mean {', '.join(metrics)} over seeds, bands from the lowest seed to the highest"
    style = element("style", Html(STYLE))
    box = f"0 0 {across * len(metrics)} {height}"
    return (
        element("svg", style, parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", aria_label=label)
        + "\n"
    )


def _place(number: int, columns: int, below: int) -> int:
    return below + LINE * (number // columns + 1)


def _swatch(label: str, colour: str) -> Html:
    return join(element("path", d="M0,0h18", stroke=colour), element("text", label, x=24, y=4))


def _panel(panel: Panel, metric: str, colours: dict[str, str]) -> Html:
    drawn = {
        label: [one for one in some if one.values(metric)] for label, some in panel.curves.items() if label in colours
    }
    values = [value for some in drawn.values() for one in some for value in one.values(metric)] or [0.0, 1.0]
    air = max(0.06 * (max(values) - min(values)), 0.01)
    low, high = min(values) - air, max(values) + air
    points = sorted({one.split[panel.option] for some in panel.curves.values() for one in some})

    def x(value: float) -> float:
        return round(WIDE * (value - points[0]) / (points[-1] - points[0]), 1)

    def y(value: float) -> float:
        return round(HIGH * (high - value) / (high - low), 1)

    shapes = [element("text", f"{panel.title}, {metric}", x=0, y=-12, class_="title")]
    ticks = value_ticks(low, high, 4)
    for value, text in zip(ticks, plain(ticks), strict=True):
        shapes.append(element("line", class_="grid", x1=0, y1=y(value), x2=WIDE, y2=y(value)))
        shapes.append(element("text", text, x=-6, y=y(value) + 4, text_anchor="end"))
    shapes += [element("text", f"{one:g}", x=x(one), y=HIGH + 16, text_anchor="middle") for one in points]
    for label, some in drawn.items():
        if some:
            places = [(x(one.split[panel.option]), [y(value) for value in one.values(metric)]) for one in some]
            shapes += _curve(places, [y(one.mean(metric) or 0.0) for one in some], colours[label], label)
    return join(shapes)


def _curve(places: Sequence[tuple[float, list[float]]], means: Sequence[float], colour: str, label: str) -> list[Html]:
    there = [f"{x},{min(ends)}" for x, ends in places]
    back = [f"{x},{max(ends)}" for x, ends in reversed(places)]
    band = element("polygon", points=" ".join([*there, *back]), fill=colour, class_="band")
    along = "L".join(f"{x},{mean}" for (x, _), mean in zip(places, means, strict=True))
    return [band, element("path", element("title", label), d=f"M{along}", stroke=colour)]
