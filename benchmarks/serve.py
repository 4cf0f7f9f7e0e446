"""How many rows a second `tsadc serve` takes and scores, and how long a push takes, on loopback.

    make bench-serve                                            one minute on SQLite
    python benchmarks/serve.py --seconds 1800 --rate 2000        half an hour, with the growth of memory
    python benchmarks/serve.py --processes 2                     two scoring processes
    python benchmarks/serve.py --final-only                      one verdict per observation instead of four
    python benchmarks/serve.py --detector tsadc                  scored by the network
    python benchmarks/serve.py --store postgresql://user@host/db --json OUT

A model of 38 variables is fitted on simulated data. Rows of 1,000 entities, most of them unknown to it, are sent in
requests with `--batch` rows of as many entities, at `--rate` rows a second by `--clients` connections; 0 sends as fast
as answers come. A push is timed from sending to the acknowledgement that its rows are on the disk. What is reported as
scored was also judged by then: rows that wait at the end are subtracted.

Before the time is taken, every entity gets the rows of its first observation, as fast as they are taken: without them
there would be nothing to judge at first."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import scipy

VARIABLES, LENGTH = 38, 600
SECOND = 10**9


def normal(rows: int, seed: int) -> np.ndarray:
    """Return normal values (row, variable): three hidden signals with a memory of some rows, mixed, and noise."""
    mixing = np.random.default_rng(0).normal(size=(3, VARIABLES))  # the same for all entities
    generator = np.random.default_rng(seed)
    hidden = scipy.signal.lfilter([0.6], [1, -0.8], generator.normal(size=(rows, 3)), axis=0)
    values: np.ndarray = hidden @ mixing + generator.normal(scale=0.5, size=(rows, VARIABLES))
    return values


def fit(folder: Path, detector: str) -> None:
    """Fit the default ensemble, or the network of TSAD-C for one epoch, on two simulated entities."""
    import tsadc
    from tsadc.series import Clock

    names = tuple(f"v{k}" for k in range(VARIABLES))
    clock = Clock(0, SECOND, dated=True)
    history = [tsadc.Series(normal(40 * LENGTH, seed), names, clock, f"e{seed}") for seed in range(2)]
    made = tsadc.TSADC(length=LENGTH, training={"epochs": 1}) if detector == "tsadc" else tsadc.Ensemble(length=LENGTH)
    made.fit(history).save(folder)


class Bodies:
    """Requests with one row of each of `batch` entities. Values are those of 2,400 time steps, so that noise repeats
    after four observations and never within one; names and times are put before them when a request is sent."""

    def __init__(self, entities: int, batch: int, steps: int = 4 * LENGTH) -> None:
        self.groups = [range(first, min(first + batch, entities)) for first in range(0, entities, batch)]
        names = json.dumps([f"v{k}" for k in range(VARIABLES)])
        listed = [json.dumps([f"e{entity}" for entity in group]) for group in self.groups]
        self.heads = [f'{{"tables": [{{"names": {names}, "entities": {entities}' for entities in listed]
        values = np.round([normal(steps, seed) for seed in range(5, 13)], 4)
        rows = [[json.dumps(row) for row in every.tolist()] for every in values]
        self.rows = [[every[step] for every in rows] for step in range(steps)]

    def body(self, number: int, start: int) -> tuple[bytes, int]:
        """Return a request and its number of rows."""
        step, group = divmod(number, len(self.groups))
        rows, entities = self.rows[step % len(self.rows)], self.groups[group]
        times = ", ".join([str(start + step * SECOND)] * len(entities))
        values = ", ".join(rows[entity % len(rows)] for entity in entities)
        return f'{self.heads[group]}, "times": [{times}], "values": [{values}]}}]}}'.encode(), len(entities)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=20_000, help="Rows a second; 0: as many as it takes.")
    parser.add_argument("--entities", type=int, default=1_000)
    parser.add_argument("--batch", type=int, default=200, help="Rows of a request, each of another entity.")
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--store", default="store.sqlite")
    parser.add_argument("--detector", choices=["ensemble", "tsadc"], default="ensemble")
    parser.add_argument("--final-only", action="store_true", help="No provisional verdicts.")
    parser.add_argument("--processes", type=int, default=1, help="Scoring processes.")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = measure(options, Path(folder))
    print(json.dumps(record))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    """Run the service under load and return what was measured."""
    fit(folder / "model", options.detector)
    config = folder / "config.toml"
    config.write_text(
        f'[server]\nport = 0\nstore = "{options.store}"\nfuture = 1e9\nkeep_days = 100000\n'
        f"processes = {options.processes}\n"
        f'[model.plant]\nfolder = "{folder / "model"}"\nprovisional = {str(not options.final_only).lower()}\n'
    )
    bodies = Bodies(options.entities, options.batch)
    process = subprocess.Popen(
        [sys.executable, "-m", "tsadc", "serve", str(config)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    address = process.stdout.readline().partition("http://")[2].partition(" ")[0]
    while not health(address)["scoring"]["running"]:  # type: ignore[index]
        time.sleep(0.2)
    start = int(time.time() - 86_400) // LENGTH * LENGTH * SECOND
    first = LENGTH * len(bodies.groups)
    for thread in Load(options, address, bodies, start).begin(range(first), rate=0):
        thread.join()
    wait_until_scored(address)
    load = Load(options, address, bodies, start)
    memory: list[tuple[int, int, int]] = []
    children: list[int] = health(address)["scoring"]["pids"]  # type: ignore[index]
    begun, used, used_scoring = time.monotonic(), cpu(process.pid), sum(map(cpu, children))
    threads = load.begin(range(first, sys.maxsize), options.rate)
    while time.monotonic() - begun < options.seconds:
        time.sleep(min(30.0, options.seconds / 10))
        used_by = resident(process.pid) >> 20, sum(map(resident, children)) >> 20
        memory.append((round(time.monotonic() - begun), *used_by))
    load.stop = True
    for thread in threads:
        thread.join()
    took = time.monotonic() - begun
    used, used_scoring = cpu(process.pid) - used, sum(map(cpu, children)) - used_scoring
    time.sleep(0.3)  # the backlog is looked at four times a second
    left = int(health(address)["backlog"])  # type: ignore[call-overload]
    wait_until_scored(address)
    episodes = get(address, "/v1/episodes")["total"]
    drained = time.monotonic() - begun - took
    process.terminate()
    process.wait()
    times = np.sort(load.times)
    return {
        "detector": options.detector,
        "verdicts_per_observation": 1 if options.final_only else 4,
        "scoring_processes": options.processes,
        "seconds": round(took, 1),
        "entities": options.entities,
        "variables": VARIABLES,
        "rows_per_request": options.batch,
        "clients": options.clients,
        "store": "postgresql" if "://" in options.store else "sqlite",
        "offered_rows_per_second": options.rate,
        "acknowledged_rows_per_second": round(load.rows / took),
        "scored_rows_per_second": round((load.rows - left) / took),
        "rows_that_waited_at_the_end": left,
        "seconds_to_score_them": round(drained, 1),
        "refused_requests": load.refused,
        "episodes": episodes,
        "push_ms": {f"p{p}": round(1e3 * float(np.percentile(times, p)), 1) for p in (50, 90, 99, 99.9)},
        "cpu_share": {"ingest": round(used / took, 2), "scoring": round(used_scoring / took, 2)},
        "memory_mb": {"seconds, ingest, scoring": memory},
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


class Load:
    """Sends requests at a rate."""

    def __init__(self, options: argparse.Namespace, address: str, bodies: Bodies, start: int) -> None:
        self.options, self.address, self.bodies, self.start = options, address, bodies, start
        self.clients = min(options.clients, len(bodies.groups))  # each sends the rows of some groups
        self.stop, self.rows, self.refused = False, 0, 0
        self.times: list[float] = []
        self.lock = threading.Lock()

    def begin(self, numbers: range, rate: int) -> list[threading.Thread]:
        """Start to send requests at a rate, or as fast as they are answered."""
        begun, clients = time.monotonic(), range(self.clients)
        threads = [threading.Thread(target=self._send, args=[client, numbers, rate, begun]) for client in clients]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, client: int, numbers: range, rate: int, begun: float) -> None:
        """Send until the last one, or until `stop`. A refused request is sent again, so that no entity misses a row.
        The rows of an entity always come from the same client, so that they come in order."""
        connection, count = http.client.HTTPConnection(self.address, timeout=60), len(self.bodies.groups)
        for number in (number for number in numbers if number % count % self.clients == client):
            if self.stop:
                break
            body, rows = self.bodies.body(number, self.start)
            if rate:
                due = begun + (number - numbers.start) * self.options.batch / rate
                time.sleep(max(0.0, due - time.monotonic()))
            while True:
                began = time.perf_counter()
                connection.request("POST", "/v1/rows", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                content = answer.read()
                took = time.perf_counter() - began
                if answer.status == 200:
                    break
                if answer.status not in (429, 503):
                    raise RuntimeError(content)
                self.refused += 1
                time.sleep(float(answer.headers["Retry-After"]))
            with self.lock:
                self.rows += rows
                self.times.append(took)


def wait_until_scored(address: str) -> None:
    """Wait until no row waits to be scored."""
    time.sleep(0.3)  # the backlog is looked at four times a second
    while int(health(address)["backlog"]):  # type: ignore[call-overload]
        time.sleep(0.2)


def health(address: str) -> dict[str, object]:
    return get(address, "/v1/health")


def get(address: str, path: str) -> dict[str, object]:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("GET", path)
    content: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return content


def resident(pid: int) -> int:
    """Return the memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu(pid: int) -> float:
    """Return the processor time of a process in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
