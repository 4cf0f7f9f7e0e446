"""Rows that look like a plant, a PostgreSQL server, and a service as a process of its own, for tests."""

import contextlib
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pytest

from tsadc.serve.rows import RowBatch

NAMES = ("flow", "pressure", "speed")
LENGTH = 40
INTERVAL = 10**9
START = 1_780_000_000 * 10**9 // (LENGTH * INTERVAL) * (LENGTH * INTERVAL)  # where an observation begins


def waves(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    """Return what is normal at these row numbers, one column per variable."""
    noise = np.random.default_rng([seed, int(rows[0])]).normal(scale=0.1, size=(len(rows), len(NAMES)))
    return np.stack([np.sin(2 * np.pi * rows / period) for period in (7.3, 11.1, 13.7)], axis=1) + noise


def batch(entity: str, first: int, count: int, seed: int = 0, fault: tuple[int, int] | None = None) -> RowBatch:
    """Return rows [first, first + count) of an entity, with a fault in some of them."""
    rows = np.arange(first, first + count)
    values = waves(rows, seed)
    if fault is not None:
        values[(rows >= fault[0]) & (rows < fault[1]), 1] += 8.0
    return RowBatch("test", entity, NAMES, START + rows * INTERVAL, values)


def as_json(rows: RowBatch) -> dict[str, Any]:
    """Return a batch as the body of `POST /v1/rows`."""
    own = {
        "entity": rows.entity,
        "names": list(rows.names),
        "times": rows.times.tolist(),
        "values": rows.values.tolist(),
    }
    return {"batches": [own]}


class PostgreSQL:
    """A server from Debian's packages in a temporary folder. It refuses to run as root, so it runs as `postgres`."""

    def __init__(self) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not found:
            pytest.skip("no PostgreSQL server here: apt-get install postgresql")
        self.programs = found[-1].parent
        self.folder = folder = Path(tempfile.mkdtemp(prefix="tsadc-postgresql-"))  # not pytest's, which is root's alone
        self.user: dict[str, Any] = {}
        if os.getuid() == 0:
            self.user = {"user": "postgres", "group": "postgres"}
            shutil.chown(folder, "postgres", "postgres")
        with contextlib.closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._run("initdb", "-D", str(folder / "data"), "-U", "tsadc", "-A", "trust", "-E", "UTF8", "--no-sync")
        self._numbers = itertools.count()
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self.programs / program), *arguments], check=True, capture_output=True, cwd="/", **self.user
        )

    def start(self) -> None:
        options = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1"
        self._run(
            "pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", str(self.folder / "log"), "-o", options, "start"
        )

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-m", mode, "stop")

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder)

    def new_database(self) -> str:
        name = f"test{next(self._numbers)}"
        with psycopg.connect(f"postgresql://tsadc@127.0.0.1:{self.port}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
        return f"postgresql://tsadc@127.0.0.1:{self.port}/{name}"


class Served:
    """`tsadc serve` as a process of its own."""

    def __init__(self, file: Path, **environment: str) -> None:
        self.file, self.environment = file, environment
        self.start()

    def start(self) -> None:
        # Not a pipe, which would block the service when it is full.
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tsadc", "serve", str(self.file)],
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **self.environment},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if "http://" not in line:
            self.errors.seek(0)
            raise AssertionError(self.errors.read())
        address = line.partition("http://")[2].partition(" ")[0]
        self.client = httpx.Client(base_url=f"http://{address}", timeout=30)

    def kill(self) -> None:
        """End it without a chance to clean up, as a power cut does."""
        self.process.kill()
        self.process.wait()
        self._gone()

    def stop(self) -> float:
        """End it in order; return how long that took."""
        began = time.monotonic()
        self.process.terminate()
        self.process.wait(30)
        took = time.monotonic() - began
        self._gone()
        return took

    def _gone(self) -> None:
        self.client.close()
        self.errors.close()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def push(self, rows: RowBatch) -> httpx.Response:
        return self.client.post("/v1/rows", content=json.dumps(as_json(rows)))

    def scored(self, within: float = 60.0) -> None:
        """Wait until all stored rows are scored."""
        wait_for(
            lambda: (own := self.client.get("/v1/health").json())["scoring"]["running"] and not own["backlog"], within
        )


def wait_for(condition: Any, within: float = 60.0) -> Any:
    """Return what `condition` returns as soon as it is true."""
    last = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < last, "it did not come true in time"
        time.sleep(0.05)
    return found
