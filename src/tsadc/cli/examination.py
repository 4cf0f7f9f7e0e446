"""Examine data before it is used: findings as notices, one sentence for what cannot be used, labels left out."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tsadc.errors import DataError, listed, notice
from tsadc.io.doctor import Examination, Finding, examine
from tsadc.io.memory import check_length
from tsadc.series import Series

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

MAX_NOTICES = 5  # findings that are printed; `tsadc info` shows all
LEVELS = ("other-machine", "mixed-units")  # findings about levels that differ from those of the model
STREAMED_ROWS = 10_000  # examined rows of a series that stays in its file


def check_history(
    series: tuple[Series, ...], data: Sequence[Path], detector: Detector, kept: Collection[str] = ()
) -> tuple[Series, ...]:
    """Examine history before a fit, and return it without columns that look like labels and are not in `kept`."""
    found = examine(_in_memory(check_length(series, detector.settings.length)))
    labels = [name for name in found.labels if name not in kept]
    if len(labels) == len(found.variables):
        labels = []
    _report([finding for finding in found.findings if finding.code != "label"], data)
    if not labels:
        return series
    notice(
        f"Left out, because {'they look' if len(labels) > 1 else 'it looks'} like labels and not like sensors: "
        f"{listed(labels)}. Name all columns to use in --columns if this is wrong."
    )
    return tuple(without(one, labels) for one in series)


def check_new(
    series: tuple[Series, ...], data: Sequence[Path], detector: Detector, *, other_levels: bool = False
) -> Examination:
    """Examine new data before it is judged by the detector. With `other_levels`, levels may differ from those of the
    model."""
    found = examine(_in_memory(check_length(series, detector.settings.length)), detector)
    _report([finding for finding in found.findings if not other_levels or finding.code not in LEVELS], data)
    return found


def _in_memory(series: tuple[Series, ...]) -> tuple[Series, ...]:
    """Return the series, with the first rows of those whose values are streamed from a file."""
    return tuple(
        one if type(one.values) is np.ndarray else replace(one, values=np.asarray(one.values[:STREAMED_ROWS]))
        for one in series
    )


def without(series: Series, names: Collection[str]) -> Series:
    """Return the series without some of its variables."""
    kept = [i for i, name in enumerate(series.names) if name not in names]
    return replace(series, values=series.values[:, kept], names=tuple(series.names[i] for i in kept))


def _report(findings: Sequence[Finding], data: Sequence[Path]) -> None:
    """Raise the first finding that refuses the data; issue the first warnings as notices."""
    for finding in findings:
        if finding.severity == "refuse":
            raise DataError(finding.refusal)
    warnings = [finding for finding in findings if finding.severity == "warn"]
    for finding in warnings[:MAX_NOTICES]:
        notice(finding.sentence)
    if len(warnings) > MAX_NOTICES:
        where = " ".join(shlex.quote(str(file)) for file in data[:1]) or "with the same --sql and --query"
        notice(f"{len(warnings) - MAX_NOTICES} more: tsadc info {where}{' ...' if len(data) > 1 else ''}")
