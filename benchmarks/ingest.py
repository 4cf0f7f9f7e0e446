"""What it costs to store a row, in processor time: rows that come whole, and rows whose variables come one by one.

    python benchmarks/ingest.py                    # SQLite in a temporary folder
    python benchmarks/ingest.py --store postgresql://user@host/db

Requests have one row of each of 50 entities with 38 variables, as from Prometheus, Telegraf or MQTT, and are sent one
after the other. The database is a process of its own with PostgreSQL, and its time does not count there."""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np

from tsadc.serve.config import Config, Model, Server
from tsadc.serve.ingest import Ingest
from tsadc.serve.metrics import Problems
from tsadc.serve.rows import RowTable
from tsadc.serve.store import Store

VARIABLES, ENTITIES = 38, 50
NAMES = tuple(f"v{k}" for k in range(VARIABLES))
START = 1_780_000_000 * 10**9
# How the variables of a row come, and whether more may follow.
WAYS = {
    "whole": ([VARIABLES], False),
    "whole, though more may follow": ([VARIABLES], True),
    "in two requests": ([19, 19], True),
    "in four requests": ([10, 10, 10, 8], True),
    "four variables in four requests": ([1, 1, 1, 1], True),
}


def cost(ingest: Ingest, way: str, steps: int) -> float:
    """Return the processor time of a row in microseconds."""
    counts, partial = WAYS[way]
    entities = [f"{way} {number}" for number in range(ENTITIES)]
    values = np.random.default_rng(0).normal(size=(ENTITIES, VARIABLES))
    bounds = np.cumsum([0, *counts])

    def send(step: int) -> None:
        times = np.full(ENTITIES, START + step * 10**9)
        for first, stop in itertools.pairwise(bounds):
            table = RowTable("benchmark", entities, NAMES[first:stop], times, values[:, first:stop], partial)
            ingest.offer([table]).result()

    send(0)
    begun = time.process_time()
    for step in range(1, steps + 1):
        send(step)
    return 1e6 * (time.process_time() - begun) / (steps * ENTITIES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", default="")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(store=options.store or str(Path(folder, "store.sqlite")), wait=3600.0)
        config = Config(server, {"plant": Model(folder=folder)})
        store = Store(server.url)
        ingest = Ingest(store, config, {"plant": NAMES}, Problems())
        for way in WAYS:
            print(f"{way}: {cost(ingest, way, options.steps):.0f} µs")
        ingest.close()
        store.close()


if __name__ == "__main__":
    main()
