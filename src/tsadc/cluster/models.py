"""Models on a cluster: the files of a folder, which each process of a worker loads once."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.base import Detector
from tsadc.detectors.store import load
from tsadc.errors import ConfigError

ModelFiles = Mapping[str, NDArray[np.uint8]]  # by name; arrays are shared by the processes of a node without a copy
_loaded: dict[str, Detector] = {}  # by the digest of the job


def model_files(detector: Detector) -> dict[str, NDArray[np.uint8]]:
    """Return the files of a fitted detector."""
    refuse_own(detector)
    with tempfile.TemporaryDirectory(prefix="tsadc-") as folder:
        detector.save(Path(folder) / "model")
        files = sorted((Path(folder) / "model").iterdir())
        return {file.name: np.frombuffer(file.read_bytes(), dtype=np.uint8) for file in files}


def loaded_model(job: str, files: ModelFiles) -> Detector:
    """Return the model of a job, which each process loads once."""
    if job not in _loaded:
        _loaded.clear()
        with tempfile.TemporaryDirectory(prefix="tsadc-") as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content.tobytes())
            _loaded[job] = load(folder)
    return _loaded[job]


def refuse_own(detector: Detector) -> None:
    """Raise if the detector is in a file of the user."""
    if detector.source is not None:
        raise ConfigError(
            f"{detector.name} is a detector of your own, whose file the nodes of a cluster do not have; leave out "
            "--engine ray, or install it as a package."
        )
