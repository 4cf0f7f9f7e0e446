"""The detectors, by name. A class is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tsadc.config import nearest
from tsadc.errors import ConfigError

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

REGISTRY = {
    "tsadc": "tsadc.detectors.tsadc.detector:TSADC",
    "robust-z": "tsadc.detectors.robust_z:RobustZ",
    "ridge": "tsadc.detectors.ridge:Ridge",
    "random": "tsadc.detectors.chance:Chance",
}


def find(name: str) -> type[Detector]:
    """The detector class called `name`."""
    if name not in REGISTRY:
        raise ConfigError(f"There is no detector {name!r}{nearest(name, list(REGISTRY))}.")
    module, _, cls = REGISTRY[name].partition(":")
    found: type[Detector] = getattr(importlib.import_module(module), cls)
    return found
