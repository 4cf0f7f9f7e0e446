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
from tsadc.detectors.parts import fit_summary, rule_of, summarise
from tsadc.detectors.planned import masked
from tsadc.detectors.store import load, read_summary
from tsadc.detectors.summary import Entity, Summary, continued, merge
from tsadc.errors import ConfigError, DataError, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.io.reading import spell
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
    for number, folder in enumerate(models):
        if folder.resolve() in [other.resolve() for other in models[:number]]:
            raise DataError(f"{folder} is named twice; name each model once.")
    loaded = [_usable(folder, load(folder, detector=detector), "merge") for folder in models]
    summaries = [_summary(folder, own) for folder, own in zip(models, loaded, strict=True)]
    first = loaded[0]
    for folder, other, summary in zip(models[1:], loaded[1:], summaries[1:], strict=True):
        if other.name != first.name:
            raise ConfigError(
                f"Only models of one detector can be merged, but {models[0]} is of {first.name} and {folder} of "
                f"{other.name}; fit one of them again."
            )
        for name, own, came in _differences(to_mapping(first.settings), to_mapping(other.settings)):
            raise ConfigError(
                f"Only models with the same settings can be merged, but `{name}` is {own} in {models[0]} and {came} in "
                f"{folder}; fit one of them again."
            )
        _check_variables(models[0], first, folder, other)
        every, came = summaries[0].clock.every, summary.clock.every
        if every and came and every != came:
            faster = models[0] if every < came else folder
            raise DataError(
                f"{models[0]} has a row every {spell(every)} and {folder} every {spell(came)}, but only models with "
                f"the same sampling interval can be merged; fit {faster} again with --every {spell(max(every, came))}."
            )
    places: dict[str, Path] = {}
    for folder, summary in zip(models, summaries, strict=True):
        if twice := sorted(set(places) & set(summary.entities)):
            raise DataError(
                f"{listed(twice)} {'is' if len(twice) == 1 else 'are'} both in {places[twice[0]]} and in {folder}, but "
                "an entity must lie in one model; leave out one of them, or add later rows with `tsadc fit --continue`."
            )
        places |= dict.fromkeys(summary.entities, folder)
    merged = merge(summaries)
    _notice_undated(merged)
    _notice_zones(merged.entities)
    return _fitted(first, merged, [own.provenance_ for own in loaded], progress)


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
    old = _usable(model, load(model, detector=detector), "continue")
    known = _summary(model, old)
    new = series if calendar is None else masked(series, calendar, old.settings.length)
    later = summarise(type(old)(config=old.settings), list(new), variables=old.variables_)
    every, came = known.clock.every, later.clock.every
    if every and came and every != came:
        fix = f"resample it with --every {spell(every)}" if came < every else "leave out --every, or fit a new model"
        raise DataError(f"{model} has a row every {spell(every)}, but the new history every {spell(came)}; {fix}.")
    whole = continued(known, later)
    _notice_undated(whole)
    _notice_zones({f"{name} in {model}": own for name, own in known.entities.items()} | later.entities)
    return _fitted(old, whole, [old.provenance_, {"data": later.describe()}], progress)


def _fitted(
    like: Detector, summary: Summary, parts: Sequence[Mapping[str, Any]], progress: ProgressCallback | None
) -> Detector:
    made = fit_summary(type(like)(config=like.settings), summary, progress=progress)
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
    if summary.rule != rule_of(detector, detector.variables_):
        raise ConfigError(f"The summary in {folder} was made by another version of tsadc; fit the model again.")
    return summary


def _usable(folder: Path, detector: Detector, verb: str) -> Detector:
    """Return the model; raise if it has verdicts, or its detector cannot be merged."""
    if not detector.mergeable:
        raise ConfigError(
            f"{folder} is a model of {detector.name}, which cannot be fitted in parts, so it can be neither merged nor "
            "continued; use the detector ensemble, or fit a model to all of the history at once."
        )
    if detector.verdicts_:
        raise ConfigError(
            f"{folder} has verdicts about intervals, which cannot be carried over without the data that they are "
            f"about; {verb} a copy of the model without its verdicts.json, and give the verdicts again."
        )
    return detector


def _check_variables(folder: Path, own: Detector, other_folder: Path, other: Detector) -> None:
    """Raise unless two models have the same variables in the same order."""
    if own.variables_ == other.variables_:
        return
    here = [name for name in own.variables_ if name not in other.variables_]
    there = [name for name in other.variables_ if name not in own.variables_]
    parts = [f"{folder} has {listed(here)}"] * bool(here) + [f"{other_folder} has {listed(there)}"] * bool(there)
    what = f"only {' and only '.join(parts)}" if parts else f"those of {other_folder} have another order"
    raise DataError(
        f"Only models with the same variables can be merged, but {what}; fit one of them again, with the --columns of "
        "the other."
    )


def _notice_undated(summary: Summary) -> None:
    """Notice that some entities have dates and others have none."""
    undated = [name for name, entity in summary.entities.items() if not entity.clock.dated]
    if undated and len(undated) < len(summary.entities):
        row = spell(summary.clock.every) if summary.clock.every else "step of the others"
        notice(
            f"{listed(undated)} {'has' if len(undated) == 1 else 'have'} no dates, unlike the others; {row} counts as "
            "the time between two rows. Name the time column with --time if there is one, and fit again."
        )


def _notice_zones(entities: Mapping[str, Entity]) -> None:
    """Notice, as a fit to all files does, that times of some have a time zone and those of others have none."""
    zones = {name: own.clock.timezone for name, own in entities.items() if own.clock.dated}
    naive = next((name for name, zone in zones.items() if zone is None), None)
    zoned = next((name for name, zone in zones.items() if zone is not None), None)
    if naive is not None and zoned is not None:
        notice(
            f"The times of {naive} have no time zone, but those of {zoned} have one; times without a zone were read as "
            "UTC."
        )


def _differences(own: Any, came: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of each setting that differs."""
    if isinstance(own, Mapping) and isinstance(came, Mapping):
        for name in own:
            yield from _differences(own[name], came.get(name), f"{path}.{name}" if path else name)
    elif own != came:
        yield path, own, came
