"""What an audit has found: the suspects, how surely, and what depends on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.detectors.audit.estimate import LEVEL
from tsadc.detectors.result import Interval, Result, as_period
from tsadc.detectors.review import Part, marked, names_text
from tsadc.detectors.threshold import Contamination
from tsadc.series import Booleans, Clock, Floats, Series

BLAMED_SHARE = 0.2  # of the contributions; a variable with less is only mentioned
COLUMNS = [
    *("id", "entity", "start", "end", "probability", "score", "return_period"),
    *("kind", "reason", "evidence", "variables"),
]


@dataclass(frozen=True)
class Suspect:
    """An interval of the history that looks anomalous.

    Attributes
    ----------
    id : str
        Digest of entity, start and end (`interval_id`).
    number : int
        Position of its series in `Audit.series`.
    entity : str
    clock : Clock
        Of the series.
    interval : Interval
        Rows `start` to `stop`, the score in standard deviations of normal scores, return period, evidence, reason and
        `variables` with their shares.
    probability : float
        Probability that it is anomalous: that of its strongest observation.
    """

    id: str
    number: int
    entity: str
    clock: Clock
    interval: Interval
    probability: float

    @property
    def blamed(self) -> tuple[str, ...]:
        """The variables to blame for the interval."""
        return blamed(self.interval)

    @property
    def decision(self) -> str:
        """What a review is proposed to decide: "drop" if it is more likely anomalous than normal, otherwise "keep"."""
        return "drop" if self.probability >= LEVEL else "keep"


@dataclass(frozen=True, eq=False)
class Model:
    """A detector trained for comparison, with or without what the audit suspects.

    Attributes
    ----------
    observations : int
        Number of observations that it was trained on.
    contamination : Contamination
        Share of them that its own scores show to be anomalous.
    threshold : float
        Comparable with no score of another model.
    alarms : str
        The false alarms to be expected, and how the threshold was chosen.
    suspects_flagged : int
        How many of the suspected observations it flags.
    others_flagged : int
        How many of the other observations it flags.
    flagged : array of shape (n_observations,), bool
        Whether it flags each observation of the history; one that it was trained on by its training score.
    """

    observations: int
    contamination: Contamination
    threshold: float
    alarms: str
    suspects_flagged: int
    others_flagged: int
    flagged: Booleans = field(repr=False)


@dataclass(frozen=True)
class Cost:
    """What an audit has cost: the number of models that were trained, the observations that the model of each fold was
    trained on, and the seconds."""

    models: int
    observations: tuple[int, ...]
    seconds: float


@dataclass(frozen=True, eq=False)
class Audit:
    """Which parts of a history look anomalous, judged by models that were not trained on them.

    Attributes
    ----------
    suspects : tuple of Suspect
        The suspected intervals, the most probable first. Those with a probability below 0.2 are left out.
    contamination : Contamination
        Estimated share of anomalous observations, `share`, with its 90 % interval, `low` and `high`.
    result : Result
        The cross-fitted scores, contributions and intervals. Scores are in standard deviations of normal scores.
    probabilities : array of shape (n_observations,)
        Probability that each observation of `result.scored` is anomalous.
    folds : array of shape (n_observations,)
        Fold of each observation, from 0.
    whole : Model
        The detector trained on the whole history.
    without : Model or None
        The detector trained without the rows that are suspected with a probability of at least 0.5; None if too few
        are left.
    cost : Cost
    data : dict
        Size and digest of the history, as in `Detector.provenance_`.
    detector : str
        Name of the detector.
    settings : object
        Its settings.

    Examples
    --------
    >>> import numpy as np
    >>> import tsadc
    >>> generator = np.random.default_rng(0)
    >>> history = generator.normal(size=(6000, 3))
    >>> history[3000:3060, 1] += 6
    >>> found = tsadc.audit(tsadc.Ensemble(length=60), history)
    >>> found.to_frame()[["start", "end"]].values.tolist()
    [[3000, 3060]]
    >>> [cells.sum(axis=0).tolist() for cells in found.suspected()]
    [[0, 60, 0]]
    """

    suspects: tuple[Suspect, ...]
    contamination: Contamination
    result: Result
    probabilities: Floats
    folds: NDArray[np.int64]
    whole: Model
    without: Model | None
    cost: Cost
    data: dict[str, Any]
    detector: str
    settings: Any = field(repr=False)

    @property
    def series(self) -> tuple[Series, ...]:
        """The history."""
        return self.result.series

    @property
    def share(self) -> float:
        """Estimated share of anomalous observations."""
        return self.contamination.share

    @property
    def low(self) -> float:
        """Lower end of the 90 % interval of `share`."""
        return self.contamination.low

    @property
    def high(self) -> float:
        """Upper end of the 90 % interval of `share`."""
        return self.contamination.high

    def to_frame(self) -> pd.DataFrame:
        """Return one row per suspect, the most probable first.

        Returns
        -------
        DataFrame
            `id`, `entity`, `start`, `end` (exclusive), `probability`, and the columns of `Result.intervals` except the
            severity.
        """
        rows = []
        for suspect in self.suspects:
            interval, clock = suspect.interval, suspect.clock
            start, end = clock.at([interval.start, interval.stop])
            period = as_period(interval.return_period, clock)
            graded = [suspect.probability, interval.score, period]
            explained = [*interval.why(clock), interval.evidence, interval.variables]
            rows.append([suspect.id, suspect.entity, start, end, *graded, *explained])
        return pd.DataFrame(rows, columns=COLUMNS)

    def review(self) -> pd.DataFrame:
        """Return the lines of a review file, one per suspect, with the decision that the probability proposes.

        Returns
        -------
        DataFrame
            `id`, `entity`, `start`, `end`, `probability`, `kind`, `variables` (those to blame), `reason`,
            `decision` ("keep", "drop" or "fix") and an empty `comment`. As a CSV file it is read by
            `tsadc fit --review` and `tsadc.detectors.review.read_review`.
        """
        table = self.to_frame()
        return table[["id", "entity", "start", "end", "probability", "kind"]].assign(
            variables=pd.Series([names_text(suspect.blamed) for suspect in self.suspects], dtype=object),
            reason=table["reason"],
            decision=pd.Series([suspect.decision for suspect in self.suspects], dtype=object),
            comment="",
        )

    def suspected_rows(self, level: float = LEVEL) -> tuple[Booleans, ...]:
        """Return for each series which rows lie in intervals with at least this probability.

        Parameters
        ----------
        level : float, default 0.5
            Least probability of an interval.

        Returns
        -------
        tuple of array of shape (time,), bool
        """
        rows = tuple(np.zeros(len(series), dtype=bool) for series in self.series)
        for suspect in self.suspects:
            if suspect.probability >= level:
                rows[suspect.number][suspect.interval.start : suspect.interval.stop] = True
        return rows

    def suspected(self, level: float = LEVEL) -> tuple[Booleans, ...]:
        """Return for each series which cells are suspected: the variables to blame, in the rows of the intervals.

        Parameters
        ----------
        level : float, default 0.5
            Least probability of an interval.

        Returns
        -------
        tuple of array of shape (time, variable), bool
        """
        parts = [
            part_of(suspect.number, self.series[suspect.number], suspect.interval)
            for suspect in self.suspects
            if suspect.probability >= level
        ]
        return marked(self.series, parts)


def blamed(interval: Interval) -> tuple[str, ...]:
    """Return the variables that carry at least 20 % of the contributions to an interval, and in any case the first."""
    shares = interval.variables.items()
    return tuple(name for i, (name, share) in enumerate(shares) if share >= BLAMED_SHARE or i == 0)


def part_of(number: int, series: Series, interval: Interval) -> Part:
    """Return the cells to blame for an interval of series `number`."""
    names = blamed(interval)
    columns = tuple(k for k, name in enumerate(series.names) if name in names)
    return Part(number, interval.start, interval.stop, columns)
