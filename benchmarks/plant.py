"""The default detector on the simulated plant, several seeds, beside the cheapest scores: `make bench-plant`.

Each seed is one JSON record under `benchmarks/results/plant/`. A record that was made with the same plant, settings and
version is not made again, so the run can be interrupted; `--again` makes all of them anew. The seed makes another plant
and trains another network. The summary table is printed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

import tsadc
from tsadc.bench.demo import demonstrate
from tsadc.config import to_mapping
from tsadc.data.plant import Plant
from tsadc.evaluate.ranking import auroc
from tsadc.windows import cut

RESULTS = Path(__file__).parent / "results" / "plant"


def run(seed: int) -> dict[str, object]:
    plant = Plant.Config(seed=seed)
    started, used = time.perf_counter(), time.process_time()
    shown = demonstrate(plant, seed=seed)
    observations = cut(shown.split.test.series, plant.length).observations
    anomalous = shown.split.test.touched(observations)
    scores = shown.result.observations["score"].to_numpy()
    kinds = {}
    for kind in sorted({truth.kind for truth in shown.split.test.truth}):
        chosen = shown.split.test.touched(observations, kind)
        either = chosen | ~anomalous
        kinds[kind] = round(auroc(chosen[either], scores[either]), 4)
    return {
        "command": f"python benchmarks/plant.py --seeds {seed} --again",
        "seed": seed,
        "plant": asdict(plant),
        "settings": to_mapping(shown.detector.settings),
        "prevalence": float(anomalous.mean()),
        "detectors": shown.comparison.round(4).to_dict("records"),
        "auroc by kind": kinds,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu seconds": round(time.process_time() - used, 1),
        "tsadc": tsadc.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def summarise(records: list[dict]) -> str:
    """Mean over seeds, and the 90 % interval of that mean by bootstrap over seeds."""
    generator = np.random.default_rng(0)
    lines = ["| detector | AUROC | AP | F1 at its own threshold |", "|---|---|---|---|"]
    names = [row["detector"] for row in records[0]["detectors"]]
    for name in names:
        rows = [next(row for row in record["detectors"] if row["detector"] == name) for record in records]
        lines.append(f"| {name} | " + " | ".join(_cell([row[m] for row in rows], generator) for m in METRICS) + " |")
    lines += ["", "| kind | AUROC of tsadc against normal observations |", "|---|---|"]
    for kind in records[0]["auroc by kind"]:
        lines.append(f"| {kind} | {_cell([record['auroc by kind'][kind] for record in records], generator)} |")
    return "\n".join(lines)


METRICS = ("AUROC", "AP", "F1")


def _cell(values: list[float], generator: np.random.Generator) -> str:
    draws = generator.choice(values, (2000, len(values))).mean(axis=1)
    low, high = np.quantile(draws, [0.05, 0.95])
    return f"{np.mean(values):.3f} ({low:.3f} to {high:.3f})"


def settings(seed: int) -> dict[str, object]:
    return to_mapping(tsadc.TSADC.Config.with_settings(length=Plant.Config().length, seed=seed))


def current(file: Path, seed: int) -> bool:
    """Whether the record is there, and of this code's settings."""
    if not file.exists():
        return False
    record = json.loads(file.read_text())
    same = {"plant": asdict(Plant.Config(seed=seed)), "settings": settings(seed), "tsadc": tsadc.__version__}
    return all(record[name] == value for name, value in same.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--again", action="store_true")
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    files = {seed: RESULTS / f"seed-{seed}.json" for seed in given.seeds}
    for seed, file in files.items():
        if given.again or not current(file, seed):
            record = run(seed)
            temporary = file.with_suffix(".tmp")
            temporary.write_text(json.dumps(record, indent=1) + "\n")
            os.replace(temporary, file)
            print(f"seed {seed}: {record['detectors'][0]}, {record['seconds']} s", flush=True)
    print(summarise([json.loads(file.read_text()) for file in files.values()]))


if __name__ == "__main__":
    main()
