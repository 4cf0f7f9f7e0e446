"""Vary every choice of the ensemble that could have been made by looking at labels: `make bench-choices`.

A candidate is the ensemble with one choice changed: a view left out, another fusion, another constant. Its figures on
every protocol, AP and AUROC or VUS-PR, go to `benchmarks/results/choices.json`. From them, `tsadc bench families` picks
for each family the candidate that is best on the other families, and reports it on the one left out; the table in
`docs/tables/choices.md` shows how flat each choice is.

Views are fitted once per draw and setting, and their log scores are kept in `--cache`, so a run can be interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.bench.families import TSB, TSB_WITHOUT_SMD, family_of
from tsadc.bench.source import reference, source_hash
from tsadc.data import catalogue
from tsadc.data.row_labels import tsb_series
from tsadc.data.task import RowTask
from tsadc.detectors import Ensemble
from tsadc.detectors.ensemble import fusion, rows, windows
from tsadc.detectors.ensemble.scorer import VIEWS
from tsadc.errors import TsadcError, TsadcNotice
from tsadc.evaluate.ranking import auroc, average_precision
from tsadc.evaluate.volume import Volume, volume_tsb
from tsadc.series import Floats, Observations
from tsadc.show.markdown import table
from tsadc.windows import between

HERE = Path(__file__).parent
RESULT, PAGE = HERE / "results" / "choices.json", HERE.parent / "docs" / "tables" / "choices.md"
SEEDS = {  # those of plans/general.toml
    **dict.fromkeys(("smd-causal", "smd-audit", "smd-unseen", "sleep", "plant", "plant-process"), (0,)),
    **dict.fromkeys(("plant-telemetry", "skab", "gecco", "batadal"), (0,)),
    **dict.fromkeys(("ludb", "cinc"), (0, 1, 2)),
}
TSB_LENGTH = 100
DEFAULT = "default"
Array = NDArray[Any]
Figures = dict[str, dict[str, float]]
Fuse = Callable[[Floats, Floats, Sequence[str]], Floats]  # of training and new log scores, and the names of views


@dataclass(frozen=True)
class Setting:
    """How the views are fitted: settings of the ensemble, and constants of its modules that differ from the default."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)


SETTINGS = {
    DEFAULT: Setting(),
    "history=clean": Setting({"history": "clean"}),
    "history=dirty": Setting({"history": "dirty"}),
    "neighbours=10": Setting({"neighbours": 10}),
    "kernels=64": Setting({"kernels": 64}),
    "ridge reach at most 3": Setting(constants={"windows.MAX_REACH": 3}),
    "rows=48": Setting(constants={"rows.ROWS": 48}),
    "range offset .05": Setting(constants={"rows.RANGE_OFFSET": 0.05}),
    "range offset .5": Setting(constants={"rows.RANGE_OFFSET": 0.5}),
}
MODULES = {"windows": windows, "rows": rows}


def fused(training: Floats, new: Floats, names: Sequence[str]) -> Floats:
    """Fuse as the ensemble does."""
    return fusion.Fusion.fit(training)(new)


def without(view: str) -> Fuse:
    """Leave a view out."""

    def fuse(training: Floats, new: Floats, names: Sequence[str]) -> Floats:
        kept = [i for i, name in enumerate(names) if name != view]
        return fused(training[:, kept], new[:, kept], names)

    return fuse


def below(share: float) -> Fuse:
    """Let what is below the middle count another share."""

    def fuse(training: Floats, new: Floats, names: Sequence[str]) -> Floats:
        with mock.patch.object(fusion, "BELOW", share):
            return fused(training, new, names)

    return fuse


def reweighted(weights: Callable[[Floats], Floats]) -> Fuse:
    """Use other weights, given as a function of the centred training log scores."""

    def fuse(training: Floats, new: Floats, names: Sequence[str]) -> Floats:
        own = fusion.Fusion.fit(training)
        weight = weights(np.where(np.isfinite(training), training, own.middle) - own.middle)
        return fusion.Fusion(own.middle, weight / weight.mean())(new)

    return fuse


def equal(centred: Floats) -> Floats:
    """Return equal weights, also for views that always agree."""
    return np.ones(centred.shape[1])


def by_skew(centred: Floats) -> Floats:
    """Return weights by the skew of the training scores, at most 30 % each, divided by the redundancy."""
    ordered = np.sort(centred, axis=0)
    number = int(np.ceil(0.1 * len(ordered)))
    upper, lower = np.maximum(ordered[-number:].mean(axis=0), 1e-3), np.maximum(-ordered[:number].mean(axis=0), 1e-3)
    weight: Floats = np.clip(upper / lower, 0.1, 10) * fusion.Fusion.fit(centred).weight
    for _ in range(100):
        weight = np.minimum(weight / weight.sum(), max(0.3, 1 / len(weight)))
    return weight


def by_spread(centred: Floats) -> Floats:
    """Return weights that give every view the same spread, divided by the redundancy."""
    spread = 1.4826 * np.median(np.abs(centred), axis=0) + 0.02
    return np.asarray(fusion.Fusion.fit(centred).weight / spread)


FUSIONS: dict[str, Fuse] = {
    **{f"without {view}": without(view) for view in VIEWS},
    "below the middle: 0": below(0.0),
    "below the middle: 1": below(1.0),
    "equal weights": reweighted(equal),
    "weights by skew": reweighted(by_skew),
    "weights by spread": reweighted(by_spread),
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of packs")
    parser.add_argument("--cache", type=Path, required=True, help="where log scores are kept between runs")
    parser.add_argument("--settings", nargs="*", default=list(SETTINGS), help="which settings (default: all)")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--table", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    cache = options.cache / source_hash([reference(Ensemble)])  # log scores of other code do not count
    cache.mkdir(parents=True, exist_ok=True)
    candidates: dict[str, Figures] = {}
    try:
        for name in options.settings:
            fusions = {DEFAULT: fused, **FUSIONS} if name == DEFAULT else {name: fused}
            for label, figures in evaluate(name, fusions, options.data, cache).items():
                candidates[label] = figures
            write_file(
                options.out, (json.dumps({"default": DEFAULT, "candidates": candidates}, indent=1) + "\n").encode()
            )
    except TsadcError as error:
        print(f"choices.py: {error}", file=sys.stderr)
        return 2
    write_file(options.table, page(candidates).encode())
    return 0


def evaluate(setting: str, fusions: Mapping[str, Fuse], raw: Path, cache: Path) -> dict[str, Figures]:
    """Return the figures of each fusion on every protocol, with the views fitted by one setting."""
    figures: dict[str, Figures] = {name: {} for name in fusions}
    for protocol, seeds in SEEDS.items():
        draws = [drawn(setting, protocol, seed, raw, cache) for seed in seeds]
        for name, fuse in fusions.items():
            pairs = [
                (found["labels"], fuse(found["training"], found["new"], found["names"].tolist())) for found in draws
            ]
            figures[name][protocol] = {
                "ap": float(np.mean([average_precision(labels, scores) for labels, scores in pairs])),
                "auroc": float(np.mean([auroc(labels, scores) for labels, scores in pairs])),
            }
        print(setting, protocol, f"AP {next(iter(figures.values()))[protocol]['ap']:.3f}", flush=True)
    for name, surfaces in on_tsb(setting, fusions, raw, cache).items():
        others = [surface for series, surface in surfaces.items() if "SMD" not in series]
        for data, chosen in ((TSB, list(surfaces.values())), (TSB_WITHOUT_SMD, others)):
            pr, roc = np.mean([(surface.pr, surface.roc) for surface in chosen], axis=0).tolist()
            figures[name][data] = {"vus_pr_tsb": pr, "vus_roc_tsb": roc}
    return figures


def on_tsb(setting: str, fusions: Mapping[str, Fuse], raw: Path, cache: Path) -> dict[str, dict[str, Volume]]:
    """Return VUS of each fusion on each series of TSB-dev."""
    surfaces: dict[str, dict[str, Volume]] = {name: {} for name in fusions}
    for task in tsb_series(raw):
        found = rows_of(setting, task.name, task, cache)
        for name, fuse in fusions.items():
            scores = spread(fused_by(fuse, found), found["starts"], len(task.labels))
            surfaces[name][task.name] = volume_tsb(task.labels, scores, task.window)
    return surfaces


def fused_by(fuse: Fuse, found: Mapping[str, Array]) -> Floats:
    """Return the fused scores of new observations."""
    return fuse(found["training"], found["new"], found["names"].tolist())


def fitted(setting: str, train: Any, length: int, seed: int) -> Ensemble:
    """Fit the ensemble by a setting."""
    chosen = SETTINGS[setting]
    config = Ensemble.Config.with_settings(length=length, seed=seed, **chosen.settings)
    return Ensemble(config=config).fit(train)


def drawn(setting: str, protocol: str, seed: int, raw: Path, cache: Path) -> Mapping[str, Array]:
    """Return training and new log scores of the views on one draw, from the cache if they are there."""

    def compute() -> dict[str, Array]:
        task = catalogue.draw(protocol, raw, seed, ())
        detector = fitted(setting, task.train, catalogue.find(protocol, "benchmark").length, seed)
        if task.history is not None:
            detector.adapt(task.history)
        return {"labels": task.answers.labels, **log_scores(detector, detector._cut(task.test).observations)}

    return cached(cache / f"{setting}-{protocol}-{seed}.npz".replace(" ", "_"), setting, compute)


def rows_of(setting: str, name: str, task: RowTask, cache: Path) -> Mapping[str, Array]:
    """Return the log scores of overlapping observations of one series of TSB-dev, and where they begin."""

    def compute() -> dict[str, Array]:
        detector = fitted(setting, task.train, TSB_LENGTH, 0)
        whole = detector._cut(task.series).observations
        shifts = [i * TSB_LENGTH // detector.row_cuts for i in range(1, detector.row_cuts)]
        places = [place for shift in shifts for place in between(whole, shift, detector.settings.coverage).places]
        every = Observations(whole.series, (*whole.places, *places), TSB_LENGTH)
        return {"starts": np.array([place.start for place in every.places]), **log_scores(detector, every)}

    return cached(cache / f"{setting}-{TSB}-{name}.npz".replace(" ", "_"), setting, compute)


def log_scores(detector: Ensemble, observations: Observations) -> dict[str, Array]:
    """Return the log scores of training and of new observations, and the names of the views."""
    scorer, scaled = detector.scorer_, observations.scaled(detector.scaler_)
    new = [scorer.log_scores(scaled.entity(i), scaled.read(i)[scorer.judged]) for i in range(len(scaled))]
    return {"training": scorer.training_log_scores, "new": np.stack(new), "names": np.array(scorer.view_names)}


def cached(file: Path, setting: str, compute: Callable[[], dict[str, Array]]) -> Mapping[str, Array]:
    """Return the arrays in `file`; compute them, with the constants of the setting, if there is none."""
    if not file.exists():
        with ExitStack() as stack:
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore", TsadcNotice)
            for name, value in SETTINGS[setting].constants.items():
                module, constant = name.split(".")
                stack.enter_context(mock.patch.object(MODULES[module], constant, value))
            arrays = compute()
        with file.with_suffix(".part").open("wb") as stream:
            np.savez(stream, **arrays)
        file.with_suffix(".part").rename(file)
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def spread(scores: Floats, starts: Floats, length: int) -> Floats:
    """Return the score of each row: the mean of the observations that cover it."""
    total, count = np.zeros((2, length))
    for score, start in zip(scores, starts, strict=True):
        inside = slice(max(start, 0), max(start + TSB_LENGTH, 0))
        total[inside] += score
        count[inside] += 1
    mean = total / np.maximum(count, 1)
    return np.where(count > 0, mean, scores.min())


def page(candidates: Mapping[str, Figures]) -> str:
    """Return the table of candidates: the change of each family's AP (VUS-PR for TSB-dev) from the default, and its
    mean."""
    protocols = [*SEEDS, TSB]
    families = list(dict.fromkeys(family_of(name) for name in protocols))

    def by_family(figures: Figures) -> list[float]:
        values = {name: figures[name].get("ap", figures[name].get("vus_pr_tsb", 0.0)) for name in protocols}
        return [float(np.mean([values[name] for name in protocols if family_of(name) == f])) for f in families]

    base = by_family(candidates[DEFAULT])
    lines = [[DEFAULT, *(f"{value:.3f}" for value in base), f"{np.mean(base):.4f}"]]
    for name, figures in candidates.items():
        if name != DEFAULT:
            change = np.array(by_family(figures)) - base
            lines.append([name, *(f"{value:+.3f}" for value in change), f"{change.mean():+.4f}"])
    text = (
        "# Candidates of the ensemble\n\nAP of the default on each family (VUS-PR on tsb-dev), and how much it changes "
        "with one choice changed. Made by `make bench-choices`; see [choices](../choices.md).\n\n"
    )
    return text + table(["candidate", *families, "mean"], lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
