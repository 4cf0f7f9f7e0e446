"""Measure scores against labels. Nothing here decides anything: thresholds were chosen before, without labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.data.task import Answers
from tsadc.errors import DataError
from tsadc.evaluate.bootstrap import intervals
from tsadc.evaluate.ranking import all_positive_f1, auroc, average_precision, cut, oracle_f1, paper_metrics
from tsadc.series import Booleans, Floats

DIGITS = 5
Arrays = dict[str, NDArray[Any]]
# The metrics of observations in the record of a data set that scores rows only.
UNDEFINED = dict.fromkeys(("prevalence", "auroc", "ap", "f1", "flagged", "all_positive_f1"))


def measure(table: pd.DataFrame, answers: Answers) -> dict[str, Any]:
    """Return the metrics of observations. `parts` has AUROC and AP of each named part; `kinds` the AUROC of each kind
    of anomaly against normal observations, if there are several kinds."""
    labels, scores, entities = answers.labels, table["score"].to_numpy(float), np.asarray(answers.entities)
    flagged = table["anomalous"].to_numpy(bool)
    hits = cut(labels, flagged)
    within = intervals(labels, scores, entities)
    metrics = {
        "prevalence": float(labels.mean()),
        "auroc": auroc(labels, scores),
        "auroc_low": within.auroc and within.auroc[0],
        "auroc_high": within.auroc and within.auroc[1],
        "ap": average_precision(labels, scores),
        "ap_low": within.average_precision and within.average_precision[0],
        "ap_high": within.average_precision and within.average_precision[1],
        "precision": hits.precision,
        "recall": hits.recall,
        "f1": hits.f1,
        "flagged": float(flagged.mean()),
        "all_positive_f1": all_positive_f1(labels),
        "oracle_f1": oracle_f1(labels, scores),
        **vars(paper_metrics(labels, flagged)),
    }
    parts = {name: _ranking(labels[inside], scores[inside]) for name, inside in answers.parts.items()}
    kinds = sorted({kind for kinds in answers.kinds for kind in kinds})
    return {
        "observations": len(labels),
        "entities": len(set(entities.tolist())),
        **{name: None if value is None else round(value, DIGITS) for name, value in metrics.items()},
        "parts": parts,
        "kinds": {kind: _kind(kind, answers, scores) for kind in kinds} if len(kinds) > 1 else {},
    }


def _ranking(labels: Booleans, scores: Floats) -> dict[str, float]:
    return {"auroc": round(auroc(labels, scores), DIGITS), "ap": round(average_precision(labels, scores), DIGITS)}


def _kind(kind: str, answers: Answers, scores: Floats) -> float:
    chosen = np.array([kind in kinds for kinds in answers.kinds], dtype=bool)
    either = chosen | ~answers.labels
    return round(auroc(chosen[either], scores[either]), DIGITS)


def check_order(table: pd.DataFrame, answers: Answers) -> None:
    """Raise if the scores are not of the labelled observations, in their order."""
    if tuple(table["entity"]) != answers.entities:
        raise DataError(
            f"Expected scores of the {len(answers.entities)} labelled observations in their order, but the detector "
            f"scored {len(table)} observations of other entities or in another order."
        )


def arrays(table: pd.DataFrame, answers: Answers, threshold: float) -> Arrays:
    """Return the scores and labels of observations, to be kept beside a record."""
    scores = {name: table[name].to_numpy(np.float32) for name in table.columns if name.endswith("_score")}
    return {
        "score": table["score"].to_numpy(np.float64),
        "anomalous": answers.labels,
        "entity": np.array(answers.entities),
        "kinds": np.array(["|".join(kinds) for kinds in answers.kinds]),
        "threshold": np.array(threshold),
        **scores,
    }
