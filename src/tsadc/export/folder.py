"""What every export consists of, whatever runs it: a manifest, a self-test and a README beside the scorer itself.

manifest.json    what a caller must know: variables and their order, length, entities, threshold
self-test.json   a few made-up observations, and the scores that this package gives them
README.md        how to call it, what it contains and what not
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tsadc import __version__
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.store import load, read_settings
from tsadc.errors import ConfigError, TsadcError
from tsadc.export.standalone import MANIFEST, SELF_TEST
from tsadc.series import Floats, Observations, Place, Series

if TYPE_CHECKING:  # torch is needed for models with a network only
    from tsadc.detectors.tsadc.detector import TSADC

    Exportable = Ensemble | TSADC

FORMAT = 1
README = "README.md"
TOLERANCE = 1e-5  # of the scores of the self-test
DIGITS = 6  # of its values
NETWORK = "tsadc"  # the detector whose network can be exported
UNKNOWN = "an entity that the model does not know"

CONTENT = """
## What it contains

- The scores of `tsadc detect`: normalisation by entity, {parts}{lesson}.
- The threshold of the model, {threshold:.6g}; a higher score is anomalous.
- The baselines of {entities}. Any other name is compared with all of them together.

## What it does not contain

- Cutting series into observations of {length} rows{interval}: `tsadc detect` begins them at multiples of the length,
  and leaves out those with values in less than {coverage:.0%} of the rows.
- Events, reasons, and alarms about sensors that stop reporting.
- {drift}
- Planned work: use NaN for it, as for everything that was not measured.
- Later changes of the model: export it again after `tsadc refit`, `tsadc adapt` or `tsadc label`.

`{manifest}` lists the variables in their order, the entities and a digest of every file. `{self_test}` has
observations (rows of variables, null: not measured) and their scores; another computer agrees within {tolerance:g}.
"""


@dataclass(frozen=True)
class Example:
    """An observation of the self-test: values (row, variable) in the units of the history, and its score."""

    entity: str
    values: Floats
    score: float


def open_model(folder: Path, to: str) -> Exportable:
    """Load a model that can be exported; refuse all others in one sentence."""
    name = read_settings(folder)["detector"]
    if name not in (Ensemble.name, NETWORK):
        raise ConfigError(
            f"{folder} is a model of the detector {str(name)[:200]!r}, but only models of {Ensemble.name!r} and "
            f"{NETWORK!r} can be exported; fit one with `tsadc fit --detector {Ensemble.name}`."
        )
    if name == NETWORK and to == "python":
        raise ConfigError(
            f"{folder} has a network, which an export that needs numpy alone cannot run; use `--to onnx`, or export a "
            f"model of `tsadc fit --detector {Ensemble.name}`."
        )
    detector: Any = load(folder)
    if detector._audits:
        raise ConfigError(
            f"{folder} is in audit mode, which needs the whole record, but an export scores single observations; fit "
            f"it with `--set {'mode' if isinstance(detector, Ensemble) else 'ensemble.mode'}=causal`."
        )
    exportable: Exportable = detector
    return exportable


def entities_of(detector: Exportable) -> list[str]:
    """Return the names of all entities that the model knows anything about, in the order of their index in an
    export."""
    judged = [] if detector.lesson_ is None else [exemplar.entity for exemplar in detector.lesson_.exemplars]
    fused = [] if (scorer := scorer_of(detector)) is None else scorer.usual
    return list(dict.fromkeys([*detector.scaler_.entities, *fused, *judged]))


def scorer_of(detector: Exportable) -> FusedScorer | None:
    """Return the ensemble of a model; None if its network scores alone (`scoring="own"`)."""
    return None if detector._view_weights is None else detector.scorer_


def native_scores(detector: Exportable, entities: Sequence[str], values: Sequence[Floats]) -> Floats:
    """Return the score of each observation (row, variable), as `tsadc detect` computes it."""
    series = tuple(Series(own, detector.variables_, entity=name) for name, own in zip(entities, values, strict=True))
    places = tuple(Place(number, 0) for number in range(len(series)))
    return detector._scores(Observations(series, places, detector.settings.length))


def examples(detector: Exportable) -> list[Example]:
    """Return the self-test: a complete observation, one with gaps, and one of an unknown entity, with their scores."""
    known = entities_of(detector)
    names = [*known[:1], known[-1] if known else UNKNOWN, UNKNOWN]
    generator, length = np.random.default_rng(0), detector.settings.length
    values = []
    for number, name in enumerate(names):
        statistics = detector.scaler_.entities.get(name, detector.scaler_.pooled)
        phase = generator.uniform(0, 2 * np.pi, len(detector.variables_))
        waves = np.sin(2 * np.pi * np.arange(length)[:, None] * (1 + number) / length + phase)
        raw = statistics.center + statistics.scale * (waves + 0.3 * generator.normal(size=waves.shape))
        raw[length // 2 : length // 2 + 3, 0] += 5.0 * statistics.scale[0]
        if number:
            raw[length // 8 : length // 8 + 3, -1] = np.nan
            raw[length // 4 : length // 2, 0] = np.nan
            raw[-2:] = np.nan
        values.append(np.array([[float(f"{value:.{DIGITS}g}") for value in row] for row in raw.tolist()]))
    scores = native_scores(detector, names, values)
    return [Example(*fields) for fields in zip(names, values, scores.tolist(), strict=True)]


def check(kind: str, expected: Sequence[Example], scores: Sequence[float]) -> None:
    """Raise an error if the export scores the self-test otherwise than this package."""
    differences = [abs(example.score - score) for example, score in zip(expected, scores, strict=True)]
    if not max(differences) <= TOLERANCE:
        raise TsadcError(
            f"The {kind} export was not written: its score of a made-up observation differs by {max(differences):.2g} "
            f"from that of this package; at most {TOLERANCE:g} is accepted. Report this as an error of tsadc."
        )


def complete(
    folder: Path, detector: Exportable, tests: Sequence[Example], usage: str, drift: str, extra: dict[str, Any]
) -> None:
    """Write manifest, self-test and README beside the files of the scorer, which are in the folder already.

    `usage` says how to call the scorer, `drift` what it knows about the threshold that follows drift. `extra` is what
    only this kind of scorer has in its manifest."""
    known, settings = entities_of(detector), detector.settings
    usual = {name: detector._usual_score(name) for name in known}
    judged = np.ones(len(detector.variables_)) if (scorer := scorer_of(detector)) is None else scorer.judged
    every = detector.clock_.every
    stored = [
        {
            "entity": example.entity,
            "entity_index": known.index(example.entity) if example.entity in known else -1,
            "values": [[None if math.isnan(x) else x for x in row] for row in example.values.tolist()],
            "score": example.score,
        }
        for example in tests
    ]
    (folder / SELF_TEST).write_text(json.dumps({"tolerance": TOLERANCE, "observations": stored}) + "\n")
    about = {
        "format": FORMAT,
        "tsadc": __version__,
        "detector": detector.name,
        "training_data": detector.provenance_["data"],
        "variables": list(detector.variables_),
        "judged": [name for name, judged in zip(detector.variables_, judged, strict=True) if judged],
        "length": settings.length,
        "interval_seconds": None if every is None else every / 1e9,
        "coverage": settings.coverage,
        "threshold": detector.threshold_,
        "views": list(detector.view_names),
        "verdicts": len(detector.verdicts_),
        "entities": known,
        "usual_scores": {name: score for name, score in usual.items() if score is not None},
        **extra,
    }
    network = "" if isinstance(detector, Ensemble) else "the network, "
    page = usage + CONTENT.format(
        parts=network + ("the weights of its errors" if scorer is None else "all views, their weights"),
        lesson=", and what the verdicts of people have changed" if detector.lesson_ is not None else "",
        threshold=detector.threshold_,
        entities="1 entity" if len(known) == 1 else f"{len(known)} entities",
        length=settings.length,
        interval="" if every is None else f", {every / 1e9:g} s apart",
        coverage=settings.coverage,
        drift=drift,
        manifest=MANIFEST,
        self_test=SELF_TEST,
        tolerance=TOLERANCE,
    )
    (folder / README).write_text(page, encoding="utf-8")
    files = sorted(file for file in folder.iterdir() if file.name != MANIFEST)
    about["files"] = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    (folder / MANIFEST).write_text(json.dumps(about, indent=1) + "\n")
