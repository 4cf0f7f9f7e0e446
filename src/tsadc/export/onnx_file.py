"""The ONNX export: normalisation, all views and their fusion as one graph, for onnxruntime in any language."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsadc import __version__
from tsadc.atomic import new_folder
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.fusion import BELOW
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.feedback import WIDTH, Lesson
from tsadc.errors import ConfigError
from tsadc.export.folder import Example, check, complete, entities_of, examples, scorer_of
from tsadc.export.graph import Graph, Tensor, joined
from tsadc.export.onnx_network import Residual, check_network, residuals, weighted_errors
from tsadc.export.onnx_views import Entities, Observation, log_scores, residual_scores
from tsadc.scale import Statistics
from tsadc.series import MAX_ABS_VALUE

if TYPE_CHECKING:
    import onnx

    from tsadc.export.folder import Exportable

GRAPH = "scorer.onnx"
MAX_BYTES = 2**31 - 2**24  # of the constants in a file of ONNX
USAGE = """# A scorer of anomalies

Made by `tsadc export --to onnx`. `{graph}` runs in onnxruntime, in any of its languages, on a processor.

| | type | shape | meaning |
|---|---|---|---|
| input `values` | float64 | ({length}, {count}) | an observation: rows of variables, NaN where not measured |
| input `entity` | int64 | (1) | place of its entity in `entities` of the manifest, from 0 on; all others are unknown |
| output `score` | float64 | (1) | higher is more anomalous |
| output `views` | float64 | ({views}) | what each view adds to the score, in the order of the manifest |

For an entity that the model does not know, `entity` is -1; any number that is no place in `entities` counts as -1.
Values are in the units of the history, in the order of `variables` of the manifest. Infinity counts as a value that is
as extreme as possible; `tsadc detect` refuses it.
"""
DRIFT = """The threshold that follows drift: let q be the lower quartile of the last 20 scores of an entity; if fewer
  are known, the usual score (`usual_scores` of the manifest) stands in for the rest. `tsadc detect` adds q minus the
  usual score to the threshold, if that is positive."""


def write_onnx(detector: Exportable, out: Path) -> None:
    """Write the new folder `out`, whose graph scores observations in onnxruntime."""
    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ConfigError(
            f"Exporting to ONNX needs the package{'s' if len(missing) > 1 else ''} {' and '.join(missing)}: "
            "pip install 'tsadc[export]'."
        )
    if not isinstance(detector, Ensemble):
        check_network(detector)
    tests = examples(detector)
    usage = USAGE.format(
        graph=GRAPH,
        length=detector.settings.length,
        count=len(detector.variables_),
        views=len(detector.view_names),
    )
    graph = graph_of(detector)
    size = sum(len(constant.raw_data) for constant in graph.graph.initializer)
    if size > MAX_BYTES:
        raise ConfigError(
            f"The graph of this model needs {size / 1e9:.1f} GB, but a file of ONNX holds at most 2 GB; fit a smaller "
            "network, or use shorter observations."
        )
    with new_folder(out) as folder:
        (folder / GRAPH).write_bytes(graph.SerializeToString())
        complete(folder, detector, tests, usage, DRIFT, {})
        check("ONNX", tests, _run(folder / GRAPH, detector, tests))


def _run(file: Path, detector: Exportable, tests: list[Example]) -> list[float]:
    """Return the scores of the self-test by onnxruntime."""
    from onnxruntime import InferenceSession

    session, names = InferenceSession(file, providers=["CPUExecutionProvider"]), entities_of(detector)
    scores = []
    for example in tests:
        entity = np.array([names.index(example.entity) if example.entity in names else -1])
        scores.append(float(session.run(["score"], {"values": example.values, "entity": entity})[0][0]))
    return scores


def graph_of(detector: Exportable) -> onnx.ModelProto:
    """Return the graph that scores an observation as the detector does."""
    graph, names, length = Graph("tsadc"), entities_of(detector), detector.settings.length
    values = graph.input("values", np.float64, (length, len(detector.variables_)))
    given = graph.input("entity", np.int64, (1,))
    entities = Entities(given.reshape(), names)
    observation = _normalised(detector, values, entities)
    found = [] if isinstance(detector, Ensemble) else residuals(detector, observation)
    scorer = scorer_of(detector)
    if scorer is None:
        assert not isinstance(detector, Ensemble)
        added = weighted_errors(detector.settings.inference.weights, found)
    else:
        added = _fused(scorer, found, observation, entities)
    score = added.sum(0, keepdims=True).cast(np.float32).cast(np.float64)
    if detector.lesson_ is not None and detector.lesson_.names:
        change = _change(detector.lesson_, added, entities)
        score = (score + change).cast(np.float32).cast(np.float64)
    return graph.model({"score": score, "views": added}, "tsadc", __version__)


def _fused(scorer: FusedScorer, found: Sequence[Residual], all_: Observation, entities: Entities) -> Tensor:
    """Follow `FusedScorer.evidence`: what each view, the residuals of a network included, adds to the score."""
    judged = np.flatnonzero(scorer.judged)
    own, middle = all_.of(judged), scorer.fusion.middle
    logs = log_scores(scorer.groups, own, entities)
    if scorer.residuals is not None:
        known = [(cells.take(judged), where.take(judged)) for cells, where in found]
        logs = joined([logs, residual_scores(scorer.residuals, known, middle[-len(found) :], own, entities)])
    above = logs - middle
    some = own.some.any(0, keepdims=True)
    return some.where((above < 0.0).where(above * BELOW, above) * scorer.fusion.weight, 0.0)


def _normalised(detector: Exportable, values: Tensor, entities: Entities) -> Observation:
    """Follow `Scaler.__call__` and `Observations.read`."""
    scaler = detector.scaler_

    def of_entity(name: str) -> Tensor:
        def own(statistics: Statistics) -> np.ndarray[tuple[int], np.dtype[np.floating]]:
            return np.asarray(getattr(statistics, name))

        return entities.choose({key: own(known) for key, known in scaler.entities.items()}, own(scaler.pooled))

    measured = ~values.is_nan()
    filled = measured.where(values, 0.0)
    z = ((filled - of_entity("center")) / of_entity("scale")).clip(MAX_ABS_VALUE)
    z = measured.where(z.cast(np.float32), 0.0).transpose()
    return Observation(z, measured.transpose(), len(detector.variables_), detector.settings.length)


def _change(lesson: Lesson, added: Tensor, entities: Entities) -> Tensor:
    """Follow `Lesson.change`: what the verdicts of people change."""
    index, exemplars = entities.index, lesson.exemplars
    change = (added * (lesson.factor - 1)).sum(0, keepdims=True)
    vectors = np.stack([exemplar.added for exemplar in exemplars])
    sizes = np.maximum(np.linalg.norm(vectors, axis=1), 1e-9)
    distances: Tensor = (added - vectors).square().sum(1).sqrt()
    similarity = ((distances / (WIDTH * sizes)).square() * -0.5).exp()
    true = np.array([exemplar.true for exemplar in exemplars])
    most_true = (similarity * true.astype(np.float64)).max(0, keepdims=True)
    same = index.graph.constant([entities.names.index(exemplar.entity) for exemplar in exemplars]).equals(index)
    false = same & index.graph.constant(~true) & (similarity > most_true)
    excess = np.array([exemplar.excess for exemplar in exemplars])
    lowered: Tensor = false.where(similarity * excess, 0.0).max(0, keepdims=True)
    return change - lowered
