"""Measure what the ensemble costs on SMD: seconds to fit, milliseconds to score and to detect an observation.

    python benchmarks/ensemble_speed.py --machines 19                       # TSADC_DATA names the folder with smd19.npz
    python benchmarks/ensemble_speed.py --against OLD --machines 6          # OLD: the folder `src` of another version

Times are processor seconds on one thread, and the smallest of some repeats for scores and detections. With `--against`,
the versions alternate, each in processes of its own: on a shared machine, a ratio means more than a time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tsadc import Ensemble
from tsadc.series import Series

LENGTH = 600
TEST_ROWS = 6000  # of each machine
MEASURES = {"fit": "fit, s", "score": "score of an observation, ms", "detect": "detect, per observation, ms"}


def machines(count: int) -> tuple[tuple[Series, ...], tuple[Series, ...]]:
    """Return the training and the first test rows of the first machines, in the order of their names."""
    train: list[Series] = []
    test: list[Series] = []
    with np.load(Path(os.environ["TSADC_DATA"]) / "smd19.npz", allow_pickle=False) as pack:
        keys = sorted(key.removesuffix("_train") for key in pack.files if key.endswith("_train"))
        for key in keys[:count]:
            for part, rows in ((train, pack[f"{key}_train"]), (test, pack[f"{key}_test"][:TEST_ROWS])):
                names = tuple(f"metric-{k}" for k in range(rows.shape[1]))
                part.append(Series((rows / 1e6).astype(np.float32), names, entity=key))
    return tuple(train), tuple(test)


def measure(count: int, repeats: int) -> dict[str, float]:
    """Fit to the first `count` machines and score them."""
    train, test = machines(count)
    detector = Ensemble(length=LENGTH)
    fit = seconds(lambda: detector.fit(train))
    observations = len(detector.decision_function(test))
    score = min(seconds(lambda: detector.decision_function(test)) for _ in range(repeats))
    detect = min(seconds(lambda: detector.detect(test)) for _ in range(repeats))
    return {"fit": fit, "score": 1000 * score / observations, "detect": 1000 * detect / observations}


def seconds(run: Callable[[], object]) -> float:
    """Return the processor seconds of a call."""
    started = time.process_time()
    run()
    return time.process_time() - started


def in_process(source: Path, options: argparse.Namespace) -> dict[str, float]:
    """Measure the version in the folder `source`, in a process of its own."""
    command = [sys.executable, __file__, "--child", f"--machines={options.machines}", f"--repeats={options.repeats}"]
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    found: dict[str, float] = json.loads(
        subprocess.run(command, env=environment, check=True, capture_output=True).stdout
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machines", type=int, default=19, help="how many of the machines (default: 19)")
    parser.add_argument("--repeats", type=int, default=3, help="of scores and detections (default: 3)")
    parser.add_argument("--rounds", type=int, default=1, help="processes of each version (default: 1)")
    parser.add_argument("--against", type=Path, help="the folder `src` of another version, to compare with")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(options.machines, options.repeats)))
        return
    versions = [Path(__file__).parent.parent / "src", *([options.against] if options.against else [])]
    rounds = [[in_process(source, options) for source in versions] for _ in range(options.rounds)]
    for name, title in MEASURES.items():
        values = [min(results[i][name] for results in rounds) for i in range(len(versions))]
        compared = (
            f"; {values[1]:.1f} in {options.against}, ratio {values[0] / values[1]:.2f}" if options.against else ""
        )
        print(f"{title}: {values[0]:.1f}{compared}")


if __name__ == "__main__":
    main()
