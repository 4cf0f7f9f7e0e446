"""Save and load models.

A model is a folder: `config.json` holds the settings and everything else that is not an array, `model.safetensors` the
arrays, `verdicts.json` what people said about intervals, if they did, and `summary.safetensors` a summary of the
history, if the model can be merged. Nothing is pickled. The folder appears complete or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from tsadc.atomic import new_folder
from tsadc.config import build, parse_json, to_mapping
from tsadc.detectors import episodes, feedback, find, usual
from tsadc.detectors.base import Detector
from tsadc.detectors.episodes import Episodes
from tsadc.detectors.preparation import hold_out
from tsadc.detectors.stored_limits import RESTORE, building_within, check_arrays, check_counts
from tsadc.detectors.summary import Summary
from tsadc.detectors.threshold import Contamination, Normal
from tsadc.detectors.usual import Usual
from tsadc.errors import ConfigError, DataError, ModelFileError
from tsadc.optional import NEEDS_TORCH
from tsadc.scale import Scaler
from tsadc.series import Clock

FORMAT = 4
# Settings that format 1 called differently: old name -> new name, and old value -> new value.
RENAMED_SETTINGS = {"scoring": "inference", "head": "scoring", "views": "ensemble"}
RENAMED_VALUES = {"head": {"tsadc": "fused", "paper": "own"}}
SETTINGS, ARRAYS, SUMMARY = "config.json", "model.safetensors", "summary.safetensors"
HISTORY = "history_views"  # among the arrays
# What can go wrong while a model is rebuilt from settings and arrays that somebody has edited.
DAMAGE = (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError)


def save(detector: Detector, path: Path) -> None:
    """Write a fitted detector to the new folder `path`."""
    learnt = detector._state()
    for own in (detector.usual_, detector.episodes_):
        learnt |= {} if own is None else own.state()
    arrays = {name: np.ascontiguousarray(array) for name, array in learnt.items()}
    free = vars(detector) if detector.lesson_ is None else {**vars(detector), **detector.lesson_.before}
    arrays["decision_scores"] = free["decision_scores_"]
    arrays["validation_scores"] = detector.validation_scores_
    if detector.history_views_ is not None:
        arrays[HISTORY] = detector.history_views_
    data = save_arrays(arrays)
    summary = None if detector.summary_ is None else detector.summary_.to_bytes()
    settings = {
        "format": FORMAT,
        "detector": detector.name,
        **({} if detector.source is None else {"source": detector.source}),
        "settings": to_mapping(detector.settings),
        "variables": list(detector.variables_),
        "clock": asdict(detector.clock_),
        "threshold": free["threshold_"],
        "held_out": detector.held_out_,
        "contamination": asdict(detector.contamination_),
        "memory": detector.memory_,
        "arrays": hashlib.sha256(data).hexdigest(),
        **({} if summary is None else {"summary": hashlib.sha256(summary).hexdigest()}),
        "provenance": detector.provenance_,
        "scaler": detector.scaler_.to_mapping(),
    }
    with new_folder(path) as folder:
        (folder / ARRAYS).write_bytes(data)
        if summary is not None:
            (folder / SUMMARY).write_bytes(summary)
        (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n")
        if detector.verdicts_:
            (folder / feedback.FILE).write_bytes(feedback.to_json(detector.verdicts_))


def load(path: str | Path, *, detector: type[Detector] | str | None = None) -> Detector:
    """Load a detector that `Detector.save` or `tsadc fit` wrote.

    Parameters
    ----------
    path : path
        The model folder. Models of earlier versions can be loaded, too, unless the ensemble scores them.
    detector : class or str, optional
        The class of the model, if it is one of your own, or its place, such as ``"my_file.py:Mine"``; that file is run.
        None: the class that has the model's name among those of this and other installed packages. No file is run
        because a model says so.

    Returns
    -------
    Detector
        A fitted detector of the saved class. It gives the same numbers as the saved one, to the bit.

    Raises
    ------
    ModelFileError
        If the folder is not a model, is damaged, was written by a later version, or needs the ensemble of version 0.2.0
        or earlier.

    Examples
    --------
    With `detector` from the example of `Detector.fit` and a new folder `folder`:

    >>> detector.save(folder / "model")
    >>> tsadc.load(folder / "model").threshold_ == detector.threshold_
    True
    """
    folder = Path(path)
    settings = read_settings(folder)
    data = read_arrays(folder, settings)
    try:
        arrays = load_arrays(data)
        _check(settings)
        stored = _upgraded(settings["settings"], settings["format"], settings["detector"])
        verdicts = feedback.read(folder)
        fitted = _rebuild(_class_of(folder, settings, detector), {**settings, "settings": stored}, arrays)
        fitted._judge_by(verdicts)
        return fitted
    except ModelFileError:
        raise
    except KeyError as error:
        raise ModelFileError(f"{folder} is not a usable model: it lacks {error}; {RESTORE}.") from None
    except ConfigError as error:
        if NEEDS_TORCH in str(error):  # the model is not at fault
            raise
        raise ModelFileError(f"{folder} is not a usable model: {error}") from None
    except (SafetensorError, *DAMAGE):
        raise ModelFileError(
            f"{folder} is not a usable model: its weights do not match its {SETTINGS}; {RESTORE}."
        ) from None


def read_arrays(folder: Path, settings: Mapping[str, Any]) -> bytes:
    """Return the content of the weights file, after checking that it belongs to the settings."""
    try:
        data = (folder / ARRAYS).read_bytes()
    except OSError:
        raise ModelFileError(f"{folder} has a {SETTINGS} but no readable {ARRAYS}; {RESTORE}.") from None
    if hashlib.sha256(data).hexdigest() != settings.get("arrays"):
        raise ModelFileError(f"{folder / ARRAYS} is truncated or does not belong to its {SETTINGS}; {RESTORE}.")
    return data


def read_summary(folder: Path) -> Summary:
    """Return the summary of the history that a model folder has."""
    settings = read_settings(folder)
    if "summary" not in settings:
        raise ModelFileError(
            f"{folder} has no summary of its history, so that it cannot be merged or continued; fit it again with "
            "--mergeable. `tsadc adapt` and `tsadc refit` write models without one."
        )
    try:
        data = (folder / SUMMARY).read_bytes()
        if hashlib.sha256(data).hexdigest() != settings["summary"]:
            raise ValueError
        return Summary.from_bytes(data)
    except (OSError, SafetensorError, *DAMAGE):
        raise ModelFileError(
            f"{folder / SUMMARY} is missing, truncated or does not belong to its {SETTINGS}; {RESTORE}."
        ) from None


def read_settings(folder: Path) -> dict[str, Any]:
    """Return the `config.json` of a model folder, after checking that this version can read it."""
    if not folder.is_dir():
        came = f"{folder} is a file" if folder.exists() else f"There is no folder {folder}"
        raise ModelFileError(f"{came}, but a model folder was expected; name one that `tsadc fit` wrote.")
    try:
        settings = parse_json((folder / SETTINGS).read_bytes())
    except FileNotFoundError:
        raise ModelFileError(
            f"{folder} is not a model: it has no {SETTINGS}; name a folder that `tsadc fit` wrote."
        ) from None
    except (OSError, ValueError):
        raise ModelFileError(f"{folder / SETTINGS} is truncated or not JSON; {RESTORE}.") from None
    if not isinstance(settings, dict) or not isinstance(settings.get("format"), int) or "detector" not in settings:
        raise ModelFileError(f"{folder / SETTINGS} was not written by tsadc.")
    if settings["format"] > FORMAT:
        raise ModelFileError(
            f"{folder} has model format {settings['format']}, but this version reads up to {FORMAT}; upgrade tsadc."
        )
    return settings


def _check(settings: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for damaged values that would load and give wrong results."""
    variables, clock, scaler = settings["variables"], settings["clock"], settings["scaler"]
    threshold, contamination = settings["threshold"], settings["contamination"]
    if not isinstance(threshold, int | float) or isinstance(threshold, bool):
        raise ConfigError(f"`threshold` must be a number, but is {threshold!r}; {RESTORE}.")
    every = [scaler["pooled"], *scaler["entities"].values()]
    shapes = [np.shape(own[name]) for own in every for name in ("center", "scale")] + [np.shape(scaler["floor"])]
    expected = {
        "threshold": np.isfinite(threshold),
        "contamination": 0 <= contamination["low"] <= contamination["share"] <= contamination["high"] <= 0.5,
        "variables": len(variables) == len(set(variables)) > 0 and all(isinstance(name, str) for name in variables),
        "clock": all(isinstance(number, int) for number in (clock["start"], clock["interval"], clock.get("pace") or 0))
        and clock["interval"] > 0
        and (clock.get("pace") or 1) > 0
        and abs(clock["start"]) < 2**63 > max(clock["interval"], clock.get("pace") or 0),
        "scaler": set(shapes) == {(len(variables),)} and all(np.min(own["scale"]) > 0 for own in every),
        "memory": settings.get("memory") is None or (isinstance(settings["memory"], int) and settings["memory"] > 0),
        "provenance": _describes(settings["provenance"]["data"], settings),
    }
    for name, holds in expected.items():
        if not holds:
            raise ConfigError(f"`{name}` is not what was saved; {RESTORE}.")


def _describes(data: Any, settings: Mapping[str, Any]) -> bool:
    """Return whether the description of the training data fits the rest of the model."""
    if not isinstance(data, dict):
        return False
    counts = [data[name] for name in ("entities", "rows", "observations")]
    return all(type(count) is int and 0 < count < 2**63 for count in counts) and data["variables"] == len(
        settings["variables"]
    )


def _class_of(folder: Path, settings: Mapping[str, Any], given: type[Detector] | str | None) -> type[Detector]:
    """Return the class of a model: the one that the caller names, or a registered one."""
    from tsadc.detectors.own_file import choose

    source, name = settings.get("source"), settings["detector"]
    if given is None:
        if source is not None:
            raise ConfigError(
                f"its detector is {str(source)[:200]!r}, a file that must be imported; if you trust the file, name it "
                "with --detector FILE.py:CLASS (in Python: load(..., detector=...))."
            )
        return find(name)
    cls = choose(given) if isinstance(given, str) else given
    if cls.name != name:
        raise ModelFileError(
            f"{folder} is a model of the detector {str(name)[:200]!r}, but {cls.name!r} was named; leave out "
            "--detector (in Python: `detector`), or name another model."
        )
    return cls


def _rebuild(cls: type[Detector], settings: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> Detector:
    """Return the detector that settings of the present format and arrays describe."""
    check_counts(settings["settings"])
    check_arrays(arrays)
    detector = cls(config=build(cls.Config, settings["settings"]))
    if detector.settings.length != settings["provenance"]["data"]["length"]:
        raise ConfigError(f"`length` is not the length of the observations that it was trained on; {RESTORE}.")
    detector.settings_ = detector.settings
    detector.variables_ = tuple(settings["variables"])
    detector.clock_ = Clock(**settings["clock"])
    detector.scaler_ = Scaler.from_mapping(settings["scaler"], detector.settings.scaler)
    detector.provenance_ = settings["provenance"]
    detector.decision_scores_ = arrays.pop("decision_scores")
    detector.validation_scores_ = arrays.pop("validation_scores")
    detector.held_out_ = settings["held_out"] if "held_out" in settings else _was_held_out(detector)
    detector.contamination_ = Contamination(**settings["contamination"])
    detector.memory_ = settings.get("memory")
    bands = _popped(arrays, usual.STORED)
    detector.usual_ = Usual.restore(bands, detector.settings.length, len(detector.variables_)) if bands else None
    known = _popped(arrays, episodes.STORED)
    detector.episodes_ = Episodes.restore(known, detector.variables_) if known and bands else None
    detector.history_views_ = arrays.pop(HISTORY, None)
    with building_within(arrays):
        detector._restore(arrays)
    if detector.history_views_ is not None:
        expected = (len(detector.decision_scores_), len(detector.view_names))
        if detector.history_views_.shape != expected or detector.history_views_.dtype.kind != "f":
            raise ConfigError(f"`{HISTORY}` has no number for each observation and view; {RESTORE}.")
    detector.normal_ = Normal.of(detector.decision_scores_[detector._learnt_from], detector.contamination_)
    detector.threshold_ = float(settings["threshold"])
    _try_out(detector)
    return detector


def _popped(arrays: dict[str, np.ndarray[Any, Any]], prefix: str) -> dict[str, np.ndarray[Any, Any]]:
    """Take the arrays with a prefix out of all arrays; none in a model of an earlier version."""
    return {name: arrays.pop(name) for name in list(arrays) if name.startswith(f"{prefix}.")}


def _try_out(detector: Detector) -> None:
    """Score made-up values, except by a network, whose weights have been compared: arrays that do not fit fail here."""
    width, length = len(detector.variables_), detector.settings.length
    values = np.random.default_rng(0).normal(size=(width, length))
    entity = next(iter(detector.scaler_.entities), "")
    scorer = getattr(detector, "scorer_", None)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if scorer is not None:
            names = detector._residual_names() if hasattr(detector, "_residual_names") else ()
            scorer.evidence(entity, values, tuple(np.abs(values) for _ in names))
        elif not hasattr(detector, "network_"):
            with contextlib.suppress(DataError):  # of a detector that wants other data than these
                detector.decision_function({entity or "made-up": values.T})


def _was_held_out(detector: Detector) -> bool:
    """Infer for a model without `held_out` whether its validation scores are those that `fit` would hold out."""
    scores, settings = detector.decision_scores_, detector.settings
    chosen = hold_out(len(scores), settings.validation, settings.seed)
    return np.array_equal(detector.validation_scores_, scores[chosen])


def _upgraded(settings: Any, version: int, detector: str) -> Any:
    """Return the settings of a model of an earlier format under their present names.

    Format 2 has other names than format 1, format 3 another ensemble than format 2, so that models which the former
    ensemble scores are refused, and format 4 other methods for the threshold."""
    if version < 2:
        settings = {
            RENAMED_SETTINGS.get(name, name): RENAMED_VALUES[name][value] if name in RENAMED_VALUES else value
            for name, value in settings.items()
        }
    if version < 3:
        if detector in ("views", "ensemble") or settings.get("scoring") == "fused":
            raise ConfigError("the ensemble, which scores it, has changed since version 0.2.0; fit it again.")
        if "ensemble" in settings:  # not used; its setting `keep` no longer exists
            rest = {name: value for name, value in settings["ensemble"].items() if name != "keep"}
            settings = {**settings, "ensemble": rest}
    if version < 4:
        settings = {**settings, "threshold": upgraded_threshold(settings["threshold"], version)}
    return settings


def upgraded_threshold(old: Mapping[str, Any], version: int) -> Mapping[str, Any]:
    """Return the settings of a threshold under their present names. Before format 4, "balanced" was the default, and
    alarms were counted per day."""
    if version >= 4:
        return old
    chosen = {"auto": "balanced", "tail": "balanced" if old["share"] == "auto" else "tail"}
    method = chosen.get(old["method"], old["method"])
    share = {} if old["share"] == "auto" else {"share": old["share"]}
    alarms = {"alarms": f"{np.format_float_positional(old['per_day'])}/day"} if method == "alarms" else {}
    return {"method": method, **alarms, **share}
