"""What the two modules of TSAD-C make of normal and of abnormal observations (the paper's Figure 4 and its appendix):
one of each to look at, and the same measured over all of a test part.

At test time one mask is drawn by the seed for every observation; with BoM it is one window. Of each group that one is
shown whose decontaminated window is the median of its group: neither the best nor the worst is picked. Errors are root
mean squares in z units (of the detector's scaler) over the measured cells of the window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsadc.bench.markdown import table
from tsadc.config import update
from tsadc.data.task import Answers, Task
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.evaluate.ranking import auroc
from tsadc.io.memory import as_series
from tsadc.series import Booleans, Floats, Observations
from tsadc.windows import cut, runs

LEVEL, DRAWS = 0.9, 1000
GROUPS = ("normal", "abnormal", "abnormal within the window")
MODULES = ("decontaminated", "reconstruction")
HEAD = ("observations", "how many", *MODULES)
SHOWN = 3  # variables in a figure
BLACKOUT = {"decontaminator": {"masking": "BoM"}, "inference": {"masks": 0}}
Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Example:
    """One observation, all (variable, time) in its own units. `error` is that of the decontaminated window; `anomalous`
    are the runs [start, stop) of its steps that are labelled so."""

    group: str
    entity: str
    start: int
    kinds: tuple[str, ...]
    x: Floats
    decontaminated: Floats
    reconstruction: Floats
    error: float
    anomalous: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Approximations:
    """`window`: the hidden steps [start, stop). `errors`: module -> that of each observation. `groups`: which
    observations are in each of `GROUPS`. `auroc`: module -> how well its error alone tells the last group from normal
    observations, None where there is none."""

    names: tuple[str, ...]
    window: tuple[int, int]
    examples: tuple[Example, ...]
    errors: Mapping[str, Floats]
    groups: Mapping[str, Booleans]
    auroc: Mapping[str, float | None]

    @property
    def variables(self) -> list[int]:
        """Those that the abnormal example deviates in most, under the mask and over their spread; to be shown."""
        example, (start, stop) = self.examples[-1], self.window
        off = np.abs(example.x - example.decontaminated)[:, start:stop]
        spread = np.nanstd(self.examples[0].x, axis=1) + np.finfo(np.float64).tiny
        worst = np.nan_to_num(np.nanmean(off, axis=1) / spread)
        return sorted(np.argsort(-worst, kind="stable")[:SHOWN].tolist())


def approximations(task: Task, config: TSADC.Config) -> Approximations:
    """Fit on the unlabelled training part under BoM, and look at the test part. Labels only sort what was found."""
    detector = TSADC(config=update(config, BLACKOUT)).fit(task.train, validation=task.validation)
    if task.history is not None:
        detector.adapt(task.history)
    return examined(detector, task)


def examined(detector: TSADC, task: Task) -> Approximations:
    """What a fitted detector with one window makes of the test part."""
    length = detector.settings.length
    observations = cut(as_series(task.test, length), length, detector.settings.coverage).observations
    found = list(detector.module_outputs(task.test))
    start, stop = _window(found[0].hidden)
    errors = {
        name: np.array(
            [_error(observations, i, getattr(one, name), detector, start, stop) for i, one in enumerate(found)]
        )
        for name in MODULES
    }
    groups = _groups(task.answers, observations, start, stop)
    shown = []
    for group in (GROUPS[0], list(groups)[-1]):
        i = _median_member(errors["decontaminated"], groups[group])
        one = found[i]
        shown.append(
            Example(
                group,
                observations.entity(i),
                observations.places[i].start,
                task.answers.kinds[i],
                observations.read(i),
                one.decontaminated,
                one.reconstruction,
                float(errors["decontaminated"][i]),
                tuple(runs(_labelled(task.answers, observations, i, 0, length))),
            )
        )
    told = {name: _told(errors[name], groups) for name in MODULES}
    return Approximations(observations.names, (start, stop), tuple(shown), errors, groups, told)


def _window(hidden: Booleans) -> tuple[int, int]:
    steps = np.flatnonzero(hidden.any(axis=0))
    return int(steps[0]), int(steps[-1]) + 1


def _error(observations: Observations, i: int, estimate: Floats, detector: TSADC, start: int, stop: int) -> float:
    entity, scale = observations.entity(i), detector.scaler_
    off = scale(entity, observations.read(i).T)[start:stop] - scale(entity, estimate.T)[start:stop]
    return float(np.sqrt(np.nanmean(np.square(off, dtype=np.float64)))) if np.isfinite(off).any() else np.nan


def _groups(answers: Answers, observations: Observations, start: int, stop: int) -> dict[str, Booleans]:
    """The last of them only where rows have labels, and some anomaly lies in a window."""
    labels = answers.labels
    within = np.zeros_like(labels)
    if answers.rows is not None:
        for i in range(len(observations)):
            within[i] = _labelled(answers, observations, i, start, stop).any()
    known = dict(zip(GROUPS, (~labels, labels, within), strict=True))
    return known if within.any() else {name: known[name] for name in GROUPS[:2]}


def _labelled(answers: Answers, observations: Observations, i: int, start: int, stop: int) -> Booleans:
    """Which of the steps [start, stop) of an observation are anomalous; none where rows have no labels, or are none, as
    an observation may reach over the ends of its series."""
    out: Booleans = np.zeros(stop - start, dtype=bool)
    if answers.rows is not None:
        place = observations.places[i]
        before = sum(map(len, observations.series[: place.series]))
        steps = place.start + np.arange(start, stop)
        inside = (steps >= 0) & (steps < len(observations.series[place.series]))
        out[inside] = answers.rows[before + steps[inside]]
    return out


def _median_member(errors: Floats, members: Booleans) -> int:
    known = np.flatnonzero(members & np.isfinite(errors))
    return int(known[np.argsort(errors[known], kind="stable")[(len(known) - 1) // 2]])


def _told(errors: Floats, groups: Mapping[str, Booleans]) -> float | None:
    abnormal = groups[list(groups)[-1]]
    kept = (groups[GROUPS[0]] | abnormal) & np.isfinite(errors)
    labels = abnormal[kept]
    return auroc(labels, errors[kept]) if 0 < labels.sum() < len(labels) else None


def record(found: Approximations, seed: int = 0) -> Record:
    """The numbers as plain data: of each group the mean error with its bootstrap interval over observations."""
    generator = np.random.default_rng(seed)
    rows = {}
    for group, members in found.groups.items():
        rows[group] = {"observations": int(members.sum())} | {
            name: _mean(found.errors[name][members], generator) for name in MODULES
        }
    return {"window": list(found.window), "level": LEVEL, "groups": rows, "auroc": dict(found.auroc)}


def _mean(errors: Floats, generator: np.random.Generator) -> dict[str, float] | None:
    known = errors[np.isfinite(errors)]
    if not len(known):
        return None
    drawn = known[generator.integers(0, len(known), (DRAWS, len(known)))].mean(axis=1)
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return {"mean": float(known.mean()), "low": float(low), "high": float(high)}


def markdown(kept: Mapping[str, Any]) -> str:
    """A table of a record, and how far it bears out the paper."""
    told = [f"{name} {value:.3f}" for name, value in kept["auroc"].items() if value is not None]
    start, stop = kept["window"]
    last = list(kept["groups"])[-1]
    return (
        f"RMSE in z units under the mask, steps {start} to {stop}, with bootstrap intervals of "
        f"{100 * kept['level']:.0f} %.\n\n"
        + table(HEAD, rows_of(kept))
        + (f"\n\nAUROC of that error alone, {last} against normal: {', '.join(told)}." if told else "")
    )


def _cell(found: Mapping[str, float] | None) -> str:
    return "-" if found is None else f"{found['mean']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def rows_of(kept: Mapping[str, Any]) -> Sequence[tuple[str, str, str, str]]:
    """The lines of a table under `HEAD`."""
    return [
        (group, str(row["observations"]), _cell(row[MODULES[0]]), _cell(row[MODULES[1]]))
        for group, row in kept["groups"].items()
    ]
