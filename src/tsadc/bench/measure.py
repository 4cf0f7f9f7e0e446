"""Scores against answers. Nothing here decides anything: thresholds were chosen before, without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.data.task import Answers
from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import Interval, intervals
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut, oracle_f1, paper_metrics
from tsadc.series import Booleans, Floats

DIGITS = 5
Measured = dict[str, Any]
Arrays = dict[str, NDArray[Any]]


def measure(table: pd.DataFrame, answers: Answers, threshold: float) -> Measured:
    """The scores of observations against the answers: of all, of named parts, of each view and of each kind."""
    labels, scores, entities = answers.labels, table["score"].to_numpy(float), np.asarray(answers.entities)
    views = [name.removesuffix("_score") for name in table.columns if name.endswith("_score")]
    by_view = {name: _ranking(labels, table[f"{name}_score"].to_numpy(float)) for name in views}
    by_kind = {}
    for kind in sorted({kind for kinds in answers.kinds for kind in kinds}):
        chosen = np.array([kind in kinds for kinds in answers.kinds], dtype=bool)
        either = chosen | ~labels
        by_kind[kind] = {"observations": int(chosen.sum()), **_ranking(chosen[either], scores[either])}
    parts = {
        name: _measure(labels[inside], scores[inside], entities[inside], threshold)
        for name, inside in answers.parts.items()
    }
    return {**_measure(labels, scores, entities, threshold), "parts": parts, "views": by_view, "kinds": by_kind}


def _measure(labels: Booleans, scores: Floats, entities: NDArray[np.str_], threshold: float) -> Measured:
    found = cut(labels, scores > threshold)
    within = intervals(labels, scores, entities)
    return {
        "observations": len(labels),
        "entities": len(set(entities.tolist())),
        "prevalence": round(float(labels.mean()), DIGITS),
        **_ranking(labels, scores),
        "auroc_interval": _rounded(within.auroc),
        "ap_interval": _rounded(within.average_precision),
        "precision": round(found.precision, DIGITS),
        "recall": round(found.recall, DIGITS),
        "f1": round(found.f1, DIGITS),
        "flagged": round(float((scores > threshold).mean()), DIGITS),
        "all_positive_f1": round(all_positive_f1(labels), DIGITS),
        "oracle_f1": round(oracle_f1(labels, scores), DIGITS),
        **{name: round(value, DIGITS) for name, value in vars(paper_metrics(labels, scores > threshold)).items()},
    }


def _ranking(labels: Booleans, scores: Floats) -> dict[str, float]:
    return {"auroc": round(auroc(labels, scores), DIGITS), "ap": round(average_precision(labels, scores), DIGITS)}


def _rounded(within: Interval | None) -> list[float] | None:
    return None if within is None else [round(end, DIGITS) for end in within]


def check_order(table: pd.DataFrame, answers: Answers) -> None:
    if tuple(table["entity"]) != answers.entities:
        raise DataError(
            f"The detector scored {len(table)} observations, but there are answers to {len(answers.entities)}, or of "
            "other entities; scores cannot be measured."
        )


def arrays(table: pd.DataFrame, answers: Answers, threshold: float) -> Arrays:
    scores = {name: table[name].to_numpy(np.float32) for name in table.columns if name.endswith("_score")}
    return {
        "score": table["score"].to_numpy(np.float64),
        "anomalous": answers.labels,
        "entity": np.array(answers.entities),
        "kinds": np.array(["|".join(kinds) for kinds in answers.kinds]),
        "threshold": np.array(threshold),
        **scores,
    }
