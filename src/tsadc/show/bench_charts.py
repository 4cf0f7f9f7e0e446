"""Drawings of a benchmark: mean ranks with what cannot be told apart, and curves over the options of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.bench.metrics import NEUTRAL
from tsadc.bench.summary import Summary, complete, labels_of, ranked
from tsadc.evaluate.compare import critical_difference
from tsadc.series import Floats
from tsadc.show.axes import Tick, plain, value_ticks
from tsadc.show.charts import HEIGHT, WIDTH, drawing, level_line, line, time_axis
from tsadc.show.markup import Html, element, join, name

COLOURS = 8  # that the style has


def ranks(summaries: Sequence[Summary], metric: str) -> Html | None:
    """The critical-difference diagram, detectors down: a dot at each mean rank, and a bar along those that do not
    differ. None without two data sets and two detectors that were run on all of them."""
    cases, names, table = complete(summaries, metric)
    if metric in NEUTRAL or len(names) < 2 or len(cases) < 2:
        return None
    found = critical_difference(np.array(table), names)
    last = len(names)
    ticks = [Tick((rank - 1) / (last - 1), f"{rank:g}") for rank in value_ticks(1, last, 8) if rank == int(rank)]
    lines = []
    for label, rank in zip(found.names, found.ranks, strict=True):
        dot = element("i", class_="dot", style=f"left:{100 * (rank - 1) / (last - 1):.4g}%")
        bars = [element("i", class_="same" if label in group else "other") for group in found.groups]
        lines.append(
            element(
                "div",
                element("span", name(label), class_="label"),
                element("span", f"{rank:.2f}", class_="figure"),
                element("span", bars, class_="bars"),
                element("span", dot, class_="rail"),
                class_="ranked",
            )
        )
    absent = len(labels_of(summaries)) - last
    words = (
        f"Mean rank by {metric} over {len(cases)} data sets, 1 is best; seeds and splits of one were averaged before. "
        f"Rows along one bar are nearer than the critical difference of {found.difference:.2f} (Nemenyi, 5 %) and are "
        f"not told apart. That all rank alike has p = {found.p:.2g} (Friedman). Data sets made of the same recordings "
        "are not independent, so this is a guide and no proof."
    )
    left_out = f" Left out, as not run on all of them: {absent}." if absent else ""
    scale = element("div", element("div", time_axis(ticks), class_="rail-axis"), class_="scale")
    wide = f"--bars:{max(7 * len(found.groups), 1)}px"
    return join(element("p", words + left_out, class_="lead"), element("div", lines, scale, class_="ranks", style=wide))


@dataclass(frozen=True)
class Panel:
    """One option that varies, the others being fixed; `curves`: row -> summaries in the order of its values."""

    data: str
    option: str
    fixed: tuple[tuple[str, float], ...]
    curves: dict[str, list[Summary]]

    @property
    def title(self) -> str:
        others = ", ".join(f"{other} = {value:g}" for other, value in self.fixed)
        return f"{self.data}: {self.option}" + (f" at {others}" if others else "")


def panels(summaries: Sequence[Summary]) -> list[Panel]:
    """Where an option has several values while the others stay."""
    found: dict[tuple[str, str, tuple[tuple[str, float], ...]], dict[str, list[Summary]]] = {}
    for one in summaries:
        for option in one.split:
            fixed = tuple(sorted((other, value) for other, value in one.split.items() if other != option))
            found.setdefault((one.dataset, option, fixed), {}).setdefault(one.label, []).append(one)
    out = []
    for (data, option, fixed), curves in found.items():
        several = {label: _ordered(some, option) for label, some in curves.items() if len(some) > 1}
        if several:
            out.append(Panel(data, option, fixed, several))
    return sorted(out, key=lambda panel: (panel.data, panel.option, panel.fixed))


def _ordered(some: Sequence[Summary], option: str) -> list[Summary]:
    return sorted(some, key=lambda one: one.split[option])


def curves(summaries: Sequence[Summary], metric: str) -> Html | None:
    """A plot for each panel, and which colour is whose. None where nothing varies."""
    shown = panels(summaries)
    if not shown:
        return None
    order = [label for label in ranked(summaries, metric) if any(label in panel.curves for panel in shown)]
    colours = {label: i + 1 for i, label in enumerate(order[:COLOURS])}
    key = [
        element("span", element("i", class_=f"swatch colour-{colour}"), name(label))
        for label, colour in colours.items()
    ]
    more = f" The {COLOURS} best of {len(order)} rows are drawn." if len(order) > COLOURS else ""
    words = f"Mean {metric} over seeds; the bands reach from the lowest seed to the highest.{more}"
    plots = [_plot(panel, metric, colours) for panel in shown]
    return join(
        element("p", words, class_="lead"),
        element("div", key, class_="legend"),
        element("div", plots, class_="panels"),
    )


def _plot(panel: Panel, metric: str, colours: dict[str, int]) -> Html:
    drawn = {label: some for label, some in panel.curves.items() if label in colours}
    values = [value for some in drawn.values() for one in some for value in one.values(metric)] or [0.0, 1.0]
    low, high = min(values), max(values)
    air = max(0.06 * (high - low), 0.01)
    low, high = low - air, high + air
    points = sorted({one.split[panel.option] for some in drawn.values() for one in some})
    spread = (points[-1] - points[0]) or 1.0
    ticks = value_ticks(low, high, 4)
    labels = [
        element("span", text, style=f"bottom:{100 * (value - low) / (high - low):.4g}%")
        for value, text in zip(ticks, plain(ticks), strict=True)
    ]
    shapes = [level_line((value - low) / (high - low), "grid") for value in ticks]
    for label, some in drawn.items():
        fine = [one for one in some if one.values(metric)]
        if not fine:
            continue
        x = np.array([(one.split[panel.option] - points[0]) / spread for one in fine])
        seeds = [(np.array(one.values(metric)) - low) / (high - low) for one in fine]
        shapes.append(
            _band(x, np.array([one.min() for one in seeds]), np.array([one.max() for one in seeds]), label, colours)
        )
        shapes.append(line(x, np.array([one.mean() for one in seeds]), f"curve colour-{colours[label]}"))
    axis = time_axis([Tick((point - points[0]) / spread, f"{point:g}") for point in points])
    return element(
        "figure",
        element("figcaption", panel.title),
        element("div", labels, class_="values", aria_hidden="true"),
        element("div", drawing(shapes), class_="plot"),
        element("div", axis, class_="below-plot"),
    )


def _band(x: Floats, lower: Floats, upper: Floats, label: str, colours: dict[str, int]) -> Html:
    there = [f"{round(a * WIDTH)},{round((1 - b) * HEIGHT)}" for a, b in zip(x, upper, strict=True)]
    back = [f"{round(a * WIDTH)},{round((1 - b) * HEIGHT)}" for a, b in zip(x[::-1], lower[::-1], strict=True)]
    return element("path", d=f"M{'L'.join([*there, *back])}z", class_=f"band colour-{colours[label]}")
