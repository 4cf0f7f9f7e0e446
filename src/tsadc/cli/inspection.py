"""`tsadc info`: describe a model, or data."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays

from tsadc.cli.histogram import histogram
from tsadc.config import build
from tsadc.detectors.store import ARRAYS, SETTINGS, read_arrays, read_settings
from tsadc.detectors.threshold import Contamination, Normal, Threshold, explain, observations_per_day
from tsadc.errors import DataError, ModelFileError, TsadcNotice, listed
from tsadc.io.memory import check_length
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats, Series
from tsadc.show.words import count
from tsadc.variables import match

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MAX_LISTED = 20  # entities with a line of their own
NAMED = 8  # names in a line
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
        return _about_model(model, load_arrays(data)["decision_scores"])
    except (SafetensorError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ModelFileError(f"{folder} is not a usable model: its settings are incomplete or damaged.") from None


def _about_model(model: Mapping[str, Any], scores: Floats) -> list[tuple[str, str]]:
    settings, origin = model["settings"], model["provenance"]
    data, training, clock = origin["data"], origin.get("training"), Clock(**model["clock"])
    contamination, threshold = Contamination(**model["contamination"]), float(model["threshold"])
    above = Normal(scores, contamination.share).above(threshold)
    per_day = observations_per_day(clock, settings["length"])
    how = explain(build(Threshold.Config, settings["threshold"]), contamination, above, per_day)
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


def about_data(series: Sequence[Series], detector: Detector) -> list[tuple[str, str]]:
    """Describe sizes, clock, missing and constant variables, and the cost of fitting the detector."""
    series = match(check_length(tuple(series), detector.settings.length), series[0].names)
    rows = [
        ("entities", f"{len(series)}: {listed([item.entity for item in series], NAMED)}"),
        ("rows", f"{sum(len(item) for item in series)}"),
        ("variables", f"{len(series[0].names)}: {listed(series[0].names, NAMED)}"),
    ]
    counts = [_count(item) for item in series]
    rows += [
        (item.entity, _about_series(item, cells)) for item, cells in zip(series[:MAX_LISTED], counts, strict=False)
    ]
    measured = np.sum([cells.measured for cells in counts], axis=0)
    width = np.max([cells.high for cells in counts], axis=0) - np.min([cells.low for cells in counts], axis=0)
    empty = [name for name, number in zip(series[0].names, measured, strict=True) if number == 0]
    constant = [name for name, span in zip(series[0].names, width, strict=True) if span == 0]
    total = sum(len(item) for item in series) * len(series[0].names)
    rows.append(("not measured", f"{1 - measured.sum() / total:.2%} of all cells"))
    rows.append(("without any value", listed(empty, NAMED) if empty else "none"))
    rows.append(("constant", listed(constant, NAMED) if constant else "none"))
    return [*rows, (f"fit {detector.name}", _cost(series, detector))]


@dataclass(frozen=True)
class _CellCounts:
    """Measured cells, lowest and highest value of each variable of a series, and its number of empty rows."""

    measured: NDArray[np.int64]
    low: Floats
    high: Floats
    empty: int


def _count(series: Series) -> _CellCounts:
    variables = len(series.names)
    measured, empty = np.zeros(variables, dtype=np.int64), 0
    low, high = np.full(variables, np.inf), np.full(variables, -np.inf)
    for values in series.chunks():
        finite = np.isfinite(values)
        measured += finite.sum(axis=0)
        empty += int((~finite.any(axis=1)).sum())
        low = np.minimum(low, np.where(finite, values, np.inf).min(axis=0))
        high = np.maximum(high, np.where(finite, values, -np.inf).max(axis=0))
    return _CellCounts(measured, low, high, empty)


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


def _about_series(series: Series, cells: _CellCounts) -> str:
    start, end = series.clock.at([0, len(series)])
    span = f"{start} to {end}, " if series.clock.dated else ""
    return f"{span}{len(series):,} rows ({cells.empty:,} empty), {_sampling(series.clock)}"


def _sampling(clock: Clock) -> str:
    if clock.every is None:
        return "no timestamps, rows are counted"
    return (
        f"every {re.sub('(?<=[0-9])(?=[a-zA-Z])', ' ', spell(clock.every))}{'' if clock.dated else ', no start time'}"
    )
