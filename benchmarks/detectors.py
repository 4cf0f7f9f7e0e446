"""What each detector costs: `make bench-detectors`.

Each is fitted on observations of a simulated plant, by default 300 of 38 variables x 600 steps, and scores others of
it, in a process of its own. One JSON record per detector and preset goes to `benchmarks/results/detectors/`; what has a
record of the same settings, sizes and version is not run again, so the run can be interrupted. `--table` makes the
table of `docs/detectors.md` from the records alone.
"""

from __future__ import annotations

import argparse
import importlib.metadata
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
from tsadc.bench.machine import circumstances
from tsadc.config import to_mapping, update
from tsadc.data.plant import Plant
from tsadc.detectors import REGISTRY, find, names
from tsadc.detectors.base import Detector
from tsadc.detectors.residual import ResidualDetector
from tsadc.detectors.settings import Common
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.nn.runtime.allocator import keep_freed_memory
from tsadc.nn.runtime.threads import available, parallel_map
from tsadc.show.markdown import insert

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "detectors.md"
TRAINED = [name for name in REGISTRY if issubclass(find(name), ResidualDetector)]
SIZES = {"observations": 300, "variables": 38, "length": 600, "scored": 20, "threads": 2}
MEASURED = {"parameters", "threads", "epochs", "fit wall seconds", "fit cpu seconds", "network ms", "score ms"}
MEASURED |= {"peak MB", "before fit MB"}
UNITS = 6  # of the plant, or fewer: as many as share the observations evenly

Record = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        if given.child:
            print(json.dumps(measure(given.child, given)))
            return 0
        if given.table:
            text = markdown(load(given.out))
            print(text)
            insert(given.document, text, "detectors")
            return 0
        return execute(given)
    except TsadcError as error:
        print(f"detectors.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--detectors", help="names, separated by commas; default: all that have the preset")
    parser.add_argument("--preset", default="default", help="default, published or tiny")
    parser.add_argument("--epochs", type=int, help="train for so many instead of the preset's; the record says so")
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size, help=f"default: {size}")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "detectors", help="where records go")
    parser.add_argument("--again", action="store_true", help="run also what has a record")
    parser.add_argument("--table", action="store_true", help="make the table instead of running")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="the document that gets the table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    return parser


def execute(given: argparse.Namespace) -> int:
    asked = {name: task(name, given) for name in chosen(given)}  # refuses what cannot be run before anything is
    failed = 0
    for name, wanted in asked.items():
        file = given.out / f"{name}-{given.preset}.json"
        if not given.again and current(file, wanted):
            print(f"{name}: done before", flush=True)
            continue
        found = child(name, given)
        if found is None:
            failed += 1
            continue
        record = {"asked": wanted, "found": found, **circumstances(), "cores": len(os.sched_getaffinity(0))}
        write_file(file, (json.dumps(record, indent=1) + "\n").encode())
        print(f"{name}: {line(found)}", flush=True)
    return 1 if failed else 0


def chosen(given: argparse.Namespace) -> list[str]:
    """Those named, or all for which what is asked makes sense."""
    if given.detectors:
        return [name.strip() for name in given.detectors.split(",")]
    return list(REGISTRY) if given.preset == "default" and given.epochs is None else TRAINED


def settings(name: str, given: argparse.Namespace) -> Common:
    """The preset; published ones of TSAD-C are called `paper`."""
    cls = find(name)
    preset = "paper" if given.preset == "published" and name == "tsadc" else given.preset
    changes: dict[str, Any] = {"length": given.length}
    if given.epochs is not None:
        if not issubclass(cls, ResidualDetector):
            raise ConfigError(f"{name} has no network to train; leave out --epochs, or name detectors that have one.")
        changes["training"] = {"epochs": given.epochs}
    found: Common = update(cls.Config.preset(preset), changes)
    return found


def task(name: str, given: argparse.Namespace) -> Record:
    """What a record is of: while that is the same, the record is current."""
    for size, least in {"observations": 5, "scored": 1, "threads": 1}.items():
        if getattr(given, size) < least:
            raise ConfigError(f"--{size} must be at least {least}, but got {getattr(given, size)}.")
    sizes = {size: getattr(given, size) for size in SIZES}
    plain = json.loads(json.dumps(to_mapping(settings(name, given))))
    made = {"detector": name, "preset": given.preset, "tsadc": importlib.metadata.version("tsadc")}
    return {**made, "epochs": given.epochs, **sizes, "settings": plain}


def current(file: Path, wanted: Mapping[str, Any]) -> bool:
    try:
        return bool(json.loads(file.read_text(encoding="utf-8"))["asked"] == wanted)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def child(name: str, given: argparse.Namespace) -> Record | None:
    """`measure` in a process that has done nothing else; None where it fails."""
    words = ["--preset", given.preset, *([] if given.epochs is None else ["--epochs", str(given.epochs)])]
    words += [word for size in SIZES for word in (f"--{size}", str(getattr(given, size)))]
    environment = {**os.environ, "OMP_NUM_THREADS": str(given.threads)}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", name, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode:
        print(f"{name}: failed with exit code {done.returncode}; there is no record of it.", file=sys.stderr)
        return None
    found: Record = json.loads(done.stdout.splitlines()[-1])
    return found


def measure(name: str, given: argparse.Namespace) -> Record:
    """Seconds and megabytes of a fit and of scoring, in this process."""
    keep_freed_memory()  # as the commands do
    torch.set_num_threads(given.threads)
    history, new = plant(given)
    before = resident()
    detector = find(name)(config=settings(name, given))
    wall, cpu = time.perf_counter(), time.process_time()
    detector.fit(history)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    network = isinstance(detector, ResidualDetector)
    return {
        "parameters": sum(one.numel() for one in detector.network_.parameters()) if network else None,
        "threads": available(),
        "trained on": len(detector.decision_scores_) - len(detector.validation_scores_),
        "epochs": len(detector.history_.epochs) if network else None,
        "fit wall seconds": wall,
        "fit cpu seconds": cpu,
        **scoring(detector, new),
        "peak MB": resident(),
        "before fit MB": before,
    }


def plant(given: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """History and later rows of a plant's units, without a clock, so that observations are cut from the first row."""
    units = math.gcd(given.observations, UNITS)
    rows = given.length * max(given.observations // units, given.scored)
    made = Plant(Plant.Config(entities=units, variables=given.variables, rows=rows, length=given.length)).split()
    history = {one.entity: np.asarray(one.values)[: given.length * given.observations // units] for one in made.train}
    first = made.test.series[0]
    return history, {first.entity: np.asarray(first.values)[: given.length * given.scored]}


def scoring(detector: Detector, new: Mapping[str, Any]) -> Record:
    """Wall milliseconds for each observation, the better of two rounds after one that is not counted: what the network
    says of it, if there is one, and its score."""
    length = detector.settings.length
    scaled = [np.asarray(detector.scaler_(entity, values), dtype=np.float32) for entity, values in new.items()]
    each = [one[i : i + length].T.copy() for one in scaled for i in range(0, len(one), length)]
    works: dict[str, Callable[[], object]] = {"score": lambda: detector.decision_function(new)}
    extra: Record = {"network ms": None, "scoring": None}
    if isinstance(detector, ResidualDetector):
        infer, extra = torch.no_grad()(detector._make_inference()), {"scoring": detector.settings.scoring}
        works["network"] = lambda: list(parallel_map(infer, each))
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(3):
        for name, work in works.items():
            started = time.perf_counter()
            work()
            taken[name].append(1000 * (time.perf_counter() - started) / len(each))
    return {f"{name} ms": min(times[1:]) for name, times in taken.items()} | extra


def resident() -> float:
    """The most memory this process has held, in megabytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def load(out: Path) -> list[Record]:
    files = sorted(out.glob("*.json"))
    if not files:
        raise DataError(f"There are no records in {out}; run the benchmark first.")
    return [_record(file) for file in files]


def _record(file: Path) -> Record:
    try:
        record: Record = json.loads(file.read_text(encoding="utf-8"))
        found, asked = record["found"], record["asked"]
        whole = found.keys() >= MEASURED and asked.keys() >= {"detector", "preset", "epochs", *SIZES}
        if whole and asked["detector"] in names() and record.keys() >= {"versions", "commit"}:
            return record
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise DataError(f"The record {file} is damaged; delete it and run the benchmark again.")


def line(found: Mapping[str, Any]) -> str:
    spent = f"fit {found['fit wall seconds']:.1f} s ({found['fit cpu seconds']:.1f} s of cpu"
    if found["parameters"] is None:
        return f"{spent}), {found['score ms']:.1f} ms an observation, {found['peak MB']:.0f} MB"
    scored = f"{found['network ms']:.1f} ms an observation by the network, {found['score ms']:.1f} ms in all"
    trained = f"{found['parameters']:,} parameters, {spent}, {found['epochs']} epochs)"
    return f"{trained}, {scored}, {found['peak MB']:.0f} MB"


def markdown(records: Sequence[Record]) -> str:
    """A table for each preset, detectors in the order of the registry."""
    presets = sorted({one["asked"]["preset"] for one in records}, key=lambda name: (name != "default", name))
    parts, order = [], names()
    for preset in presets:
        own = [one for one in records if one["asked"]["preset"] == preset]
        own.sort(key=lambda one: order.index(one["asked"]["detector"]))
        parts += [_preface(preset, own), _table(own)]
    return "\n\n".join(parts)


def _preface(preset: str, records: Sequence[Record]) -> str:
    def shared(name: str, part: str = "asked") -> str:
        return " or ".join(str(size) for size in sorted({one[part][name] for one in records}))

    made = {_made(one) for one in records}
    told = f"with {made.pop()}" if len(made) == 1 else "with what the last column says,"
    return (
        f"Preset `{preset}`: fitted on {shared('observations')} observations of {shared('variables')} variables x "
        f"{shared('length')} steps of a simulated plant, on {shared('threads', 'found')} thread(s). Per observation: "
        "wall milliseconds of the network alone, and of the score. Memory is the peak of the whole process, in "
        "brackets what it held before the fit. An asterisk: trained for a stated number of epochs, not for the "
        "preset's. Made "
        f"{told} by `python benchmarks/detectors.py`."
    )


def _made(record: Record) -> str:
    return f"tsadc {record['versions']['tsadc']} at commit {record['commit'] or 'unknown'}"


def _table(records: Sequence[Record]) -> str:
    head = ["name", "parameters", "epochs", "fit, s", "fit, s of cpu", "network, ms", "score, ms", "memory, MB"]
    several = len({_made(one) for one in records}) > 1
    head += ["made with"] if several else []
    rows = []
    for one in records:
        asked, found = one["asked"], one["found"]
        epochs = _number(found["epochs"], "d") + ("" if asked["epochs"] is None else "*")
        spent = (found["fit wall seconds"], found["fit cpu seconds"])
        numbers = [_number(seconds, ".0f" if seconds >= 10 else ".1f") for seconds in spent]
        numbers += [_number(found[name], ".1f") for name in ("network ms", "score ms")]
        memory = f"{found['peak MB']:.0f} ({found['before fit MB']:.0f})"
        row = [asked["detector"], _number(found["parameters"], ",d"), epochs, *numbers, memory]
        rows.append([*row, _made(one)] if several else row)
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    sys.exit(main())
