"""TSAD-C: the three modules as one detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualConfig, ResidualDetector
from tsadc.detectors.result import Evidence
from tsadc.detectors.tsadc import scoring
from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.network import Network
from tsadc.nn.masks import masked_length
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training
from tsadc.series import Floats


@dataclass(frozen=True)
class Config(ResidualConfig):
    """All settings of TSAD-C. `hidden` is the share of steps a training mask hides; None hides `contamination` of them,
    as the paper does. `decontaminate`: module 2 learns from what module 1 makes of an observation, or from the
    observation itself. `squash`: both see asinh(z), so that an extreme value is large but not huge. `joint`: module 1
    learns from the loss of module 2, too, as in the paper."""

    presets: ClassVar[tuple[str, ...]] = ("paper", "tiny")

    hidden: float | None = 0.2
    decontaminate: bool = True
    squash: bool = True
    joint: bool = False
    decontaminator: Decontaminator.Config = field(default_factory=Decontaminator.Config)
    dependencies: Dependencies.Config = field(default_factory=Dependencies.Config)
    inference: scoring.Config = field(default_factory=scoring.Config)
    training: Training = field(
        default_factory=lambda: Training(
            epochs=12, batch=16, learning_rate=3e-3, warmup_epochs=1, patience=8, ema=0.99, weight_decay=1e-2
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden is None or 0 < self.hidden < 1, "hidden", "between 0 and 1, or none", self.hidden)
        chain, most = self.inference.steps, self.decontaminator.diffusion.steps
        require(chain <= most, "inference.steps", f"at most the {most} of decontaminator.diffusion.steps", chain)

    @classmethod
    def paper(cls) -> Self:
        """The paper's method at the published widths; `docs/fidelity.md` says what it leaves open."""
        return cls.with_settings(
            contamination=0.1,
            hidden=None,
            squash=False,
            joint=True,
            scaler={"method": "standard", "scope": "pooled"},
            decontaminator={
                "channels": 256,
                "blocks": 8,
                "state": 64,
                "kernel": "dplr",
                "dropout": 0.1,
                "masking": "RandBM",
                "start": "signal",
                "loss": "masked",
                "at": "uniform",
                "diffusion": {"steps": 50, "beta_start": 1e-4, "beta_end": 0.02, "target": "noise"},
            },
            dependencies={
                "features": 128,
                "layers": 4,
                "state": 64,
                "kernel": "dplr",
                "dropout": 0.1,
                "graphs": 6,
                "neighbours": 3,
                "zeta": 0.6,
                "gin_layers": 2,
                "symmetric": False,
                "own": True,
                "identity": False,
                "weights": {"smooth": 1.0, "sparse": 0.05, "connect": 0.5},
            },
            scoring="own",
            selected=1.0,
            inference={"masks": 0, "steps": 0, "weights": (0.01, 1.2)},
            training=asdict(Training(micro_batch=1)),
        )

    @classmethod
    def tiny(cls) -> Self:
        """The default's method on a network that trains in seconds: for trying things out, not for results."""
        return cls.with_settings(
            decontaminator={"channels": 16, "blocks": 1, "state": 8},
            dependencies={"features": 16, "layers": 1, "state": 8, "graphs": 2},
            training={"epochs": 5},
        )


class TSADC(ResidualDetector[Config]):
    """Anomalies in multivariate series whose unlabelled training data already contains some.

    >>> detector = TSADC(length=600, seed=0).fit(history)   # doctest: +SKIP
    >>> detector.detect(new).intervals                     # doctest: +SKIP
    """

    name: ClassVar[str] = "tsadc"
    Config: ClassVar[type[Config]] = Config
    inference_settings: ClassVar[tuple[str, ...]] = ("inference",)

    def _residual_names(self) -> tuple[str, ...]:
        return scoring.VIEWS if self.settings.scoring == "own" else self.settings.inference.residuals

    def _network(self, variables: int) -> Network:
        settings = self.settings
        hidden = settings.assumed_contamination if settings.hidden is None else settings.hidden
        return Network(
            settings.decontaminator,
            settings.dependencies,
            variables=variables,
            masked_length=masked_length(hidden, settings.length),
            squash=settings.squash,
            joint=settings.joint,
            decontaminate=settings.decontaminate,
        )

    def approximate(self, X: Any) -> Iterator[scoring.Approximation]:
        """What the modules make of each observation, in the units of `X`: the cells that the masks of `scoring` hide as
        the others tell them, and the reconstruction. Nothing of it depends on `inference.residuals`."""
        observations = self._cut(X).observations
        scaled, undo = observations.scaled(self.scaler_), self.scaler_.undo
        for i, found in enumerate(
            parallel_map(self._examine(scoring.VIEWS).approximate, map(scaled.read, range(len(scaled))))
        ):
            entity = observations.entity(i)
            told, reconstruction = (undo(entity, one.T).T for one in (found.decontaminated, found.reconstruction))
            yield scoring.Approximation(found.hidden, told, reconstruction)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return self._examine(self._residual_names())

    def _examine(self, names: tuple[str, ...]) -> scoring.Examiner:
        settings = self.settings
        return scoring.Examiner(
            self.network_,
            settings.inference,
            names,
            variables=len(self.variables_),
            length=settings.length,
            seed=settings.seed,
        )

    def _own_evidence(self, z: Floats, found: NetworkOutput) -> Evidence:
        return scoring.own_evidence(self.settings.inference.weights, z, found)
