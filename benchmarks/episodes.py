"""How often the most similar past episode is the same fault, on the simulated plant with faults that recur.

A fault is a kind, one to three variables, and a direction. `FAULTS` faults happen in the history of every unit; in the
new rows each happens once more, at another time and for another duration, and so do as many faults that the history
does not have.

    python benchmarks/episodes.py --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tsadc import Ensemble
from tsadc.data.faults import KINDS, Signal
from tsadc.data.plant import Plant
from tsadc.detectors.episodes import Similar
from tsadc.series import Series

FAULTS = 6  # one of each kind
LENGTH = 120
UNITS, ROWS = 4, 12_000


@dataclass(frozen=True)
class Fault:
    """A fault that may recur: the same seed gives the same direction."""

    kind: str
    columns: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Happening:
    """A fault in rows [start, stop) of an entity, `clock.start` being that of its series."""

    fault: Fault
    entity: str
    start: int
    stop: int


def draw(names: tuple[str, ...], first: int, generator: np.random.Generator) -> list[Fault]:
    """Draw one fault of each kind."""
    waves = [i for i, name in enumerate(names) if "vibration" in name or "pulsation" in name]
    faults = []
    for i, (name, kind) in enumerate(KINDS.items()):
        able = waves if kind.oscillating else range(len(names))
        columns = generator.choice(able, int(generator.integers(1, 4)), replace=False)
        faults.append(Fault(name, tuple(sorted(columns.tolist())), first + i))
    return faults


def with_faults(series: Series, faults: list[Fault], generator: np.random.Generator) -> tuple[Series, list[Happening]]:
    """Return the series with each fault once, in a random order, and where they are."""
    values, happenings = np.array(series.values), []
    known = pd.DataFrame(values).interpolate(limit_direction="both").to_numpy()
    apart = len(values) // len(faults)
    for i, place in enumerate(generator.permutation(len(faults))):
        fault = faults[place]
        duration = int(generator.integers(1, 6) if KINDS[fault.kind].brief else generator.integers(30, 90))
        start = i * apart + int(generator.integers(LENGTH, apart - duration - LENGTH))
        for k in fault.columns:
            signal = Signal.of(known[:, k], LENGTH)
            own = np.random.default_rng([fault.seed, k])
            values[start : start + duration, k] = KINDS[fault.kind].fault(signal, start, start + duration, own)
        happenings.append(Happening(fault, series.entity, start, start + duration))
    return replace(series, values=values), happenings


def run(seed: int) -> pd.DataFrame:
    """Return one row per detected fault: its kind, whether it is known, and the fault that it resembles most."""
    generator = np.random.default_rng(seed)
    split = Plant(Plant.Config(entities=UNITS, rows=ROWS, contamination=0, test_contamination=0, seed=seed)).split()
    names = split.train[0].names
    known, novel = draw(names, 0, generator), draw(names, FAULTS, generator)
    history, past = [], list[Happening]()
    for series in split.train:
        faulty, happened = with_faults(series, known, generator)
        history.append(faulty)
        past += happened
    detector = Ensemble(length=LENGTH).fit(history)
    clocks = {series.entity: series.clock for series in history}
    rows = []
    for series in split.test.series:
        faulty, happened = with_faults(series, known + novel, generator)
        (part,) = detector.detect(faulty).parts
        for interval in part.intervals:
            met = _met(happened, series.entity, interval.start, interval.stop)
            if met is None or interval.similar is None:
                continue
            similar = [own for own in interval.similar if own.origin == "history"]
            found = [_fault(past, clocks, own) for own in similar]
            rows.append(
                {
                    "kind": met.kind,
                    "known": met in known,
                    "any": bool(similar),
                    "first": bool(found) and found[0] == met,
                    "among": met in found,
                }
            )
    return pd.DataFrame(rows)


def _fault(past: list[Happening], clocks: dict, similar: Similar) -> Fault | None:
    clock = clocks[similar.episode.entity]
    start = (similar.episode.clock.start - clock.start) // clock.interval
    return _met(past, similar.episode.entity, start, start + similar.episode.rows)


def _met(happened: list[Happening], entity: str, start: int, stop: int) -> Fault | None:
    """Return the fault that rows [start, stop) overlap most."""
    own = [item for item in happened if item.entity == entity and item.start < stop and item.stop > start]
    most = max(own, key=lambda item: min(item.stop, stop) - max(item.start, start), default=None)
    return None if most is None else most.fault


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    warnings.simplefilter("ignore")
    table = pd.concat([run(seed) for seed in parser.parse_args().seeds])
    for known, part in table.groupby("known", sort=False):
        print("in the history" if known else "not in the history")
        shown = ["any", "first", "among"] if known else ["any"]
        by_kind = part.groupby("kind").agg(intervals=("any", "size"), **{name: (name, "mean") for name in shown})
        by_kind.loc["all"] = [len(part), *(part[name].mean() for name in shown)]
        print(by_kind.round(3).to_string())


if __name__ == "__main__":
    main()
