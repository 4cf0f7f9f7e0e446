"""Describe the origin of a fitted model, so that two models can be compared: training data and software versions."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from tsadc.optional import versions
from tsadc.series import Observations, Series


def provenance(detector: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the name of the detector, the description of the training data and the versions of the software."""
    return {
        "detector": detector,
        "data": dict(data),
        "versions": {
            "python": platform.python_version(),
            **versions(("tsadc", "torch", "numpy")),
        },
    }


def describe(observations: Observations) -> dict[str, Any]:
    """Return the size of the data and a digest of its values."""
    series = observations.series
    return {
        "entities": len(series),
        "rows": sum(map(len, series)),
        "variables": len(observations.names),
        "observations": len(observations),
        "length": observations.length,
        "digest": digest(series),
    }


def digest(series: tuple[Series, ...]) -> str:
    """Return a digest of the series: entities, variables, clocks and values."""
    content = hashlib.sha256()
    for entity in series:
        content.update(repr((entity.entity, entity.names, entity.clock, entity.values.shape)).encode())
        for chunk in entity.chunks():
            content.update(np.ascontiguousarray(chunk).data)
    return content.hexdigest()[:16]
