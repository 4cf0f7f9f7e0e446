"""Records on disk: one file of JSON lines per data set, `OUT/DATASET.jsonl`, sorted by data, label and seed.

A record is current while its hashes of settings, code and data are those of its job today, otherwise it is stale.
Scores go to `OUT/scores`, under a name that is made of these hashes.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from tsadc.atomic import write_file
from tsadc.bench.job import Job, Record, code_hash, digest, identity, settings_hash
from tsadc.bench.measure import Arrays
from tsadc.config import parse_json
from tsadc.errors import DataError, OutputError

SCORES, TRAINING, PLAN, LOCK = "scores", ".training", "plan.toml", ".lock"
HASHES = ("settings", "code", "source")
IDENTITY = {"dataset", "detector", "seed", "label", *HASHES}
MEASURED = {"auroc", "ap", "f1", "prevalence", "flagged", "all_positive_f1", "fit_seconds", "score_seconds"}
Key = tuple[str, str, int]


@dataclass(frozen=True)
class Store:
    """The folder that records and scores are written to."""

    out: Path

    @property
    def training(self) -> Path:
        """The folder that keeps unfinished trainings."""
        return self.out / TRAINING

    def keep(self, record: Record, scores: Arrays) -> None:
        """Write a record in place of an earlier one of the same job, and its scores. Several processes may do so."""
        if scores:
            save_arrays(scores_file(self.out, record), scores)
        file = self.out / f"{record['dataset']}.jsonl"
        self.training.mkdir(parents=True, exist_ok=True)
        with FileLock(self.training / f"{file.name}.lock"):
            records = {key_of(old): old for old in _read(file)} | {key_of(record): record}
            write_records(file, records.values())


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on a results folder, which is created if needed; raise if another process holds it. The
    system releases the lock when the process ends, even if it is killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / LOCK, blocking=False):
            yield
    except Timeout:
        raise OutputError(
            f"Another `tsadc bench run` writes into {folder}; wait until it is done, or choose another --out."
        ) from None
    except OSError as error:
        raise OutputError(f"{folder} cannot be written: {error.strerror or error}.") from None


def load(out: Path) -> list[Record]:
    """Return every record in a folder."""
    if out.is_file():
        raise DataError(f"{out} is a file, but the folder that `tsadc bench run` wrote was expected.")
    if not out.is_dir():
        raise DataError(f"There is no folder {out} with records; run the benchmark first.")
    return [record for file in sorted(out.glob("*.jsonl")) for record in _read(file)]


def _read(file: Path) -> list[Record]:
    records = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines() if file.exists() else (), start=1):
        try:
            record = parse_json(line)
        except ValueError:
            record = None
        if not complete(record):
            raise DataError(f"{file}, line {number}, is not a record; delete the line and run the benchmark again.")
        records.append(record)
    return records


def complete(record: Any) -> bool:
    """Return whether it says which job it belongs to, and has either numbers or an error."""
    if not isinstance(record, dict):
        return False
    return record.keys() >= IDENTITY and ("error" in record or record.keys() >= MEASURED)


def write_records(file: Path, records: Iterable[Record]) -> None:
    """Write records as sorted lines of JSON."""
    lines = [json.dumps(record, ensure_ascii=False) for record in sorted(records, key=key_of)]
    write_file(file, "".join(f"{line}\n" for line in lines).encode())


def job_of(record: Mapping[str, Any]) -> Job:
    """Return the job that a record belongs to."""
    return Job(
        record["dataset"],
        record["detector"],
        record["seed"],
        record.get("preset", "default"),
        record.get("overrides", {}),
        record.get("split", {}),
        record.get("limit"),
        label=record["label"],
    )


def key_of(record: Mapping[str, Any]) -> Key:
    """Return data, variant and seed, which no two records of a folder share."""
    return job_of(record).key


def current(record: Record | None, job: Job, raw: Path) -> bool:
    """Return whether a record holds what running the job now would give, failures included."""
    if record is None or any(record[name] != value for name, value in identity(job, raw).items() if name in HASHES):
        return False
    return "error" in record or set(job.by_row) <= record.keys()


def stale(record: Record, job: Job) -> bool:
    """Return whether the settings or the code of a job have changed since the record was made."""
    return (record["settings"], record["code"]) != (settings_hash(job), code_hash(job))


def scores_file(out: Path, record: Mapping[str, Any]) -> Path:
    """Return where the scores of a record are kept."""
    return out / SCORES / f"{digest([record[name] for name in HASHES])}.npz"


def save_arrays(file: Path, arrays: Arrays) -> None:
    """Write a compressed file that appears whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_file(file, content.getvalue())
