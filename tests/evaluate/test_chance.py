"""The values that docs/metrics.md lists for random scores and for flagging everything."""

import re
from pathlib import Path

import numpy as np

from tsadc.evaluate.affiliation import affiliation
from tsadc.evaluate.delay import delay
from tsadc.evaluate.ranges import range_cut
from tsadc.evaluate.ranking import auroc, average_precision, cut, oracle_f1, paper_metrics
from tsadc.evaluate.volume import volume, volume_tsb

DRAWS = 5
LABELS = np.arange(20000) % 1000 < 100
FLAGGED = np.arange(20000) % 10 == 0
BY_SCORES = {
    "auroc": auroc,
    "ap": average_precision,
    "oracle_f1": oracle_f1,
    "vus_pr": lambda labels, scores: volume(labels, scores, 100).pr,
    "vus_roc": lambda labels, scores: volume(labels, scores, 100).roc,
    "vus_pr_tsb": lambda labels, scores: volume_tsb(labels, scores, 100).pr,
    "vus_roc_tsb": lambda labels, scores: volume_tsb(labels, scores, 100).roc,
}
BY_FLAGS = {
    "f1": lambda labels, flags: cut(labels, flags).f1,
    "precision": lambda labels, flags: cut(labels, flags).precision,
    "recall": lambda labels, flags: cut(labels, flags).recall,
    "paper_f1": lambda labels, flags: paper_metrics(labels, flags).paper_f1,
    "paper_recall": lambda labels, flags: paper_metrics(labels, flags).paper_recall,
    "paper_apr": lambda labels, flags: paper_metrics(labels, flags).paper_apr,
    "events_detected": lambda labels, flags: delay(labels, flags).detected,
    "event_precision": lambda labels, flags: delay(labels, flags).precision,
    "delay": lambda labels, flags: delay(labels, flags).median,
    "false_rows": lambda labels, flags: delay(labels, flags).alarms,
    **{
        f"range_{name}": lambda labels, flags, name=name: getattr(range_cut(labels, flags), name)
        for name in ("precision", "recall", "f1")
    },
    **{
        f"affiliation_{name}": lambda labels, flags, name=name: getattr(affiliation(labels, flags), name)
        for name in ("precision", "recall", "f1")
    },
}


def test_the_page_lists_the_values_of_random_scores_and_of_flagging_everything() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = {
        match[1]: (float(match[2]), float(match[3]))
        for match in re.finditer(r"^\| `(\w+)` \|.*?\| ([\d.]+) \| ([\d.]+) \|", page, re.MULTILINE)
    }
    measured = {}
    for name, metric in BY_SCORES.items():
        generator = np.random.default_rng(0)
        random = np.mean([metric(LABELS, generator.random(len(LABELS))) for _ in range(DRAWS)])
        measured[name] = round(float(random), 2), round(metric(LABELS, np.zeros(len(LABELS))), 2)
    for name, metric in BY_FLAGS.items():
        generator = np.random.default_rng(0)
        random = np.mean([metric(LABELS, generator.permutation(FLAGGED)) for _ in range(DRAWS)])
        measured[name] = round(float(random), 2), round(metric(LABELS, np.ones(len(LABELS), dtype=bool)), 2)
    assert measured == listed
