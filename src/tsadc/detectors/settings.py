"""Settings that every detector has, and how presets are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from tsadc.config import build_sections, refuse_unknown_settings, require, update
from tsadc.detectors.docstrings import complete
from tsadc.detectors.events import Events
from tsadc.detectors.threshold import CUSTOMARY, Threshold
from tsadc.errors import ConfigError
from tsadc.scale import Scaler


@dataclass(frozen=True)
class Common:
    """The settings that every detector has.

    Parameters
    ----------
    length : int, default 600
        Rows of an observation, the unit that is scored; at least 8.
    contamination : float or "auto", default "auto"
        Share of anomalous training data, between 0 and 0.5, both excluded; "auto" estimates it from the scores. If it
        is a number, the threshold method "auto" is "quantile".
    seed : int, default 0
        Seed of all randomness, 0 or more.
    validation : float, default 0.2
        Share of the training observations held out for early stopping and for the threshold method "quantile", above 0
        and at most 0.5.
    coverage : float, default 0.5
        Share of its rows that must have values for an observation to be used, above 0 and at most 1. Lower it for
        records padded to one length.
    scaler : Scaler.Config
        How values are normalised: `method` "robust" (median and interquartile range) or "standard" (mean and standard
        deviation); `scope` "entity" (each entity by its own statistics) or "pooled".
    threshold : Threshold.Config
        How the threshold is chosen: `method` "alarms" (the false alarms per entity that you accept, `alarms`, by
        default "1/week"), "balanced" (for the review of a recorded period), "tail" (the score that `share` of the
        normal observations exceeds), "quantile" (the 1 - `contamination` quantile of the validation scores), or "auto"
        ("quantile" if `contamination` is a number, otherwise "alarms").
    event : Events.Config
        How rows above the threshold become events: those that are closer than `merge` rows become one, and shorter ones
        than `minimum` rows are dropped.

    Examples
    --------
    A mapping for a section keeps the defaults of the settings it does not name:

    >>> from tsadc.detectors.settings import Common
    >>> Common(length=60, threshold={"method": "tail", "share": 0.02}).threshold.alarms
    '1/week'
    """

    presets: ClassVar[tuple[str, ...]] = ()  # names of class methods that return settings
    renamed_settings: ClassVar[Mapping[str, str]] = {}  # old name: what became of it, for error messages

    length: int = 600
    contamination: float | Literal["auto"] = "auto"
    seed: int = 0
    validation: float = 0.2
    coverage: float = 0.5
    scaler: Scaler.Config = field(default_factory=Scaler.Config)
    threshold: Threshold.Config = field(default_factory=Threshold.Config)
    event: Events.Config = field(default_factory=Events.Config)

    def __post_init__(self) -> None:
        build_sections(self)
        require(self.length >= 8, "length", "at least 8 rows", self.length)
        allowed = self.contamination == "auto" or 0 < self.contamination < 0.5
        require(allowed, "contamination", "between 0 and 0.5, both excluded, or auto", self.contamination)
        require(0 <= self.seed < 2**63, "seed", "a whole number of at least 0", self.seed)
        require(0 < self.validation <= 0.5, "validation", "above 0 and at most 0.5", self.validation)
        require(0 < self.coverage <= 1, "coverage", "above 0 and at most 1", self.coverage)
        within = self.event.merge == "auto" or self.event.merge < self.length
        require(within, "event.merge", f"less than the {self.length} rows of an observation", self.event.merge)

    @property
    def assumed_contamination(self) -> float:
        """The stated contamination, or the customary share for code that needs a number before training."""
        return CUSTOMARY if self.contamination == "auto" else self.contamination

    @classmethod
    def preset(cls, name: str) -> Self:
        """Return the preset called `name`; "default" is every class's own defaults."""
        known = ("default", *cls.presets)
        if name not in known:
            if not cls.presets:
                raise ConfigError(f"This detector has only the preset `default`, but got {name!r}.")
            raise ConfigError(f"A preset must be one of {', '.join(known)}, but got {name!r}.")
        made: Self = cls() if name == "default" else getattr(cls, name)()
        return made

    @classmethod
    def with_settings(cls, **settings: Any) -> Self:
        """Return the defaults with the given settings replaced, including those of nested sections."""
        return update(cls(), settings)


complete(Common)
refuse_unknown_settings(Common)
