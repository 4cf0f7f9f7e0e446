"""Show what the two modules of TSAD-C make of normal and of abnormal observations (the paper's Figure 4).

    python benchmarks/paper/approximation.py plant --page page.html     # train, write the page and the record
    python benchmarks/paper/approximation.py plant --table FILE         # write the table of the record only

The page shows one observation of each group; the record holds errors over the whole test part. At test time the seed
draws one mask for all observations; with BoM it is one window. The observation that is shown has the median error of
its group in the decontaminated window, so it is neither the best nor the worst. Errors are root mean squares in z units
(of the detector's scaler) over the measured cells of the window.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.machine import circumstances
from tsadc.config import parse_assignments, to_mapping, update
from tsadc.data import catalogue
from tsadc.data.task import Answers, Task
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.evaluate.ranking import auroc
from tsadc.io.memory import as_series
from tsadc.series import Booleans, Floats, Observations
from tsadc.show.charts import Tick, drawing, envelope, level_line, line, place, tick_labels, time_axis, value_ticks
from tsadc.show.html import Html, element, join, name, page, write_page
from tsadc.show.markdown import table
from tsadc.windows import cut, runs

LEVEL, DRAWS = 0.9, 1000
GROUPS = ("normal", "abnormal", "abnormal within the window")
MODULES = ("decontaminated", "reconstruction")
HEAD = ("observations", "how many", *MODULES)
SHOWN = 3  # variables in a figure
BLACKOUT = {"decontaminator": {"masking": "BoM"}, "inference": {"masks": 0}}
RESULTS = Path(__file__).parents[1] / "results" / "paper"
COLUMNS = 500
STYLE = """
.pair { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1.5rem 2.5rem; }
.pair { margin-top: 1rem; }
.pair .plot { height: 120px; }
.pair .plots { margin-top: .75rem; }
.pair .shade { background: var(--wash); }
path.imputed { stroke: var(--alarm); stroke-width: 1.8; stroke-linejoin: round; }
path.reconstructed { stroke: var(--link); stroke-width: 1.3; stroke-dasharray: 4 2; }
.pair .anomaly { position: absolute; bottom: 0; height: 5px; min-width: 3px; background: var(--truth); }
.swatch.anomaly { background: var(--truth); }
.swatch.imputed, .swatch.reconstructed { height: 0; border-top: 2px solid var(--alarm); }
.swatch.reconstructed { border-top: 2px dotted var(--link); }
.swatch.shaded { background: var(--wash); border: 1px solid var(--rule); }
"""
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Example:
    """One observation; its arrays are (variable, time) in the units of the data. `error` is that of the decontaminated
    window; `anomalous` holds the runs [start, stop) of its labelled steps."""

    group: str
    entity: str
    start: int
    kinds: tuple[str, ...]
    x: Floats
    decontaminated: Floats
    reconstruction: Floats
    error: float
    anomalous: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Approximations:
    """`window`: the hidden steps [start, stop). `errors`: module -> error of each observation. `groups`: members of
    each of `GROUPS`. `auroc`: module -> AUROC of its error alone, last group against normal; None if undefined."""

    names: tuple[str, ...]
    window: tuple[int, int]
    examples: tuple[Example, ...]
    errors: Mapping[str, Floats]
    groups: Mapping[str, Booleans]
    auroc: Mapping[str, float | None]

    @property
    def variables(self) -> list[int]:
        """The variables to show: those in which the abnormal example deviates most under the mask."""
        example, (start, stop) = self.examples[-1], self.window
        off = np.abs(example.x - example.decontaminated)[:, start:stop]
        spread = np.nanstd(self.examples[0].x, axis=1) + np.finfo(np.float64).tiny
        worst = np.nan_to_num(np.nanmean(off, axis=1) / spread)
        return sorted(np.argsort(-worst, kind="stable")[:SHOWN].tolist())


def approximations(task: Task, config: TSADC.Config) -> Approximations:
    """Fit on the unlabelled training part under BoM and examine the test part. Labels only define the groups."""
    detector = TSADC(config=update(config, BLACKOUT)).fit(task.train, validation=task.validation)
    if task.history is not None:
        detector.adapt(task.history)
    return examined(detector, task)


def examined(detector: TSADC, task: Task) -> Approximations:
    """Return what a fitted detector with one window makes of the test part."""
    length = detector.settings.length
    observations = cut(as_series(task.test, length), length, detector.settings.coverage).observations
    estimates = list(detector.module_outputs(task.test))
    start, stop = _window(estimates[0].hidden)
    errors = {
        module: np.array(
            [_error(observations, i, getattr(one, module), detector, start, stop) for i, one in enumerate(estimates)]
        )
        for module in MODULES
    }
    groups = _groups(task.answers, observations, start, stop)
    examples = []
    for group in (GROUPS[0], list(groups)[-1]):
        i = _median_member(errors["decontaminated"], groups[group])
        examples.append(
            Example(
                group,
                observations.entity(i),
                observations.places[i].start,
                task.answers.kinds[i],
                observations.read(i),
                estimates[i].decontaminated,
                estimates[i].reconstruction,
                float(errors["decontaminated"][i]),
                tuple(runs(_labelled(task.answers, observations, i, 0, length))),
            )
        )
    aurocs = {module: _auroc(errors[module], groups) for module in MODULES}
    return Approximations(observations.names, (start, stop), tuple(examples), errors, groups, aurocs)


def _window(hidden: Booleans) -> tuple[int, int]:
    steps = np.flatnonzero(hidden.any(axis=0))
    return int(steps[0]), int(steps[-1]) + 1


def _error(observations: Observations, i: int, estimate: Floats, detector: TSADC, start: int, stop: int) -> float:
    entity, scale = observations.entity(i), detector.scaler_
    off = scale(entity, observations.read(i).T)[start:stop] - scale(entity, estimate.T)[start:stop]
    return float(np.sqrt(np.nanmean(np.square(off, dtype=np.float64)))) if np.isfinite(off).any() else np.nan


def _groups(answers: Answers, observations: Observations, start: int, stop: int) -> dict[str, Booleans]:
    """Return the members of each group; the last group exists only if an anomaly lies in the window."""
    labels = answers.labels
    within = np.zeros_like(labels)
    if answers.rows is not None:
        for i in range(len(observations)):
            within[i] = _labelled(answers, observations, i, start, stop).any()
    known = dict(zip(GROUPS, (~labels, labels, within), strict=True))
    return known if within.any() else {name: known[name] for name in GROUPS[:2]}


def _labelled(answers: Answers, observations: Observations, i: int, start: int, stop: int) -> Booleans:
    """Return a mask of the anomalous steps among [start, stop) of an observation. Rows without labels are not, nor are
    steps beyond the ends of the series."""
    out: Booleans = np.zeros(stop - start, dtype=bool)
    if answers.rows is not None:
        place = observations.places[i]
        before = sum(map(len, observations.series[: place.series]))
        steps = place.start + np.arange(start, stop)
        inside = (steps >= 0) & (steps < len(observations.series[place.series]))
        out[inside] = answers.rows[before + steps[inside]]
    return out


def _median_member(errors: Floats, members: Booleans) -> int:
    known = np.flatnonzero(members & np.isfinite(errors))
    return int(known[np.argsort(errors[known], kind="stable")[(len(known) - 1) // 2]])


def _auroc(errors: Floats, groups: Mapping[str, Booleans]) -> float | None:
    abnormal = groups[list(groups)[-1]]
    kept = (groups[GROUPS[0]] | abnormal) & np.isfinite(errors)
    labels = abnormal[kept]
    return auroc(labels, errors[kept]) if 0 < labels.sum() < len(labels) else None


def record(found: Approximations, seed: int = 0) -> Record:
    """Return the numbers as plain data: the mean error of each group with its bootstrap interval over observations."""
    generator = np.random.default_rng(seed)
    groups = {}
    for group, members in found.groups.items():
        groups[group] = {"observations": int(members.sum())} | {
            module: _mean(found.errors[module][members], generator) for module in MODULES
        }
    return {"window": list(found.window), "level": LEVEL, "groups": groups, "auroc": dict(found.auroc)}


def _mean(errors: Floats, generator: np.random.Generator) -> dict[str, float] | None:
    known = errors[np.isfinite(errors)]
    if not len(known):
        return None
    drawn = known[generator.integers(0, len(known), (DRAWS, len(known)))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"mean": float(known.mean()), "low": float(low), "high": float(high)}


def markdown(kept: Mapping[str, Any]) -> str:
    """Return the table of a record."""
    start, stop = kept["window"]
    level = f"{100 * kept['level']:.0f} %"
    head = f"RMSE in z units under the mask, steps {start} to {stop}, with {level} bootstrap intervals."
    return "\n\n".join(filter(None, [head, table(HEAD, _lines(kept)), _separation(kept)]))


def _separation(kept: Mapping[str, Any]) -> str:
    values = [f"{module} {value:.3f}" for module, value in kept["auroc"].items() if value is not None]
    last = list(kept["groups"])[-1]
    return f"AUROC of the error alone, {last} against normal: {', '.join(values)}." if values else ""


def _lines(kept: Mapping[str, Any]) -> Sequence[tuple[str, str, str, str]]:
    """Return the lines of a table under `HEAD`."""
    return [
        (group, str(values["observations"]), _interval(values[MODULES[0]]), _interval(values[MODULES[1]]))
        for group, values in kept["groups"].items()
    ]


def _interval(mean: Mapping[str, float] | None) -> str:
    return "-" if mean is None else f"{mean['mean']:.3f} ({mean['low']:.3f} to {mean['high']:.3f})"


def render(found: Approximations, *, title: str, note: str = "", facts: Mapping[str, str] | None = None) -> str:
    """Return the page as text; the same numbers give the same bytes. `facts` say where they come from."""
    kept = record(found)
    theme = element("button", "Dark", type="button", id="theme", hidden=True)
    legend = element(
        "div",
        element("span", element("i", class_="swatch measured"), "measured, x"),
        element("span", element("i", class_="swatch imputed"), "decontaminated: imputed from the rest"),
        element("span", element("i", class_="swatch reconstructed"), "reconstructed by module 2"),
        element("span", element("i", class_="swatch shaded"), "hidden from module 1"),
        element("span", element("i", class_="swatch anomaly"), "true anomaly")
        if any(example.anomalous for example in found.examples)
        else None,
        class_="legend",
    )
    sides = [_side(example, found) for example in found.examples]
    content = element(
        "main",
        element("style", Html(STYLE)),
        element("div", element("h1", title), theme, class_="title"),
        element("p", note, class_="lead") if note else None,
        legend,
        element("div", sides, class_="pair"),
        _numbers(kept),
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
    """Draw an observation from one window before the hidden one to one window after it."""
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
    imputed = np.full(last - first, np.nan)
    imputed[start - first : stop - first] = example.decontaminated[k, start:stop]
    low, high = _range(np.concatenate([measured, rebuilt, imputed]))
    ticks = value_ticks(low, high, 3)
    labels = [
        element("span", text, style=f"bottom:{100 * (value - low) / (high - low):.4g}%")
        for value, text in zip(ticks, tick_labels(ticks), strict=True)
    ]
    shapes = [level_line((value - low) / (high - low), "grid") for value in ticks]
    for values, kind in ((measured, "measured"), (rebuilt, "reconstructed"), (imputed, "imputed")):
        chosen = envelope(values, COLUMNS)
        shapes.append(line((chosen + 0.5) / (last - first), (values[chosen] - low) / (high - low), kind))
    shade = place((start - first) / (last - first), (stop - first) / (last - first))
    anomalies = [
        element("i", class_="anomaly", style=place((begin - first) / (last - first), (end - first) / (last - first)))
        for begin, end in example.anomalous
        if begin < last and end > first
    ]
    return element(
        "figure",
        element("figcaption", name(found.names[k])),
        element("div", labels, class_="values", aria_hidden="true"),
        element("div", element("i", class_="shade", style=shade), drawing(shapes), anomalies, class_="plot"),
    )


def _range(values: Floats) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    if not len(known):
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    air = 0.06 * (high - low) or max(0.05 * abs(high), 0.5)
    return low - air, high + air


def _numbers(kept: Mapping[str, Any]) -> Html:
    lines = [element("tr", (element("td", text) for text in values)) for values in _lines(kept)]
    words = (
        f"Root mean square errors in z units under the mask over all observations, with {100 * kept['level']:.0f} % "
        "bootstrap intervals. Each example above has the median error of its group in the decontaminated window. The "
        "variables shown are those in which the abnormal example deviates most from its imputation."
    )
    separation = _separation(kept)
    heads = element("thead", element("tr", (element("th", head) for head in HEAD)))
    return element(
        "section",
        element("h2", "Over all observations"),
        element("p", words, class_="lead"),
        element("div", element("table", heads, element("tbody", lines)), class_="scroll"),
        element("p", separation, class_="note") if separation else None,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="What both modules of TSAD-C make of two observations, as a page.")
    parser.add_argument("data", help="the data set, as plans name it")
    parser.add_argument("--page", type=Path, help="the HTML page to write")
    parser.add_argument("--record", type=Path, help="the record to write (default: in benchmarks/results/paper)")
    parser.add_argument("--preset", default="default", help="default, paper or tiny")
    parser.add_argument("--set", action="append", default=[], help="one setting, as section.name=value")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and the training")
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the record as a table to this file")
    options = parser.parse_args(arguments)
    file = options.record or RESULTS / f"approximation-{options.data}.json"
    if options.table:
        text = markdown(json.loads(file.read_text(encoding="utf-8")))
        write_file(options.table, f"# Normal approximation: {options.data}\n\n{text}\n".encode())
        return
    # Only the imputation is needed: scoring "own" skips the other views.
    given = {"length": catalogue.find(options.data, "benchmark").length, "seed": options.seed, "scoring": "own"}
    config = update(update(TSADC.Config.preset(options.preset), given), parse_assignments(options.set))
    found = approximations(catalogue.draw(options.data, options.raw, options.seed), config)
    kept, made = record(found, options.seed), circumstances()
    about = {"study": "approximation", "data": options.data, "seed": options.seed, "preset": options.preset}
    content = {**about, "settings": to_mapping(config), **kept, **made}
    write_file(file, (json.dumps(content, indent=1) + "\n").encode())
    if options.page:
        changed = f", set {', '.join(options.set)}" if options.set else ""
        facts = {
            "Data": f"{options.data}, seed {options.seed}",
            "Detector": f"tsadc, preset {options.preset}, at most {config.training.epochs} epochs{changed}",
            "Version": f"tsadc {made['version']} at commit {made['commit'] or 'unknown'}",
            "Packages": made["packages"],
            "Machine": made["machine"],
            "Made": made["made"],
        }
        title = f"Normal approximation: {options.data}, seed {options.seed}"
        write_page(render(found, title=title, facts=facts), options.page)
    print(markdown(kept))


if __name__ == "__main__":
    main()
