"""How honest the probabilities of `tsadc.audit` are with few observations, on simulated histories.

    python benchmarks/audit_few.py            # runs what has no current record, then writes the table

Histories without any anomaly, and with a tenth of the observations faulty (a shift, noise or a stuck value of one
variable, for a quarter of the observation or more), are audited by the ensemble. The last step is done twice: with the
Student distribution of the audit, and with the Gaussian that it approaches with many observations.

    multiples   a sine and two multiples of it, with noise
    sines       three sines of different periods, with noise
    walks       three autoregressive series with heavy tails, one half the first
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import inspect
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from scipy.signal import lfilter

import tsadc.detectors.audit as audited
from tsadc.atomic import write_file
from tsadc.bench.source import reference, source_hash
from tsadc.detectors import Ensemble
from tsadc.detectors.audit import estimate as estimating
from tsadc.detectors.audit.estimate import PER_DEGREE, Estimate
from tsadc.series import Booleans, Floats
from tsadc.show.markdown import table

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "audit_few.jsonl", HERE.parent / "docs" / "tables" / "audit-few.md"
LENGTH, SHARE = 100, 0.1
KINDS = ("multiples", "sines", "walks")
SEEDS = {50: 4, 100: 3, 200: 1, 500: 1}  # by number of observations
SURE = 0.9
GAUSSIAN = 1e-9  # observations per degree of freedom of a distribution that is Gaussian
Job = tuple[str, int, int, float]


def history(job: Job) -> tuple[Floats, Booleans]:
    """Return a history, and which of its observations are faulty."""
    kind, observations, seed, share = job
    generator = np.random.default_rng([seed, observations, KINDS.index(kind)])
    time, shape = np.arange(observations * LENGTH), (observations * LENGTH, 3)
    if kind == "multiples":
        values = np.sin(time / 20)[:, None] * np.arange(1, 4) + 0.1 * generator.normal(size=shape)
    elif kind == "sines":
        values = np.sin(time[:, None] / [9.0, 17.0, 31.0]) + 0.2 * generator.normal(size=shape)
    else:
        values = np.asarray(lfilter([1], [1, -0.97], generator.standard_t(5, size=shape), axis=0))
        values[:, 2] = 0.5 * values[:, 0] + 0.5 * values[:, 2]
    faulty = np.zeros(observations, dtype=bool)
    faulty[generator.choice(observations, round(share * observations), replace=False)] = True
    for i in np.flatnonzero(faulty):
        column, fault = generator.integers(3, size=2)
        start = i * LENGTH + generator.integers(0, 30)
        rows = slice(start, start + generator.integers(25, 65))
        spread = values[:, column].std()
        if fault == 0:
            values[rows, column] += 2 * spread
        elif fault == 1:
            values[rows, column] += spread * generator.normal(size=rows.stop - rows.start)
        else:
            values[rows, column] = values[rows.start, column]
    return values, faulty


class _Estimated(Exception):
    """The deviates of all folds are known, which is all that is needed."""


def run(job: Job) -> dict[str, Any]:
    """Return how many observations are more probable than 90 %, and how many of these are faulty."""
    values, faulty = history(job)
    deviates: list[Floats] = []

    def keep(scores: Floats, *_: object) -> None:
        deviates.append(scores)
        raise _Estimated

    with mock.patch.object(Estimate, "of", keep), contextlib.suppress(_Estimated):
        audited.audit(Ensemble(length=LENGTH, seed=job[2]), values)
    counts = {}
    for name, per_degree in (("student", PER_DEGREE), ("gaussian", GAUSSIAN)):
        with mock.patch.object(estimating, "PER_DEGREE", per_degree):
            estimate = Estimate.of(deviates[0], "auto", 0)
            sure = estimate.probability(estimate.standardised(deviates[0])) > SURE
        counts[name] = [int(sure.sum()), int((sure & faulty).sum())]
    return {"faulty": int(faulty.sum()), **counts}


def current() -> str:
    """Return a digest of the code that a record depends on."""
    files = sorted(Path(audited.__file__).parent.glob("*.py"))
    own = b"".join(file.read_bytes() for file in files)
    own += "".join(map(inspect.getsource, (history, run))).encode()
    return hashlib.sha256(own + source_hash([reference(Ensemble)]).encode()).hexdigest()[:12]


def render(records: Sequence[dict[str, Any]]) -> str:
    """Return the table in Markdown."""
    rows = []
    for observations in SEEDS:
        clean, dirty = (
            [each for each in records if each["observations"] == observations and each["share"] == share]
            for share in (0.0, SHARE)
        )
        cells = []
        for name in ("gaussian", "student"):
            found, right = (sum(each[name][i] for each in dirty) for i in (0, 1))
            cells.append([f"{sum(each[name][0] for each in clean)}", f"{right} of {found}"])
        faulty = sum(each["faulty"] for each in dirty)
        both = [f"{before} → {after}" for before, after in zip(*cells, strict=True)]
        rows.append([str(observations), str(len(clean)), both[0], str(faulty), both[1]])
    head = ["observations", "histories", "above 90 % without faults", "faulty", "faulty of those above 90 %"]
    return (
        "# Audit of few observations\n\nMade by `python benchmarks/audit_few.py`, "
        f"by the ensemble; seeds: {', '.join(f'{seeds} of {number}' for number, seeds in SEEDS.items())} observations. "
        "Observations with a probability above 90 %, if normal scores are taken to be Gaussian → by Student's "
        f"distribution, as in the audit; kinds of histories: {', '.join(KINDS)}.\n\n{table(head, rows)}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=np.inf, help="stop after so many; a later run goes on")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    begun, code = time.monotonic(), current()
    names = ("kind", "observations", "seed", "share")
    lines = RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else []
    known = {tuple(each[name] for name in names): each for each in map(json.loads, lines) if each["code"] == code}
    jobs = [
        (kind, observations, seed, share)
        for observations, seeds in SEEDS.items()
        for seed in range(seeds)
        for kind in KINDS
        for share in (0.0, SHARE)
    ]
    for job in jobs:
        if job not in known:
            if time.monotonic() - begun > options.seconds:
                print(f"{len(known)} of {len(jobs)} histories are audited; run this again.")
                return 0
            known[job] = dict(zip(names, job, strict=True)) | run(job) | {"code": code}
            RECORDS.parent.mkdir(parents=True, exist_ok=True)
            write_file(RECORDS, "".join(json.dumps(record) + "\n" for record in known.values()).encode())
    write_file(PAGE, render([known[job] for job in jobs]).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
