"""Write an audit to files: the page, a table of intervals, the review file, and the facts for programs."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.config import to_mapping
from tsadc.detectors.audit import LEVEL, Audit, Model
from tsadc.detectors.review import Decision
from tsadc.errors import DataError, notice
from tsadc.io.delimited import read_texts
from tsadc.show.audit_page import render
from tsadc.show.result_files import guarded, period_text, shares_json, with_iso_times
from tsadc.show.words import Unit, count, precision

DECIDED = ("id", "variables", "decision", "comment")
PAGE, INTERVALS, REVIEW, FACTS = "index.html", "intervals.csv", "review.csv", "audit.json"
FILES = (PAGE, INTERVALS, REVIEW, FACTS)
DIGITS = 4  # of a probability
NUMBER = re.compile(r"\d+ of (\d{1,9})")  # of a line of the review file


def write_audit(audit: Audit, folder: Path, *, title: str, about: Mapping[str, str]) -> None:
    """Write the four files into a folder."""
    unit = precision(series.clock for series in audit.series)
    table = audit.to_frame()
    table = table.assign(
        variables=table["variables"].map(shares_json), return_period=table["return_period"].map(period_text)
    )
    review = audit.review()
    # Not as 1/33, of which a spreadsheet would make a date.
    review.insert(1, "number", [f"{i} of {len(review)}" for i in range(1, len(review) + 1)])
    for file, frame in ((INTERVALS, table), (REVIEW, review)):
        rounded = frame.assign(probability=frame["probability"].astype(float).round(DIGITS))
        write_table(rounded, folder / file, unit)
    content = facts(audit) | {"review": digest_of(folder / REVIEW)}
    (folder / FACTS).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(render(audit, title=title, about=about), encoding="utf-8", errors="replace")


def write_table(table: pd.DataFrame, file: Path, unit: Unit) -> None:
    """Write a table that people open in a spreadsheet."""
    # Spreadsheets need the mark at the beginning of the file to recognise UTF-8.
    texts = guarded(with_iso_times(table, unit))
    texts.to_csv(file, index=False, encoding="utf-8-sig", lineterminator="\r\n")


def notice_undecided(review: Path, decisions: Sequence[Decision], consequence: str) -> None:
    """Issue a notice if a review file leaves out intervals of its audit, or all of them."""
    total = _suspects(review)
    if total is None:
        if not decisions:
            notice(f"{review} has no line about an interval, so all count as `keep`: {consequence}.")
        return
    missing = total - len(decisions)
    if missing > 0:
        have = "has" if missing == 1 else "have"
        notice(
            f"{missing} of {count(total, 'interval', 'intervals')} {have} no line in {review} and "
            f"{'counts' if missing == 1 else 'count'} as `keep`: {consequence}."
        )


def _suspects(review: Path) -> int | None:
    """Return how many intervals the audit of a review file has, by the numbers of its lines or else by the audit beside
    it; None if neither is known."""
    _, lines = read_texts(review)
    totals = {match[1] for line in lines if (match := NUMBER.fullmatch(line.get("number", "")))}
    if len(totals) == 1:
        return int(totals.pop())
    try:
        return len(read_texts(review.parent / INTERVALS)[1])
    except (OSError, DataError):  # the review file was moved away from its audit
        return None


def facts(audit: Audit) -> dict[str, Any]:
    """Return what a program needs to know of an audit, as plain data."""
    return {
        "version": importlib.metadata.version("tsadc"),
        "detector": audit.detector,
        "settings": to_mapping(audit.settings),
        "folds": len(audit.cost.observations),
        "seconds": round(audit.cost.seconds, 1),
        "data": audit.data,
        "contamination": asdict(audit.contamination),
        "suspects": len(audit.suspects),
        "more_likely_anomalous": sum(suspect.probability >= LEVEL for suspect in audit.suspects),
        "models": {
            name: None if model is None else _model(model)
            for name, model in (("whole", audit.whole), ("without", audit.without))
        },
    }


def digest_of(file: Path) -> str:
    """Return a digest of what is decided in a review file, by which an edited one is known. A spreadsheet may save it
    with other separators or times; that is no change."""
    try:
        _, lines = read_texts(file)
        decided = [[line.get(name, "") for name in DECIDED] for line in lines]
        content = json.dumps([[cell.lower() for cell in line] for line in decided]).encode()
    except DataError:
        content = file.read_bytes()
    return hashlib.sha256(content).hexdigest()[:16]


def _model(model: Model) -> dict[str, Any]:
    return {
        "observations": model.observations,
        "contamination": asdict(model.contamination),
        "threshold": model.threshold,
        "false_alarms": model.alarms,
        "suspects_flagged": model.suspects_flagged,
        "others_flagged": model.others_flagged,
    }
