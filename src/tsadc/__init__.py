"""Anomaly detection in multivariate sensor data when the training data itself contains anomalies.

>>> import numpy as np
>>> import tsadc
>>> history = np.random.default_rng(0).normal(size=(3000, 3))  # (time, variable)
>>> detector = tsadc.Ensemble(length=60).fit(history)
>>> result = detector.detect(history[:600])
>>> result.observations.shape[0]
10

`Ensemble` is the default detector. `TSADC` is the paper's method, whose network also gives expected values; both are
used in the same way. `audit` says which parts of a history look anomalous, and `Decontaminator` cleans data for other
models. `read` reads files, `examine` looks for problems in data, `load` reads a saved model, `Calendar`
holds planned work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsadc.optional import imported

if TYPE_CHECKING:
    from tsadc.detectors.audit import Audit, audit
    from tsadc.detectors.cleaning import Decontaminator
    from tsadc.detectors.ensemble.detector import Ensemble
    from tsadc.detectors.result import Result
    from tsadc.detectors.store import load
    from tsadc.detectors.streaming import Stream
    from tsadc.detectors.tsadc.detector import TSADC
    from tsadc.errors import (
        ConfigError,
        DataError,
        ModelFileError,
        NotFittedError,
        OutputError,
        TsadcError,
        TsadcNotice,
    )
    from tsadc.io.calendar import Calendar
    from tsadc.io.doctor import examine
    from tsadc.io.read import read
    from tsadc.io.reading import Reading
    from tsadc.series import Series

__version__ = "0.2.0"

# Imported when first used, as importing torch takes a second.
_HOMES = {
    "Audit": "tsadc.detectors.audit",
    "Calendar": "tsadc.io.calendar",
    "Decontaminator": "tsadc.detectors.cleaning",
    "TSADC": "tsadc.detectors.tsadc.detector",
    "Ensemble": "tsadc.detectors.ensemble.detector",
    "Result": "tsadc.detectors.result",
    "Series": "tsadc.series",
    "Stream": "tsadc.detectors.streaming",
    "Reading": "tsadc.io.reading",
    "audit": "tsadc.detectors.audit",
    "examine": "tsadc.io.doctor",
    "load": "tsadc.detectors.store",
    "read": "tsadc.io.read",
    "ConfigError": "tsadc.errors",
    "DataError": "tsadc.errors",
    "ModelFileError": "tsadc.errors",
    "NotFittedError": "tsadc.errors",
    "OutputError": "tsadc.errors",
    "TsadcError": "tsadc.errors",
    "TsadcNotice": "tsadc.errors",
}

__all__ = [
    "TSADC",
    "Audit",
    "Calendar",
    "ConfigError",
    "DataError",
    "Decontaminator",
    "Ensemble",
    "ModelFileError",
    "NotFittedError",
    "OutputError",
    "Reading",
    "Result",
    "Series",
    "Stream",
    "TsadcError",
    "TsadcNotice",
    "audit",
    "examine",
    "load",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'tsadc' has no attribute {name!r}")
    return imported(_HOMES[name], name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
