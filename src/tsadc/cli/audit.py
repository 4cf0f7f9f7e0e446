"""`tsadc audit`: which parts of a history look anomalous, as a folder with a page, tables and a review file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from tsadc.atomic import locked_folder, replaced_folder
from tsadc.cli.console import echo
from tsadc.config import parse_json
from tsadc.detectors.audit import Audit, AuditCallback, FoldProgress, Plan, Runner, audit
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.errors import OutputError, listed
from tsadc.io.calendar import Calendar
from tsadc.series import Series
from tsadc.show.audit_files import FACTS, FILES, PAGE, REVIEW, digest_of, write_audit
from tsadc.show.audit_page import compared, headline, summary
from tsadc.show.words import count, likely

SHOWN = 3  # intervals in the summary


def audit_to(
    detector: Detector,
    series: tuple[Series, ...],
    out: Path,
    *,
    folds: int,
    title: str,
    about: Mapping[str, str],
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
    runner: Runner | None = None,
) -> str:
    """Audit the series, write the folder `out`, all of it or nothing, and return a summary.

    An earlier audit is replaced, unless its review file was edited."""
    _refuse_to_replace(out)  # before time is spent
    outcome = audit(
        detector,
        series,
        folds=folds,
        calendar=calendar,
        progress=_reporting(progress, in_turn=runner is None),
        runner=runner,
    )
    save_to(outcome, out, title=title, about=about)
    decide = f"; decide about each interval in {out / REVIEW}" if outcome.suspects else ""
    return f"{_verdict(outcome)}\nThe page is {out / PAGE}{decide}."


def save_to(outcome: Audit, out: Path, *, title: str, about: Mapping[str, str]) -> None:
    """Write the folder `out`; an earlier audit is there until the new one is complete."""
    with locked_folder(out):
        _refuse_to_replace(out)
        with replaced_folder(out) as folder:
            write_audit(outcome, folder, title=title, about=about)


def _refuse_to_replace(out: Path) -> None:
    """Raise if `out` is there and is not an audit that may be replaced."""
    if not out.exists():
        return
    files = {file.name for file in out.iterdir()} if out.is_dir() else set()
    if not out.is_dir() or not set(FILES) <= files:
        raise OutputError(f"{out} exists and is no earlier audit, so it is not replaced; choose another name.")
    if others := sorted(files - set(FILES)):
        raise OutputError(f"{out} also holds {listed(others)}, which would be lost; choose another name, or move it.")
    if _stored_digest(out) != digest_of(out / REVIEW):
        raise OutputError(
            f"{out / REVIEW} was edited, and its decisions would be lost; choose another name, or move the file."
        )


def _stored_digest(out: Path) -> Any:
    try:
        return parse_json((out / FACTS).read_bytes())["review"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _reporting(progress: ProgressCallback | None, *, in_turn: bool) -> AuditCallback:
    """Return a callback that says what will be trained, and, if models are trained in turn, after the first one how
    long the others will take."""

    def report(now: Any) -> None:
        if isinstance(now, Plan):
            echo(_cost(now))
        elif isinstance(now, FoldProgress):
            took, left = (timedelta(seconds=max(1, round(seconds))) for seconds in (now.seconds, now.seconds_left))
            if now.done == 1 and in_turn:
                echo(f"The first of {now.total} models took {took}; about {left} to go.")
        elif progress is not None:
            progress(now)

    return report


def _cost(planned: Plan) -> str:
    total, folds, length = len(planned.history), len(planned.folds), planned.history.length
    return (
        f"{count(total, 'observation', 'observations')} of {length} rows in {folds} folds: {folds} models are trained "
        f"on up to {max(planned.trained_on):,} observations each, and two more, for comparison, on up to {total:,}."
    )


def _verdict(outcome: Audit) -> str:
    lines = [f"{headline(outcome)}. {summary(outcome)}", compared(outcome)]
    for suspect in outcome.suspects[:SHOWN]:
        start, end = suspect.clock.at([suspect.interval.start, suspect.interval.stop])
        rows = "" if suspect.clock.dated else "rows "
        lines.append(
            f"  {suspect.entity}  {rows}{start} to {end}  {likely(suspect.probability)}  {listed(suspect.blamed)}"
        )
        lines.append(f"    {suspect.interval.why(suspect.clock)[1]}")
    return "\n".join(lines)
