"""Training and detection from a file hold no more memory for a large file than for a small one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")
resource = pytest.importorskip("resource")

LENGTH, VARIABLES = 1000, 24
PEAK = """
import resource, sys
from tsadc import cli
sys.argv = ["tsadc", *sys.argv[1:]]
try:
    cli.main()
finally:
    print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
SMALL = [
    "--length", LENGTH, "--preset", "tiny", "--epochs", 1, "--set", "scoring.masks=2",
    "--set", "decontaminator.channels=4", "--set", "decontaminator.state=2",
    "--set", "dependencies.features=4", "--set", "dependencies.state=2", "--set", "dependencies.graphs=1",
]  # fmt: skip


def write(file: Path, observations: int) -> int:
    """A file of that many observations; returns the bytes of its values."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(observations * LENGTH, VARIABLES))
    frame = pd.DataFrame(values, columns=[f"v{k}" for k in range(VARIABLES)])
    frame.insert(0, "time", pd.date_range("2026-01-01", periods=len(frame), freq="1s"))
    frame.to_parquet(file, index=False, row_group_size=20_000)
    return values.nbytes


def peak(*words: object) -> int:
    """The most memory, in bytes, that a command held."""
    answer = subprocess.run(
        [sys.executable, "-c", PEAK, *map(str, words)],
        # One arena: otherwise the peak depends on which thread asked first.
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return int(answer.stdout.split()[-1]) * (1 if sys.platform == "darwin" else 1024)


def test_memory_does_not_grow_with_the_file(tmp_path):
    needed, sizes = {}, {}
    for name, observations in (("few", 120), ("many", 480)):
        sizes[name] = write(tmp_path / f"{name}.parquet", observations)
        fitted = peak("fit", tmp_path / f"{name}.parquet", "--stream", "--out", tmp_path / f"model-{name}", *SMALL)
        model, out = tmp_path / f"model-{name}", tmp_path / f"found-{name}"
        detected = peak("detect", tmp_path / f"{name}.parquet", "--stream", "--model", model, "--out", out)
        needed[name] = (fitted, detected)
        assert len(pd.read_csv(out / "observations.csv")) == observations
    more_data = sizes["many"] - sizes["few"]
    assert more_data > 50e6
    for few, many in zip(needed["few"], needed["many"], strict=True):
        assert many - few < 0.5 * more_data
