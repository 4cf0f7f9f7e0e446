"""What an audit reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tsadc.detectors.audit.folds import Plan
    from tsadc.detectors.base import ScoringProgress
    from tsadc.nn.train import TrainingProgress


@dataclass(frozen=True)
class FoldProgress:
    """Progress of an audit: `done` of `total` models are trained, after `seconds`."""

    done: int
    total: int
    seconds: float

    @property
    def seconds_left(self) -> float:
        """Estimated from the models that are done."""
        return self.seconds * (self.total - self.done) / max(self.done, 1)


AuditCallback = Callable[["TrainingProgress | ScoringProgress | FoldProgress | Plan"], None]
