"""How well `tsadc.audit` finds the anomalies of a history, and whether its probabilities are right.

    python benchmarks/audit.py                       # runs what has no current record, then writes the table
    python benchmarks/audit.py --seeds 100 101 --records FOLDER/choosing.jsonl --table FOLDER/choosing.md

A history is audited without its labels, by the ensemble and, doing the same job, by an isolation forest and a robust z.

    plant, ludb, sleep   the training part of the benchmark, with a share eta of anomalous observations
    smd                  the test parts, with their real incidents, of the machines that no choice was made on

The labels of an observation say whether an anomaly touches it. `AP` ranks observations by their cross-fitted score;
precision and recall are of those with a probability of at least 0.5. recall before and after is that of the
alarms of a detector that was trained on the whole history, and without the suspects.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tsadc.detectors.audit as audited
from tsadc.atomic import write_file
from tsadc.bench.source import reference, source_hash
from tsadc.data import ludb, sleepedf
from tsadc.data.contaminate import halves
from tsadc.data.dataset import DataSet
from tsadc.data.plant import Plant
from tsadc.data.protocols import smd_causal
from tsadc.data.smd import SMD
from tsadc.detectors import find
from tsadc.evaluate.ranking import average_precision
from tsadc.series import Booleans
from tsadc.show.markdown import table
from tsadc.windows import cut

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "tables" / "audit.md"
ETAS = (0.05, 0.1, 0.2, 0.3)
DETECTORS = ("ensemble", "isolation-forest", "robust-z")
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)  # of the reliability table
EXPLANATION = (
    "Observations; precision and recall of those with a probability of at least 0.5. Alarms are those of a detector "
    "trained on the whole history (before) and without the suspects (after), at its own threshold."
)
RELIABILITY = "Mean probability of the observations in each bin / the share of them that is anomalous (their number)."
Job = tuple[str, float | None, int, str]
Record = dict[str, Any]


def history(name: str, eta: float | None, seed: int, raw: Path) -> tuple[Any, Booleans, int]:
    """Return an unlabelled history, whether each of its observations is anomalous, and their length."""
    if name == "plant":
        config = Plant.Config(seed=seed, contamination=eta or 0.0)
        labelled = Plant(config).train()
        observations = cut(labelled.series, config.length).observations
        return labelled.series, labelled.touched(observations), config.length
    if name == "smd":
        task = smd_causal(raw, seed)
        assert not isinstance(task.test, np.ndarray)
        inside = next(iter(task.answers.parts.values()), np.ones(len(task.answers.entities), dtype=bool))
        names = {entity for entity, own in zip(task.answers.entities, inside, strict=True) if own}
        machines = tuple(series for series in task.test if series.entity in names)
        return machines, task.answers.labels[inside], SMD.card.length
    dataset: DataSet = ludb.LUDB() if name == "ludb" else sleepedf.SleepEDF()
    pieces = [piece for record in dataset.records(raw) for piece in dataset.read(record).pieces]
    kinds = [tuple(dict.fromkeys(span.kind for span in piece.spans)) for piece in pieces]
    # The draw of the benchmark, made of the numbers of the observations, so that their labels are known.
    numbers = np.arange(len(pieces), dtype=np.float64)[:, None, None]
    drawn = halves(numbers, kinds, eta or 0.0, seed, fixed_test=True).train
    assert isinstance(drawn, np.ndarray)
    chosen = drawn[:, 0, 0].astype(int)
    return np.stack([pieces[i].values for i in chosen]), np.array([bool(kinds[i]) for i in chosen]), dataset.card.length


def run(job: Job, raw: Path) -> Record:
    """Audit one history and measure the answer."""
    name, eta, seed, detector = job
    data, anomalous, length = history(name, eta, seed, raw)
    found = audited.audit(find(detector)(length=length, seed=seed), data)
    p, flagged = found.probabilities, found.probabilities >= audited.LEVEL
    bins = np.clip(np.digitize(p, EDGES) - 1, 0, len(EDGES) - 2)
    hits = int((flagged & anomalous).sum())
    return {
        "observations": len(p),
        "anomalous": int(anomalous.sum()),
        "suspected": int(flagged.sum()),
        "hits": hits,
        "ap": round(average_precision(anomalous, found.result.scores), 4),
        "share": [round(float(value), 4) for value in (found.share, found.low, found.high)],
        "bins": [
            [int((bins == i).sum()), round(float(p[bins == i].sum()), 3), int(anomalous[bins == i].sum())]
            for i in range(len(EDGES) - 1)
        ],
        "flags": [
            None if model is None else [int((model.flagged & anomalous).sum()), int((model.flagged & ~anomalous).sum())]
            for model in (found.whole, found.without)
        ],
        "seconds": round(found.cost.seconds, 1),
    }


def jobs(seeds: Sequence[int]) -> Iterator[Job]:
    """Yield all jobs, the cheapest first."""
    for detector in reversed(DETECTORS):
        for seed in seeds:
            for name in ("ludb", "sleep", "plant"):
                yield from ((name, eta, seed, detector) for eta in ETAS)
        yield "smd", None, seeds[0], detector  # there is one draw of it


def current(job: Job) -> str:
    """Return a digest of the code that a record depends on."""
    files = sorted(Path(audited.__file__).parent.glob("*.py"))
    own = b"".join(file.read_bytes() for file in files) + json.dumps([ETAS, EDGES]).encode()
    return hashlib.sha256(own + source_hash([reference(find(job[3]))]).encode()).hexdigest()[:12]


def read(file: Path) -> dict[Job, Record]:
    """Return the last record of each job."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    records = [json.loads(line) for line in lines]
    return {(each["data"], each["eta"], each["seed"], each["detector"]): each for each in records}


def render(records: Sequence[Record], command: str) -> str:
    """Return the tables in Markdown."""
    frame = pd.DataFrame(records)
    frame["eta"] = frame["eta"].map(lambda eta: "real" if pd.isna(eta) else f"{eta:g}")
    main = [
        [
            *key,
            _mean([each["anomalous"] / each["observations"] for each in group]),
            *_shares(group),
            _mean([each["ap"] for each in group]),
            _pooled(group, "hits", "suspected"),
            _pooled(group, "hits", "anomalous"),
            *(_flagged(group, i) for i in (0, 1)),
        ]
        for key, group in _groups(frame, ["data", "eta", "detector"])
    ]
    reliability = [
        [*key, *(_bin(group, i) for i in range(len(EDGES) - 1))] for key, group in _groups(frame, ["data", "detector"])
    ]
    seeds = ", ".join(str(seed) for seed in sorted(frame["seed"].unique()))
    bins = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    head = [
        *("data", "eta", "audited by", "true share", "share", "interval covers", "AP", "precision", "recall"),
        *("recall of alarms before", "after"),
    ]
    return (
        f"# Audit of dirty histories\n\nMade by `{command}`, seeds {seeds}. {EXPLANATION}\n\n{table(head, main)}\n\n"
        f"## Are the probabilities right?\n\n{RELIABILITY}\n\n{table(['data', 'audited by', *bins], reliability)}\n"
    )


def _groups(frame: pd.DataFrame, keys: list[str]) -> Iterator[tuple[tuple[str, ...], list[Record]]]:
    for key, group in frame.groupby(keys, sort=False):
        records = [{str(name): value for name, value in each.items()} for each in group.to_dict("records")]
        yield tuple(map(str, key)), records


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.3f}"


def _pooled(group: Sequence[Record], part: str, whole: str) -> str:
    total = sum(each[whole] for each in group)
    return f"{sum(each[part] for each in group) / total:.3f}" if total else "-"


def _shares(group: Sequence[Record]) -> list[str]:
    true = [each["anomalous"] / each["observations"] for each in group]
    estimates = [each["share"] for each in group]
    covered = [low <= share <= high for share, (_, low, high) in zip(true, estimates, strict=True)]
    return [_mean([share for share, _, _ in estimates]), f"{sum(covered)} of {len(covered)}"]


def _flagged(group: Sequence[Record], i: int) -> str:
    known = [each for each in group if each["flags"][i] is not None]
    total = sum(each["anomalous"] for each in known)
    return f"{sum(each['flags'][i][0] for each in known) / total:.3f}" if total else "-"


def _bin(group: Sequence[Record], i: int) -> str:
    number, probability, anomalous = np.sum([each["bins"][i] for each in group], axis=0)
    return f"{probability / number:.2f} / {anomalous / number:.2f} ({number:.0f})" if number else "-"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--records", type=Path, default=HERE / "results" / "audit.jsonl")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the records as a table to this file")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    raw, known, shown = Path(os.environ.get("TSADC_DATA", ".")), read(options.records), []
    for job in jobs(options.seeds):
        code = current(job)
        if options.table is None and known.get(job, {}).get("code") != code:
            record = dict(zip(("data", "eta", "seed", "detector"), job, strict=True)) | run(job, raw) | {"code": code}
            options.records.parent.mkdir(parents=True, exist_ok=True)
            with options.records.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            known[job] = record
            print(record, flush=True)
        shown.append(known[job])
    order = {name: i for i, name in enumerate(("plant", "ludb", "sleep", "smd", *DETECTORS))}
    shown.sort(key=lambda each: (order[each["data"]], each["eta"] or 0, order[each["detector"]]))
    write_file(options.table or PAGE, render(shown, "python benchmarks/audit.py").encode())


if __name__ == "__main__":
    main()
