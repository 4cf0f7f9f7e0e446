"""The settings that every detector has, and the presets of those that have some."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from tsadc.config import build_sections, require, update
from tsadc.detectors.threshold import CUSTOMARY, Threshold
from tsadc.errors import ConfigError
from tsadc.scale import Scaler


@dataclass(frozen=True)
class Common:
    """The settings that every detector has. `contamination`: the share of anomalous training data, "auto": estimated.
    `validation`: the share of observations set aside. `coverage`: the share of its rows an observation needs to be
    used; lower it for records that are padded to one length."""

    presets: ClassVar[tuple[str, ...]] = ()  # class methods that make settings, beside the defaults

    length: int = 600
    contamination: float | Literal["auto"] = "auto"
    seed: int = 0
    validation: float = 0.2
    coverage: float = 0.5
    scaler: Scaler.Config = field(default_factory=Scaler.Config)
    threshold: Threshold.Config = field(default_factory=Threshold.Config)

    def __post_init__(self) -> None:
        build_sections(self)
        require(self.length >= 8, "length", "at least 8 time steps", self.length)
        allowed = self.contamination == "auto" or 0 < self.contamination < 0.5
        require(allowed, "contamination", "between 0 and 0.5, both excluded, or auto", self.contamination)
        require(0 <= self.seed < 2**63, "seed", "a whole number from 0", self.seed)
        require(0 < self.validation <= 0.5, "validation", "above 0 and at most 0.5", self.validation)
        require(0 < self.coverage <= 1, "coverage", "above 0 and at most 1", self.coverage)

    @property
    def assumed_contamination(self) -> float:
        """For what needs a number before there are scores to estimate one from."""
        return CUSTOMARY if self.contamination == "auto" else self.contamination

    @classmethod
    def preset(cls, name: str) -> Self:
        """The settings called `name`."""
        known = ("default", *cls.presets)
        if name not in known:
            expected = f"one of {', '.join(known)}" if cls.presets else "default, the only one here"
            raise ConfigError(f"A preset is {expected}, but got {name!r}.")
        made: Self = cls() if name == "default" else getattr(cls, name)()
        return made

    @classmethod
    def with_settings(cls, **settings: Any) -> Self:
        """The defaults with some settings replaced, nested ones included."""
        return update(cls(), settings)
