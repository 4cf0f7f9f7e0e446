"""The track of an entity: its latest rows, and what is decided and may still be decided about them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tsadc.detectors.result import Evidence
from tsadc.detectors.streaming.gaps import Gaps
from tsadc.detectors.streaming.rows import Rows
from tsadc.detectors.streaming.update import LiveInterval


@dataclass
class Section:
    """Consecutive anomalous observations: the row number that each begins at, its evidence and `raised`."""

    starts: list[int] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    raised: list[float] = field(default_factory=list)
    settled: bool = False
    due: int = 0  # row number at which its next interval is final, if it is settled
    reported: set[str] = field(default_factory=set)  # the final ones


@dataclass
class Track:
    """The state of one entity. `phase` is the time of row number 0; `origin` is a row number at which an observation
    begins; `first` is that of the first row, None as long as an earlier one may still come. `within` has the latest
    provisional scores by the place of their tick within an observation."""

    name: str
    phase: int
    rows: Rows
    gaps: Gaps | None = None
    first: int | None = None
    origin: int = 0
    done: int = 0  # the latest tick
    next: int = 0  # the tick after it
    fed: int = 0  # rows before it were given to `gaps`
    scores: list[float] = field(default_factory=list)  # the latest ones, as far as drift looks back
    raised: float = 0.0
    within: dict[int, list[float]] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)  # in order of time; only the last may not be settled
    provisional: list[LiveInterval] = field(default_factory=list)  # not yet confirmed or withdrawn

    @property
    def section(self) -> Section | None:
        """The section that may still grow."""
        return self.sections[-1] if self.sections and not self.sections[-1].settled else None

    def is_final(self, tick: int, length: int) -> bool:
        """Return whether an observation of `detect` ends at a tick."""
        return (tick - self.origin) % length == 0
