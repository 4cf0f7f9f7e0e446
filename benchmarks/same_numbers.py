"""Check that a refactoring changed no score: the same numbers before and after, to the bit.

    python benchmarks/same_numbers.py write before.npz      # on the old commit
    python benchmarks/same_numbers.py compare before.npz    # on the new one; exit code 1 if a number differs

Every registered detector is fitted on a small simulated plant and, if TSADC_DATA names the data folder, on a few LUDB
records and one SMD machine. Networks keep their default widths, train for one epoch, and are scored both by the
ensemble and by their own pooling. Compared are the training scores, the threshold, and every number of a detection.
Numbers from different machines or versions of torch may differ in the last bit; compare on one machine.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import numpy as np

from tsadc.data.plant import Plant
from tsadc.detectors import REGISTRY, find
from tsadc.detectors.base import Detector
from tsadc.series import Series

RENAMED = {"views": "ensemble"}  # detectors, since the file was written
SCORING = {"fused": ("head", "tsadc"), "own": ("head", "paper")}  # the name and value before the renaming
FRAMES = ("intervals", "timeline", "variables", "observations", "expected")


def datasets() -> Iterator[tuple[str, tuple[Series, ...], tuple[Series, ...], int]]:
    """Yield the name of each data set, its training and test series, and its observation length."""
    split = Plant(Plant.Config(seed=3, entities=2, rows=3000)).split()
    yield "plant", split.train, split.test.series, Plant.Config().length
    folder = Path(os.environ.get("TSADC_DATA", ""))
    if not os.environ.get("TSADC_DATA") or not (folder / "smd19.npz").exists():
        print("TSADC_DATA is not set or lacks smd19.npz: only the plant is compared.")
        return
    with np.load(folder / "ecg_ludb_100hz.npz", allow_pickle=False) as pack:
        records = pack["x100"][:24].astype(np.float32) / 1000
    leads = tuple(f"lead-{i}" for i in range(records.shape[2]))
    series = tuple(Series(values, leads, entity=f"record-{i}") for i, values in enumerate(records))
    yield "ludb", series[:16], series[16:], 1000
    with np.load(folder / "smd19.npz", allow_pickle=False) as pack:
        train, test = ((pack[f"machine-1-2_{part}"] / 1e6).astype(np.float32) for part in ("train", "test"))
    names = tuple(f"metric-{i}" for i in range(train.shape[1]))
    rows = 10 * 600
    yield "smd", (Series(train[:rows], names, entity="1-2"),), (Series(test[15_000:18_600], names, entity="1-2"),), 600


def detectors(length: int) -> Iterator[tuple[str, Detector]]:
    """Yield every detector under the names `detector` or `detector:scoring`."""
    for name in REGISTRY:
        cls = find(name)
        settings = {field.name for field in fields(cls.Config)}
        if "training" not in settings:
            yield name, cls(length=length, seed=1)
            continue
        for scoring, (old_name, old_value) in SCORING.items():
            chosen = {old_name: old_value} if old_name in settings else {"scoring": scoring}
            config = cls.Config.with_settings(**chosen, training={"epochs": 1, "batch": 8})
            yield f"{name}:{scoring}", cls(length=length, seed=1, config=config)


def numbers(detector: Detector, train: tuple[Series, ...], test: tuple[Series, ...]) -> dict[str, np.ndarray]:
    """Fit and detect; return the scores in full and a hash of every other number."""
    detector.fit(train)
    result = detector.detect(test)
    digest = hashlib.sha256()
    for name in FRAMES:
        frame = getattr(result, name)
        for column in [] if frame is None else frame.columns:
            values = frame[column]
            if values.dtype.kind in "biuf":
                digest.update(np.ascontiguousarray(values.to_numpy()).tobytes())
    return {
        "train": detector.decision_scores_,
        "test": detector.decision_function(test),
        "threshold": np.array([detector.threshold_]),
        "rest": np.frombuffer(digest.digest(), dtype=np.uint8),
    }


def measure() -> dict[str, np.ndarray]:
    found = {}
    for data, train, test, length in datasets():
        for name, detector in detectors(length):
            started = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                measured = numbers(detector, train, test)
            found |= {f"{data}/{RENAMED.get(name, name)}/{key}": array for key, array in measured.items()}
            print(f"{data} {name} {time.perf_counter() - started:.1f} s", flush=True)
    return found


def compare(before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> int:
    """Print what differs and return how many entries do; detectors that did not exist before are not counted."""
    different = 0
    for key, old in sorted(before.items()):
        new = after.get(key)
        if new is None or not np.array_equal(old, new, equal_nan=old.dtype.kind == "f"):
            print(f"{key}: {'missing' if new is None else 'differs'}")
            different += 1
    added = len(after.keys() - before.keys())
    print(f"{len(before)} entries compared, {different} differ; {added} are new.")
    return different


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("write", "compare"):
        print("usage: python benchmarks/same_numbers.py write|compare FILE.npz")
        return 2
    after = measure()
    if sys.argv[1] == "write":
        np.savez(sys.argv[2], **after)
        return 0
    with np.load(sys.argv[2], allow_pickle=False) as stored:
        return int(compare(dict(stored), after) > 0)


if __name__ == "__main__":
    sys.exit(main())
