"""`tsadc info`: what a model is, what data holds, in words."""

from __future__ import annotations

import re
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
from tsadc.detectors.threshold import Contamination, Normal, Threshold, daily, explain
from tsadc.errors import DataError, ModelFileError, TsadcNotice
from tsadc.io.frames import check_length
from tsadc.io.reading import spell
from tsadc.series import Clock, Floats, Series
from tsadc.show.words import count
from tsadc.variables import match

if TYPE_CHECKING:
    from tsadc.detectors.tsadc.detector import Config

MOST = 20  # entities listed one by one


def is_model(path: Path) -> bool:
    """Whether the folder is meant to be a model, whole or not; another one holds data. Refused if there is nothing."""
    if not path.exists():
        raise DataError(f"There is neither a file nor a folder {path}; name a model that `tsadc fit` wrote, or data.")
    return (path / SETTINGS).exists() or (path / ARRAYS).exists()


def about_model(folder: Path) -> list[tuple[str, str]]:
    """From the settings and the training scores, checked to be those saved with them; torch is not needed."""
    model = read_settings(folder)
    data = read_arrays(folder, model)
    try:
        return _about_model(model, load_arrays(data)["decision_scores"])
    except (SafetensorError, KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ModelFileError(f"{folder} is not a usable model: its settings are incomplete or damaged.") from None


def _about_model(model: Mapping[str, Any], scores: Floats) -> list[tuple[str, str]]:
    settings, origin = model["settings"], model["provenance"]
    data, training, clock = origin["data"], origin.get("training"), Clock(**model["clock"])
    found, value = Contamination(**model["contamination"]), float(model["threshold"])
    above = Normal(scores, found.share).above(value)
    how = explain(build(Threshold.Config, settings["threshold"]), found, above, daily(clock, settings["length"]))
    rows = [
        ("model", f"{model['detector']}, format {model['format']}, made by tsadc {origin['versions']['tsadc']}"),
        ("variables", f"{len(model['variables'])}: {_some(model['variables'])}"),
        ("sampling", _sampling(clock)),
        ("observation", f"{settings['length']} rows"),
        ("contamination", f"{found}. {found.doubt}".removesuffix(". ")),
        ("threshold", f"{value:.4f} {how}"),
        ("entities", f"{len(model['scaler']['entities'])}: {_some(list(model['scaler']['entities']))}"),
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
    return [*rows, ("scores", "\n".join(histogram(scores, value)))]


def about_data(series: Sequence[Series], config: Config) -> list[tuple[str, str]]:
    """Sizes, clock, gaps, what is missing or constant, and what a fit will cost."""
    series = match(check_length(tuple(series), config.length), series[0].names)
    rows = [
        ("entities", f"{len(series)}: {_some([one.entity for one in series])}"),
        ("rows", f"{sum(len(one) for one in series)}"),
        ("variables", f"{len(series[0].names)}: {_some(series[0].names)}"),
    ]
    counts = [_count(one) for one in series]
    rows += [(one.entity, _about_series(one, counted)) for one, counted in zip(series[:MOST], counts, strict=False)]
    measured = np.sum([counted.measured for counted in counts], axis=0)
    width = np.max([counted.high for counted in counts], axis=0) - np.min([counted.low for counted in counts], axis=0)
    empty = [name for name, number in zip(series[0].names, measured, strict=True) if number == 0]
    constant = [name for name, span in zip(series[0].names, width, strict=True) if span == 0]
    cells = sum(len(one) for one in series) * len(series[0].names)
    rows.append(("not measured", f"{1 - measured.sum() / cells:.2%} of all cells"))
    rows.append(("without any value", _some(empty) if empty else "none"))
    rows.append(("constant", _some(constant) if constant else "none"))
    return [*rows, ("fit", _cost(series, config))]


@dataclass(frozen=True)
class _Counted:
    """Of one series: measured cells, lowest and highest value per variable; rows without any value."""

    measured: NDArray[np.int64]
    low: Floats
    high: Floats
    empty: int


def _count(series: Series) -> _Counted:
    variables = len(series.names)
    measured, empty = np.zeros(variables, dtype=np.int64), 0
    low, high = np.full(variables, np.inf), np.full(variables, -np.inf)
    for values in series.chunks():
        finite = np.isfinite(values)
        measured += finite.sum(axis=0)
        empty += int((~finite.any(axis=1)).sum())
        low = np.minimum(low, np.where(finite, values, np.inf).min(axis=0))
        high = np.maximum(high, np.where(finite, values, -np.inf).max(axis=0))
    return _Counted(measured, low, high, empty)


def _cost(series: Sequence[Series], config: Config) -> str:
    from tsadc.detectors.tsadc.cost import estimate
    from tsadc.detectors.tsadc.detector import TSADC

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)  # what they say is in the other lines
            observations = len(TSADC(config=config).prepare(tuple(series))[0])
    except DataError as error:
        return f"not possible: {error}"
    cost = estimate(observations, len(series[0].names), config)
    return (
        f"{observations} observations of {config.length} rows, at most {timedelta(seconds=round(cost.seconds))} for "
        f"{count(config.training.epochs, 'epoch', 'epochs')} on this machine, about {cost.memory / 2**20:.0f} MB of "
        "memory above the data"
    )


def _about_series(series: Series, counted: _Counted) -> str:
    start, end = series.clock.at([0, len(series)])
    span = f"{start} to {end}, " if series.clock.dated else ""
    return f"{span}{len(series)} rows, {_sampling(series.clock)}, {counted.empty} of them empty"


def _sampling(clock: Clock) -> str:
    if clock.every is None:
        return "no timestamps, rows are counted"
    return (
        f"every {re.sub('(?<=[0-9])(?=[a-zA-Z])', ' ', spell(clock.every))}{'' if clock.dated else ', no start time'}"
    )


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
