"""A model on disk is a folder: `config.json` says what it is and how to rebuild it, `model.safetensors` what it learnt.
No pickle. The folder appears whole or not at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from tsadc.config import build, to_mapping
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.errors import ConfigError, ModelFileError
from tsadc.io.folders import new_folder
from tsadc.scale import Scaler
from tsadc.series import Clock

FORMAT = 1
SETTINGS, ARRAYS = "config.json", "model.safetensors"


def save(detector: Detector, path: Path) -> None:
    """Write the model folder `path`, which must not exist."""
    arrays = {name: np.ascontiguousarray(array) for name, array in detector._state().items()}
    arrays["decision_scores"] = detector.decision_scores_
    data = save_arrays(arrays)
    settings = {
        "format": FORMAT,
        "detector": detector.name,
        "settings": to_mapping(detector.settings),
        "variables": list(detector.variables_),
        "clock": asdict(detector.clock_),
        "threshold": detector.threshold_,
        "arrays": hashlib.sha256(data).hexdigest(),
        "provenance": detector.provenance_,
        "scaler": detector.scaler_.to_mapping(),
    }
    with new_folder(path) as folder:
        (folder / ARRAYS).write_bytes(data)
        (folder / SETTINGS).write_text(json.dumps(settings, indent=1) + "\n")


def load(path: str | Path) -> Detector:
    """The detector saved at `path`; it gives the same numbers, to the bit."""
    folder = Path(path)
    settings = read_settings(folder)
    try:
        data = (folder / ARRAYS).read_bytes()
    except OSError:
        raise ModelFileError(f"{folder} has a {SETTINGS} but no readable {ARRAYS}; the model is incomplete.") from None
    if hashlib.sha256(data).hexdigest() != settings.get("arrays"):
        raise ModelFileError(
            f"{folder / ARRAYS} is truncated or does not belong to its {SETTINGS}; save the model anew."
        )
    try:
        arrays = load_arrays(data)
        return _rebuild(settings, arrays)
    except KeyError as error:
        raise ModelFileError(f"{folder} is not a usable model: it lacks {error}.") from None
    except (SafetensorError, ConfigError, AttributeError, TypeError, ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        raise ModelFileError(f"{folder} is not a usable model: {reason}.") from None


def read_settings(folder: Path) -> dict[str, Any]:
    """The `config.json` of a model folder, checked to be one that this version can read."""
    if not folder.is_dir():
        raise ModelFileError(f"There is no model folder {folder}.")
    try:
        settings = json.loads((folder / SETTINGS).read_text())
    except FileNotFoundError:
        raise ModelFileError(f"{folder} is not a model: it has no {SETTINGS}.") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        raise ModelFileError(f"{folder / SETTINGS} is truncated or not JSON; save the model anew.") from None
    if not isinstance(settings, dict) or not isinstance(settings.get("format"), int) or "detector" not in settings:
        raise ModelFileError(f"{folder / SETTINGS} was not written by tsadc.")
    if settings["format"] > FORMAT:
        raise ModelFileError(
            f"{folder} has model format {settings['format']}, but this version reads up to {FORMAT}; upgrade tsadc."
        )
    return settings


def _rebuild(settings: dict[str, Any], arrays: dict[str, np.ndarray[Any, Any]]) -> Detector:
    cls = find(settings["detector"])
    detector = cls(config=build(cls.Config, settings["settings"]))
    detector.settings_ = detector.settings
    detector.variables_ = tuple(settings["variables"])
    detector.clock_ = Clock(**settings["clock"])
    detector.scaler_ = Scaler.from_mapping(settings["scaler"], detector.settings.scaler)
    detector.provenance_ = settings["provenance"]
    detector.decision_scores_ = arrays.pop("decision_scores")
    detector._restore(arrays)
    detector.threshold_ = float(settings["threshold"])
    return detector
