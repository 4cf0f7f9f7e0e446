"""What TSAD-C makes of a normal and of an abnormal observation, drawn around the hidden window, as one page."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tsadc.bench.approximation import HEAD, Approximations, Example, record, rows_of
from tsadc.series import Floats
from tsadc.show.axes import Tick, plain, value_ticks
from tsadc.show.charts import drawing, envelope, level_line, line, place, time_axis
from tsadc.show.markup import Html, element, join, name
from tsadc.show.shell import page

COLUMNS = 500
STYLE = """
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.5rem 2.5rem; }
.pair { margin-top: 1rem; }
.pair .plot { height: 120px; }
.pair .plots { margin-top: .75rem; }
.pair .shade { background: var(--wash); }
path.told { stroke: var(--alarm); stroke-width: 1.8; stroke-linejoin: round; }
path.rebuilt { stroke: var(--link); stroke-width: 1.3; stroke-dasharray: 4 2; }
.pair .guilty { position: absolute; bottom: 0; height: 5px; min-width: 3px; background: var(--truth); }
.swatch.guilty { background: var(--truth); }
.swatch.told, .swatch.rebuilt { height: 0; border-top: 2px solid var(--alarm); }
.swatch.rebuilt { border-top: 2px dotted var(--link); }
.swatch.shaded { background: var(--wash); border: 1px solid var(--rule); }
"""


def render(found: Approximations, *, title: str, note: str = "", facts: Mapping[str, str] | None = None) -> str:
    """The page as text; the same numbers give the same bytes. `facts` say what made them."""
    theme = element("button", "Dark", type="button", id="theme", hidden=True)
    legend = element(
        "div",
        element("span", element("i", class_="swatch measured"), "measured, x"),
        element("span", element("i", class_="swatch told"), "decontaminated, from the rest of the observation"),
        element("span", element("i", class_="swatch rebuilt"), "reconstruction by module 2, which sees all of it"),
        element("span", element("i", class_="swatch shaded"), "hidden from module 1"),
        element("span", element("i", class_="swatch guilty"), "true anomaly")
        if any(one.anomalous for one in found.examples)
        else None,
        class_="legend",
    )
    sides = [_side(one, found) for one in found.examples]
    content = element(
        "main",
        element("style", Html(STYLE)),
        element("div", element("h1", title), theme, class_="title"),
        element("p", note, class_="lead") if note else None,
        legend,
        element("div", sides, class_="pair"),
        _numbers(found),
        _about(facts or {}),
        "\n",
    )
    return page(title, content)


def _about(facts: Mapping[str, str]) -> Html | None:
    if not facts:
        return None
    shown = element(
        "dl", (join(element("dt", key), element("dd", words)) for key, words in facts.items()), class_="facts"
    )
    return element("section", element("h2", "Where the numbers come from"), shown)


def _side(example: Example, found: Approximations) -> Html:
    """An observation from one window's width before the hidden one to one after it."""
    start, stop = found.window
    length = example.x.shape[1]
    first, last = max(0, 2 * start - stop), min(length, 2 * stop - start)
    kinds = f": {', '.join(example.kinds)}" if example.kinds else ""
    words = (
        f"{example.entity}, steps {first} to {last} from row {example.start}; RMSE under the mask {example.error:.3f}"
    )
    plots = [_plot(example, found, k, first, last) for k in found.variables]
    ticks = [Tick((value - first) / (last - first), f"{value:g}") for value in value_ticks(first, last, 5)]
    return element(
        "div",
        element("h3", example.group.capitalize() + kinds),
        element("p", words, class_="note"),
        element("div", plots, element("div", time_axis(ticks), class_="under"), class_="plots"),
    )


def _plot(example: Example, found: Approximations, k: int, first: int, last: int) -> Html:
    start, stop = found.window
    measured, rebuilt = example.x[k, first:last], example.reconstruction[k, first:last]
    told = np.full(last - first, np.nan)
    told[start - first : stop - first] = example.decontaminated[k, start:stop]
    low, high = _range(np.concatenate([measured, rebuilt, told]))
    ticks = value_ticks(low, high, 3)
    labels = [
        element("span", text, style=f"bottom:{100 * (value - low) / (high - low):.4g}%")
        for value, text in zip(ticks, plain(ticks), strict=True)
    ]
    shapes = [level_line((value - low) / (high - low), "grid") for value in ticks]
    for values, kind in ((measured, "measured"), (rebuilt, "rebuilt"), (told, "told")):
        chosen = envelope(values, COLUMNS)
        shapes.append(line((chosen + 0.5) / (last - first), (values[chosen] - low) / (high - low), kind))
    shade = place((start - first) / (last - first), (stop - first) / (last - first))
    guilty = [
        element("i", class_="guilty", style=place((begin - first) / (last - first), (end - first) / (last - first)))
        for begin, end in example.anomalous
        if begin < last and end > first
    ]
    return element(
        "figure",
        element("figcaption", name(found.names[k])),
        element("div", labels, class_="values", aria_hidden="true"),
        element("div", element("i", class_="shade", style=shade), drawing(shapes), guilty, class_="plot"),
    )


def _range(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    air = 0.06 * (high - low) or max(0.05 * abs(high), 0.5)
    return low - air, high + air


def _numbers(found: Approximations) -> Html:
    kept = record(found)
    lines = [element("tr", (element("td", text) for text in row)) for row in rows_of(kept)]
    told = [f"{module} {value:.3f}" for module, value in found.auroc.items() if value is not None]
    last = list(found.groups)[-1]
    words = (
        "Root mean square errors in z units under the mask over all observations, with bootstrap intervals of "
        f"{100 * kept['level']:.0f} %. Each example above is the one whose decontaminated window has the median error "
        "of its group; shown are the variables in which the second one is furthest from what was told."
    )
    return join(
        element(
            "section",
            element("h2", "Over all observations"),
            element("p", words, class_="lead"),
            element(
                "div",
                element(
                    "table",
                    element("thead", element("tr", (element("th", head) for head in HEAD))),
                    element("tbody", lines),
                ),
                class_="scroll",
            ),
            element("p", f"AUROC of the error alone, {last} against normal: {', '.join(told)}.", class_="note")
            if told
            else None,
        )
    )
