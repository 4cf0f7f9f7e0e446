"""A network that predicts a variable's median, so that every number can be told by hand."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tsadc.config import update
from tsadc.detectors import residual
from tsadc.detectors.base import ScoringProgress
from tsadc.detectors.ensemble import features
from tsadc.detectors.residual import (
    NetworkOutput,
    ResidualDetector,
    published_training,
    reconstruction_inference,
    sample_observations,
    step_means,
)
from tsadc.errors import ConfigError
from tsadc.nn.train import Training
from tsadc.nn.trainable import ObservedBatch
from tsadc.series import Floats, Observations

LENGTH, VARIABLES = 32, 4


class Level(nn.Module):
    """One number per variable."""

    def __init__(self, variables: int) -> None:
        super().__init__()
        self.level = nn.Parameter(torch.randn(variables, 1))

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> ObservedBatch:
        return ObservedBatch(x, observed)

    def losses(self, batch: ObservedBatch) -> dict[str, Tensor]:
        apart = torch.where(batch.observed, batch.x - self.level, 0.0)
        return {"reconstruction": apart.square().mean((1, 2))}


class Levels(ResidualDetector["Levels.Config"]):
    name: ClassVar[str] = "levels"

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        presets: ClassVar[tuple[str, ...]] = ("published",)

        training: Training = field(default_factory=lambda: Training(epochs=3, batch=8, learning_rate=0.1))

        @classmethod
        def published(cls) -> "Levels.Config":
            return cls.with_settings(training={"epochs": 7})

    def _network(self, variables: int) -> Level:
        return Level(variables)

    def _make_inference(self):
        def infer(z: Floats) -> NetworkOutput:
            assert not torch.is_grad_enabled()
            level = self.network_.level.numpy()
            return NetworkOutput((np.abs(z - level),), np.broadcast_to(level, z.shape))

        return infer

    def _after_training(self, train_part: Observations, validation: Observations) -> None:
        self.settled_ = np.array([len(train_part), len(validation)])

    def _extra_state(self):
        return {"settled": self.settled_}

    def _restore_extra(self, state) -> None:
        self.settled_ = state["settled"]


def history(count: int = 40, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, LENGTH, VARIABLES))


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_residuals_become_scores_by_either_scoring(scoring):
    detector = Levels(length=LENGTH, config=update(Levels.Config(), {"scoring": scoring})).fit(history())
    new = history(6, 1)
    new[4, 10:14, 2] += 40
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 4
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
    if scoring == "own":
        z = detector.scaler_("series", new[1]).T
        expected = np.mean(np.square(z - detector.network_.level.detach().numpy()))
        assert result.observations["score"][1] == pytest.approx(expected, rel=1e-5)
        assert list(result.observations.filter(like="_score")) == ["residual_score"]
    else:
        assert "residual_score" in result.observations
        assert "shape_score" in result.observations
    assert detector.settled_.tolist() == [32, 8]


def test_the_methods_own_steps_are_pooled_by_their_mean():
    steps = np.array([1.0, np.nan, 4.0])
    assert NetworkOutput((np.zeros((2, 3)),), steps=steps).own_scores.tolist() == [1.0, 4.0]
    cells = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan]])
    assert NetworkOutput((cells,)).own_scores.tolist() == [2.5, 9.0]
    np.testing.assert_array_equal(step_means(cells), [1.5, np.nan, 3.0])


class Kinds(Levels):
    def _residual_names(self) -> tuple[str, ...]:
        return ("first", "second")


def test_each_kind_has_its_own_score_and_the_larger_part_is_to_blame():
    detector = Kinds(length=LENGTH, config=update(Levels.Config(), {"scoring": "own"}))
    z = np.array([[1.0, np.nan, 3.0], [2.0, np.nan, np.nan]])
    parts = (np.array([2.0, np.nan, 4.0]), np.array([0.0, np.nan, 10.0]))
    cells = (np.full((2, 3), 0.5), np.array([[0.25, 0.0, np.nan], [1.0, 0.0, 0.0]]))
    found = NetworkOutput((np.abs(z), np.abs(z)), None, parts[0] + parts[1], parts, cells)
    evidence = detector._own_evidence(z, found)
    assert evidence.view_scores == {"first": 3.0, "second": 5.0}
    assert evidence.score == 8.0
    assert evidence.causes.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(evidence.contributions, [[0.75, np.nan, 0.5], [1.5, np.nan, np.nan]])
    other = detector._own_evidence(
        z, NetworkOutput((np.abs(z), np.abs(z)), None, parts[0] + parts[1], parts[::-1], cells)
    )
    assert other.causes.tolist() == [0, 0, 0]
    # A method that does not tell its kinds apart.
    plain = detector._own_evidence(z, NetworkOutput((np.abs(z), np.abs(z))))
    assert plain.view_scores == {"first": 5.75, "second": 5.75}
    np.testing.assert_array_equal(plain.contributions, 2 * np.abs(z))


def test_a_wild_value_has_a_finite_score_by_the_papers_pooling():
    detector = Levels(length=LENGTH, config=update(Levels.Config(), {"scoring": "own"})).fit(history())
    new = history(2, 1)
    new[1, 3, 2] = 1e200
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 1


def test_the_network_learns_from_the_ordinary_part_alone():
    data = history(40)
    data[:6] += np.random.default_rng(3).normal(size=(6, LENGTH, VARIABLES)) * 8 + 30
    detector = Levels(length=LENGTH, config=update(Levels.Config(), {"selected": 0.8}))
    seen: list[int] = []

    def _network(variables: int) -> Level:
        network = Level(variables)
        inner = network.draw

        def draw(x, observed, generator):
            seen.append(int((x.abs().amax((1, 2)) > 12).sum()))
            return inner(x, observed, generator)

        network.draw = draw
        return network

    detector._network = _network
    detector.fit(data)
    assert seen
    assert sum(seen) == 0
    assert detector.settled_.sum() == 40


def test_progress_counts_each_observation_once(monkeypatch):
    monkeypatch.setattr(features, "MAX_OBSERVATIONS", 10)
    seen: list[ScoringProgress] = []
    detector = Levels(length=LENGTH).fit(history(), progress=lambda now: seen.append(now))
    # The ensemble is fitted to 10 of 32 training observations and to 8 held-out ones; then the others are scored.
    assert [(event.done, event.total) for event in seen if isinstance(event, ScoringProgress)] == [
        (i, 40) for i in range(1, 41)
    ]
    assert len(detector.decision_scores_) == 40


def test_presets_and_settings():
    assert Levels.Config.preset("published").training.epochs == 7
    assert Levels.Config.preset("default") == Levels.Config()
    with pytest.raises(ConfigError, match="A preset must be one of default, published, but got 'large'"):
        Levels.Config.preset("large")
    with pytest.raises(ConfigError, match="`selected` must be above 0 and at most 1"):
        update(Levels.Config(), {"selected": 0})
    with pytest.raises(ConfigError, match="This detector has only the preset `default`, but got 'published'"):
        ResidualDetector.Config.preset("published")


def test_a_plain_training_is_what_is_known_and_nothing_else():
    made = Training(**published_training(epochs=3, batch=2, learning_rate=0.5, patience=4))
    assert made == Training(3, 2, None, 0.5, None, 0.0, 0, 4, 0.0, 0.0)


def test_what_a_network_reconstructs_is_compared_where_it_was_measured():
    z = np.array([[1.0, np.nan, -3.0], [0.0, 200.0, 5.0]], dtype=np.float32)
    seen: list[Tensor] = []

    def half(x: Tensor) -> Tensor:
        seen.append(x)
        return x / 2

    found = reconstruction_inference(half)(z)
    np.testing.assert_allclose(seen[0].numpy(), [np.arcsinh(np.nan_to_num(z))], rtol=1e-6)
    expected = np.sinh(np.arcsinh(np.nan_to_num(z)) / 2)
    np.testing.assert_allclose(found.expected, expected, rtol=1e-5)
    np.testing.assert_allclose(found.residuals[0], np.abs(z - expected), rtol=1e-5)


def test_what_is_usual_is_learnt_from_a_bounded_number_of_cells(monkeypatch):
    every, _, _ = Levels(length=LENGTH).prepare(history(40))
    parts = (every.take(range(30)), every.take(range(30, 40)))
    chosen = sample_observations(parts, 4)
    assert [i for _, i in chosen] == [0, 10, 19, 29, 0, 3, 6, 9]
    assert [part is parts[1] for part, _ in chosen] == [False] * 4 + [True] * 4
    monkeypatch.setattr(residual, "MAX_SAMPLE_CELLS", 5 * LENGTH * VARIABLES)
    assert [i for _, i in sample_observations(parts, 4)] == [0, 29, 0, 9]
    monkeypatch.setattr(residual, "MAX_SAMPLE_CELLS", 1)
    assert [i for _, i in sample_observations(parts, 4)] == [0, 0]


def test_what_matters_after_training_only_leaves_a_checkpoint_usable(tmp_path) -> None:
    file = tmp_path / "run"
    first = Levels(length=LENGTH).fit(history(), checkpoint=file)
    seen: list[object] = []
    changed = {"scoring": "own", "ensemble": {"neighbours": 3}}
    second = Levels(config=update(Levels.Config(length=LENGTH), changed)).fit(
        history(), checkpoint=file, resume=True, progress=lambda now: seen.append(getattr(now, "epoch", None))
    )
    assert [epoch for epoch in seen if epoch is not None] == []  # nothing is trained again
    assert torch.equal(first.network_.level, second.network_.level)
    assert list(second.view_names) == ["residual"]
    with pytest.raises(ConfigError, match=r"selected|observations"):
        Levels(config=update(Levels.Config(length=LENGTH), {"selected": 0.9})).fit(
            history(), checkpoint=file, resume=True
        )


def test_the_network_sees_each_training_observation_once_after_training(monkeypatch):
    seen = []
    inference = Levels._make_inference

    def counted(self):
        examine = inference(self)
        return lambda z: seen.append(z.tobytes()) or examine(z)

    monkeypatch.setattr(Levels, "_make_inference", counted)
    detector = Levels(length=LENGTH).fit(history())
    assert len(seen) == len(set(seen)) == len(detector.decision_scores_)
