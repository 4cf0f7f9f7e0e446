"""Figures of a benchmark for documents, as SVG: curves over an option of a data set, or dots per data set."""

from __future__ import annotations

from collections.abc import Sequence

from tsadc.bench.metrics import by_chance, format_value, high_end, low_end
from tsadc.bench.records import job_of
from tsadc.bench.summary import Grid, Summary, ranked
from tsadc.errors import DataError
from tsadc.show.bench_charts import Panel, panels
from tsadc.show.bench_markdown import RANKING
from tsadc.show.charts import tick_labels, value_ticks
from tsadc.show.html import Html, element, join

LINE = 18  # height of a line of text
STYLE = (
    "text{font:11px system-ui,sans-serif;fill:#334}.title{font-weight:600}.grid{stroke:#ccd}"
    "@media(prefers-color-scheme:dark){text{fill:#cbd5e1}.grid{stroke:#475569}}"
)

# The colours of Okabe and Ito, which colour-blind readers can distinguish, with a darker yellow for white paper; the
# last two are additions.
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#a89a00", "#777777", "#8c564b", "#9467bd")
CURVE_STYLE = ".band{opacity:.15}path{fill:none;stroke-width:1.8}"
CURVE_PANEL = (210, 130)  # width and height
CURVE_MARGINS = (52, 34, 12, 34)  # left, top, right, bottom of a panel

OWN = " scoring=own"  # the end of a label that is scored by its own pooling
DOT_STYLE = (
    ".chance{stroke:#889;stroke-dasharray:3 3}.gain{stroke:#bcc5d6;stroke-width:5;opacity:.6}.span{stroke:#0072b2}"
    ".own .span{stroke:#d55e00}.cheap .span{stroke:#009e73}.dot{fill:#0072b2}.own .dot{fill:#d55e00}"
    ".cheap .dot{fill:#009e73}@media(prefers-color-scheme:dark){.gain{stroke:#64748b}}"
)
DOT_LEGEND = {"": "fused by the ensemble", "own": "scored by its own pooling", "cheap": "without a network"}
DOT_PANEL, DOT_GAP = 150, 24  # width, and the gap between panels
DOT_LEFT, DOT_TOP, DOT_BOTTOM = 270, 34, 62


def figure(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Return an SVG file: curves if an option of the data varies, otherwise dots of the first metric."""
    return curves_figure(summaries, metrics) if panels(summaries) else dots_figure(summaries, metrics[0])


def curves_figure(summaries: Sequence[Summary], metrics: Sequence[str]) -> str:
    """Draw curves over the options that vary: a row of panels per option, a column per metric. The bands reach from the
    lowest to the highest seed."""
    shown = panels(summaries)
    order = [label for label in ranked(summaries, metrics[0]) if any(label in panel.curves for panel in shown)]
    colours = dict(zip(order, PALETTE, strict=False))
    left, top, right, bottom = CURVE_MARGINS
    across, down = left + CURVE_PANEL[0] + right, top + CURVE_PANEL[1] + bottom
    parts = [
        element("g", _curve_panel(panel, metric, colours), transform=f"translate({across * i + left} {down * j + top})")
        for j, panel in enumerate(shown)
        for i, metric in enumerate(metrics)
    ]
    columns = max(1, len(metrics) // 2)
    for i, (label, colour) in enumerate(colours.items()):
        x, y = left + 2 * across * (i % columns), down * len(shown) + LINE * (i // columns + 1)
        swatch = join(element("path", d="M0,0h18", stroke=colour), element("text", label, x=24, y=4))
        parts.append(element("g", swatch, transform=f"translate({x} {y})"))
    height = down * len(shown) + LINE * (-(-len(colours) // columns) + 1)
    title = f"Mean {', '.join(metrics)} over seeds, bands from the lowest to the highest seed"
    return _svg(parts, CURVE_STYLE, across * len(metrics), height, title)


def _curve_panel(panel: Panel, metric: str, colours: dict[str, str]) -> Html:
    drawn, (low, high), options = panel.drawn(metric, colours)
    width, height = CURVE_PANEL

    def x(value: float) -> float:
        return round(width * (value - options[0]) / (options[-1] - options[0]), 1)

    def y(value: float) -> float:
        return round(height * (high - value) / (high - low), 1)

    shapes = [element("text", f"{panel.title}, {metric}", x=0, y=-12, class_="title")]
    ticks = value_ticks(low, high, 4)
    for value, text in zip(ticks, tick_labels(ticks), strict=True):
        shapes.append(element("line", class_="grid", x1=0, y1=y(value), x2=width, y2=y(value)))
        shapes.append(element("text", text, x=-6, y=y(value) + 4, text_anchor="end"))
    shapes += [element("text", f"{option:g}", x=x(option), y=height + 16, text_anchor="middle") for option in options]
    for label, points in drawn.items():
        if points:
            seeds = [(x(summary.split[panel.option]), [y(v) for v in summary.values(metric)]) for summary in points]
            upper = [f"{at},{min(values)}" for at, values in seeds]
            lower = [f"{at},{max(values)}" for at, values in reversed(seeds)]
            shapes.append(element("polygon", points=" ".join([*upper, *lower]), fill=colours[label], class_="band"))
            means = [f"{x(summary.split[panel.option])},{y(summary.mean(metric) or 0.0)}" for summary in points]
            shapes.append(element("path", element("title", label), d=f"M{'L'.join(means)}", stroke=colours[label]))
    return join(shapes)


def dots_figure(summaries: Sequence[Summary], metric: str) -> str:
    """Draw a dot at each mean over seeds, labels by data sets, with a line for the mean 90 % interval.

    A method scored by its own pooling shares its line with the same method fused by the ensemble. The bar between the
    two dots is the gain of the ensemble."""
    grid = Grid([summary for summary in summaries if summary.values(metric)], metric)
    if not grid.summaries:
        raise DataError(f"None of the records has {metric}; choose another metric for the figure.")
    names = list(dict.fromkeys(label.replace(OWN, "") for label in grid.labels))
    values = [value for summary in grid.summaries for value in _mean_and_ends(summary, metric)]
    margin = 0.04 * (max(values) - min(values) or abs(values[0]) or 1.0)
    limits = min(values) - margin, max(values) + margin
    height = LINE * len(names)
    parts = [
        element("text", name, x=DOT_LEFT - 12, y=DOT_TOP + LINE * (i + 0.5) + 4, text_anchor="end")
        for i, name in enumerate(names)
    ]
    for i, data in enumerate(grid.data):
        panel = _dot_panel(grid, data, metric, names, limits)
        parts.append(element("g", panel, transform=f"translate({DOT_LEFT + (DOT_PANEL + DOT_GAP) * i} {DOT_TOP})"))
    kinds = [kind for kind in DOT_LEGEND if any(_kind(summary) == kind for summary in grid.summaries)]
    for i, kind in enumerate(kinds):
        swatch = join(element("circle", class_="dot", cx=4, cy=-4, r=4), element("text", DOT_LEGEND[kind], x=14, y=0))
        place = f"translate({DOT_LEFT + 170 * i} {DOT_TOP + height + 46})"
        parts.append(element("g", swatch, class_=kind, transform=place))
    width = DOT_LEFT + max((DOT_PANEL + DOT_GAP) * len(grid.data), 170 * len(kinds))
    title = f"Mean {metric} over seeds of {len(grid.labels)} detectors on {', '.join(grid.data)}"
    return _svg(parts, DOT_STYLE, width, DOT_TOP + height + DOT_BOTTOM, title)


def _kind(summary: Summary) -> str:
    if not summary.network:
        return "cheap"
    return "own" if any(job_of(record).scoring == "own" for record in summary.records) else ""


def _mean_and_ends(summary: Summary, metric: str) -> list[float]:
    """Return the mean, and the ends of the interval if there is one."""
    values = (summary.mean(metric), summary.mean(metric, low_end), summary.mean(metric, high_end))
    return [value for value in values if value is not None]


def _dot_panel(grid: Grid, data: str, metric: str, names: Sequence[str], limits: tuple[float, float]) -> Html:
    low, high = limits

    def x(value: float) -> float:
        return round(DOT_PANEL * (value - low) / (high - low), 1)

    height = LINE * len(names)
    shapes = [element("text", f"{data}, {metric}", x=0, y=-12, class_="title")]
    ticks = value_ticks(low, high, 4)
    for value, text in zip(ticks, tick_labels(ticks), strict=True):
        shapes.append(element("line", class_="grid", x1=x(value), y1=0, x2=x(value), y2=height))
        shapes.append(element("text", text, x=x(value), y=height + 16, text_anchor="middle"))
    chance = grid.whole(data).mean(metric, by_chance)
    if metric in RANKING and chance is not None and low <= chance <= high:
        shapes.append(element("line", class_="chance", x1=x(chance), y1=0, x2=x(chance), y2=height))
    for i, name in enumerate(names):
        y = LINE * (i + 0.5)
        scored = [summary for summary in grid.of(data) if summary.label.replace(OWN, "") == name]
        places = [[x(value) for value in _mean_and_ends(summary, metric)] for summary in scored]
        if len(scored) == 2:
            means = [place[0] for place in places]
            shapes.append(element("line", class_="gain", x1=min(means), y1=y, x2=max(means), y2=y))
        for summary, place in zip(scored, places, strict=True):
            title = element("title", f"{summary.label}: {format_value(metric, summary.mean(metric))}")
            span = element("line", class_="span", x1=min(place), y1=y, x2=max(place), y2=y)
            dot = element("circle", class_="dot", cx=place[0], cy=y, r=4)
            shapes.append(element("g", title, span, dot, class_=_kind(summary)))
    return join(shapes)


def _svg(parts: Sequence[Html], style: str, width: int, height: int, title: str) -> str:
    svg = element(
        "svg",
        element("style", Html(STYLE + style)),
        parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
    )
    return svg + "\n"
