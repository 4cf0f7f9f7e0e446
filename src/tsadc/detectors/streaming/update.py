"""What a stream says: verdicts on observations, and intervals that are anomalous."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class LiveVerdict:
    """What a stream says about one observation.

    Attributes
    ----------
    entity : str
    start, end : int
        Its rows, `end` exclusive: nanoseconds since 1970 in UTC, or row numbers if the data has no dates.
    score, threshold : float
        The score, and the threshold, which drift may have raised, or what is usual at this place of an observation.
    anomalous : bool
        Whether the score is above the threshold.
    severity : float
        As in `Result.intervals`.
    variables : dict of str to float
        Shares of the blame, largest first, as in `Result.intervals`; empty if it is not anomalous.
    final : bool
        Whether it is the verdict of `detect`. Otherwise it is about the last `length` rows, which overlap two
        observations of `detect`.
    coverage : float
        Share of the rows that have values.
    """

    entity: str
    start: int
    end: int
    score: float
    threshold: float
    anomalous: bool
    severity: float
    variables: dict[str, float]
    final: bool
    coverage: float


@dataclass(frozen=True)
class LiveInterval:
    """What a stream says about one anomaly.

    It is emitted again whenever it may have changed, under the same `id`, and for the last time when it is `final` or
    `withdrawn`.

    Attributes
    ----------
    id, entity, score, severity, return_period, kind, reason, evidence, variables
        As in `Result.intervals`.
    start, end : int
        Its rows, `end` exclusive: nanoseconds since 1970 in UTC, or row numbers if the data has no dates.
    open : bool
        Whether it may still become longer.
    final : bool
        Whether it is an interval of `detect`, and will not change any more.
    provisional : bool
        Whether it comes from a provisional verdict. Its `id` is not that of an interval of `detect`.
    withdrawn : bool
        Whether it is provisional and the final verdict did not confirm it.
    replaces : tuple of str
        The `id` of the provisional intervals that this one confirms.
    """

    id: str
    entity: str
    start: int
    end: int
    score: float
    severity: float
    return_period: pd.Timedelta | float
    kind: str
    reason: str
    evidence: str
    variables: dict[str, float]
    open: bool
    final: bool
    provisional: bool = False
    withdrawn: bool = False
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True)
class StreamUpdate:
    """What a push has decided, in the order of time.

    Attributes
    ----------
    verdicts : tuple of LiveVerdict
    intervals : tuple of LiveInterval
    """

    verdicts: tuple[LiveVerdict, ...] = ()
    intervals: tuple[LiveInterval, ...] = ()


NOTHING = StreamUpdate()


@dataclass
class Decided:
    """What has been decided since the push began."""

    verdicts: list[LiveVerdict] = field(default_factory=list)
    intervals: list[LiveInterval] = field(default_factory=list)

    def update(self) -> StreamUpdate:
        if not self.verdicts and not self.intervals:
            return NOTHING
        return StreamUpdate(tuple(self.verdicts), tuple(self.intervals))
