"""The base class of detectors with a network: training, scoring of its residuals, and saving.

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
from tsadc.detectors.base import Detector, FitOptions, PartScores, ProgressCallback, ScoringProgress
from tsadc.detectors.ensemble.features import Residuals
from tsadc.detectors.ensemble.scorer import VIEWS, FusedScorer, Model
from tsadc.detectors.ensemble.training import lowest_share
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.nn.inputs import prepare_input, unsquash
from tsadc.nn.randomness import derive_seed
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training, train
from tsadc.series import MAX_ABS_VALUE, Floats, Observations
from tsadc.subsample import evenly_spaced

WEIGHTS = "network."
MAX_SAMPLE_CELLS = 2**22  # in a sample of observations
AFTER_TRAINING = ("threshold", "event", "scoring")  # settings that do not affect the weights
CHECKED_BY_TRAIN = ("training", "seed")  # settings that the training loop compares itself
ResidualT = TypeVar("ResidualT", bound="ResidualDetector.Config", covariant=True, default="ResidualDetector.Config")


@dataclass(frozen=True)
class NetworkOutput:
    """What a network says about one observation.

    Attributes
    ----------
    residuals : tuple of arrays of shape (variable, time)
        Distances, 0 or more, from what the network expects; NaN where there is nothing to compare. In z units or in any
        other unit, as the ensemble takes their logarithms.
    expected : array of shape (variable, time) or None
        Expected values in z units, if the network has any.
    steps : array of shape (time,) or None
        Only for `scoring="own"`: the method's score of each step, NaN where it has none. None: the mean square of the
        first residual.
    parts : tuple of arrays of shape (time,)
        Only for `scoring="own"`: what each kind of residual adds to `steps`. Empty if there is one kind.
    cells : tuple of arrays of shape (variable, time)
        Only for `scoring="own"`: contributions of the cells, 0 or more. Empty: the residuals.
    """

    residuals: tuple[Floats, ...]
    expected: Floats | None = None
    steps: Floats | None = None
    parts: tuple[Floats, ...] = ()
    cells: tuple[Floats, ...] = ()

    @property
    def own_scores(self) -> Floats:
        """The method's own scores of the steps that have one."""
        if self.steps is not None:
            return self.steps[np.isfinite(self.steps)]
        means = step_means(np.square(self.residuals[0], dtype=np.float64))
        return means[np.isfinite(means)]


class ResidualDetector(Detector[ResidualT], ABC):
    """Score an observation by the residuals of a trained network.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network.
    history_ : tsadc.nn.train.History
        Losses of each training epoch; a loaded detector has them in `provenance_["training"]` instead.
    scorer_ : FusedScorer
        The fitted views and their weights, with `scoring="fused"` only.
    """

    @dataclass(frozen=True)
    class Config(Common):
        """Settings of every detector with a network.

        Parameters
        ----------
        scoring : {"fused", "own"}, default "fused"
            "fused": the ensemble scores the values and the residuals of the network together. "own": the pooling of
            the method's paper.
        ensemble : FusedScorer.Config
            The ensemble, for `scoring="fused"` and for `selected`: `kernels`, random convolutions per dilation;
            `neighbours`, nearest training observations that a distance is averaged over; `history`, whether the
            history may hold anomalies (auto, dirty or clean); `mode`, causal, or audit for a record that is complete
            (no effect with `scoring="own"`).
        selected : float, default 1.0
            Share of the training observations that the network learns from, above 0 and at most 1: those that the
            ensemble, without a network, scores lowest.
        training : Training
            The training loop: its length, learning rate, early stopping and averaging.
        """

        renamed_settings: ClassVar[Mapping[str, str]] = {
            "head": "is now called `scoring` (fused or own)",
            "views": "is now called `ensemble`",
        }

        scoring: Literal["fused", "own"] = "fused"
        ensemble: FusedScorer.Config = field(default_factory=FusedScorer.Config)
        selected: float = 1.0
        training: Training = field(default_factory=Training)

        def __post_init__(self) -> None:
            super().__post_init__()
            require(0 < self.selected <= 1, "selected", "above 0 and at most 1", self.selected)

    # For authors of detectors.
    min_variables: ClassVar[int] = 2
    stops_early: ClassVar[bool] = True  # False if losses of different epochs cannot be compared
    inference_settings: ClassVar[tuple[str, ...]] = ()  # settings that only `_make_inference` reads
    network_: Any

    @classmethod
    def weight_settings(cls, settings: Config) -> dict[str, Any]:
        """Return the settings that the weights depend on, for checkpoints and benchmarks."""
        later = {*AFTER_TRAINING, *cls.inference_settings}
        if settings.selected == 1:  # otherwise the ensemble chooses what the network learns from
            later.add("ensemble")
        return {name: value for name, value in to_mapping(settings).items() if name not in later}

    @abstractmethod
    def _network(self, variables: int) -> Any:
        """Return the untrained network, a `tsadc.nn.train.Trainable`; torch's generator is already seeded."""

    @abstractmethod
    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        """Return a function from one normalised observation (variable, time), NaN where not measured, to its output.

        Several threads call the function at once, without gradients. Its result may depend neither on other
        observations nor on their order."""

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        """Learn what `_make_inference` needs besides the network; most methods need nothing."""

    def _extra_state(self) -> dict[str, NDArray[Any]]:
        """Return what `_after_training` has learnt, as named arrays."""
        return {}

    def _restore_extra(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Restore what `_extra_state` returned."""

    def _residual_names(self) -> tuple[str, ...]:
        """Return a name for each kind of residual."""
        return ("residual",)

    @property
    def view_names(self) -> tuple[str, ...]:
        if self.settings.scoring == "own":
            return self._residual_names()
        return self.scorer_.view_names if hasattr(self, "scorer_") else (*VIEWS, *self._residual_names())

    def _fit(self, train_part: Observations, validation: Observations, options: FitOptions) -> PartScores | None:
        settings = self.settings
        network = self._build(len(train_part.names))
        checked = self.weight_settings(settings).items()
        parts = (train_part, validation)
        selected, held = self._select(parts)
        self.history_ = train(
            network,
            selected,
            held if self.stops_early else None,
            settings.training,
            seed=settings.seed,
            progress=options.progress,
            checkpoint=options.checkpoint,
            resume=options.resume,
            fingerprint={
                "data": dict(options.fingerprint),
                "settings": {name: value for name, value in checked if name not in CHECKED_BY_TRAIN},
            },
        )
        self.network_ = network
        self.provenance_["training"] = self.history_.as_dict()
        self._after_training(train_part, validation)
        if settings.scoring == "fused":
            model: Model = self._residuals
            if options.progress is not None:
                model = _with_progress(model, options.progress, sum(map(len, parts)))
            self.scorer_ = FusedScorer.fit(parts, settings.ensemble, settings.seed, self._residual_names(), model)
            return self.scorer_.training_scores
        return None

    def _select(self, parts: tuple[Observations, ...]) -> tuple[Observations, ...]:
        """Return the observations of each part that the network learns from."""
        if self.settings.selected == 1:
            return parts
        scores = FusedScorer.fit(parts, self.settings.ensemble, self.settings.seed).training_scores
        assert scores is not None
        kept = lowest_share(np.concatenate(scores), self.settings.selected)
        chosen = np.split(kept, np.cumsum([len(part) for part in parts[:-1]]))
        return tuple(part.take(np.flatnonzero(flags)) for part, flags in zip(parts, chosen, strict=True))

    @property
    def _view_weights(self) -> Floats | None:
        return self.scorer_.fusion.weight if self.settings.scoring == "fused" else None

    def _training_views(self) -> PartScores | None:
        return self.scorer_.training_views if self.settings.scoring == "fused" else None

    def _adapt(self, history: Observations) -> None:
        if self.settings.scoring == "fused":
            self.scorer_.adapt(history, self._residuals)

    def _residuals(self, observations: Iterable[Floats]) -> Iterator[Residuals]:
        return (output.residuals for output in parallel_map(torch.no_grad()(self._make_inference()), observations))

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        infer = torch.no_grad()(self._make_inference())  # a decorator, as each thread has its own gradient mode

        def score(i: int) -> Evidence:
            z = observations.read(i)
            output = infer(z)
            if self.settings.scoring == "own":
                return self._own_evidence(z, output)
            return self.scorer_.evidence(observations.entity(i), z, output.residuals, output.expected)

        yield from parallel_map(score, range(len(observations)))

    def _predict(self, entity: str, z: Floats) -> Floats | None:
        return self.scorer_.predict(entity, z) if self.settings.scoring == "fused" else None

    def _usual(self, entity: str) -> float | None:
        return self.scorer_.usual.get(entity) if self.settings.scoring == "fused" else None

    @property
    def _audits(self) -> bool:
        return self.settings.scoring == "fused" and self.settings.ensemble.mode == "audit"

    def _own_evidence(self, z: Floats, output: NetworkOutput) -> Evidence:
        """Pool by the mean of the method's own step scores; the kind of residual that adds most is the cause."""
        names, score = self._residual_names(), _mean(output.own_scores)
        parts = [_mean(part[np.isfinite(part)]) for part in output.parts] or [score] * len(names)
        views, cells = dict(zip(names, parts, strict=True)), output.cells or output.residuals
        return pooled_evidence(z, views, score, cells, output.expected, int(np.argmax(parts)))

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
            self.scorer_ = FusedScorer.restore(state, settings.ensemble, settings.length, self._residual_names())


def pooled_evidence(
    z: Floats, view_scores: dict[str, float], score: float, cells: Residuals, expected: Floats | None, cause: int = 0
) -> Evidence:
    """Return the evidence of an observation whose steps all have its score; contributions are the sum of `cells`.

    `cause` is the position in `view_scores` of the view that contributes most."""
    measured = np.isfinite(z)
    score = float(np.float32(score))
    total = np.sum([np.nan_to_num(contributions) for contributions in cells], axis=0)
    return Evidence(
        score,
        view_scores,
        np.where(measured.any(axis=0), np.float32(score), np.nan).astype(np.float32),
        np.where(measured, total, np.nan).astype(np.float32),
        np.full(z.shape[1], cause, dtype=np.float32),
        expected,
    )


def reconstruction_inference(reconstruct: Callable[[Tensor], Tensor]) -> Callable[[Floats], NetworkOutput]:
    """Return the inference function of a network that reconstructs its input (batch, variable, time)."""

    def infer(z: Floats) -> NetworkOutput:
        values, _, x = prepare_input(z)
        expected = unsquash(reconstruct(x[None])[0])
        # `values` is NaN where nothing was measured, and so is the residual.
        return NetworkOutput(((values - expected).abs().numpy(),), expected.numpy())

    return infer


def step_means(cells: Floats) -> Floats:
    """Return the mean of the finite cells (variable, time) of each step (time,); NaN where there is none."""
    finite = np.isfinite(cells)
    count = finite.sum(axis=0)
    total = np.where(finite, cells, 0.0).sum(axis=0, dtype=np.float64)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def published_training(**published: Any) -> dict[str, Any]:
    """Return training settings as a paper publishes them: everything that it does not mention is switched off."""
    off = {"weight_decay": 0.0, "warmup_epochs": 0, "patience": 0, "clip": 0.0, "ema": 0.0}
    return asdict(Training(**{**off, **published}))


def sample_observations(parts: tuple[Observations, ...], most: int) -> list[tuple[Observations, int]]:
    """Return evenly spaced observations (part, index), at least one and at most `most` of each part.

    All together have at most `MAX_SAMPLE_CELLS` cells, unless one observation of each part has more."""
    cells = len(parts[0].names) * parts[0].length
    most = max(1, min(most, MAX_SAMPLE_CELLS // (cells * len(parts))))
    return [(part, int(i)) for part in parts for i in evenly_spaced(len(part), most)]


def _mean(scores: Floats) -> float:
    return float(min(scores.mean(dtype=np.float64), MAX_ABS_VALUE)) if len(scores) else 0.0


def _with_progress(model: Model, progress: ProgressCallback, total: int) -> Model:
    """Return a model that reports each observation to `progress`."""
    done = 0

    def counted(observations: Iterable[Floats]) -> Iterator[Residuals]:
        nonlocal done
        for residuals in model(observations):
            done += 1
            progress(ScoringProgress(done, total))
            yield residuals

    return counted
