"""The demonstration: the ensemble and TSAD-C on the simulated plant, beside three cheap detectors.

Without torch there is no TSAD-C."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from tsadc.data.plant import Plant
from tsadc.detectors import find
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.result import Result
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut
from tsadc.optional import has_torch
from tsadc.series import Booleans, Floats, Split
from tsadc.windows import cut as cut_series

EPOCHS = 8


@dataclass(frozen=True)
class Demonstration:
    """The data, both fitted detectors with their results, and a table of all detectors measured against the true
    anomalies. `tsadc` and its result are None without torch."""

    split: Split
    ensemble: Detector
    ensemble_result: Result
    tsadc: Detector | None
    tsadc_result: Result | None
    comparison: pd.DataFrame

    @property
    def combined(self) -> Result:
        """The result of the ensemble with the values that TSAD-C expected, if there are any."""
        if self.tsadc_result is None:
            return self.ensemble_result
        pairs = zip(self.ensemble_result.parts, self.tsadc_result.parts, strict=True)
        parts = tuple(replace(part, expected=other.expected) for part, other in pairs)
        return replace(self.ensemble_result, parts=parts)


def demonstrate(
    plant: Plant.Config, *, seed: int = 0, epochs: int | None = None, progress: ProgressCallback | None = None
) -> Demonstration:
    """Train on the plant's unlabelled history, detect on its unseen part, and compare with the truth. `epochs` shortens
    the training of TSAD-C's default configuration."""
    split = Plant(plant).split()
    labels = split.test.touched(cut_series(split.test.series, plant.length).observations)
    settings: dict[str, Any] = {"length": plant.length, "seed": seed}
    detectors: list[Detector] = [Ensemble(**settings)]
    if has_torch():
        shorter: dict[str, Any] = {} if epochs is None else {"training__epochs": epochs}
        detectors.append(find("tsadc")(**settings, **shorter))
    lines, results = [], []
    for detector in detectors:
        detector.fit(split.train, progress=progress)
        results.append(detector.detect(split.test.series, progress=progress))
        flagged = results[-1].observations["anomalous"].to_numpy(bool)
        lines.append(_line(detector.name, labels, results[-1].scores, flagged))
    for name in ("ridge", "robust-z", "random"):
        other = find(name)(**settings).fit(split.train)
        scores, flagged = other.decision_function(split.test.series), other.predict(split.test.series) == 1
        lines.append(_line(name, labels, scores, flagged))
    everything = {"detector": "flag everything", "AUROC": 0.5, "AP": labels.mean(), "F1": all_positive_f1(labels)}
    comparison = pd.DataFrame([*lines, everything])
    tsadc, tsadc_result = (detectors[1], results[1]) if len(results) > 1 else (None, None)
    return Demonstration(split, detectors[0], results[0], tsadc, tsadc_result, comparison)


def _line(name: str, labels: Booleans, scores: Floats, flagged: Booleans) -> dict[str, Any]:
    return {
        "detector": name,
        "AUROC": auroc(labels, scores),
        "AP": average_precision(labels, scores),
        "F1": cut(labels, flagged).f1,
    }
