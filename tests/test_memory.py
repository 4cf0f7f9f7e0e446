"""Training from Parquet and detecting in an array hold no copy of the data: a large file takes what a small one does.

Watched is anonymous memory, which leaves out pages of files that the system can drop at any time. A child process runs
all commands, so that none differs by what was imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is told by /proc")

LENGTH, VARIABLES = 2000, 50
FEW, MANY = 40, 232  # observations; the few fill what may be kept already
MORE = (MANY - FEW) * LENGTH * VARIABLES * 8  # bytes of values
# The smallest network there is: memory is watched, not learning.
SETTINGS = [
    "decontaminator.channels=1", "decontaminator.state=2", "dependencies.features=1", "dependencies.state=2",
    "dependencies.graphs=1", "dependencies.gin_layers=1", "inference.masks=2", "training.batch=4",
    "training.micro_batch=1", "validation=0.5", "squash=false", "ensemble.kernels=4",
]  # fmt: skip
CHILD = """
import ctypes, json, sys, threading
from tsadc import cli

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

def peak(words):
    most, ended = [0], threading.Event()
    def watch():
        while not ended.wait(0.005):
            most[0] = max(most[0], anonymous())
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    watcher = threading.Thread(target=watch)
    watcher.start()
    sys.argv = ["tsadc", *words]
    try:
        cli.main()
    except SystemExit as end:
        assert not end.code, words
    finally:
        ended.set()
        watcher.join()
    return most[0]

out = sys.argv[1]
peaks = {name: peak(words) for name, words in json.load(sys.stdin).items()}
with open(out, "w") as file:
    json.dump(peaks, file)
"""


def write(folder: Path, name: str, observations: int) -> None:
    """The same rounded noise, which packs well, as Parquet and as NPY."""
    generator = np.random.default_rng(0)
    columns = [f"variable_{k}" for k in range(VARIABLES)]
    schema = pa.schema([(column, pa.float64()) for column in columns])
    values = np.lib.format.open_memmap(
        folder / f"{name}.npy", "w+", dtype=np.float64, shape=(observations * LENGTH, VARIABLES)
    )
    with pq.ParquetWriter(folder / f"{name}.parquet", schema) as writer:
        for first in range(0, len(values), 4 * LENGTH):
            group = np.round(50 * generator.normal(size=(4 * LENGTH, VARIABLES)))
            values[first : first + len(group)] = group
            writer.write_table(pa.table(list(group.T), schema=schema), row_group_size=len(group))
    values.flush()


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The most bytes held by each command."""
    folder = tmp_path_factory.mktemp("memory")
    chosen = ["--detector", "tsadc", "--length", LENGTH, "--preset", "tiny", "--epochs", 1]
    for setting in SETTINGS:
        chosen += ["--set", setting]
    commands: dict[str, list[object]] = {}
    for name, observations in (("few", FEW), ("many", MANY)):
        write(folder, name, observations)
        model, out = folder / f"model-{name}", folder / f"found-{name}.parquet"
        commands[f"fit {name}"] = ["fit", folder / f"{name}.parquet", "--stream", "--out", model, *chosen]
        commands[f"detect {name}"] = ["detect", folder / f"{name}.npy", "--stream", "--model", model, "--out", out]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, folder / "peaks.json"],
        input=json.dumps(commands, default=str),
        # With glibc's own rules, what is freed stays in the process as often as not; so it is given back at once.
        env={**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(2**21), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    found = pq.read_table(folder / "found-many.parquet" / "observations.parquet")
    assert found.num_rows == MANY
    peaks: dict[str, int] = json.loads((folder / "peaks.json").read_text())
    return peaks


@pytest.mark.slow
@pytest.mark.parametrize("command", ["fit", "detect"])
def test_memory_does_not_grow_with_the_data(peaks, command):
    growth = peaks[f"{command} many"] - peaks[f"{command} few"]
    assert MORE > 150e6
    assert growth < 40e6  # a copy would be 154 MB, one in single precision 77 MB
