"""The demonstration: TSAD-C on the simulated plant beside the cheapest scores there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tsadc.data.plant import Plant
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.result import Result
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut
from tsadc.series import Split
from tsadc.windows import cut as cut_series

EPOCHS = 8


@dataclass(frozen=True)
class Demonstration:
    """The data, the fitted detector, what it found, and a table of all detectors against the simulator's truth."""

    split: Split
    detector: Detector
    result: Result
    comparison: pd.DataFrame


def demonstrate(
    plant: Plant.Config, *, seed: int = 0, epochs: int | None = None, progress: Callable[[Any], None] | None = None
) -> Demonstration:
    """Train on the plant's unlabelled history, detect on its unseen part, compare with the truth afterwards. `epochs`
    shortens the training of the default configuration."""
    split = Plant(plant).split()
    labels = split.test.touched(cut_series(split.test.series, plant.length).observations)
    shorter = {} if epochs is None else {"training": {"epochs": epochs}}
    settings: dict[str, Any] = {"length": plant.length, "seed": seed}
    detector = TSADC(**settings, config=TSADC.Config.with_settings(**shorter)).fit(split.train, progress=progress)
    result = detector.detect(split.test.series, progress=progress)
    scores = result.observations["score"].to_numpy()
    rows = [_row("tsadc", labels, scores, detector.threshold_)]
    for name in ("ridge", "robust-z", "random"):
        other = find(name)(**settings).fit(split.train)
        rows.append(_row(name, labels, other.decision_function(split.test.series), other.threshold_))
    everything = {"detector": "flag everything", "AUROC": 0.5, "AP": labels.mean(), "F1": all_positive_f1(labels)}
    return Demonstration(split, detector, result, pd.DataFrame([*rows, everything]))


def _row(name: str, labels: np.ndarray[Any, Any], scores: np.ndarray[Any, Any], threshold: float) -> dict[str, Any]:
    return {
        "detector": name,
        "AUROC": auroc(labels, scores),
        "AP": average_precision(labels, scores),
        "F1": cut(labels, scores > threshold).f1,
    }
