"""False alarms while sensors are silent: `python benchmarks/silent.py --seeds 2 3 4`.

The ensemble is fitted to two units of a simulated plant with a contaminated history. In new data without faults, some
variables have no value for a day, at random times. Counted are the observations of these days above the threshold of
the history, and those of the same days with all values.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from tsadc.data.plant import Plant
from tsadc.detectors import Ensemble
from tsadc.series import Floats, Series
from tsadc.show.markdown import table

LENGTH, DAY = 120, 1440  # rows
SILENT = (1, 2, 4)  # variables
DAYS = 6  # of each unit and number of variables
KINDS = ("plant", "process")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4])
    seeds = parser.parse_args().seeds
    rows = []
    for kind in KINDS:
        totals = np.sum([counted(kind, seed) for seed in seeds], axis=0)
        for silent, (observations, complete, without) in zip(SILENT, totals.tolist(), strict=True):
            rows.append([kind, *map(str, (silent, observations, complete, without))])
    print(table(["plant", "silent variables", "observations", "above, all values", "above, silent"], rows))


def counted(kind: str, seed: int) -> list[tuple[int, int, int]]:
    """Return for each number of silent variables the observations, and how many of them lie above the threshold with
    all values and with the silent variables."""
    plant = Plant(Plant.Config(entities=2, test_contamination=0.0, seed=seed, kind=kind)).split()  # type: ignore[arg-type]
    detector = Ensemble(length=LENGTH, seed=0).fit(plant.train)
    judged, generator = np.flatnonzero(detector.scorer_.judged), np.random.default_rng(seed)
    found = []
    for number in SILENT:
        above = np.zeros((0, 2), dtype=bool)
        for unit in plant.test.series:
            for _ in range(DAYS):
                start = LENGTH * int(generator.integers(2, len(unit) // LENGTH - DAY // LENGTH - 2)) + LENGTH // 3
                values = unit.values.copy()
                values[start : start + DAY, generator.choice(judged, number, replace=False)] = np.nan
                first, stop = start // LENGTH * LENGTH, -(-(start + DAY) // LENGTH) * LENGTH
                both = [scores(detector, replace(unit, values=part), first, stop) for part in (unit.values, values)]
                above = np.concatenate([above, np.column_stack(both) > detector.threshold_])
        found.append((len(above), *above.sum(axis=0).tolist()))
    return found


def scores(detector: Ensemble, unit: Series, first: int, stop: int) -> Floats:
    """Return the scores of the observations in rows [first, stop) of a unit."""
    clock = replace(unit.clock, start=unit.clock.start + first * unit.clock.interval)
    return np.asarray(detector.decision_function(replace(unit, values=unit.values[first:stop], clock=clock)))


if __name__ == "__main__":
    main()
