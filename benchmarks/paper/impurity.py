"""Measure how many anomalous values the masks of training hide, beside the paper's formula.

    python benchmarks/paper/impurity.py                 # run the study and write its record
    python benchmarks/paper/impurity.py --table FILE    # write the table of the record only

    name          paper                meaning
    before        eta_a = ip_1         anomalous cells among the measured ones
    share         eta_e                share of the steps of each variable that a mask hides; in whole steps `hidden`
    formula       eta_a (1 - eta_e)    the paper's impurity after masking, ip_2
    of_all        N_a (1 - eta_e) / N  anomalous cells that remain visible, among all measured ones
    of_shown                           the same, among the visible ones: what the network sees
    observations                       observations with a visible anomalous cell, among all

A random mask hides anomalous and normal cells alike, so `of_all` follows the formula while `of_shown` stays. The
formula is the share in the input of module 2 if every imputed value counts as normal. A window has fewer positions that
reach the ends of an observation than its middle, so RandBM and BoM hide the middle a little more often.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.job import source_digest
from tsadc.bench.machine import circumstances
from tsadc.data import catalogue
from tsadc.data.plant import Plant
from tsadc.data.sleepedf import PACK as SLEEP
from tsadc.data.sleepedf import SleepEDF
from tsadc.detectors.tsadc.decontaminator import draw_masks
from tsadc.nn.masks import Strategy, masked_length
from tsadc.series import Booleans, Labelled
from tsadc.show.markdown import table
from tsadc.windows import cut

SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3)
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
LEVEL = 0.9
RECORD = Path(__file__).parents[1] / "results" / "paper" / "impurity.json"
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
    """Return a line per strategy and share: the formula, and for each measured share the mean over `draws` masks of the
    training part with the interval that holds `LEVEL` of them. Arrays are (observation, variable, time)."""
    known = np.ones_like(anomalous) if measured is None else measured
    guilty = anomalous & known
    before = {"of_all": guilty.sum() / known.sum(), "observations": guilty.any(axis=(1, 2)).mean()}
    lines = []
    for strategy, share in itertools.product(strategies, shares):
        masks = itertools.islice(draw_masks(strategy, guilty.shape, share, seed), draws)
        remaining = np.array([_remaining(guilty, known, observed) for observed in masks])
        low, high = np.quantile(remaining, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
        lines.append(
            {
                "strategy": strategy,
                "share": share,
                "hidden": masked_length(share, guilty.shape[-1]) / guilty.shape[-1],
                "before": float(before["of_all"]),
                "observations_before": float(before["observations"]),
                "formula": float(before["of_all"] * (1 - share)),
                **{
                    name: {"mean": float(remaining[:, i].mean()), "low": float(low[i]), "high": float(high[i])}
                    for i, name in enumerate(MEASURED)
                },
            }
        )
    return lines


def _remaining(guilty: Booleans, known: Booleans, observed: Booleans) -> tuple[float, float, float]:
    left = guilty & observed
    return (
        float(left.sum() / known.sum()),
        float(left.sum() / (known & observed).sum()),
        float(left.any(axis=(1, 2)).mean()),
    )


def cells_of(labelled: Labelled, length: int, whole_rows: bool = False) -> Cells:
    """Return which cells of the observations are anomalous and which were measured. Anomalous are the variables to
    blame in the rows of a true anomaly, or with `whole_rows` all variables in these rows."""
    observations = cut(labelled.series, length, 1.0).observations
    flags = {series.entity: np.zeros((len(series), len(series.names)), dtype=bool) for series in labelled.series}
    for truth in labelled.truth:
        blamed = [whole_rows or name in truth.variables for name in observations.names]
        flags[truth.entity][truth.start : truth.stop, blamed] = True
    anomalous = [
        flags[observations.entity(i)][place.start : place.start + length].T
        for i, place in enumerate(observations.places)
    ]
    return np.stack(anomalous), np.isfinite(observations.batch(range(len(observations))))


def whole_observations(normal: int, anomalous: int, variables: int, length: int) -> Cells:
    """Return observations that are anomalous as a whole or not at all."""
    strange = np.arange(normal + anomalous) >= normal
    shape = (normal + anomalous, variables, length)
    return np.broadcast_to(strange[:, None, None], shape).copy(), np.ones(shape, dtype=bool)


def study(raw: Path, *, seed: int = 0, draws: int = 50) -> Record:
    """Measure the training parts of the plant, by cells and by rows, and of sleep, by observations, if it is there."""
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
    return {
        "study": "impurity",
        "seed": seed,
        "draws": draws,
        "level": LEVEL,
        "source": source,
        **circumstances(),
        "parts": {name: impurity(*cells, draws=draws, seed=seed) for name, cells in parts.items()},
    }


def _sleep(raw: Path, seed: int) -> Cells:
    """Return as many normal and anomalous observations as the training part has."""
    train = np.asarray(catalogue.draw("sleep", raw, seed).train)
    dataset = SleepEDF()
    pieces = [piece for record in dataset.records(raw) for piece in dataset.read(record).pieces]
    normal = (sum(not piece.spans for piece in pieces) + 1) // 2
    return whole_observations(normal, len(train) - normal, train.shape[2], train.shape[1])


def markdown(record: Mapping[str, Any]) -> str:
    """Return a table per part, and how well the formula holds."""
    return "\n\n".join(_part(name, lines, record) for name, lines in record["parts"].items())


def _part(name: str, lines: Sequence[Mapping[str, Any]], record: Mapping[str, Any]) -> str:
    first = lines[0]
    head = (
        f"**{name}**: {_percent(first['before'])} of the measured cells are anomalous, in "
        f"{_percent(first['observations_before'])} of the observations. Means over {record['draws']} draws, with the "
        f"interval that holds {100 * record['level']:.0f} % of them."
    )
    body = [
        [line["strategy"], f"{line['share']:g}", _percent(line["formula"]), *(_spread(line[key]) for key in MEASURED)]
        for line in lines
    ]
    return "\n\n".join([head, table(HEAD, body), sentence(lines)])


def sentence(lines: Sequence[Mapping[str, Any]]) -> str:
    """Return how far both shares are from the formula and from the share before masking."""
    off = max(abs(line["of_all"]["mean"] - line["formula"]) / line["formula"] for line in lines)
    moved = max(abs(line["of_shown"]["mean"] - line["before"]) / line["before"] for line in lines)
    most = max(lines, key=lambda line: float(line["share"]))
    return (
        f"Among all cells, the share that is anomalous and visible follows the formula to within {100 * off:.1f} %. "
        f"Among the visible cells it stays within {100 * moved:.1f} % of the share before masking: masking removes "
        f"normal and anomalous cells alike and does not make the rest purer. With {100 * most['share']:.0f} % hidden, "
        f"the formula promises {100 * (1 - most['formula'] / most['before']):.0f} % less impurity."
    )


def _spread(share: Mapping[str, float]) -> str:
    return f"{_percent(share['mean'])} ({_percent(share['low'])} to {_percent(share['high'])})"


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="How many anomalous values the masks of training hide.")
    parser.add_argument("--record", type=Path, default=RECORD, help="the record to write, a JSON file")
    parser.add_argument("--draws", type=int, default=50, help="masks per strategy and share, at least 2")
    parser.add_argument("--seed", type=int, default=0, help="seed of the data and the masks")
    parser.add_argument("--raw", type=Path, default=Path(os.environ.get("TSADC_DATA") or "."), help="the data sets")
    parser.add_argument("--table", type=Path, metavar="FILE", help="only write the record as a table to this file")
    options = parser.parse_args(arguments)
    if options.draws < 2 or options.seed < 0:
        parser.error("--draws must be at least 2 and --seed at least 0.")
    if options.table:
        text = markdown(json.loads(options.record.read_text(encoding="utf-8")))
        write_file(options.table, f"# Anomalous values under masks\n\n{text}\n".encode())
        return
    record = study(options.raw, seed=options.seed, draws=options.draws)
    write_file(options.record, (json.dumps(record, indent=1) + "\n").encode())
    print(markdown(record))


if __name__ == "__main__":
    main()
