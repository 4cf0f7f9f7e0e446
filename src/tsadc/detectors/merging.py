"""Merge stored models of disjoint entities, and add history to one, without the data that they were fitted to.

Each model must have been fitted with `mergeable=True`, so that its folder has a summary of its history. The result is
the model that a fit to all of the history would give, within two limits: of an entity whose history is larger than its
sample, the quantiles of the scaler come from a sketch if rows are added to it (`Distribution`), and where one part ends
in the middle of an observation and another goes on, its two halves are two observations, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tsadc.config import to_mapping
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.planned import masked
from tsadc.detectors.store import load, read_summary
from tsadc.detectors.summary import Summary, continued, merge
from tsadc.errors import ConfigError, DataError
from tsadc.io.calendar import Calendar
from tsadc.series import Series

ORIGIN = ("data", "reading", "review", "cleaned")  # what is kept of the provenance of each part


def merge_models(
    models: Sequence[Path], *, detector: str | None = None, progress: ProgressCallback | None = None
) -> Detector:
    """Return the model of all entities of several models.

    Parameters
    ----------
    models : sequence of path
        Folders of two or more models, of disjoint entities, with the same variables and settings.
    detector : str, optional
        Place of the class, as for `tsadc.load`, if it is one of your own.
    progress : callable, optional
        As for `Detector.fit`.

    Returns
    -------
    Detector
        A fitted detector that can be merged again.

    Raises
    ------
    ModelFileError
        If a folder is not a usable model or has no summary.
    DataError
        If an entity is in two models, or variables or sampling intervals differ.
    ConfigError
        If detectors or settings differ, or a model has verdicts.
    """
    if len(models) < 2:
        raise DataError(f"Merging needs at least two models, but got {len(models)}; name more of them.")
    first, *others = loaded = [_without_verdicts(folder, load(folder, detector=detector)) for folder in models]
    for folder, other in zip(models[1:], others, strict=True):
        if other.name != first.name:
            raise ConfigError(
                f"Only models of one detector can be merged, but {models[0]} is of {first.name} and {folder} of "
                f"{other.name}."
            )
        for name, own, came in _differences(to_mapping(first.settings), to_mapping(other.settings)):
            raise ConfigError(
                f"Only models with the same settings can be merged, but `{name}` is {own} in {models[0]} and {came} in "
                f"{folder}; fit one of them again."
            )
    summary = merge(_summary(folder, own) for folder, own in zip(models, loaded, strict=True))
    return _fitted(first, summary, [own.provenance_ for own in loaded], progress)


def continue_model(
    model: Path,
    series: Sequence[Series],
    *,
    detector: str | None = None,
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
) -> Detector:
    """Return the model of the history of a stored model and of further history.

    Parameters
    ----------
    model : path
        Folder of the model.
    series : sequence of Series
        History of new entities, and later rows of known ones, which need dates.
    detector : str, optional
        Place of the class, as for `tsadc.load`, if it is one of your own.
    calendar : Calendar, optional
        Planned work in the further history, which is not learnt from.
    progress : callable, optional
        As for `Detector.fit`.

    Returns
    -------
    Detector
        A fitted detector that can be continued again.

    Raises
    ------
    ModelFileError, ConfigError
        As for `merge_models`.
    DataError
        If the history cannot be used, or does not follow that of the model.
    """
    old = _without_verdicts(model, load(model, detector=detector))
    new = series if calendar is None else masked(series, calendar, old.settings.length)
    later = type(old)(config=old.settings).summarise(list(new), variables=old.variables_)
    origin = {"data": later.describe()}
    return _fitted(old, continued(_summary(model, old), later), [old.provenance_, origin], progress)


def _fitted(
    like: Detector, summary: Summary, parts: Sequence[Mapping[str, Any]], progress: ProgressCallback | None
) -> Detector:
    made = type(like)(config=like.settings).fit_summary(summary, progress=progress)
    readings = [part["reading"] for part in parts if "reading" in part]
    shared = {
        name: value for name, value in (readings or [{}])[0].items() if all(value == own.get(name) for own in readings)
    }
    if shared:
        made.provenance_["reading"] = shared
    made.provenance_["parts"] = [{name: part[name] for name in ORIGIN if name in part} for part in parts]
    return made


def _summary(folder: Path, detector: Detector) -> Summary:
    summary = read_summary(folder)
    if summary.rule != detector._rule(detector.variables_):
        raise ConfigError(f"The summary in {folder} was made by another version of tsadc; fit the model again.")
    return summary


def _without_verdicts(folder: Path, detector: Detector) -> Detector:
    if detector.verdicts_:
        raise ConfigError(
            f"{folder} has verdicts about intervals, which cannot be carried over without the data that they are "
            "about; merge a copy of the model without its verdicts.json, and give the verdicts again."
        )
    return detector


def _differences(own: Any, came: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each setting that differs."""
    if isinstance(own, Mapping) and isinstance(came, Mapping):
        for name in own:
            yield from _differences(own[name], came.get(name), f"{path}.{name}" if path else name)
    elif own != came:
        yield path, own, came
