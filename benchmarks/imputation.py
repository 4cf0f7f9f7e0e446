"""Impute cells of the history that are hidden on purpose: how far off is each method, and do its bands hold?

    python benchmarks/imputation.py                     # runs what has no current record, then writes the table
    python benchmarks/imputation.py plant --only ours   # some of it
    python benchmarks/imputation.py --table FILE        # only write the records as a table

Every observation of the training part, contaminated as benchmarks draw it with seed 0, gets one kind of gap, in turn:

    points      5 % of the cells
    blocks      a tenth of the rows, in each variable with probability 0.3, each at its own place
    variables   a tenth of the variables, at least one, for the whole observation
    rows        a tenth of the rows, all variables

Methods are fitted to the history with these cells missing, and impute them. The error is the mean absolute difference
from what was measured, in z units of the entity, clipped at 10 so that no single value decides; anomalous cells count,
as no label is used. Coverage is the share of these cells in the nominal 90 % band. `ours` also sees the rows before and
after an observation, if the data is a series; the other methods see the observation only.

    ours        tsadc.detectors.imputation.Imputer
    linear      linear interpolation in time, the nearest value at the ends of an observation
    last        the last value before, or the next one at its beginning; the median without any
    ridge       the ridge regression of the ensemble, of each variable on the others, its inputs interpolated
    network     the Decontaminator of TSAD-C, default settings, trained on at most 200 observations; 20 draws
    saits       SAITS (Du et al. 2023) by PyPOTS, which is no part of tsadc; skipped if it is not installed. It has 2
                layers of width 128 with 2 heads, sees pieces of at most 500 rows, and is trained on at most 200 of
                them until it has seen 400,000 rows, which takes a minute

A record has the seed, the versions and a hash of the code that decides it; a changed line makes it stale.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import inspect
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.bench.machine import circumstances
from tsadc.bench.source import module_hash, reference, source_hash
from tsadc.data.catalogue import draw, find
from tsadc.data.task import Task
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.imputation import DEVIATIONS, Imputer
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.imputation import impute
from tsadc.io.memory import as_series
from tsadc.scale import Scaler
from tsadc.series import Booleans, Floats, Series
from tsadc.subsample import evenly_spaced

DATA = ("plant", "plant-process", "smd-causal", "sleep", "ludb", "skab", "batadal")
MACHINES = 4  # of SMD
KINDS = ("points", "blocks", "variables", "rows")
SHARE = 0.1
TRAINED = 200  # observations, of a network
SAITS_PIECE = 500  # rows that SAITS sees, at most; the cost of its attention grows with their square
SAITS_ROWS = 400_000  # that it sees in training, repetitions included
SEED = 0
LARGEST_ERROR = 10.0
HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "results" / "imputation.jsonl", HERE.parent / "docs" / "tables" / "imputation.md"
Found = tuple[Sequence[Floats], Sequence[Floats] | None]  # imputed values, and deviations, of each series


def history(name: str, raw: Path) -> tuple[tuple[Series, ...], int]:
    """Return the training part of a data set, and the length of its observations."""
    task, length = draw(name, raw, SEED), find(name, "benchmark").length
    assert isinstance(task, Task)
    series = as_series(task.train, length)
    return series[:MACHINES] if name.startswith("smd") else series, length


def hide(series: Sequence[Series], length: int) -> list[tuple[Booleans, NDArray[np.int64]]]:
    """Return the cells to hide of each series, and the kind of gap of each of its rows (-1: none)."""
    generator, hidden, count = np.random.default_rng(SEED), [], 0
    for own in series:
        cells = np.zeros(own.values.shape, dtype=bool)
        kinds = np.full(len(own), -1)
        for first in range(0, len(own) - length + 1, length):
            kind = count % len(KINDS)
            cells[first : first + length] = _gaps(KINDS[kind], length, len(own.names), generator)
            kinds[first : first + length] = kind
            count += 1
        hidden.append((cells & np.isfinite(own.values), kinds))
    return hidden


def _gaps(kind: str, length: int, variables: int, generator: np.random.Generator) -> Booleans:
    cells = np.zeros((length, variables), dtype=bool)
    block = max(2, round(SHARE * length))
    if kind == "points":
        cells = generator.random(cells.shape) < SHARE / 2
    elif kind == "blocks":
        for k in np.flatnonzero(generator.random(variables) < 0.3):
            first = int(generator.integers(0, length - block + 1))
            cells[first : first + block, k] = True
    elif kind == "variables":
        cells[:, generator.permutation(variables)[: max(1, round(SHARE * variables))]] = True
    else:
        first = int(generator.integers(0, length - block + 1))
        cells[first : first + block] = True
    return cells


def observations_of(series: Sequence[Series], length: int) -> Iterator[tuple[int, slice]]:
    for number, own in enumerate(series):
        for first in range(0, len(own) - length + 1, length):
            yield number, slice(first, first + length)


def ours(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    imputer = Imputer.fit(known, scaler)
    found = [imputer.impute(own, cells) for own, cells in zip(known, hidden, strict=True)]
    return [one.values for one in found], [one.deviation for one in found]


def linear(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    return _by_observation(known, scaler, length, _interpolated), None


def last(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    return _by_observation(known, scaler, length, _last), None


def ridge(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    detector = Ensemble(length=length).fit(known)

    def predicted(entity: str, z: Floats) -> Floats:
        filled = _interpolated(entity, z)
        found = detector._predict(entity, filled.T)
        return filled if found is None else np.where(np.isfinite(found.T), found.T, filled)

    return _by_observation(known, detector.scaler_, length, predicted), None


def network(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    detector = TSADC(length=length, scoring="own").fit(_limited(known, length))
    found = impute(detector, known, tuple(hidden))
    return [one.values for one in found], [one.deviation for one in found]


def saits(known: Sequence[Series], hidden: Sequence[Booleans], scaler: Scaler, length: int) -> Found:
    from pypots.imputation import SAITS
    from pypots.utils.random import set_random_seed

    size = length // -(-length // SAITS_PIECE)  # rows of a piece; observations have a multiple of it
    assert length % size == 0
    z = [
        scaler(known[number].entity, np.asarray(known[number].values[rows], dtype=np.float64))
        for number, rows in observations_of(known, length)
    ]
    pieces = np.clip(np.concatenate(z).reshape(-1, size, len(known[0].names)), -LARGEST_ERROR, LARGEST_ERROR)
    trained = pieces[evenly_spaced(len(pieces), TRAINED)]
    set_random_seed(SEED)
    model = SAITS(
        *(size, pieces.shape[2]),
        **{"n_layers": 2, "d_model": 128, "n_heads": 2, "d_k": 64, "d_v": 64, "d_ffn": 128, "dropout": 0.1},
        **{"epochs": -(-SAITS_ROWS // (len(trained) * size)), "batch_size": 4, "device": "cpu", "verbose": False},
    )
    model.fit({"X": trained.astype(np.float32)})
    imputed = model.impute({"X": pieces.astype(np.float32)}).reshape(-1, length, pieces.shape[2])
    values = [np.full(own.values.shape, np.nan) for own in known]
    for (number, rows), own in zip(observations_of(known, length), imputed, strict=True):
        values[number][rows] = scaler.undo(known[number].entity, own.astype(np.float64))
    return values, None


def _limited(series: Sequence[Series], length: int) -> tuple[Series, ...]:
    """Return at most `TRAINED` observations; the others are missing."""
    places = list(observations_of(series, length))
    kept = [np.zeros(len(own), dtype=bool) for own in series]
    for i in evenly_spaced(len(places), TRAINED):
        kept[places[i][0]][places[i][1]] = True
    limited = (
        replace(own, values=np.where(rows[:, None], own.values, np.nan)) for own, rows in zip(series, kept, strict=True)
    )
    if series[0].observation is None:
        return tuple(own for own in limited if np.isfinite(own.values).any())
    return tuple(replace(own, values=own.values[rows]) for own, rows in zip(series, kept, strict=True))


def _by_observation(
    known: Sequence[Series], scaler: Scaler, length: int, function: Callable[[str, Floats], Floats]
) -> list[Floats]:
    values = [np.full(own.values.shape, np.nan) for own in known]
    for number, rows in observations_of(known, length):
        own = known[number]
        z = scaler(own.entity, np.asarray(own.values[rows], dtype=np.float64))
        values[number][rows] = scaler.undo(own.entity, function(own.entity, z))
    return values


def _interpolated(entity: str, z: Floats) -> Floats:
    out = np.zeros_like(z)
    for k, column in enumerate(z.T):
        known = np.flatnonzero(np.isfinite(column))
        if len(known):
            out[:, k] = np.interp(np.arange(len(z)), known, column[known])
    return out


def _last(entity: str, z: Floats) -> Floats:
    out = np.zeros_like(z)
    for k, column in enumerate(z.T):
        known = np.flatnonzero(np.isfinite(column))
        if len(known):
            before = np.searchsorted(known, np.arange(len(z)), side="right") - 1
            out[:, k] = column[known[np.maximum(before, 0)]]
    return out


METHODS: dict[str, Callable[..., Found]] = {
    "ours": ours, "linear": linear, "last": last, "ridge": ridge, "network": network, "saits": saits,
}  # fmt: skip


def measure(name: str, method: Callable[..., Found], raw: Path) -> dict[str, Any]:
    """Return the errors and coverages of a method on a data set, and the seconds it took."""
    series, length = history(name, raw)
    gaps = hide(series, length)
    hidden = [cells for cells, _ in gaps]
    known = tuple(
        replace(own, values=np.where(cells, np.nan, own.values)) for own, cells in zip(series, hidden, strict=True)
    )
    scaler = Scaler.fit(known, Scaler.Config())
    begun = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values, deviations = method(known, hidden, scaler, length)
    record: dict[str, Any] = {"seconds": round(time.process_time() - begun, 1)}
    for kind, label in enumerate(KINDS):
        errors, covered = [], []
        for number, (own, (cells, kinds)) in enumerate(zip(series, gaps, strict=True)):
            chosen = cells & (kinds == kind)[:, None]
            z, found = (scaler(own.entity, np.asarray(each, dtype=np.float64)) for each in (own.values, values[number]))
            errors.append(np.minimum(np.abs(z - found), LARGEST_ERROR)[chosen])
            if deviations is not None:
                covered.append((np.abs(own.values - values[number]) <= DEVIATIONS * deviations[number] + 1e-12)[chosen])
        record[label] = round(float(np.concatenate(errors).mean()), 4)
        if covered:
            record[f"{label}_coverage"] = round(float(np.concatenate(covered).mean()), 4)
    return record


def current(name: str, method: str) -> str:
    """Return a hash of the code that a record depends on."""
    own = [inspect.getsource(part) for part in (METHODS[method], measure, history, hide, _gaps)]
    own += [module_hash(Imputer.__module__)] if method == "ours" else []
    own += [f"{SAITS_PIECE} {SAITS_ROWS}"] if method == "saits" else []
    followed = {"ridge": [Ensemble], "network": [TSADC, impute]}.get(method, [])
    roots = [reference(part) for part in (Scaler, find(name, "benchmark").build, *followed)]
    return hashlib.sha256("".join([*own, source_hash(roots)]).encode()).hexdigest()[:16]


def table(records: Sequence[dict[str, Any]]) -> str:
    """Return the records as tables in Markdown."""
    kept = {(record["data"], record["method"]): record for record in records}
    methods = [method for method in METHODS if any(key[1] == method for key in kept)]
    lines = ["# Imputation of hidden cells", "", _about(), ""]
    for kind in KINDS:
        lines += [f"| {kind} | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
        for name in DATA:
            found = {method: kept[name, method][kind] for method in methods if (name, method) in kept}
            best = min(found.values(), default=0.0)
            cells = [_cell(found.get(method), best) for method in methods]
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines.append("")
    lines += ["Coverage of the nominal 90 % band:", ""]
    shown = [(method, kind) for method in ("ours", "network") for kind in KINDS]
    lines += ["| | " + " | ".join(f"{method} {kind}" for method, kind in shown) + " |", "|---" * (len(shown) + 1) + "|"]
    for name in DATA:
        covered = [kept.get((name, method), {}).get(f"{kind}_coverage") for method, kind in shown]
        lines.append(f"| {name} | {' | '.join('' if cell is None else f'{cell:.0%}' for cell in covered)} |")
    rough = "on a machine that other jobs kept busy, some methods more than others, so only orders of size compare"
    lines += ["", f"Seconds of processor time, to learn and to impute, {rough}:", ""]
    lines += [f"| | {' | '.join(methods)} |", "|---" * (len(methods) + 1) + "|"]
    for name in DATA:
        took = [kept.get((name, method), {}).get("seconds") for method in methods]
        lines.append(f"| {name} | {' | '.join('' if each is None else f'{each:.0f}' for each in took)} |")
    return "\n".join(lines) + "\n"


def _about() -> str:
    return (
        "Mean absolute error in z units of cells of the history that were hidden on purpose; the best of a row, and "
        "what is within 2 % of it, is bold. `python benchmarks/imputation.py`, seed 0; its docstring explains gaps and "
        "methods. Networks are trained on at most 200 observations, SAITS on pieces of at most 500 rows. `ours` also "
        "sees rows outside the observation. An empty cell was not measured."
    )


def _cell(error: float | None, best: float) -> str:
    if error is None:
        return ""
    return f"**{error:.3f}**" if error <= 1.02 * best else f"{error:.3f}"


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Impute hidden cells of the history.")
    parser.add_argument("data", nargs="*", choices=[*DATA, []], default=[], help="data sets; default: all")
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS), help="methods")
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the records as a table to this file")
    options = parser.parse_args(arguments)
    for name, method in [] if options.table else product(options.data or DATA, options.only):
        code, key = current(name, method), (name, method)
        if any((each["data"], each["method"], each.get("code")) == (*key, code) for each in load()):
            continue
        if method == "saits" and importlib.util.find_spec("pypots") is None:
            print(f"{name} saits: skipped, as PyPOTS is not installed (pip install pypots).")
            continue
        made = {"data": name, "method": method, "seed": SEED, "code": code}
        record = made | measure(name, METHODS[method], options.raw) | circumstances()
        others = [each for each in load() if (each["data"], each["method"]) != key]
        write_file(RESULTS, "".join(json.dumps(each) + "\n" for each in [*others, record]).encode())
        print(json.dumps(record), flush=True)
    write_file(options.table or PAGE, table(load()).encode())


if __name__ == "__main__":
    main()
