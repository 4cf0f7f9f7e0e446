"""What the detectors have in common that train a network: the training loop, the way from its residuals to a score, and
how it is saved.

An author writes what the network is and how it judges an observation (`_network`, `_make_inference`). The score comes
from the ensemble (`scoring="fused"`) or from the method's own pooling (`"own"`), so that a benchmark can separate the
merit of the network from that of the ensemble.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import TypeVar

from tsadc.config import require, to_mapping
from tsadc.detectors.base import Detector, FitOptions, ScoringProgress
from tsadc.detectors.ensemble.features import Residuals
from tsadc.detectors.ensemble.scorer import FusedScorer, Model, training_sample
from tsadc.detectors.ensemble.views import lowest_share, view_names_with
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.nn.inputs import prepare_input, unsquash
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training, train
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

WEIGHTS = "network."
LARGEST = 1e30  # of a score: the square of a wild value would not be finite in single precision
MOST_CELLS = 2**22  # that are looked at together to learn what is usual
LATER = ("threshold", "scoring")  # settings without which the weights would be the same
ResidualT = TypeVar("ResidualT", bound="ResidualDetector.Config", covariant=True, default="ResidualDetector.Config")
WATCHED = ("training", "seed")  # by the training loop itself


@dataclass(frozen=True)
class NetworkOutput:
    """What a network makes of one observation. `residuals`, each (variable, time), >= 0: how far it is from what the
    network would have it, NaN where there is nothing to compare; in z units, or in others of the method, since the head
    takes logarithms of them. `expected` (variable, time), in z units, if the network has an expectation.

    By the method's own pooling: `steps` (time,), the score of each step, NaN where it has none; None: the mean square
    of the first residual. `parts`, each (time,): what each residual's kind adds to `steps`; () where there is but one.
    `cells`, each (variable, time), >= 0: what cells contribute; (): the residuals."""

    residuals: tuple[Floats, ...]
    expected: Floats | None = None
    steps: Floats | None = None
    parts: tuple[Floats, ...] = ()
    cells: tuple[Floats, ...] = ()

    @property
    def own_scores(self) -> Floats:
        """The method's own score of each step that has one."""
        if self.steps is not None:
            return self.steps[np.isfinite(self.steps)]
        every = step_means(np.square(self.residuals[0], dtype=np.float64))
        return every[np.isfinite(every)]


class ResidualDetector(Detector[ResidualT], ABC):
    """Judges an observation by what a trained network does not explain of it."""

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of every detector with a network.

        Parameters
        ----------
        scoring
            "fused": the ensemble scores the values and the residuals of the network together. "own": the pooling of
            the method's paper.
        ensemble
            Settings of the ensemble.
        selected
            Share of the training observations that the network learns from: those that the ensemble, without a
            network, scores lowest.
        training
            Settings of the training loop.
        """

        scoring: Literal["fused", "own"] = "fused"
        ensemble: FusedScorer.Config = field(default_factory=FusedScorer.Config)
        selected: float = 1.0
        training: Training = field(default_factory=Training)

        def __post_init__(self) -> None:
            super().__post_init__()
            require(0 < self.selected <= 1, "selected", "above 0 and at most 1", self.selected)

    stops_early: ClassVar[bool] = True  # False where losses of different epochs cannot be compared
    inference_settings: ClassVar[tuple[str, ...]] = ()  # settings of its own that matter only then
    network_: Any

    @classmethod
    def weight_settings(cls, settings: Config) -> dict[str, Any]:
        """The settings that the weights depend on; all others are about what is made of them."""
        # The views choose what a network learns from, where it does not learn from all.
        later = {*LATER, *cls.inference_settings, *(("ensemble",) if settings.selected == 1 else ())}
        return {name: value for name, value in to_mapping(settings).items() if name not in later}

    @abstractmethod
    def _network(self, variables: int) -> Any:
        """The untrained `tsadc.nn.train.Trainable`; torch's generator is seeded for its weights."""

    @abstractmethod
    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        """Looks at one normalised observation (variable, time), NaN where nothing was measured. Several threads call it
        at once, without gradients; neither the other observations nor their order may matter."""

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        """Learn, after training, what `_make_inference` needs besides the network. Most methods need nothing."""

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        """What `_after_training` has learnt, as named arrays."""
        return {}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of `_extra_state`."""

    def _residual_names(self) -> tuple[str, ...]:
        """Of the residuals."""
        return ("residual",)

    @property
    def view_names(self) -> tuple[str, ...]:
        return view_names_with(self._residual_names()) if self.settings.scoring == "fused" else self._residual_names()

    def _fit(self, train_part: Observations, validation: Observations, options: FitOptions) -> None:
        settings = self.settings
        network = self._build(len(train_part.names))
        essential = {name: value for name, value in self.weight_settings(settings).items() if name not in WATCHED}
        parts = (train_part, validation)
        ordinary, held = self._ordinary(parts)
        self.history_ = train(
            network,
            ordinary,
            held if self.stops_early else None,
            settings.training,
            seed=settings.seed,
            progress=options.progress,
            checkpoint=options.checkpoint,
            resume=options.resume,
            fingerprint={"data": dict(options.fingerprint), "settings": essential},
        )
        self.network_ = network
        self.provenance_["training"] = self.history_.as_dict()
        self._after_training(train_part, validation)
        if settings.scoring == "fused":
            told = _Counted(options.progress, sum(len(part) for part in training_sample(parts, settings.ensemble)))
            self.scorer_ = FusedScorer.fit(
                parts, settings.ensemble, settings.seed, self._residual_names(), told.over(self._residuals)
            )

    def _ordinary(self, parts: tuple[Observations, ...]) -> tuple[Observations, ...]:
        """Of each part the observations that the network learns from."""
        if self.settings.selected == 1:
            return parts
        known = FusedScorer.fit(parts, self.settings.ensemble, self.settings.seed)
        scores = [known.scores(part) for part in parts]
        kept = np.split(
            lowest_share(np.concatenate(scores), self.settings.selected), np.cumsum([len(one) for one in scores[:-1]])
        )
        return tuple(part.take(np.flatnonzero(chosen)) for part, chosen in zip(parts, kept, strict=True))

    def _adapt(self, history: Observations) -> None:
        if self.settings.scoring == "fused":
            self.scorer_.adapt(history, self._residuals)

    def _residuals(self, observations: Iterable[Floats]) -> Iterator[Residuals]:
        return (found.residuals for found in parallel_map(_quietly(self._make_inference()), observations))

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        infer = _quietly(self._make_inference())

        def judge(i: int) -> Evidence:
            z = observations.read(i)
            found = infer(z)
            if self.settings.scoring == "own":
                return self._own_evidence(z, found)
            return self.scorer_.evidence(observations.entity(i), z, found.residuals, found.expected)

        yield from parallel_map(judge, range(len(observations)))

    def _own_evidence(self, z: Floats, found: NetworkOutput) -> Evidence:
        """The mean of the method's own scores of steps, which every step then has; the kind of residual that adds most
        to it is to blame."""
        names, score = self._residual_names(), _mean(found.own_scores)
        parts = [_mean(one[np.isfinite(one)]) for one in found.parts] or [score] * len(names)
        views, cells = dict(zip(names, parts, strict=True)), found.cells or found.residuals
        return pooled_evidence(z, views, score, cells, found.expected, int(np.argmax(parts)))

    def _build(self, variables: int) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(derive_seed(self.settings.seed, 0))
            return self._network(variables)

    def _state(self) -> dict[str, NDArray[Any]]:
        weights = {f"{WEIGHTS}{name}": tensor.numpy() for name, tensor in self.network_.state_dict().items()}
        return weights | self._extra_state() | (self.scorer_.state() if self.settings.scoring == "fused" else {})

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        settings, variables = self.settings, len(self.variables_)
        self.network_ = self._build(variables)
        weights = {name: torch.from_numpy(array) for name, array in state.items() if name.startswith(WEIGHTS)}
        self.network_.load_state_dict({name.removeprefix(WEIGHTS): tensor for name, tensor in weights.items()})
        self.network_.eval()
        self._restore_extra(state)
        if settings.scoring == "fused":
            self.scorer_ = FusedScorer.restore(
                state, settings.ensemble, variables, settings.length, self._residual_names()
            )


ResidualConfig = ResidualDetector.Config


def pooled_evidence(
    z: Floats, views: dict[str, float], score: float, cells: Residuals, expected: Floats | None, cause: int = 0
) -> Evidence:
    """The evidence of an observation whose steps all have its score, for which the view number `cause` is to blame; a
    cell contributes what `cells` add up to."""
    measured = np.isfinite(z)
    score = float(np.float32(score))
    total = np.sum([np.nan_to_num(one) for one in cells], axis=0)
    return Evidence(
        score,
        views,
        np.where(measured.any(axis=0), np.float32(score), np.nan).astype(np.float32),
        np.where(measured, total, np.nan).astype(np.float32),
        np.full(z.shape[1], cause, dtype=np.float32),
        expected,
    )


def reconstruction_inference(look: Callable[[Tensor], Tensor]) -> Callable[[Floats], NetworkOutput]:
    """The examiner of a network that makes of what it sees (batch, variable, time) something like it."""

    def infer(z: Floats) -> NetworkOutput:
        values, _, x = prepare_input(z)
        expected = unsquash(look(x[None])[0])
        # NaN wherever the observation is.
        return NetworkOutput(((values - expected).abs().numpy(),), expected.numpy())

    return infer


def step_means(cells: Floats) -> Floats:
    """Of cells (variable, time), NaN where there is nothing, the mean of each step (time,); NaN where it has none."""
    known = np.isfinite(cells)
    count = known.sum(axis=0)
    total = np.where(known, cells, 0.0).sum(axis=0, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def published_training(**known: Any) -> dict[str, Any]:
    """Settings of a training of which nothing but `known` is published: what could be added to it is switched off."""
    plain = {"weight_decay": 0.0, "warmup_epochs": 0, "patience": 0, "clip": 0.0, "ema": 0.0}
    return asdict(Training(**{**plain, **known}))


def sample_observations(parts: tuple[Observations, ...], most: int) -> list[tuple[Observations, int]]:
    """Places of observations that tell what is usual: at most `most` of each part, evenly spread, and of all together
    at most `MOST_CELLS` cells, if not fewer than one of each part."""
    cells = len(parts[0].names) * parts[0].length
    most = max(1, min(most, MOST_CELLS // (cells * len(parts))))
    return [(part, int(i)) for part in parts for i in evenly_spaced(len(part), most)]


def _mean(scores: Floats) -> float:
    return float(min(scores.mean(dtype=np.float64), LARGEST)) if len(scores) else 0.0


def _quietly(infer: Callable[[Floats], NetworkOutput]) -> Callable[[Floats], NetworkOutput]:
    """Gradient mode is each thread's own."""

    def quiet(z: Floats) -> NetworkOutput:
        with torch.no_grad():
            return infer(z)

    return quiet


class _Counted:
    """Tells `progress` of every observation that a model has looked at."""

    def __init__(self, progress: Callable[[Any], None] | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def over(self, model: Model) -> Model:
        def counted(observations: Iterable[Floats]) -> Iterator[Residuals]:
            for found in model(observations):
                self.done += 1
                if self.progress is not None:
                    self.progress(ScoringProgress(self.done, self.total))
                yield found  # after the last nobody comes back

        return counted
