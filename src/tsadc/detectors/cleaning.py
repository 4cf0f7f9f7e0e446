"""Clean data for other models: find the cells that look anomalous, and correct, clear or drop them.

`Decontaminator` is the transformer that users call. The paper's module 1, which imputes by diffusion inside the network
of TSAD-C (`tsadc.detectors.tsadc.decontaminator`), has the same name and is no part of this one."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from tsadc.config import is_whole, require
from tsadc.detectors.audit import FOLDS, LEVEL, Audit, AuditCallback, FoldProgress, Plan, as_detector, audit, part_of
from tsadc.detectors.base import Detector, ProgressCallback, ScoringProgress
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.imputation import Imputed, Imputer
from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.parameters import Parameters
from tsadc.detectors.provenance import digest
from tsadc.detectors.review import Part, cleared, marked, names_text
from tsadc.errors import ConfigError, NotFittedError, TsadcNotice
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.io.write_back import Changes, write_back
from tsadc.series import Booleans, Series, without_rows
from tsadc.variables import match

if TYPE_CHECKING:  # this module does without torch
    from tsadc.nn.train import TrainingProgress

Fill = Literal["expected", "nan", "drop"]
COLUMNS = ["id", "entity", "start", "end", "variables", "cells", "probability"]
BANDS = ["entity", "time", "variable", "measured", "expected", "low", "high"]


@dataclass(frozen=True)
class Correction:
    """Cells of a series that are changed.

    Attributes
    ----------
    part
        Rows and variables of the series.
    probability
        Probability that they are anomalous; NaN if they were found by the threshold of a detector.
    """

    part: Part
    probability: float

    def of_whole_rows(self, series: Sequence[Series]) -> Correction:
        """Return the correction with all variables of its rows."""
        return replace(self, part=self.part._replace(columns=tuple(range(len(series[self.part.number].names)))))


def cells_of(series: Sequence[Series], corrections: Sequence[Correction]) -> tuple[Booleans, ...]:
    """Return the cells (time, variable) of each series that are to be changed."""
    return marked(series, [correction.part for correction in corrections])


def imputed(
    series: Sequence[Series], cells: Sequence[Booleans], imputer: Imputer, samples: int = 0, seed: int = 0
) -> list[Imputed]:
    """Return imputations of the cells, with draws."""
    generator = np.random.default_rng(seed)
    return [imputer.impute(item, marks, samples, generator) for item, marks in zip(series, cells, strict=True)]


def bands(series: Sequence[Series], cells: Sequence[Booleans], imputations: Sequence[Imputed]) -> pd.DataFrame:
    """Return one row per measured cell that is imputed: `entity`, `time`, `variable`, what was `measured`, what was
    `expected`, the ends `low` and `high` of its 90 % band, and the draws, `draw_1` and so on."""
    tables = []
    for item, marks, imputation in zip(series, cells, imputations, strict=bool(imputations)):
        rows, columns = np.nonzero(marks)
        measured = np.asarray(item.values)[rows, columns]
        known = np.isfinite(measured)
        parts = (imputation.values, imputation.low, imputation.high)
        table = pd.DataFrame(
            {
                "entity": item.entity,
                "time": item.clock.at(rows[known]),
                "variable": np.array(item.names, dtype=object)[columns[known]],
                "measured": measured[known],
                **dict(zip(BANDS[4:], (part[rows, columns][known] for part in parts), strict=True)),
                **{f"draw_{i}": draw[known] for i, draw in enumerate(imputation.draws, start=1)},
            }
        )
        tables += [table] if len(table) else []
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=BANDS)


def corrected(
    series: Sequence[Series], cells: Sequence[Booleans], imputations: Sequence[Imputed] | None, fill: Fill
) -> list[Changes]:
    """Return what becomes of the cells. Only `fill="expected"` needs imputations."""
    changes = []
    for i, (item, suspect) in enumerate(zip(series, cells, strict=True)):
        values = np.full(suspect.shape, np.nan) if imputations is None else imputations[i].values
        dropped = np.asarray(suspect.any(axis=1)) & (fill == "drop")
        # What was not measured stays as it is; so does planned work, which counts as not measured.
        changes.append(Changes(item, suspect & np.isfinite(item.values), values, dropped))
    return changes


def report(series: Sequence[Series], corrections: Sequence[Correction]) -> pd.DataFrame:
    """Return one row per correction: `id`, `entity`, `start`, `end` (exclusive), `variables`, the number of measured
    `cells` that are changed, and `probability`."""
    rows = []
    for correction in corrections:
        number, first, stop, columns = correction.part
        entity, clock, values = series[number].entity, series[number].clock, series[number].values
        start, end = clock.at([first, stop])
        names = names_text([series[number].names[k] for k in columns])
        measured = int(np.isfinite(values[first:stop, list(columns)]).sum())
        key = interval_id(entity, clock.tick(first), clock.tick(stop))
        rows.append([key, entity, start, end, names, measured, correction.probability])
    return pd.DataFrame(rows, columns=COLUMNS)


def audited(outcome: Audit, level: float) -> list[Correction]:
    """Return the suspects of an audit with at least the probability `level`."""
    return [
        Correction(part_of(suspect.number, outcome.series[suspect.number], suspect.interval), suspect.probability)
        for suspect in outcome.suspects
        if suspect.probability >= level and not suspect.interval.is_missing
    ]


def without_suspects(
    detector: Detector, X: Any, progress: ProgressCallback | None = None
) -> tuple[tuple[Series, ...], dict[str, int]]:
    """Audit a history and return it without what is more likely anomalous than normal, and the numbers of intervals and
    rows that this concerns."""

    def report_training(now: TrainingProgress | ScoringProgress | FoldProgress | Plan) -> None:
        if progress is not None and not isinstance(now, FoldProgress | Plan):  # commands show those of trainings only
            progress(now)

    outcome = _audit_before_fit(detector, X, progress=report_training)
    rows = outcome.suspected_rows(LEVEL)
    cleaned = tuple(without_rows(series, inside) for series, inside in zip(outcome.series, rows, strict=True))
    intervals = sum(suspect.probability >= LEVEL for suspect in outcome.suspects)
    return cleaned, {"intervals": intervals, "rows": sum(int(inside.sum()) for inside in rows)}


def _audit_before_fit(detector: Detector, X: Any, **options: Any) -> Audit:
    """Audit a history without the notice about variables that are not judged, which the fit that follows issues."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Not judged", TsadcNotice)
        return audit(detector, X, **options)


class Decontaminator(Parameters):
    """Find what looks anomalous in unlabelled data, and correct it, for models that need clean data.

    A transformer of scikit-learn. `fit_transform` cleans the history: an audit finds suspect intervals, each judged by
    a model that was not trained on it. `transform` cleans new data: what a detector flags that was fitted to the rest
    of the history. Cells that are not suspected stay as they are, to the byte. No label is used.

    Parameters
    ----------
    detector : Detector, optional
        The kind of detector and its settings; it stays as it is. None: `tsadc.Ensemble(length=length)`.
    length : int, optional
        Rows of an observation, if there is no `detector`.
    fill : {"expected", "nan", "drop"}, default "expected"
        What becomes of suspect cells. "expected": what the other cells lead to expect. "nan": missing. "drop": their
        rows are left out, of an array (observation, time, variable) their observations; a `Series` keeps its clock, so
        rows of it become missing.
    level : float, default 0.5
        Least probability of a suspect interval of the history, above 0 and at most 1. With 1, nothing is changed unless
        it is certain.
    folds : int, default 5
        Number of folds of the audit, at least 2.
    samples : int, default 0
        Number of draws of what could have been measured in place of the suspect cells, for `bands_`; only with
        `fill="expected"`.

    Attributes
    ----------
    report_ : DataFrame
        What the last call changed, one row per interval: `id`, `entity`, `start`, `end` (exclusive), `variables`
        (separated by "; "), number of `cells`, and `probability`, which is NaN for what the detector flags in new data.
    bands_ : DataFrame
        How sure the expected values of the last call are, one row per changed cell: `entity`, `time`, `variable`, what
        was `measured`, what was `expected`, `low` and `high`, between which 90 % of such cells lie, and `draw_1` to
        `draw_<samples>`. A draw is made for all cells of a series together, so that each is a plausible course. Empty
        unless `fill="expected"`.
    audit_ : Audit
        The audit of the history.
    detector_ : Detector
        The detector, fitted to the history without what is suspect.
    imputer_ : Imputer
        It gives the expected values.

    See Also
    --------
    tsadc.audit : only find what is suspect.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> generator = np.random.default_rng(0)
    >>> level = generator.normal(size=6000)
    >>> history = level[:, None] + 0.1 * generator.normal(size=(6000, 3))
    >>> history[3000:3060, 1] += 6
    >>> cleaner = tsadc.Decontaminator(length=60)
    >>> clean = cleaner.fit_transform(history)
    >>> bool(np.abs(clean[3000:3060, 1] - level[3000:3060]).max() < 1), bool((clean[:2900] == history[:2900]).all())
    (True, True)
    >>> cleaner.report_[["start", "end", "variables"]].values.tolist()
    [[3000, 3060, 'variable_1']]
    """

    audit_: Audit
    detector_: Detector
    imputer_: Imputer
    report_: pd.DataFrame
    bands_: pd.DataFrame

    def __init__(
        self,
        detector: Detector | None = None,
        length: int | None = None,
        fill: Fill = "expected",
        level: float = LEVEL,
        folds: int = FOLDS,
        samples: int = 0,
    ) -> None:
        self.detector = detector
        self.length = length
        self.fill = fill
        self.level = level
        self.folds = folds
        self.samples = samples

    def fit(self, X: Any, y: None = None, *, progress: AuditCallback | None = None) -> Self:
        """Audit unlabelled history, and learn from what is not suspect.

        Parameters
        ----------
        X : DataFrame, array of shape (time, variable) or (observation, time, variable), Series, or dict of these
            The history, as for `Detector.fit`.
        y : ignored
            For compatibility with scikit-learn.
        progress : callable, optional
            As for `tsadc.audit`.

        Returns
        -------
        self

        Raises
        ------
        DataError
            If the data cannot be used or is too short for so many folds.
        ConfigError
            If an argument is out of range.
        """
        self._check()
        detector = self._unfitted()
        self.audit_ = _audit_before_fit(detector, X, folds=self.folds, progress=progress)
        series, corrections = self.audit_.series, audited(self.audit_, self.level)
        cleaned = cleared(series, cells_of(series, corrections))
        self.detector_ = detector.fit(cleaned, progress=progress)
        self.imputer_ = Imputer.fit(cleaned, self.detector_.scaler_, self.detector_.settings.seed)
        self._report(series, corrections)
        return self

    def fit_transform(self, X: Any, y: None = None, **options: Any) -> Any:
        """Audit unlabelled history, and return it cleaned.

        Parameters
        ----------
        X : like the history of `fit`
            The history.
        y : ignored
            For compatibility with scikit-learn.
        **options
            Further arguments of `fit`.

        Returns
        -------
        like X
            The same type, index, columns and types of values.

        Raises
        ------
        DataError, ConfigError
            As for `fit`.
        """
        return self.fit(X, y, **options)._changed(X, self.audit_.series, audited(self.audit_, self.level))

    def transform(self, X: Any) -> Any:
        """Return data cleaned: the history by its audit, new data by what the detector flags.

        Parameters
        ----------
        X : like the history of `fit`
            The history or new data with its variables.

        Returns
        -------
        like X
            The same type, index, columns and types of values.

        Raises
        ------
        NotFittedError
            If it is not fitted.
        ConfigError
            If an argument is out of range.
        DataError
            If the data cannot be used, or a column of whole numbers would have to hold a missing value.
        """
        if not hasattr(self, "detector_"):
            raise NotFittedError("This Decontaminator is not fitted yet; call fit(history) first.")
        self._check()  # they may have been set since
        settings = self.detector_.settings
        series = match(as_series(X, settings.length, Reading(coverage=settings.coverage)), self.detector_.variables_)
        if digest(series) == self.audit_.data["digest"]:
            return self._changed(X, self.audit_.series, audited(self.audit_, self.level))
        flagged = [
            Correction(part_of(number, part.series, interval), float("nan"))
            for number, part in enumerate(self.detector_.detect(series).parts)
            for interval in part.intervals
            if not interval.is_missing
        ]
        return self._changed(X, series, flagged)

    def _changed(self, X: Any, series: Sequence[Series], corrections: Sequence[Correction]) -> Any:
        return write_back(X, self._report(series, corrections))

    def _report(self, series: Sequence[Series], corrections: Sequence[Correction]) -> list[Changes]:
        """Describe and return what becomes of the corrections."""
        if self.fill == "drop":
            corrections = [correction.of_whole_rows(series) for correction in corrections]
        cells, imputations = cells_of(series, corrections), None
        self.report_, self.bands_ = report(series, corrections), pd.DataFrame(columns=BANDS)
        if self.fill == "expected":
            seed = self.detector_.settings.seed
            imputations = imputed(series, cells, self.imputer_, self.samples, seed)
            self.bands_ = bands(series, cells, imputations)
        return corrected(series, cells, imputations, self.fill)

    def _check(self) -> None:
        """Raise if an argument is out of range."""
        require(self.fill in get_args(Fill), "fill", "'expected', 'nan' or 'drop'", self.fill)
        numeric = isinstance(self.level, int | float | np.number) and not isinstance(self.level, bool)
        require(numeric and 0 < self.level <= 1, "level", "a number above 0 and at most 1", self.level)
        require(is_whole(self.samples) and self.samples >= 0, "samples", "a whole number of at least 0", self.samples)
        require(not self.samples or self.fill == "expected", "samples", '0 unless fill="expected"', self.samples)

    def _unfitted(self) -> Detector:
        if self.detector is None:
            return Ensemble(length=self.length)
        if self.length is not None:
            raise ConfigError("`length` belongs to the detector; give one of `detector` and `length`.")
        return type(as_detector(self.detector))(config=self.detector.settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's arguments by name.

        Parameters
        ----------
        deep : bool, default True
            Also return those of the detector, as `detector__length` and so on.

        Returns
        -------
        dict
        """
        arguments = super().get_params()
        nested = self.detector.get_params() if deep and self.detector is not None else {}
        return arguments | {f"detector__{name}": value for name, value in nested.items()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name, also those of the detector as `detector__length` and so on.

        Parameters
        ----------
        **params
            New values. `fill`, `level` and `samples` are used from the next `transform` on, others from the next `fit`.

        Returns
        -------
        self

        Raises
        ------
        ConfigError
            If there is no such argument.
        """
        nested = {name: value for name, value in params.items() if name.startswith("detector__")}
        super().set_params(**{name: value for name, value in params.items() if name not in nested})
        if nested and self.detector is None:
            raise ConfigError(f"There is no detector to set {next(iter(nested))!r} of; give `detector`.")
        if nested and self.detector is not None:
            self.detector.set_params(**{name.removeprefix("detector__"): value for name, value in nested.items()})
        return self
