"""Promised and observed false alarms: `python benchmarks/promised.py FOLDER [PROTOCOL ...]`, FOLDER with the packs.

On each protocol the ensemble is fitted with seed 0. For several shares of normal observations that a threshold allows,
the share of the new observations without a label that lie above it is counted, with the threshold that follows drift.
Labels only decide which observations are counted. The table goes into docs/guides/thresholds.md.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tsadc.data import catalogue
from tsadc.detectors import Ensemble
from tsadc.errors import TsadcNotice
from tsadc.show.markdown import table

PROTOCOLS = ("plant", "plant-process", "smd-causal", "sleep", "skab", "gecco", "batadal")
SHARES = (0.05, 0.02, 0.01)


def main(raw: Path, protocols: Sequence[str]) -> None:
    rows = []
    for name in protocols:
        task = catalogue.draw(name, raw, 0, ())
        length = catalogue.find(name, "benchmark").length
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)
            detector = Ensemble(length=length, seed=0).fit(task.train)
            normal = np.flatnonzero(~task.answers.labels)
            observed = []
            for share in SHARES:
                flagged = detector.set_threshold(method="tail", share=share).predict(task.test)[normal]
                observed.append(f"{100 * flagged.mean():.1f} % ({flagged.mean() / share:.1f}x)")
        rows.append([name, str(len(detector.decision_scores_)), str(len(normal)), *observed])
    names = ["data set", "training observations", "new normal ones", *(f"promised {share:.0%}" for share in SHARES)]
    print(table(names, rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:] or PROTOCOLS)
