"""TSAD-C: the three modules as one detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray

from tsadc.config import require, to_mapping, update
from tsadc.detectors.base import Common, Detector, Fitting, Scored
from tsadc.detectors.result import Evidence
from tsadc.detectors.tsadc import scoring
from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.network import Network
from tsadc.detectors.tsadc.scoring import Residuals
from tsadc.errors import ConfigError
from tsadc.nn.masks import masked_length
from tsadc.nn.objective import derive
from tsadc.nn.threads import spread
from tsadc.nn.train import Training, train
from tsadc.series import Observations

CALIBRATION = 128  # training observations that set the scale of the views; medians and quartiles need no more


@dataclass(frozen=True)
class Config(Common):
    """All settings of TSAD-C. `hidden` is the share of steps a training mask hides; None hides `contamination` of them,
    as the paper does."""

    hidden: float | None = 0.1
    squash: bool = True
    joint: bool = False
    decontaminator: Decontaminator.Config = field(default_factory=Decontaminator.Config)
    dependencies: Dependencies.Config = field(default_factory=Dependencies.Config)
    scoring: scoring.Config = field(default_factory=scoring.Config)
    training: Training = field(
        default_factory=lambda: Training(
            epochs=30, batch=16, learning_rate=3e-3, warmup_epochs=1, patience=8, ema=0.99, weight_decay=1e-2
        )
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden is None or 0 < self.hidden < 1, "hidden", "between 0 and 1, or none", self.hidden)
        chain, most = self.scoring.steps, self.decontaminator.diffusion.steps
        require(chain <= most, "scoring.steps", f"at most the {most} of decontaminator.diffusion.steps", chain)

    @classmethod
    def preset(cls, name: str) -> Self:
        """`default`, `paper` or `tiny`."""
        made: dict[str, Callable[[], Self]] = {"default": cls, "paper": cls.paper, "tiny": cls.tiny}
        if name not in made:
            raise ConfigError(f"A preset is one of {', '.join(made)}, but got {name!r}.")
        return made[name]()

    @classmethod
    def paper(cls) -> Self:
        """The paper's method at the published widths; `docs/fidelity.md` says what it leaves open."""
        return cls.with_settings(
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
            scoring={"head": "paper", "masks": 0, "steps": 0, "weights": (0.01, 1.2)},
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

    @classmethod
    def with_settings(cls, **settings: Any) -> Self:
        """The defaults with some settings replaced, nested ones included."""
        changed: Self = update(cls(), settings)
        return changed


class TSADC(Detector):
    """Anomalies in multivariate series whose unlabelled training data already contains some.

    >>> detector = TSADC(length=600, contamination=0.1, seed=0).fit(history)   # doctest: +SKIP
    >>> detector.detect(new).intervals                                        # doctest: +SKIP
    """

    name: ClassVar[str] = "tsadc"
    views: ClassVar[tuple[str, ...]] = scoring.VIEWS
    Config: ClassVar[type[Config]] = Config

    def _fit(self, train_part: Observations, validation: Observations, fitting: Fitting) -> None:
        settings = self.settings
        network = self._network(len(train_part.names))
        # The loop itself watches over the settings of training and the seed.
        essential = {name: value for name, value in to_mapping(settings).items() if name not in ("training", "seed")}
        history = train(
            network,
            train_part,
            validation,
            settings.training,
            seed=settings.seed,
            progress=fitting.progress,
            checkpoint=fitting.checkpoint,
            resume=fitting.resume,
            fingerprint={"data": dict(fitting.fingerprint), "settings": essential},
        )
        self.network_, self.history_ = network, history
        self.provenance_["training"] = history.as_dict()
        self.head_ = self._head(train_part, fitting.progress)

    def _head(self, history: Observations, progress: Callable[[Any], None] | None) -> scoring.Head:
        """The default puts views on one scale, learnt from training observations; the paper's adds them as they are."""
        config = self.settings.scoring
        if config.head == "paper":
            return scoring.Head(config, np.zeros(len(self.views)), np.ones(len(self.views)))
        some = np.linspace(0, len(history) - 1, min(len(history), CALIBRATION)).astype(int)
        found = spread(self._examiner().residuals, (history.read(int(i)) for i in some))
        return scoring.Head.fit(config, _counted(found, len(some), progress))

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        read = (observations.read(i) for i in range(len(observations)))
        for found in spread(self._examiner().residuals, read):
            yield self.head_.evidence(found)

    def _state(self) -> dict[str, NDArray[Any]]:
        weights = {f"network.{name}": tensor.numpy() for name, tensor in self.network_.state_dict().items()}
        return {**weights, **self.head_.state()}

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.head_ = scoring.Head.restore(self.settings.scoring, state)
        self.network_ = self._network(len(self.variables_))
        weights = {name: torch.from_numpy(array) for name, array in state.items() if name.startswith("network.")}
        self.network_.load_state_dict({name.removeprefix("network."): tensor for name, tensor in weights.items()})
        self.network_.eval()

    def _network(self, variables: int) -> Network:
        settings = self.settings
        hidden = settings.contamination if settings.hidden is None else settings.hidden
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive(settings.seed, 0))
            return Network(
                settings.decontaminator,
                settings.dependencies,
                variables=variables,
                masked_length=masked_length(hidden, settings.length),
                squash=settings.squash,
                joint=settings.joint,
            )

    def _examiner(self) -> scoring.Examiner:
        settings = self.settings
        return scoring.Examiner(
            self.network_,
            settings.scoring,
            variables=len(self.variables_),
            length=settings.length,
            seed=settings.seed,
        )


def _counted(found: Iterator[Residuals], total: int, progress: Callable[[Any], None] | None) -> Iterator[Residuals]:
    """What is found, one by one, so that no two are held; `progress` hears of each."""
    for done, one in enumerate(found, start=1):
        yield one
        if progress is not None:
            progress(Scored(done, total))
