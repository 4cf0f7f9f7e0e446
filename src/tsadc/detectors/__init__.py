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
    "views": "tsadc.detectors.views.fused:Views",
    "robust-z": "tsadc.detectors.robust_z:RobustZ",
    "robust-z-rmse": "tsadc.detectors.robust_z:RobustZRMSE",
    "ridge": "tsadc.detectors.ridge:Ridge",
    "pca": "tsadc.detectors.pca:PrincipalComponents",
    "mahalanobis": "tsadc.detectors.mahalanobis:Mahalanobis",
    "log-energy": "tsadc.detectors.views.energy:LogEnergy",
    "bands": "tsadc.detectors.views.bands:BandPowers",
    "convolutions": "tsadc.detectors.views.shapes:RandomConvolutions",
    "isolation-forest": "tsadc.detectors.views.forest:Forest",
    "all-positive": "tsadc.detectors.always:AllPositive",
    "random": "tsadc.detectors.chance:Chance",
}


def find(name: str) -> type[Detector]:
    """The detector class called `name`."""
    if name not in REGISTRY:
        raise ConfigError(f"There is no detector {name!r}{nearest(name, list(REGISTRY))}.")
    module, _, cls = REGISTRY[name].partition(":")
    found: type[Detector] = getattr(importlib.import_module(module), cls)
    return found
