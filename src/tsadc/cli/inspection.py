"""`tsadc info`: describe a model, or examine data."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table
from rich.text import Text
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from tsadc.cli.console import console, echo
from tsadc.cli.examination import without
from tsadc.cli.histogram import histogram
from tsadc.cli.nightly import identity
from tsadc.config import build
from tsadc.detectors.feedback import learnt_from
from tsadc.detectors.store import ARRAYS, HISTORY, SETTINGS, SUMMARY, read_arrays, read_settings, upgraded_threshold
from tsadc.detectors.threshold import Contamination, Normal, Threshold, explain
from tsadc.errors import DataError, ModelFileError, TsadcNotice, listed
from tsadc.io.doctor import Examination, Finding, VariableFacts
from tsadc.io.memory import check_length
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats, Series
from tsadc.show.words import count, reviewed_text
from tsadc.variables import match

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MAX_LISTED = 20  # entities with a line of their own
NAMED = 8  # names in a line
MAX_VARIABLES = 60  # with a line of their own
WIDE = 150  # characters of a terminal that has room for all columns
NARROW_SPARKS, WIDE_SPARKS = 10, 24  # characters of a sparkline
NARROW_NAME, WIDE_NAME = 20, 40  # characters of a name
BARS = "".join(map(chr, range(0x2581, 0x2589)))  # blocks of eight heights
STYLES = {"refuse": "bold red", "warn": "bold yellow", "note": "cyan"}
MAX_TIMED = 32  # observations of the fit that is timed to estimate the cost of one without a network


def is_model(path: Path) -> bool:
    """Return whether `path` is a model folder, complete or not; raise if it does not exist."""
    if not path.exists():
        raise DataError(f"There is neither a file nor a folder {path}; name a model that `tsadc fit` wrote, or data.")
    return (path / SETTINGS).exists() or (path / ARRAYS).exists()


def about_model(folder: Path) -> list[tuple[str, str]]:
    """Describe a model from its settings and training scores, without importing torch."""
    model = read_settings(folder)
    data = read_arrays(folder, model)
    try:
        arrays = load_arrays(data)
        kind, *rest = _about_model(folder, model, arrays["decision_scores"], arrays.get(HISTORY))
        return [kind, ("name", identity(folder)), *rest]
    except (SafetensorError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ModelFileError(f"{folder} is not a usable model: its settings are incomplete or damaged.") from None


def _about_model(folder: Path, model: Mapping[str, Any], scores: Floats, views: Floats | None) -> list[tuple[str, str]]:
    settings, origin = model["settings"], model["provenance"]
    data, training, clock = origin["data"], origin.get("training"), Clock(**model["clock"])
    contamination, threshold = Contamination(**model["contamination"]), float(model["threshold"])
    normal, config = Normal.of(scores[learnt_from(scores, views)], contamination), _threshold(model)
    how = explain(config, contamination, normal, threshold, clock, settings["length"])
    rows = [
        ("model", f"{model['detector']}, format {model['format']}, made by tsadc {origin['versions']['tsadc']}"),
        ("variables", f"{len(model['variables'])}: {listed(model['variables'], NAMED)}"),
        ("sampling", _sampling(clock)),
        ("observation", f"{settings['length']} rows"),
        ("contamination", f"{contamination}. {contamination.doubt}".removesuffix(". ")),
        ("threshold", f"{threshold:.4f}, {how}"),
        ("entities", f"{len(model['scaler']['entities'])}: {listed(list(model['scaler']['entities']), NAMED)}"),
        ("trained on", f"{data['rows']} rows, {data['observations']} observations, data digest {data['digest']}"),
        ("seed", str(settings["seed"])),
    ]
    if "summary" in model:
        kept = (folder / SUMMARY).is_file()
        rows.append(("mergeable", "yes: it keeps a summary of its history" if kept else f"no: {SUMMARY} is missing"))
    if review := origin.get("review"):
        rows.append(("reviewed", reviewed_text(review)))
    if training:
        best = training["epochs"][training["best_epoch"] - 1]
        rows.append(
            (
                "training",
                f"{count(len(training['epochs']), 'epoch', 'epochs')}, best {training['best_epoch']} (validation loss "
                f"{best['validation']:.4f}), {sum(epoch['seconds'] for epoch in training['epochs']):.0f} s",
            )
        )
    return [*rows, ("scores", "\n".join(histogram(scores, threshold)))]


def _threshold(model: Mapping[str, Any]) -> Threshold.Config:
    return build(Threshold.Config, upgraded_threshold(model["settings"]["threshold"], model["format"]))


def about_data(series: Sequence[Series], found: Examination, detector: Detector) -> list[tuple[str, str]]:
    """Describe sizes, clocks and missing values, and the cost of fitting the detector."""
    series = match(check_length(tuple(series), detector.settings.length), series[0].names)
    rows = [
        ("entities", f"{len(series)}: {listed([item.entity for item in series], NAMED)}"),
        ("rows", f"{found.rows}"),
        ("variables", f"{len(series[0].names)}: {listed(series[0].names, NAMED)}"),
    ]
    rows += [
        (item.entity, _about_series(item, entity.empty_rows))
        for item, entity in zip(series[:MAX_LISTED], found.entities, strict=False)
    ]
    empty = [variable.name for variable in found.variables if variable.kind == "empty"]
    constant = [variable.name for variable in found.variables if variable.minimum == variable.maximum]
    missing = float(np.mean([variable.missing for variable in found.variables]))
    rows.append(("not measured", f"{missing:.2%} of all cells"))
    rows.append(("without any value", listed(empty, NAMED) if empty else "none"))
    rows.append(("constant", listed(constant, NAMED) if constant else "none"))
    used = series if len(found.labels) == len(found.variables) else [without(item, found.labels) for item in series]
    return [*rows, (f"fit {detector.name}", _cost(used, detector))]


def show_examination(found: Examination) -> None:
    """Print a table of the variables and, below it, the findings, the most severe first."""
    console.print(_variables(found, wide=console.width >= WIDE))
    left = len(found.variables) - MAX_VARIABLES
    if left > 0:
        echo(f"and {left:,} more; --json lists all.")
    echo("")
    if not found.findings:
        echo("No problems were found.\n")
    for finding in found.findings:
        console.print(_finding(finding))
        echo("")


def _variables(found: Examination, *, wide: bool) -> Table:
    """Return the table of variables; a wide terminal has room for all columns."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0) if not wide else (0, 2, 0, 0))
    with_unit = any(variable.unit for variable in found.variables)
    every: list[tuple[str, bool, Callable[[VariableFacts], str]]] = [
        ("type", True, lambda variable: variable.kind),
        ("unit", wide and with_unit, lambda variable: variable.unit or ""),
        ("min", True, lambda variable: _figure(variable.minimum)),
        ("1 %", wide, lambda variable: _figure(variable.percentile_1)),
        ("median", True, lambda variable: _figure(variable.median)),
        ("99 %", wide, lambda variable: _figure(variable.percentile_99)),
        ("max", True, lambda variable: _figure(variable.maximum)),
        ("missing", True, lambda variable: _share(variable.missing)),
        ("repeated", wide, lambda variable: _share(variable.repeated)),
        ("resolution", wide, lambda variable: _figure(variable.resolution)),
        ("first value", wide, lambda variable: _when(variable.first)),
        ("last value", wide, lambda variable: _when(variable.last)),
        ("over time", True, lambda variable: sparkline(variable.sparkline, WIDE_SPARKS if wide else NARROW_SPARKS)),
    ]
    table.add_column("variable", overflow="ellipsis", no_wrap=True, max_width=WIDE_NAME if wide else NARROW_NAME)
    shown = [(title, text) for title, visible, text in every if visible]
    for title, _ in shown:
        left = title in ("type", "unit", "over time", "first value", "last value")
        table.add_column(title, justify="left" if left else "right", no_wrap=True)
    for variable in found.variables[:MAX_VARIABLES]:
        table.add_row(variable.name, *(text(variable) for _, text in shown))
    return table


def _finding(finding: Finding) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=6, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(finding.severity, style=STYLES[finding.severity]), Text(finding.evidence))
    grid.add_row("", Text(finding.consequence, style="dim"))
    grid.add_row("", Text(f"\N{RIGHTWARDS ARROW} {finding.remedy}", style="bold"))
    return grid


def sparkline(values: Sequence[float], most: int) -> str:
    """Draw values as blocks of eight heights; a space where nothing was measured."""
    numbers = np.asarray(values, dtype=np.float64)
    parts = [part[np.isfinite(part)] for part in np.array_split(numbers, min(most, len(numbers)))]
    means = np.array([part.mean() if len(part) else np.nan for part in parts])
    known = means[np.isfinite(means)]
    if not len(known):
        return ""
    low, width = known.min(), known.max() - known.min()
    return "".join(
        " " if np.isnan(mean) else BARS[min(7, int(8 * (mean - low) / width)) if width > 0 else 3] for mean in means
    )


def _figure(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.4g}"


def _share(share: float) -> str:
    return "" if np.isnan(share) else f"{share:.0%}" if share == 0 or share >= 0.1 else f"{share:.1%}"


def _when(time: Any) -> str:
    return "" if time is None else f"{time:%Y-%m-%d %H:%M}" if hasattr(time, "year") else f"row {time}"


def _cost(series: Sequence[Series], detector: Detector) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)  # the other lines say the same
            observations = len(detector.prepare(tuple(series))[0])
    except DataError as error:
        return f"not possible: {error}"
    size, variables = f"{observations} observations of {detector.settings.length} rows", len(series[0].names)
    if not hasattr(detector.settings, "training"):
        seconds = _timed_fit(detector, min(observations, MAX_TIMED), variables) * max(1, observations / MAX_TIMED)
        return f"{size}, about {timedelta(seconds=math.ceil(seconds))} on this machine"
    if detector.name != "tsadc":
        return f"{size}; the time is estimated only for tsadc and for detectors without a network"
    return f"{size}, {_cost_of_tsadc(observations, variables, detector.settings)}"


def _timed_fit(detector: Detector, observations: int, variables: int) -> float:
    """Return the seconds that a fit to random numbers takes."""
    numbers = np.random.default_rng(0).normal(size=(observations, detector.settings.length, variables))
    started = time.perf_counter()
    type(detector)(config=detector.settings).fit(numbers)
    return time.perf_counter() - started


def _cost_of_tsadc(observations: int, variables: int, config: Any) -> str:
    from tsadc.detectors.tsadc.cost import estimate

    cost = estimate(observations, variables, config)
    return (
        f"at most {timedelta(seconds=round(cost.seconds))} for "
        f"{count(config.training.epochs, 'epoch', 'epochs')} on this machine, about {cost.memory / 2**20:.0f} MB of "
        "memory above the data"
    )


def _about_series(series: Series, empty: int) -> str:
    start, end = series.clock.at([0, len(series)])
    span = f"{start} to {end}, " if series.clock.dated else ""
    return f"{span}{len(series):,} rows ({empty:,} empty), {_sampling(series.clock)}"


def _sampling(clock: Clock) -> str:
    if clock.every is None:
        return "no timestamps, rows are counted"
    return (
        f"every {re.sub('(?<=[0-9])(?=[a-zA-Z])', ' ', spell(clock.every))}{'' if clock.dated else ', no start time'}"
    )
