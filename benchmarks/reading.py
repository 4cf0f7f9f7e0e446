"""Time `tsadc.read` and `tsadc.examine` against pandas and polars on one large CSV file.

    nice -n 10 python benchmarks/reading.py --gigabytes 1

The file has a column of times and 38 columns of numbers. It is written to a temporary folder and deleted afterwards.
pandas and polars only parse it; `tsadc.read` also finds its form, checks every value and puts the rows on a clock.
A reader that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tsadc

VARIABLES = 38
BLOCK = 20_000  # rows whose numbers are drawn; the file repeats them


def main() -> None:
    """Write the file, run each reader once per repetition in turn, and print a table of seconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the file")
    parser.add_argument("--repeats", type=int, default=1, help="runs of each reader; the fastest counts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.csv"
        rows = write(path, int(options.gigabytes * 1e9))
        print(f"{path.stat().st_size / 1e9:.2f} GB, {rows:,} rows, {VARIABLES} columns of numbers and one of times")
        seconds = measure(path, options.repeats)
    print("| | wall | CPU |\n|---|---|---|")
    for name, (wall, cpu) in seconds.items():
        print(f"| {name} | {wall:.1f} s | {cpu:.1f} s |")


def write(path: Path, size: int) -> int:
    """Write about `size` bytes of measurements, one row per second; return the number of rows."""
    numbers = np.random.default_rng(0).normal(50, 10, size=(BLOCK, VARIABLES))
    texts = ["," + ",".join(f"{value:.4f}" for value in row) + "\n" for row in numbers]
    rows = size // (len(texts[0]) + len("2024-01-01 00:00:00"))
    with path.open("w") as file:
        file.write("time," + ",".join(f"sensor-{k}" for k in range(VARIABLES)) + "\n")
        for first in range(0, rows, BLOCK):
            times = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(first, min(first + BLOCK, rows)), unit="s")
            file.writelines(map(str.__add__, times.strftime("%Y-%m-%d %H:%M:%S"), texts))
    return rows


def measure(path: Path, repeats: int) -> dict[str, tuple[float, float]]:
    """Return the wall time and the processor time of each reader."""
    readers: dict[str, Callable[[], Any]] = {
        "pandas.read_csv": lambda: pd.read_csv(path, parse_dates=["time"]),
        "tsadc.read": lambda: tsadc.read(path),
    }
    if importlib.util.find_spec("polars"):
        import polars

        readers["polars.read_csv"] = lambda: polars.read_csv(path, try_parse_dates=True)
    seconds: dict[str, list[tuple[float, float]]] = {}
    for _ in range(repeats):
        for name, reader in readers.items():
            result, spent = timed(reader)
            seconds.setdefault(name, []).append(spent)
            if name == "tsadc.read":
                seconds.setdefault("tsadc.examine", []).append(timed(lambda data=result: tsadc.examine(data))[1])
            del result
    return {name: min(spent) for name, spent in seconds.items()}


def timed(work: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Run the work; return its result, and its wall time and processor time in seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = work()
    return result, (time.perf_counter() - wall, time.process_time() - cpu)


if __name__ == "__main__":
    main()
