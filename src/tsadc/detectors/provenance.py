"""Where a fitted model comes from: enough to say whether two were trained on the same data by the same code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from typing import Any

import numpy as np

from tsadc.series import Observations, Series


def provenance(detector: str, observations: Observations) -> dict[str, Any]:
    """The training data and the versions of what trained on it."""
    return {
        "detector": detector,
        "data": describe(observations),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("tsadc", "torch", "numpy")},
        },
    }


def describe(observations: Observations) -> dict[str, Any]:
    """Sizes of some data, and a digest of it."""
    series = observations.series
    return {
        "entities": len(series),
        "rows": sum(len(one) for one in series),
        "variables": len(observations.names),
        "observations": len(observations),
        "length": observations.length,
        "digest": _digest(series),
    }


def _digest(series: tuple[Series, ...]) -> str:
    digest = hashlib.sha256()
    for one in series:
        digest.update(repr((one.entity, one.names, one.clock, one.values.shape)).encode())
        for chunk in one.chunks():
            digest.update(np.ascontiguousarray(chunk).data)
    return digest.hexdigest()[:16]
