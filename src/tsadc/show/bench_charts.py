"""The charts of a benchmark page: mean ranks with ties, and curves over the options of a data set."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.metrics import NEUTRAL
from tsadc.bench.summary import Summary, complete, labels_of, ranked
from tsadc.evaluate.compare import critical_difference
from tsadc.series import Floats
from tsadc.show.charts import (
    HEIGHT,
    WIDTH,
    Tick,
    drawing,
    level_line,
    line,
    padded_range,
    tick_labels,
    time_axis,
    value_ticks,
)
from tsadc.show.html import Html, element, join, name
from tsadc.show.words import count, metric_name

COLOURS = 8  # defined in bench.css


def ranks(summaries: Sequence[Summary], metric: str) -> Html | None:
    """Draw the critical-difference diagram: a dot at each detector's mean rank, and bars along detectors that are tied.
    Return None without two data sets and two detectors that have values on all of them."""
    datasets, names, table = complete(summaries, metric)
    if metric in NEUTRAL or len(names) < 2 or len(datasets) < 2:
        return None
    test = critical_difference(np.array(table), names)
    last = len(names)
    ticks = [Tick((rank - 1) / (last - 1), f"{rank:g}") for rank in value_ticks(1, last, 8) if rank == int(rank)]
    lines = []
    for label, rank in zip(test.names, test.ranks, strict=True):
        dot = element("i", class_="dot", style=f"left:{100 * (rank - 1) / (last - 1):.4g}%")
        bars = [element("i", class_="same" if label in group else "other") for group in test.groups]
        lines.append(
            element(
                "div",
                element("span", name(label), class_="label", title=label),
                element("span", f"{rank:.2f}", class_="figure"),
                element("span", bars, class_="bars"),
                element("span", dot, class_="rail"),
                class_="ranked",
            )
        )
    absent = len(labels_of(summaries)) - last
    words = (
        f"Mean rank by {metric_name(metric)} over {len(datasets)} data sets (1 is best), after averaging the seeds and "
        "splits of each. Detectors along one bar differ by less than the critical difference of "
        f"{test.difference:.2f} (Nemenyi, 5 %): they are tied. The hypothesis that all detectors rank equally has "
        f"p = {test.p:.2g} (Friedman). Data sets made from the same recordings are not independent, so this is a guide "
        "and not a proof."
    )
    missing = f" Without values on all data sets, so left out: {count(absent, 'detector', 'detectors')}."
    scale = element("div", element("div", time_axis(ticks), class_="rail-axis"), class_="scale")
    wide = f"--bars:{max(7 * len(test.groups), 1)}px"
    return join(
        element("p", words, missing if absent else None, class_="lead"),
        element("div", lines, scale, class_="ranks", style=wide),
    )


@dataclass(frozen=True)
class Panel:
    """One option of a data set that varies while the others are fixed. `curves` maps each label to its summaries, in
    the order of the option's values."""

    data: str
    option: str
    fixed: tuple[tuple[str, float], ...]
    curves: dict[str, list[Summary]]

    @property
    def title(self) -> str:
        others = ", ".join(f"{other} = {value:g}" for other, value in self.fixed)
        return f"{self.data}: {self.option}" + (f" at {others}" if others else "")

    def drawn(
        self, metric: str, labels: Container[str]
    ) -> tuple[dict[str, list[Summary]], tuple[float, float], list[float]]:
        """Return the curves of some labels where they have a value, the range of values, and the option's values."""
        curves = {
            label: [summary for summary in points if summary.values(metric)]
            for label, points in self.curves.items()
            if label in labels
        }
        values = [value for points in curves.values() for summary in points for value in summary.values(metric)]
        options = sorted({summary.split[self.option] for points in self.curves.values() for summary in points})
        return curves, padded_range(values), options


def panels(summaries: Sequence[Summary]) -> list[Panel]:
    """Find the options that have several values while the others are fixed."""
    groups: dict[tuple[str, str, tuple[tuple[str, float], ...]], dict[str, list[Summary]]] = {}
    for summary in summaries:
        for option in summary.split:
            fixed = tuple(sorted((other, value) for other, value in summary.split.items() if other != option))
            groups.setdefault((summary.dataset, option, fixed), {}).setdefault(summary.label, []).append(summary)
    out = []
    for (data, option, fixed), by_label in groups.items():
        curves = {
            label: sorted(points, key=lambda summary: summary.split[option])
            for label, points in by_label.items()
            if len(points) > 1
        }
        if curves:
            out.append(Panel(data, option, fixed, curves))
    return sorted(out, key=lambda panel: (panel.data, panel.option, panel.fixed))


def curves(summaries: Sequence[Summary], metric: str) -> Html | None:
    """Draw each panel, and a legend. Return None if no option varies."""
    shown = panels(summaries)
    if not shown:
        return None
    order = [label for label in ranked(summaries, metric) if any(label in panel.curves for panel in shown)]
    colours = {label: i + 1 for i, label in enumerate(order[:COLOURS])}
    key = [
        element("span", element("i", class_=f"swatch colour-{colour}"), name(label))
        for label, colour in colours.items()
    ]
    more = f" Only the {COLOURS} best of {len(order)} detectors are drawn." if len(order) > COLOURS else ""
    words = f"Mean {metric_name(metric)} over seeds; the bands reach from the lowest to the highest seed.{more}"
    plots = [_plot(panel, metric, colours) for panel in shown]
    return join(
        element("p", words, class_="lead"),
        element("div", key, class_="legend"),
        element("div", plots, class_="panels"),
    )


def _plot(panel: Panel, metric: str, colours: dict[str, int]) -> Html:
    drawn, (low, high), options = panel.drawn(metric, colours)
    width = options[-1] - options[0]
    ticks = value_ticks(low, high, 4)
    labels = [
        element("span", text, style=f"bottom:{100 * (value - low) / (high - low):.4g}%")
        for value, text in zip(ticks, tick_labels(ticks), strict=True)
    ]
    shapes = [level_line((value - low) / (high - low), "grid") for value in ticks]
    for label, points in drawn.items():
        if points:
            x = np.array([(summary.split[panel.option] - options[0]) / width for summary in points])
            seeds = [(np.array(summary.values(metric)) - low) / (high - low) for summary in points]
            lowest, highest = np.array([s.min() for s in seeds]), np.array([s.max() for s in seeds])
            shapes.append(_band(x, lowest, highest, f"band colour-{colours[label]}"))
            shapes.append(line(x, np.array([s.mean() for s in seeds]), f"curve colour-{colours[label]}"))
    axis = time_axis([Tick((option - options[0]) / width, f"{option:g}") for option in options])
    return element(
        "figure",
        element("figcaption", panel.title),
        element("div", labels, class_="values", aria_hidden="true"),
        element("div", drawing(shapes), class_="plot"),
        element("div", axis, class_="below-plot"),
    )


def _band(x: Floats, lower: Floats, upper: Floats, class_: str) -> Html:
    across = np.rint(np.concatenate([x, x[::-1]]) * WIDTH).astype(int)
    down = np.rint((1 - np.concatenate([upper, lower[::-1]])) * HEIGHT).astype(int)
    return element("path", d="M" + "L".join(map("{},{}".format, across, down)) + "z", class_=class_)
