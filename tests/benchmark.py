"""Records of a made-up benchmark, with all that a page can show: splits, failures, hostile names, rows; and data to
make some from."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from terminal import Answer, tsadc
from tsadc.bench.job import Job
from tsadc.data import ContaminationSpec, contaminate
from tsadc.data.manifest import save
from tsadc.data.prepared import ABOUT, ARRAYS, LABELS, load

HOSTILE = "<script>alert('x')</script>"
OWN_PLAN = """
title = "Mine"
note = "A note."
seeds = [0, 1]
[[data]]
name = "mine"
folder = "prepared"
manifest = "manifest.json"
[[detectors]]
name = "robust-z"
label = "first"
[[detectors]]
name = "random"
"""
MACHINE = "a processor, 2 cores, 2 GiB, Linux x86_64"


def record(detector: str, data: str, seed: int, auroc: float, **more: Any) -> dict[str, Any]:
    content = {
        "dataset": data,
        "detector": detector,
        "seed": seed,
        "settings": "s",
        "code": "c",
        "source": "",
        "version": "1.2.3",
        "commit": "abc",
        "packages": "python 3.11",
        "machine": MACHINE,
        "made": f"2026-01-0{seed + 1}T00:00:00+00:00",
        "prevalence": 0.25,
        "auroc": auroc,
        "ap": auroc / 2,
        "auroc_low": auroc - 0.1,
        "auroc_high": auroc + 0.1,
        "ap_low": None,
        "ap_high": None,
        "precision": 0.5,
        "recall": 0.25,
        "f1": 0.4,
        "all_positive_f1": 0.4,
        "oracle_f1": 0.9,
        "parts": {},
        "kinds": {},
        "flagged": 0.5,
        "delay": 3.0,
        "fit_seconds": 2.0,
        "score_seconds": 0.003,
        "peak_bytes": 2**28,
    } | more
    variant = Job(data, detector, seed, overrides=more.get("overrides", {})).variant
    return {"label": variant} | content


def failed(detector: str, data: str, seed: int, message: str = "", where: str = "") -> dict[str, Any]:
    kept = ("dataset", "detector", "seed", "label", "settings", "code", "source", "version", "commit", "packages")
    whole = record(detector, data, seed, 0.0)
    return {name: whole[name] for name in kept} | {"error": f"MemoryError: {message}", "error_at": where}


def records() -> list[dict[str, Any]]:
    """tsadc is best everywhere, ridge is second, the hostile one third; random failed on ludb."""
    out = []
    for seed in (0, 1):
        for eta in (0.0, 0.2):
            split = {"split": {"eta": eta}}
            out.append(record("tsadc", "plant", seed, 0.9 - eta / 10 + seed / 100, **split))
            out.append(record("ridge", "plant", seed, 0.8 - eta + seed / 100, **split))
            out.append(record("pca", "plant", seed, 0.5 + seed / 100, label=HOSTILE, **split))
        out.append(record("tsadc", "ludb", seed, 0.95))
        out.append(record("ridge", "ludb", seed, 0.85))
        out.append(record("pca", "ludb", seed, 0.6, label=HOSTILE))
    return [*out, failed("random", "ludb", 0, message="<b>too much", where="x.py:3")]


def own_data(place: Path) -> tuple[Path, Path]:
    """A prepared folder and a manifest: five entities of ten observations, of which the last three are raised by 5."""
    folder, manifest = place / "prepared", place / "manifest.json"
    (folder / ARRAYS).mkdir(parents=True)
    generator, noted = np.random.default_rng(0), {}
    for entity in "abcde":
        values = generator.normal(size=(10, 20, 2)).astype(np.float32)
        values[7:] += 5
        np.save(folder / ARRAYS / f"{entity}.npy", values)
        observations = [["r", 20 * i, "", ["raised"] if i >= 7 else []] for i in range(10)]
        noted[entity] = {"observations": observations, "truth": [[140, 200, "raised", []]]}
    (folder / LABELS).write_text(json.dumps(noted))
    (folder / ABOUT).write_text(json.dumps({"format": 1, "name": "mine", "length": 20, "variables": ["u", "v"]}))
    save(contaminate(load(folder), ContaminationSpec(eta=0.1, shares=(0.4, 0.2, 0.4))), manifest)
    return folder, manifest


def run_plan(plan: Path, *words: object) -> Answer:
    return tsadc("bench", "run", plan, "--out", plan.parent / "out", *words)


def script(name: str) -> ModuleType:
    """Import a script of `benchmarks` by its path without the suffix."""
    file = Path(__file__).parents[1] / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"benchmark_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    if str(file.parent) not in sys.path:  # benchmarks import each other by bare names
        sys.path.append(str(file.parent))
    spec.loader.exec_module(module)
    return module
