"""Measure what each detector costs: `make bench-detectors`.

Each detector is fitted on observations of a simulated plant, by default 300 of 38 variables x 600 steps, and scores
other observations, in a process of its own. One line per detector and preset goes to
`benchmarks/results/detectors.jsonl`. A detector whose record has the same settings, sizes and code is not run again, so
a run can be interrupted. `--table` writes `docs/tables/detectors.md` from the records alone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsadc.atomic import write_file
from tsadc.bench.job import digest
from tsadc.bench.machine import circumstances
from tsadc.bench.source import reference, source_hash
from tsadc.config import to_mapping, update
from tsadc.data.plant import Plant
from tsadc.detectors import REGISTRY, find, names
from tsadc.detectors.base import Detector
from tsadc.detectors.residual import ResidualDetector
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.nn.runtime.allocator import keep_freed_memory
from tsadc.nn.runtime.threads import parallel_map
from tsadc.show.markdown import table

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "detectors.jsonl", HERE.parent / "docs" / "tables" / "detectors.md"
TRAINED = [name for name in REGISTRY if issubclass(find(name), ResidualDetector)]
SIZES = {"observations": 300, "variables": 38, "length": 600, "scored": 20, "threads": 2}
REQUESTED = ("detector", "preset", "requested_epochs", *SIZES, "settings", "code")
MEASURED = ("parameters", "epochs", "fit_seconds", "fit_cpu_seconds", "network_ms", "score_ms", "peak_mb", "start_mb")
UNITS = 6  # of the plant; fewer if these do not share the observations evenly

Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        if options.child:
            print(json.dumps(measure(options.child, options)))
            return 0
        if options.table:
            write_file(options.table, f"# Cost of each detector\n\n{markdown(load(options.records))}\n".encode())
            return 0
        return run(options)
    except TsadcError as error:
        print(f"detectors.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detectors", help="names, separated by commas (default: all that have the preset)")
    parser.add_argument("--preset", default="default", help="default, published or tiny")
    parser.add_argument("--epochs", type=int, help="train for this many epochs instead of the preset's")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=f"default: {size}")
    parser.add_argument("--records", type=Path, default=RECORDS, help="the file of records")
    parser.add_argument("--again", action="store_true", help="re-run detectors that have a record")
    parser.add_argument("--table", type=Path, nargs="?", const=PAGE, help="only write the table, to this file")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def run(options: argparse.Namespace) -> int:
    """Measure the requested detectors that have no current record. Return the exit code."""
    requested = {name: request(name, options) for name in chosen(options)}  # raises before anything is run
    failed = 0
    for name, wanted in requested.items():
        records = load(options.records) if options.records.exists() else []
        if not options.again and any(all(one[key] == wanted[key] for key in REQUESTED) for one in records):
            print(f"{name}: done before", flush=True)
            continue
        measured = child(name, options)
        if measured is None:
            failed += 1
            continue
        record = {**wanted, **measured, **circumstances()}
        kept = [one for one in records if (one["detector"], one["preset"]) != (name, options.preset)]
        lines = [json.dumps(one) for one in sorted([*kept, record], key=lambda one: (one["preset"], one["detector"]))]
        write_file(options.records, "".join(f"{text}\n" for text in lines).encode())
        print(f"{name}: {line(measured)}", flush=True)
    return 1 if failed else 0


def chosen(options: argparse.Namespace) -> list[str]:
    """Return the named detectors, or all to which the options apply."""
    if options.detectors:
        return [name.strip() for name in options.detectors.split(",")]
    return list(REGISTRY) if options.preset == "default" and options.epochs is None else TRAINED


def settings(name: str, options: argparse.Namespace) -> Common:
    """Return the settings of the preset; the published one of TSAD-C is called `paper`."""
    cls = find(name)
    preset = "paper" if options.preset == "published" and name == "tsadc" else options.preset
    changes: dict[str, Any] = {"length": options.length}
    if options.epochs is not None:
        if not issubclass(cls, ResidualDetector):
            raise ConfigError(f"{name} has no network to train; leave out --epochs, or name detectors that have one.")
        changes["training"] = {"epochs": options.epochs}
    config: Common = update(cls.Config.preset(preset), changes)
    return config


def request(name: str, options: argparse.Namespace) -> Record:
    """Return what a record is of; the record is current while this stays the same."""
    for size, least in {"observations": 5, "scored": 1, "threads": 1}.items():
        if getattr(options, size) < least:
            raise ConfigError(f"--{size} must be at least {least}, but got {getattr(options, size)}.")
    return {
        "detector": name,
        "preset": options.preset,
        "requested_epochs": options.epochs,
        **{size: getattr(options, size) for size in SIZES},
        "settings": digest(to_mapping(settings(name, options))),
        "code": code_hash(name),
    }


def code_hash(name: str) -> str:
    """Return a hash of the code of a detector and of the plant."""
    return source_hash([reference(find(name)), reference(Plant)])


def child(name: str, options: argparse.Namespace) -> Record | None:
    """Call `measure` in a new process; return None if it fails."""
    words = ["--preset", options.preset, *([] if options.epochs is None else ["--epochs", str(options.epochs)])]
    words += [word for size in SIZES for word in (f"--{size}", str(getattr(options, size)))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", name, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode:
        print(f"{name}: failed with exit code {done.returncode}; no record was written.", file=sys.stderr)
        return None
    measured: Record = json.loads(done.stdout.splitlines()[-1])
    return measured


def measure(name: str, options: argparse.Namespace) -> Record:
    """Return seconds and megabytes of fitting and scoring in this process."""
    keep_freed_memory()  # as the commands do
    torch.set_num_threads(options.threads)
    history, new = plant(options)
    start = resident()
    detector = find(name)(config=settings(name, options))
    wall, cpu = time.perf_counter(), time.process_time()
    detector.fit(history)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    network = isinstance(detector, ResidualDetector)
    return {
        "parameters": sum(weights.numel() for weights in detector.network_.parameters()) if network else None,
        "trained_on": len(detector.decision_scores_) - len(detector.validation_scores_),
        "epochs": len(detector.history_.epochs) if network else None,
        "fit_seconds": wall,
        "fit_cpu_seconds": cpu,
        **scoring(detector, new),
        "peak_mb": resident(),
        "start_mb": start,
    }


def plant(options: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the history of a plant's units and later rows of one, without a clock: observations start at row 0."""
    units = math.gcd(options.observations, UNITS)
    rows = options.length * max(options.observations // units, options.scored)
    split = Plant(Plant.Config(entities=units, variables=options.variables, rows=rows, length=options.length)).split()
    kept = options.length * options.observations // units
    history = {series.entity: np.asarray(series.values)[:kept] for series in split.train}
    first = split.test.series[0]
    return history, {first.entity: np.asarray(first.values)[: options.length * options.scored]}


def scoring(detector: Detector, new: Mapping[str, Any]) -> Record:
    """Return wall milliseconds per observation of the network alone, if there is one, and of the whole score: the
    better of two rounds after a first one that does not count."""
    length = detector.settings.length
    scaled = [np.asarray(detector.scaler_(entity, values), dtype=np.float32) for entity, values in new.items()]
    observations = [values[i : i + length].T.copy() for values in scaled for i in range(0, len(values), length)]
    works: dict[str, Callable[[], object]] = {"score_ms": lambda: detector.decision_function(new)}
    if isinstance(detector, ResidualDetector):
        infer = torch.no_grad()(detector._make_inference())
        works["network_ms"] = lambda: list(parallel_map(infer, observations))
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(3):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            taken[name].append(1000 * (time.perf_counter() - started) / len(observations))
    return {"network_ms": None} | {name: min(times[1:]) for name, times in taken.items()}


def resident() -> float:
    """Return the most memory that this process has held, in megabytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def load(file: Path) -> list[Record]:
    """Return the records in a file; raise if there are none or one is damaged."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    if not lines:
        raise DataError(f"There are no records in {file}; run the benchmark first.")
    records = []
    for number, text in enumerate(lines, start=1):
        try:
            record = json.loads(text)
        except ValueError:
            record = None
        if not isinstance(record, dict) or not record.keys() >= {*REQUESTED, *MEASURED, "version", "commit"}:
            raise DataError(f"{file}, line {number}, is not a record; delete the line and run the benchmark again.")
        records.append(record)
    return records


def line(measured: Mapping[str, Any]) -> str:
    """Return a line on a finished detector."""
    fit = f"fit {measured['fit_seconds']:.1f} s ({measured['fit_cpu_seconds']:.1f} s of cpu"
    if measured["parameters"] is None:
        return f"{fit}), {measured['score_ms']:.1f} ms per observation, {measured['peak_mb']:.0f} MB"
    score = f"{measured['network_ms']:.1f} ms per observation by the network, {measured['score_ms']:.1f} ms in all"
    network = f"{measured['parameters']:,} parameters, {fit}, {measured['epochs']} epochs)"
    return f"{network}, {score}, {measured['peak_mb']:.0f} MB"


def markdown(records: Sequence[Record]) -> str:
    """Return a table for each preset, with detectors in the order of the registry."""
    presets = sorted({record["preset"] for record in records}, key=lambda name: (name != "default", name))
    parts, order = [], names()
    for preset in presets:
        own = [record for record in records if record["preset"] == preset and record["detector"] in order]
        own.sort(key=lambda record: order.index(record["detector"]))
        parts += [_preface(preset, own), _table(own)]
    return "\n\n".join(parts)


def _preface(preset: str, records: Sequence[Record]) -> str:
    def shared(name: str) -> str:
        return " or ".join(str(size) for size in sorted({record[name] for record in records}))

    made = {_made(record) for record in records}
    made_with = made.pop() if len(made) == 1 else "the versions in the last column"
    old = sum(record["code"] != code_hash(record["detector"]) for record in records)
    stale = f" {old} of {len(records)} records are stale: the code has changed, or its hash was not recorded."
    return (
        f"Preset `{preset}`: fitted on {shared('observations')} observations of {shared('variables')} variables x "
        f"{shared('length')} steps of a simulated plant, on {shared('threads')} thread(s). Milliseconds are wall time "
        "per observation, of the network alone and of the whole score. Memory is the peak of the whole process, in "
        "brackets what it held before the fit. An asterisk marks a given number of epochs instead of the preset's. "
        f"Made with {made_with} by `python benchmarks/detectors.py`." + (stale if old else "")
    )


def _made(record: Record) -> str:
    return f"tsadc {record['version']} at commit {record['commit'] or 'unknown'}"


def _table(records: Sequence[Record]) -> str:
    head = ["name", "parameters", "epochs", "fit, s", "fit, s of cpu", "network, ms", "score, ms", "memory, MB"]
    several = len({_made(record) for record in records}) > 1
    body = []
    for record in records:
        seconds = [record[name] for name in ("fit_seconds", "fit_cpu_seconds")]
        texts = [
            record["detector"],
            _number(record["parameters"], ",d"),
            _number(record["epochs"], "d") + ("" if record["requested_epochs"] is None else "*"),
            *(_number(value, ".0f" if value >= 10 else ".1f") for value in seconds),
            *(_number(record[name], ".1f") for name in ("network_ms", "score_ms")),
            f"{record['peak_mb']:.0f} ({record['start_mb']:.0f})",
        ]
        body.append([*texts, _made(record)] if several else texts)
    return table([*head, "made with"] if several else head, body)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main())
