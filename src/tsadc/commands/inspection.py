"""`tsadc info`: what a model is, what data holds, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.detectors.store import ARRAYS, SETTINGS, read_settings
from tsadc.errors import ModelFileError
from tsadc.io.tables import read
from tsadc.report.words import THIN, Times, count
from tsadc.series import Clock, Series


def is_model(path: Path) -> bool:
    """Whether the folder is meant to be a model, whole or not; another one holds data."""
    return (path / SETTINGS).exists() or (path / ARRAYS).exists()


def about_model(folder: Path) -> list[tuple[str, str]]:
    """Reads the settings only: no weights, no torch."""
    model = read_settings(folder)
    try:
        return _about_model(model)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise ModelFileError(f"{folder} is not a usable model: its settings are incomplete or damaged.") from None


def _about_model(model: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings, origin = model["settings"], model["provenance"]
    data, training = origin["data"], origin.get("training")
    rows = [
        ("model", f"{model['detector']}, format {model['format']}, made by tsadc {origin['versions']['tsadc']}"),
        ("variables", f"{len(model['variables'])}: {_some(model['variables'])}"),
        ("sampling", _sampling(Clock(**model["clock"]))),
        ("observation", f"{settings['length']} rows"),
        ("contamination", f"{settings['contamination']:g} (estimated share of anomalous data)"),
        ("threshold", f"{model['threshold']:.4f}"),
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
    return rows


def about_data(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Sizes, clock, gaps and what is missing or constant."""
    series = read(files)
    values = np.concatenate([one.values for one in series]) if len({one.names for one in series}) == 1 else None
    rows = [
        ("entities", f"{len(series)}: {_some([one.entity for one in series])}"),
        ("rows", f"{sum(len(one) for one in series)}"),
        ("variables", f"{len(series[0].names)}: {_some(series[0].names)}"),
    ]
    for one in series[:20]:
        rows.append((one.entity, _about_series(one)))
    if values is None:
        rows.append(("note", "the files have different variables; a model needs the same in all"))
        return rows
    finite = np.isfinite(values)
    with np.errstate(all="ignore"):
        spread = np.where(finite, values, -np.inf).max(axis=0) - np.where(finite, values, np.inf).min(axis=0)
    empty = [name for name, any_ in zip(series[0].names, finite.any(axis=0), strict=True) if not any_]
    constant = [name for name, width in zip(series[0].names, spread, strict=True) if width == 0]
    rows.append(("not measured", f"{1 - finite.mean():.2%} of all cells"))
    rows.append(("without any value", _some(empty) if empty else "none"))
    rows.append(("constant", _some(constant) if constant else "none"))
    return rows


def _about_series(series: Series) -> str:
    start, end = series.clock.at([0, len(series)])
    gaps = int((~np.isfinite(series.values).any(axis=1)).sum())
    span = f"{start} to {end}, " if series.clock.dated else ""
    return f"{span}{len(series)} rows, {_sampling(series.clock)}, {gaps} of them empty"


def _sampling(clock: Clock) -> str:
    return f"every {Times(clock).duration(1).replace(THIN, ' ')}" if clock.dated else "no timestamps, rows are counted"


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
