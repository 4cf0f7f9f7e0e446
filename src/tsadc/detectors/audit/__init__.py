"""Audit a history: which parts of the data that a detector is to learn from look anomalous, and how surely.

Read in this order:

    folds.py      divides the history into folds: contiguous observations that one model is not trained on, and judges
    judge.py      the model of a fold judges it; its scores become normal deviates
    estimate.py   the formulas: from the deviates of all folds to the contaminated share and the probabilities
    findings.py   the suspects and all else that an audit returns
    run.py        `audit` itself: all steps, and the models with and without the suspects
    progress.py   what it reports on the way
"""

from tsadc.detectors.audit.estimate import LEAST_PROBABILITY, LEVEL
from tsadc.detectors.audit.findings import Audit, Model, Suspect, part_of
from tsadc.detectors.audit.folds import FOLDS, Plan
from tsadc.detectors.audit.judge import JudgedFold, Runner, judge_fold
from tsadc.detectors.audit.progress import AuditCallback, FoldProgress
from tsadc.detectors.audit.run import as_detector, audit

__all__ = [
    "FOLDS",
    "LEAST_PROBABILITY",
    "LEVEL",
    "Audit",
    "AuditCallback",
    "FoldProgress",
    "JudgedFold",
    "Model",
    "Plan",
    "Runner",
    "Suspect",
    "as_detector",
    "audit",
    "judge_fold",
    "part_of",
]
