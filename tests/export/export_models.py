"""Fitted ensembles of different shapes to export, and observations to score with any detector."""

import copy
import warnings
from functools import cache
from typing import Any

import numpy as np

from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.errors import TsadcNotice
from tsadc.export.folder import entities_of
from tsadc.series import Floats

LENGTHS = {"plain": 80, "one variable": 20, "pooled": 97, "judged": 80}  # 97 is prime


def history(variables: int, rows: int = 1200, entity: int = 0, gaps: bool = True) -> Floats:
    """Correlated random walks with noise, at a level of their own, with short and long gaps."""
    generator = np.random.default_rng([variables, entity])
    common = np.cumsum(generator.normal(size=(rows, 1)), axis=0) * 0.1
    values = common * generator.normal(size=variables) + generator.normal(size=(rows, variables)) + 10.0 * entity
    if gaps:
        values[generator.random(values.shape) < 0.02] = np.nan
        values[300:340, -1] = np.nan
    return values


@cache
def fitted(kind: str) -> Ensemble:
    """Return a detector of that kind; fitted once, and to be left as it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # about the state
        if kind == "judged":
            return judged(copy.deepcopy(fitted("plain")))
        made = Ensemble(length=LENGTHS[kind], config=Ensemble.Config(kernels=12))
        if kind == "one variable":
            return made.fit({"only": history(1, gaps=False)})
        if kind == "pooled":
            made.set_params(scaler__scope="pooled")
            return made.fit({f"press {i}": history(3, entity=i) for i in range(2)})
        return made.fit(plain_history())


def plain_history() -> dict[str, Floats]:
    """Three pumps whose third variable is a state, and an entity that is too short for baselines of its own."""
    data = {f"pump {i}": history(6, entity=i) for i in range(3)}
    for values in data.values():
        values[:, 2] = np.arange(len(values)) // 40 % 3
    return data | {"short": data["pump 0"][:160] + 1.0}


def judged(detector: Ensemble) -> Ensemble:
    """Return a detector that has learnt from true and false verdicts."""
    new = {name: values[:480].copy() for name, values in plain_history().items() if name != "short"}
    for number, values in enumerate(new.values()):
        values[100:120, 0] += 9.0
        values[330:350, 3] -= 7.0 + number
    result = detector.detect(new)
    answers = {name: ("true", "false")[i % 2] for i, name in enumerate(result.intervals["id"])}
    assert len(answers) >= 3
    return detector.feedback(result, answers)


def observations(kind: str, count: int) -> list[tuple[str, Floats]]:
    """Return entities and observations to score with a detector of that kind."""
    return observations_of(fitted(kind), count)


def observations_of(detector: Any, count: int) -> list[tuple[str, Floats]]:
    """Return entities and observations (row, variable): complete, with gaps of all lengths, without a variable, nearly
    empty, constant, wild, and with an entity that the model does not know."""
    generator = np.random.default_rng(7)
    names, variables = [*entities_of(detector), "stranger"], len(detector.variables_)
    length, out = detector.settings.length, []
    for number in range(count):
        name = names[number % len(names)]
        own = detector.scaler_.entities.get(name, detector.scaler_.pooled)
        walk = np.cumsum(generator.normal(size=(length, variables)), axis=0) * 0.1
        x = own.center + own.scale * (walk + generator.normal(size=walk.shape))
        shape = number % 9
        if shape in (1, 2, 3, 5):
            x[generator.random(x.shape) < 0.05] = np.nan
        if shape == 2:
            first = int(generator.integers(length // 2))
            x[first : first + length // 2, 0] = np.nan
        elif shape == 3:
            x[:, -1] = np.nan
            x[: length // 3] = np.nan
        elif shape == 4:
            x[length // 4 : length // 2, ::2] = np.nan
        elif shape == 5:
            x[8:-3] = np.nan
        elif shape == 6:
            x[:] = x[0]
        elif shape == 7:
            x[length // 2, 0], x[length // 3, -1] = 1e12, -np.inf
        elif shape == 8:
            x[5:12] = np.nan
            x[generator.random(x.shape) < 0.4] = np.nan
        out.append((name, x))
    return out


def history_observation() -> tuple[str, Floats]:
    """Return an observation that the model "plain" was fitted to: it is its own nearest neighbour."""
    return "pump 1", plain_history()["pump 1"][LENGTHS["plain"] : 2 * LENGTHS["plain"]]
