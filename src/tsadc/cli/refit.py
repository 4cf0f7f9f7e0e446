"""`tsadc refit`: train a model again on recent data, and replace the old one if the new one is sound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tsadc.atomic import refuse_existing
from tsadc.cli.workflow import check_report, explain_threshold
from tsadc.detectors.base import ProgressCallback
from tsadc.detectors.refit import Refit, duration, last_part, refit
from tsadc.detectors.store import load
from tsadc.detectors.versions import previous, replace_model
from tsadc.errors import RefitError, notice
from tsadc.io.calendar import Calendar
from tsadc.series import Series
from tsadc.show.html import write_page
from tsadc.show.refit_page import learnt, render, span
from tsadc.show.words import number, percent


def refit_model(
    model: Path,
    read: Callable[[], tuple[Series, ...]],
    window: str,
    out: Path | None,
    report: Path | None,
    progress: ProgressCallback | None = None,
    *,
    own: str | None = None,
    force: bool = False,
    calendar: Calendar | None = None,
) -> str:
    """Train the model again on the last `window` of the data and return a summary.

    The new model takes the place of the old one, which is kept as MODEL.previous; with `out`, it is saved there.
    A model that is not sound replaces nothing, unless `force`: the page is written, and an error says why."""
    length = duration(window)
    if out is not None:
        refuse_existing(out)
    if report is not None:
        check_report(report)
    done = refit(
        load(model, detector=own), last_part(read(), length), force=force, calendar=calendar, progress=progress
    )
    objections = "; ".join(done.objections())
    if report is not None:
        said = f"The new model is not sound: {objections}." if objections else "The new model may replace the old one."
        about = {"window": span(done), "detector": done.detector.name}
        write_page(render(done, title=f"Refit of {model.name}", verdict=said, about=about), report)
    if objections and out is None and not force:
        raise RefitError(
            f"The new model is not sound, so {model} stays as it is: {objections}; look at it with --report, save it "
            "elsewhere with --out, or insist with --force."
        )
    if objections:
        notice(f"The new model is not sound: {objections}.")
    if out is None:
        replace_model(model, done.detector)
        where = f"The model is in {model}, the one before in {previous(model)}."
    else:
        done.detector.save(out)
        where = f"The model is in {out}; {model} stays as it is."
    page = f"\nThe page is {report}." if report else ""
    return f"{_summary(done)}\n{where}{page}"


def _summary(done: Refit) -> str:
    (old, new), (often, now_often) = done.flagged, done.alarms_per_day
    return (
        f"Trained on {len(done.detector.decision_scores_)} observations from {span(done)}; {done.removed} rows that "
        f"the old model flags were left out.\nHistory per entity: {learnt(done)}.\n"
        f"Threshold {done.detector.threshold_:.3f}, {explain_threshold(done.detector)}.\n"
        f"On the last {done.days:.3g} days, old and new agree on {percent(done.agreement)} of {done.recent.sum()} "
        f"observations (flagged: {old} before, {new} now; alarms per day and entity: {number(often)} before, "
        f"{number(now_often)} now; rank correlation {number(done.correlation)})."
    )
