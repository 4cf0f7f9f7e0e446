"""How much of what is anomalous the masks of training take away, beside the paper's formula.

    name          paper                meaning
    before        eta_a = ip_1         anomalous cells among the measured ones
    share         eta_e                of the steps of each variable that a mask hides; in whole steps `hidden`
    formula       eta_a (1 - eta_e)    what the paper calls the impurity after masking, ip_2
    of_all        N_a (1 - eta_e) / N  anomalous cells that are still shown, among all measured ones
    of_shown                           the same, among those that are still shown: what the network looks at
    observations                       those that still show an anomalous cell, among all

A mask that knows nothing hides anomalous and normal cells alike, so that `of_all` falls as the formula says while
`of_shown` stays. The formula is the share in the input of module 2 if every estimate under the mask counts as normal.
A window has fewer places that reach the ends of an observation than its middle, so that RandBM and BoM hide the middle
a little more often.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tsadc.bench.cell import source_digest
from tsadc.bench.machine import circumstances
from tsadc.bench.markdown import table
from tsadc.data import catalogue
from tsadc.data.plant import Plant
from tsadc.data.sleepedf import PACK as SLEEP
from tsadc.data.sleepedf import SleepEDF
from tsadc.detectors.tsadc.decontaminator import draw_masks
from tsadc.errors import TsadcNotice
from tsadc.nn.masks import Strategy, masked_length
from tsadc.series import Booleans, Labelled
from tsadc.windows import cut

SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
LEVEL = 0.9
HEAD = (
    "masking",
    "eta_e",
    "formula",
    "anomalous and shown, of all cells",
    "anomalous, of shown cells",
    "observations",
)
MEASURED = ("of_all", "of_shown", "observations")
Record = dict[str, Any]
Cells = tuple[Booleans, Booleans]  # anomalous and measured, each (observation, variable, time)


def impurity(
    anomalous: Booleans,
    measured: Booleans | None = None,
    *,
    shares: Iterable[float] = SHARES,
    strategies: Iterable[Strategy] = STRATEGIES,
    draws: int = 50,
    seed: int = 0,
) -> list[Record]:
    """A row per strategy and share: the formula, and of each measured share the mean of `draws` masks of the whole
    training part with the interval that holds `LEVEL` of them. Cells (observation, variable, time)."""
    known = np.ones_like(anomalous) if measured is None else measured
    guilty = anomalous & known
    before = {"of_all": guilty.sum() / known.sum(), "observations": guilty.any(axis=(1, 2)).mean()}
    rows = []
    for strategy, share in itertools.product(strategies, shares):
        masks = itertools.islice(draw_masks(strategy, guilty.shape, share, seed), draws)
        found = np.array([_remaining(guilty, known, observed) for observed in masks])
        low, high = np.quantile(found, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        rows.append(
            {
                "strategy": strategy,
                "share": share,
                "hidden": masked_length(share, guilty.shape[-1]) / guilty.shape[-1],
                "before": float(before["of_all"]),
                "observations_before": float(before["observations"]),
                "formula": float(before["of_all"] * (1 - share)),
                **{
                    name: {"mean": float(found[:, i].mean()), "low": float(low[i]), "high": float(high[i])}
                    for i, name in enumerate(MEASURED)
                },
            }
        )
    return rows


def _remaining(guilty: Booleans, known: Booleans, observed: Booleans) -> tuple[float, float, float]:
    left = guilty & observed
    return (
        float(left.sum() / known.sum()),
        float(left.sum() / (known & observed).sum()),
        float(left.any(axis=(1, 2)).mean()),
    )


def cells_of(labelled: Labelled, length: int, whole_rows: bool = False) -> Cells:
    """Which cells of the observations of a history are anomalous: those of the variables to blame in the rows of a true
    anomaly, or with `whole_rows` all of these rows; and which were measured."""
    observations = cut(labelled.series, length, 1.0).observations
    flags = {one.entity: np.zeros((len(one), len(one.names)), dtype=bool) for one in labelled.series}
    for truth in labelled.truth:
        blamed = [whole_rows or name in truth.variables for name in observations.names]
        flags[truth.entity][truth.start : truth.stop, blamed] = True
    anomalous = [
        flags[observations.entity(i)][place.start : place.start + length].T
        for i, place in enumerate(observations.places)
    ]
    return np.stack(anomalous), np.isfinite(observations.batch(range(len(observations))))


def whole_observations(normal: int, anomalous: int, variables: int, length: int) -> Cells:
    """Observations that are anomalous altogether, or not at all."""
    strange = np.arange(normal + anomalous) >= normal
    shape = (normal + anomalous, variables, length)
    return np.broadcast_to(strange[:, None, None], shape).copy(), np.ones(shape, dtype=bool)


def study(raw: Path, *, seed: int = 0, draws: int = 50) -> Record:
    """The training parts of the plant, by cells and by rows, and of sleep, by observations, if it is there."""
    config = Plant.Config(seed=seed)
    history = Plant(config).train()
    parts = {
        "plant, cells to blame": cells_of(history, config.length),
        "plant, all cells of the rows": cells_of(history, config.length, whole_rows=True),
    }
    source = ""
    if catalogue.present(catalogue.find("sleep", "benchmark"), raw):
        parts["sleep, whole observations"] = _sleep(raw, seed)
        source = source_digest(raw, SLEEP)
    else:
        warnings.warn(
            f"Sleep is left out, as {raw} has no {SLEEP}; set TSADC_DATA to the folder that holds it.",
            TsadcNotice,
            stacklevel=2,
        )
    return {
        "experiment": "impurity",
        "seed": seed,
        "draws": draws,
        "level": LEVEL,
        "source": source,
        **circumstances(),
        "parts": {name: impurity(*cells, draws=draws, seed=seed) for name, cells in parts.items()},
    }


def _sleep(raw: Path, seed: int) -> Cells:
    """As many normal and anomalous observations as the protocol trains on."""
    train = np.asarray(catalogue.draw("sleep", raw, seed).train)
    dataset = SleepEDF()
    pieces = [piece for record in dataset.records(raw) for piece in dataset.read(record).pieces]
    normal = (sum(not piece.spans for piece in pieces) + 1) // 2
    return whole_observations(normal, len(train) - normal, train.shape[2], train.shape[1])


def markdown(record: Mapping[str, Any]) -> str:
    """A table per part, and what it says of the formula."""
    return "\n\n".join(_part(name, rows, record) for name, rows in record["parts"].items())


def _part(name: str, rows: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> str:
    first = rows[0]
    head = (
        f"**{name}**: {_percent(first['before'])} of the measured cells are anomalous, in "
        f"{_percent(first['observations_before'])} of the observations. Means of {record['draws']} draws, with the "
        f"interval that holds {100 * record['level']:.0f} % of them."
    )
    body = [
        [one["strategy"], f"{one['share']:g}", _percent(one["formula"]), *(_spread(one[name]) for name in MEASURED)]
        for one in rows
    ]
    return "\n\n".join([head, table(HEAD, body), sentence(rows)])


def sentence(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far the two readings are from the formula and from what was there before."""
    off = max(abs(one["of_all"]["mean"] - one["formula"]) / one["formula"] for one in rows)
    moved = max(abs(one["of_shown"]["mean"] - one["before"]) / one["before"] for one in rows)
    most = max(rows, key=lambda one: float(one["share"]))
    return (
        f"Among all cells the share that is anomalous and shown follows the formula to within {100 * off:.1f} % of it. "
        f"Among the cells that are shown it stays within {100 * moved:.1f} % of what it was: masking leaves less of "
        f"everything, and does not make what is left purer. Of {100 * most['share']:.0f} % hidden, the formula "
        f"promises {100 * (1 - most['formula'] / most['before']):.0f} % less impurity."
    )


def _spread(found: Mapping[str, float]) -> str:
    return f"{_percent(found['mean'])} ({_percent(found['low'])} to {_percent(found['high'])})"


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"
