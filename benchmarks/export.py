"""Compare exported scorers with the native one: scores, size, latency and memory, on data sets with and without gaps.

    make bench-export                       # TSADC_DATA names the folder with the data sets; a few minutes
    python benchmarks/export.py             # makes the table from the records only

For each data set, the default ensemble is fitted to the unlabelled history of its benchmark (seed 0), and up to 100
test observations, evenly spaced, are scored twice: as they are, and with values taken out (`with_gaps`). Exports score
them in a process of their own that refuses to import tsadc, torch, scipy, scikit-learn and pandas. The difference is
that of the scores, absolute.

The same is done with TSAD-C. Its network has its default size, but is trained for two epochs only, and that of SMD on
the first machine only: enough for weights that matter, and no measure of quality.

Latency is processor time of one thread per observation, the median of rounds in which the scorers alternate in one
process. Memory is the peak of a process that loads the scorer and scores the observations, one thread; loading is its
wall time, imports included.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsadc import TSADC, Ensemble
from tsadc.atomic import write_file
from tsadc.data.catalogue import draw, find
from tsadc.detectors.base import Detector
from tsadc.detectors.store import load
from tsadc.errors import TsadcNotice
from tsadc.export.bundle import write_python
from tsadc.export.folder import entities_of, native_scores
from tsadc.export.onnx_file import GRAPH, write_onnx
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.series import Floats, Observations
from tsadc.show.markdown import table
from tsadc.variables import match
from tsadc.windows import cut

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "export.json", HERE.parent / "docs" / "tables" / "export.md"
DATA = ("plant", "smd-causal", "smd-unseen", "sleep", "ludb", "cinc", "skab", "gecco", "batadal")
NETWORK = ("plant", "smd-causal", "sleep", "ludb", "cinc", "skab", "gecco", "batadal")  # data sets of TSAD-C
ONE_MACHINE, EPOCHS = ("smd-causal",), 2
KINDS = {Ensemble.name: ("native", "python", "onnx"), TSADC.name: ("native", "onnx")}
TITLES = {"native": "native", "python": "Python", "onnx": "ONNX"}
RUNS = {
    **{name: (name, Ensemble.name) for name in DATA},
    **{f"{name} {TSADC.name}": (name, TSADC.name) for name in NETWORK},
}
MOST = 100  # observations of a data set, each with and without gaps
TIMED = 8  # observations of a round
ROUNDS = 7
REFUSED = ("tsadc", "torch", "scipy", "sklearn", "pandas")
Scorer = Callable[[str, int, Floats], object]
# The process that measures memory: arguments are the kind of scorer, its folder, and the file of observations.
CHILD = """
import json, sys, time
kind, folder, file, refused = sys.argv[1:5]
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused.split(","):
            raise ModuleNotFoundError(f"{name} is refused here", name=name)
sys.meta_path.insert(0, Refuse())
import numpy as np
with np.load(file) as pack:
    values, names, indices = pack["values"], pack["names"].tolist(), pack["indices"]
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
before = peak()
started = time.perf_counter()
if kind == "native":
    import tsadc
    from tsadc.export.folder import native_scores
    detector = tsadc.load(folder)
    loaded = time.perf_counter() - started
    scores = [float(native_scores(detector, [name], [own])[0]) for name, own in zip(names, values)]
elif kind == "python":
    import importlib
    from pathlib import Path
    sys.path.insert(0, str(Path(folder).parent))
    scorer = importlib.import_module(Path(folder).name).Scorer.load()
    loaded = time.perf_counter() - started
    scores = [scorer.score(name, own) for name, own in zip(names, values)]
else:
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder + "/scorer.onnx", options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter() - started
    scores = [
        float(session.run(["score"], {"values": own, "entity": np.array([index])})[0][0])
        for index, own in zip(indices, values)
    ]
print(json.dumps({"scores": scores, "loaded": loaded, "memory": peak() - before}))
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of the data sets; without it, make the table")
    parser.add_argument("--only", nargs="*", help="which runs, such as plant or 'plant tsadc' (default: all)")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--table", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    records: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name, (data, detector) in RUNS.items() if options.data is not None else ():
        if name not in records and (not options.only or name in options.only):
            records[name] = measure(data, detector, options.data)
            write_file(options.out, (json.dumps(records, indent=1) + "\n").encode())
            print(name, json.dumps(records[name]), flush=True)
    write_file(options.table, page(records).encode())
    return 0


def measure(name: str, method: str, raw: Path) -> dict[str, Any]:
    """Return how the exports of a model of one data set compare with the model."""
    kinds = KINDS[method]
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)
        folder = Path(place)
        detector, observations = fitted(name, method, raw)
        detector.save(folder / "native")
        detector = load(folder / "native")
        for kind, write in (("python", write_python), ("onnx", write_onnx)):
            if kind in kinds:
                write(detector, folder / kind)
        chosen = np.unique(np.linspace(0, len(observations) - 1, MOST).round().astype(int)).tolist()
        whole = [observations.read(i).T.astype(np.float64) for i in chosen]
        generator = np.random.default_rng(0)
        values = [*whole, *(with_gaps(own, generator) for own in whole)]
        names = [observations.entity(i) for i in chosen] * 2
        known = entities_of(detector)
        indices = [known.index(own) if own in known else -1 for own in names]
        np.savez(folder / "observations.npz", values=np.stack(values), names=names, indices=indices)
        runs = {kind: run(kind, method, folder) for kind in kinds}
        expected = np.array(runs["native"]["scores"])
        works = scorers(folder, detector, kinds)
        holed = np.array([bool(np.isnan(own).any()) for own in values])

        def latency(among: Floats) -> dict[str, float]:
            picked = among[np.linspace(0, len(among) - 1, TIMED).round().astype(int)].tolist()
            return alternating(works, [(names[i], indices[i], values[i]) for i in picked])

        return {
            "variables": len(detector.variables_),
            "length": detector.settings.length,
            "entities": len(known),
            "observations": len(values),
            "incomplete": int(holed.sum()),
            "scores": [float(expected.min()), float(np.median(expected)), float(expected.max())],
            "difference": {kind: float(np.abs(np.array(runs[kind]["scores"]) - expected).max()) for kind in kinds[1:]},
            "latency": latency(np.arange(len(values))),
            "latency_complete": latency(np.flatnonzero(~holed)),
            "latency_incomplete": latency(np.flatnonzero(holed)),
            "size": {kind: size(folder / kind) for kind in kinds},
            "memory": {kind: found["memory"] for kind, found in runs.items()},
            "loaded": {kind: found["loaded"] for kind, found in runs.items()},
        }


def fitted(name: str, method: str, raw: Path) -> tuple[Detector, Observations]:
    """Return the detector, fitted to the history of a benchmark, and the observations of its test part, unscaled."""
    protocol, task = find(name, "benchmark"), draw(name, raw, 0)
    train, test = (as_series(data, protocol.length, Reading()) for data in (task.train, task.test))
    if method == Ensemble.name:
        detector: Detector = Ensemble(length=protocol.length).fit(task.train, validation=task.validation)
        if task.history is not None:
            detector.adapt(task.history)
    else:
        if name in ONE_MACHINE:
            train, test = train[:1], tuple(series for series in test if series.entity == train[0].entity)
        detector = TSADC(length=protocol.length, training={"epochs": EPOCHS}).fit(train)
    series = match(test, detector.variables_)
    return detector, cut(series, protocol.length, detector.settings.coverage).observations


def with_gaps(values: Floats, generator: np.random.Generator) -> Floats:
    """Return values (row, variable) without 3 % of the cells, a quarter of one variable, all of another in every third
    observation, and a few whole rows."""
    length, variables = values.shape
    holed = np.where(generator.random(values.shape) < 0.03, np.nan, values)
    first = int(generator.integers(0, length - length // 4))
    holed[first : first + length // 4, generator.integers(variables)] = np.nan
    if variables > 1 and generator.random() < 1 / 3:
        holed[:, generator.integers(variables)] = np.nan
    row = int(generator.integers(0, length - length // 20))
    holed[row : row + length // 20] = np.nan
    return holed


def run(kind: str, method: str, folder: Path) -> dict[str, Any]:
    """Score all observations in a process of its own."""
    refused = ",".join(REFUSED) if kind != "native" else "torch" if method == Ensemble.name else ""
    words = [kind, str(folder / kind), str(folder / "observations.npz"), refused]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words], env=environment, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def scorers(folder: Path, detector: Detector, kinds: Sequence[str]) -> dict[str, Scorer]:
    """Return each kind of scorer as a function of the name of an entity, its index, and an observation."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "onnx" / GRAPH, options, providers=["CPUExecutionProvider"])
    works: dict[str, Scorer] = {
        "native": lambda name, index, own: native_scores(detector, [name], [own]),
        "onnx": lambda name, index, own: session.run(None, {"values": own, "entity": np.array([index])}),
    }
    if "python" in kinds:
        sys.path.insert(0, str(folder))
        scorer = importlib.import_module("python").Scorer.load(folder / "python")
        sys.path.remove(str(folder))
        for module in [module for module in sys.modules if module.partition(".")[0] == "python"]:
            del sys.modules[module]  # so that the next data set can export a package of this name
        works["python"] = lambda name, index, own: scorer.score(name, own)
    return {kind: works[kind] for kind in kinds}


def alternating(works: Mapping[str, Scorer], observations: Sequence[tuple[str, int, Floats]]) -> dict[str, float]:
    """Return the processor seconds per observation of each scorer."""
    taken: dict[str, list[float]] = {kind: [] for kind in works}
    for _ in range(ROUNDS):
        for kind, work in works.items():
            started = time.process_time()
            for observation in observations:
                work(*observation)
            taken[kind].append((time.process_time() - started) / len(observations))
    return {kind: float(np.median(times[1:])) for kind, times in taken.items()}


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def page(records: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    ensembles, networks = (
        {data: records[name] for name, (data, method) in RUNS.items() if method == wanted and name in records}
        for wanted in KINDS
    )
    lines = [
        "# Exported scorers beside the native one",
        "",
        "Made by `make bench-export` (`benchmarks/export.py`, which defines the measures). Default settings, seed 0.",
        "",
        "## Scores of the ensemble",
        "",
        *scores(ensembles, Ensemble.name),
        "## Cost of the ensemble",
        "",
        "Milliseconds of processor time per observation, one thread; size in MB; peak memory in MB beyond that of "
        "Python with numpy and the observations; seconds to load, imports included. Other programs used a part of "
        "the two cores (AMD EPYC) at a lower priority.",
        "",
        *costs(ensembles, Ensemble.name, {"latency": "latency"}),
        "## Scores of TSAD-C",
        "",
        f"The network has its default size and was trained for {EPOCHS} epochs; of SMD it saw one machine.",
        "",
        *scores(networks, TSADC.name),
        "## Cost of TSAD-C",
        "",
        "As above. An observation in which nothing is missing needs no imputation, so both latencies are measured.",
        "",
        *costs(
            networks, TSADC.name, {"latency_complete": "latency, complete", "latency_incomplete": "latency, with gaps"}
        ),
    ]
    return "\n".join(lines).rstrip("\n") + "\n"


def scores(known: dict[str, Any], method: str) -> list[str]:
    """Return how the scores differ, as a paragraph and a table."""
    total = sum(found["observations"] for found in known.values())
    holed = sum(found["incomplete"] for found in known.values())
    body = []
    for name, found in known.items():
        low, middle, high = found["scores"]
        body.append(
            [
                name,
                str(found["variables"]),
                str(found["length"]),
                str(found["entities"]),
                f"{found['observations']} ({found['incomplete']})",
                f"{low:.1f}, {middle:.1f}, {high:.1f}",
                *(f"{found['difference'][kind]:.1e}" for kind in KINDS[method][1:]),
            ]
        )
    header = ["data", "variables", "length", "entities", "observations (with gaps)", "scores: least, median, most"]
    return [
        f"{total:,} observations, {holed:,} of them with missing values. The exports ran in processes that refuse to "
        f"import {', '.join(REFUSED)}.",
        "",
        table([*header, *(f"largest difference, {TITLES[kind]}" for kind in KINDS[method][1:])], body),
        "",
    ]


def costs(known: dict[str, Any], method: str, latencies: Mapping[str, str]) -> list[str]:
    """Return what the scorers cost, as a table; `latencies` maps what was measured to its title."""
    milli, mega = 1e-3, 1e6
    columns = {
        **{key: (title, milli, 1) for key, title in latencies.items()},
        "size": ("size", mega, 1),
        "memory": ("memory", mega, 0),
        "loaded": ("loading", 1.0, 1),
    }
    body = [
        [
            name,
            *(
                f"{found[key][kind] / unit:.{digits}f}"
                for key, (_, unit, digits) in columns.items()
                for kind in KINDS[method]
            ),
        ]
        for name, found in known.items()
    ]
    titles = [f"{title}, {TITLES[kind]}" for title, _, _ in columns.values() for kind in KINDS[method]]
    return [table(["data", *titles], body), ""]


if __name__ == "__main__":
    raise SystemExit(main())
