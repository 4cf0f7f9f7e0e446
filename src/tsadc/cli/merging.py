"""`tsadc merge` and `tsadc fit --continue`: a model from other models, with or without further history."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tsadc.atomic import refuse_existing
from tsadc.cli.examination import check_new
from tsadc.cli.workflow import refuse_inside, trained
from tsadc.detectors.base import ProgressCallback
from tsadc.detectors.merging import continue_model, merge_models
from tsadc.detectors.store import load
from tsadc.io.calendar import Calendar
from tsadc.series import Series
from tsadc.show.words import count
from tsadc.variables import match


def merge_to(
    models: Sequence[Path], out: Path, *, own: str | None = None, progress: ProgressCallback | None = None
) -> str:
    """Write the model of the entities of all `models` to `out` and return a summary."""
    refuse_existing(out)
    refuse_inside(out, models, "a model")
    merged = merge_models(models, detector=own, progress=progress)
    merged.save(out)
    return f"Merged {len(models)} models.\n{trained(merged, out)}"


def continue_to(
    model: Path,
    read: Callable[[Mapping[str, Any]], tuple[Series, ...]],
    files: Sequence[Path],
    out: Path,
    *,
    own: str | None = None,
    strict: bool = False,
    calendar: Calendar | None = None,
    progress: ProgressCallback | None = None,
) -> str:
    """Write the model of the history of `model` and of what is read to `out` and return a summary.

    `read` returns the series, given the provenance of the model, and `files` says where they come from. If `strict`, a
    series that lacks a variable is refused."""
    refuse_existing(out)
    refuse_inside(out, [model], "a model")
    fitted = load(model, detector=own)
    series = match(read(fitted.provenance_), fitted.variables_, strict=strict)
    check_new(series, files, fitted, other_levels=True)
    continued = continue_model(model, series, detector=own, calendar=calendar, progress=progress)
    continued.save(out)
    known = sum(item.entity in fitted.scaler_.entities for item in series)
    new = count(len(series) - known, "new one", "new ones")
    added = f"Added history of {count(known, 'known entity', 'known entities')} and {new} to {model}"
    before, after = (own.provenance_["data"]["observations"] for own in (fitted, continued))
    if after <= before:
        added += ", but no observation: it has too few rows for one, or too few values"
    return f"{added}.\n{trained(continued, out)}"
