"""Ask whether the network of `hidden_variables.py` earns a place in the ensemble, and write the answer as a table.

    python benchmarks/hidden_variables_rule.py SCORES CACHE

`SCORES` is what `hidden_variables.py` wrote, `CACHE` the log scores that `choices.py` keeps for the present code, a
subfolder of its cache. The rule was fixed before:
the network's view stays in the default only if, with at least three seeds on every family, it raises the mean AP by at
least .005 with a 90 % interval above 0, and lowers no family by more than .01. The table shows means only: they decide
if they are below. Each pooled form of the residuals is added to the views as a further one: the log
of its size, relative to the median of the log peaks of the entity.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.bench.families import family_of
from tsadc.detectors.ensemble.features import MIN_HISTORY
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.views import LOG_OFFSET
from tsadc.detectors.preparation import hold_out
from tsadc.detectors.settings import Common
from tsadc.evaluate.ranking import average_precision
from tsadc.series import Floats
from tsadc.show.markdown import table

PAGE = Path(__file__).parent.parent / "docs" / "tables" / "hidden-variables.md"
FORMS = ("max", "max_scaled", "max_centred", "max_scaled_centred", "rms", "rms_scaled", "rms_centred")
Arrays = dict[str, NDArray[Any]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scores", type=Path)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--table", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    changes: dict[str, dict[str, list[float]]] = {form: {} for form in FORMS}
    lines = []
    for file in sorted(options.scores.glob("*.npz")):
        protocol, draw, seed = file.stem.rsplit("-", 2)
        known = options.cache / f"default-{protocol}-{draw}.npz"
        if not known.exists():
            print(f"{file.stem}: no log scores in {options.cache}; run choices.py first.", file=sys.stderr)
            continue
        views, network = _read(known), _read(file)
        before = average_precision(views["labels"], Fusion.fit(views["training"])(views["new"]))
        found = [_fused(views, network, form, int(draw)) - before for form in FORMS]
        for form, change in zip(FORMS, found, strict=True):
            changes[form].setdefault(family_of(protocol), []).append(change)
        lines.append([protocol, seed, f"{before:.3f}", *(f"{change:+.3f}" for change in found)])
    means = {form: [float(np.mean(values)) for values in families.values()] for form, families in changes.items()}
    lines.append(["mean over families", "", "", *(f"{np.mean(means[form]):+.3f}" for form in FORMS)])
    lines.append(["lowest family", "", "", *(f"{min(means[form]):+.3f}" for form in FORMS)])
    text = (
        "# What predicting hidden variables adds\n\nAP of the ensemble, and its change if one pooled form of the "
        "network's residuals is added as a further view. Made by `benchmarks/hidden_variables_rule.py`.\n\n"
    )
    write_file(options.table, (text + table(["data set", "seed", "ensemble", *FORMS], lines) + "\n").encode())
    return 0


def _read(file: Path) -> Arrays:
    with np.load(file, allow_pickle=False) as arrays:
        return dict(arrays)


def _fused(views: Arrays, network: Arrays, form: str, draw: int) -> float:
    """Return the AP with one form of the network's residuals as a further view."""
    training, new = _view(network, form)
    # The ensemble's log scores of training observations come in the order of training part and held-out part.
    held = hold_out(len(training), Common().validation, draw)
    order = np.concatenate([np.setdiff1d(np.arange(len(training)), held), held])
    fusion = Fusion.fit(np.column_stack([views["training"], training[order]]))
    return average_precision(views["labels"], fusion(np.column_stack([views["new"], new])))


def _view(network: Arrays, form: str) -> tuple[Floats, Floats]:
    """Return the log scores of training and of new observations, relative to the baselines of their entities."""
    usual = np.log(LOG_OFFSET + network[f"train_{form.replace('max', 'peak')}"])
    owners = network["train_entity"]
    own = {entity: np.median(usual[owners == entity]) for entity in set(owners.tolist())}
    known = {entity: middle for entity, middle in own.items() if np.sum(owners == entity) >= MIN_HISTORY}
    scores = []
    for part in ("train", "test"):
        baseline = [known.get(entity, np.median(usual)) for entity in network[f"{part}_entity"].tolist()]
        scores.append(np.log(LOG_OFFSET + network[f"{part}_{form}"]) - np.array(baseline))
    return scores[0], scores[1]


if __name__ == "__main__":
    sys.exit(main())
