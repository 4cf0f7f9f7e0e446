import copy

import numpy as np
import pytest

from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.ensemble.scorer import FusedScorer, training_sample
from tsadc.detectors.ensemble.views import view_names_with
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice
from tsadc.series import Series
from tsadc.windows import cut

LENGTH, VARIABLES = 96, 5


def plant(count: int, seed: int) -> np.ndarray:
    """Variables 0 and 1 follow one cause, 2 and 3 another, 4 none."""
    rng = np.random.default_rng(seed)
    time = np.arange(LENGTH)[None, :, None]
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1, 3))
    causes = np.sin(2 * np.pi * time / np.array([12, 24, 32]) + phase)
    return causes[:, :, [0, 0, 1, 1, 2]] + 0.2 * rng.normal(size=(count, LENGTH, VARIABLES))


def damage(new: np.ndarray, view: str) -> None:
    """An anomaly of observation 5 that `view` should see, in variable 3."""
    rng = np.random.default_rng(9)
    if view == "deviation":
        new[5, 40:43, 3] += 300
    elif view == "combination":
        new[5, 40:46, 3] *= -2.5
    elif view == "energy":
        new[5, 30:60, 3] = new[5, 30, 3]
    elif view == "roughness":
        new[5, 30:60, 3] += 0.8 * rng.normal(size=30)
    elif view == "shape":
        new[5, :, 3] = np.sign(new[5, :, 3]) + 0.2 * rng.normal(size=LENGTH)
    else:
        new[5, :, 3] = plant(1, 77)[0, :, 3]


@pytest.fixture(scope="module")
def detector() -> Ensemble:
    return Ensemble(length=LENGTH, config=Ensemble.Config(kernels=64)).fit(plant(60, 0))


@pytest.mark.parametrize("view", view_names_with(()))
def test_each_view_detects_its_kind_and_the_fused_score_keeps_it(detector, view):
    new = plant(12, 1)
    damage(new, view)
    result = detector.detect(new)
    assert result.observations[f"{view}_score"].argmax() == 5
    assert result.observations["score"].argmax() == 5
    assert result.observations["anomalous"][5]
    inside = result.variables.to_numpy().reshape(12, LENGTH, VARIABLES)[5]
    assert np.square(inside).sum(axis=0).argmax() == 3


def test_the_cause_and_the_steps_of_a_spike(detector):
    new = plant(12, 1)
    damage(new, "deviation")
    result = detector.detect(new)
    assert result.worst(1)["evidence"].iloc[0] in ("deviation", "combination")
    steps = result.timeline["score"].to_numpy().reshape(12, LENGTH)[5]
    assert set(np.argsort(steps)[-3:]) == {40, 41, 42}
    assert result.variables.to_numpy().reshape(12, LENGTH, VARIABLES)[5, 41].argmax() == 3


def test_scores_against_a_slow_definition(detector):
    """The log score of each view, less its middle, times its weight."""
    new = plant(3, 2)
    views, extractor, fusion = detector.scorer_.views, detector.scorer_.extractor, detector.scorer_.fusion
    linear, table = extractor.linear, detector.detect(new).observations
    for i, values in enumerate(new):
        z = detector.scaler_("series", values).T.astype(np.float32)
        parts = []
        for cells, peaks in zip((z, linear.pca_residual(z)), views.peaks, strict=True):
            largest = max(np.mean(np.sort(np.abs(cells[:, t]))[-3:]) for t in range(LENGTH))
            parts.append(np.log(0.1 + largest) - peaks.entities["series"])
        parts.append(np.log(0.02 + views.correlations.distance("series", extractor.correlations(z))[0]))
        parts.append(np.log(0.02 + views.shapes.distance("series", extractor.convolutions(z))[0]))
        for u in views.windows("series", extractor.windows.features(z, linear.ridge_residual(z))):
            parts.append(np.log(0.1 + np.sort(u, axis=0)[-3:].mean(axis=0).max()))
        expected = fusion.weight * (np.array(parts) - fusion.middle)
        np.testing.assert_allclose(
            table.loc[i, [f"{view}_score" for view in view_names_with(())]].astype(float), expected, atol=1e-4
        )
        assert table["score"][i] == pytest.approx(expected.sum(), abs=1e-4)


def test_adapting_learns_what_is_usual_for_an_entity(detector):
    """A machine that is spikier than the one trained on, and no worse."""

    def spiky(count: int, seed: int) -> np.ndarray:
        values = plant(count, seed)
        values[:, 10::20, :] *= 6
        return values

    model = copy.deepcopy(detector)
    new = Series(spiky(10, 21).reshape(-1, VARIABLES), model.variables_, entity="new")
    scaled = copy.deepcopy(detector)
    scaled.scaler_.adapt((new,))
    after = model.adapt((new,)).decision_function((new,))
    assert after.max() < scaled.decision_function((new,)).min()
    assert model.scorer_.views.peaks[0].usual("new") > 1.5 * model.scorer_.views.peaks[0].usual("series")
    few = Series(spiky(7, 22).reshape(-1, VARIABLES), model.variables_, entity="few")
    model._adapt(cut((few,), LENGTH).observations.scaled(model.scaler_))
    assert "few" not in model.scorer_.views.peaks[0].entities


def test_training_is_trimmed_once():
    history = plant(60, 3)
    history[:8] = np.random.default_rng(4).normal(size=(8, LENGTH, VARIABLES))
    detector = Ensemble(length=LENGTH, config=Ensemble.Config(kernels=32)).fit(history)
    # What is set aside for the threshold takes part: 80 % of all 60 count as normal.
    assert len(detector.scorer_.views.shapes.pool) == len(detector.scorer_.views.correlations.pool) == 48
    assert detector.decision_scores_[:8].min() > detector.decision_scores_[8:].max()
    # The medians are those of what was kept, so typical observations score about zero.
    assert abs(np.median(detector.decision_scores_[8:])) < 0.3


def test_gaps_a_constant_variable_and_a_saved_model(tmp_path):
    history = plant(40, 5)
    history[:, :, 4] = 3.0
    history[2, 10:40] = np.nan
    with pytest.warns(TsadcNotice, match="Constant throughout the history"):
        detector = Ensemble(length=LENGTH, config=Ensemble.Config(kernels=32)).fit(history)
    new = plant(8, 6)
    new[:, :, 4] = 3.0
    new[1, :, 0] = np.nan
    new[2, :40] = np.nan
    new[5, 30:60, 4] = 4.0
    scores = detector.decision_function(new)
    assert np.isfinite(scores).all()
    assert scores.argmax() == 5
    detector.save(tmp_path / "model")
    again = load(tmp_path / "model").detect(new)
    assert again.observations["score"].to_numpy().tobytes() == scores.tobytes()
    assert again.variables.to_numpy().tobytes() == detector.detect(new).variables.to_numpy().tobytes()


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`kernels` must be at least 1"):
        FusedScorer.Config(kernels=0)
    with pytest.raises(ConfigError, match="`neighbours` must be at least 1"):
        FusedScorer.Config(neighbours=0)
    with pytest.raises(ConfigError, match="`keep` must be above 0 and at most 1"):
        FusedScorer.Config(keep=1.5)


def halved(observations):
    """A model that leaves half of every value unexplained, and nothing of the first variable's."""
    for z in observations:
        cells = np.abs(z) / 2
        cells[0] = np.nan
        yield (cells,)


def test_residuals_of_a_model_are_views_of_their_own():
    history = cut((Series(plant(40, 7).reshape(-1, VARIABLES), tuple("abcde")),), LENGTH).observations
    made = FusedScorer.fit((history,), FusedScorer.Config(kernels=16), 0, ("half",), halved)
    assert view_names_with(made.residuals)[:3] == ("deviation", "combination", "half")
    z = history.read(3)
    z[2, 50] = 40.0
    (cells,) = next(halved([z]))
    evidence = made.evidence("series", z, (cells,), expected=z / 2)
    largest = max(np.mean(np.sort(np.abs(z[1:, t]) / 2)[-3:]) for t in range(LENGTH))
    log = np.log(0.1 + largest) - made.views.peaks[2].entities["series"]
    fusion = made.fusion
    beyond = max(log - fusion.top[2] - np.log(3), 0) * max(1 - fusion.weight[2], 0)
    assert evidence.view_scores["half"] == pytest.approx(fusion.weight[2] * (log - fusion.middle[2]) + beyond, abs=1e-5)
    assert evidence.expected is not None
    assert evidence.steps.argmax() == 50
    again = FusedScorer.restore(made.state(), FusedScorer.Config(kernels=16), VARIABLES, LENGTH, ("half",))
    same = again.evidence("series", z, (cells,))
    assert same.score == evidence.score
    assert same.contributions.tobytes() == evidence.contributions.tobytes()


def test_adapting_uses_the_residuals_of_the_model():
    history = cut((Series(plant(20, 7).reshape(-1, VARIABLES), tuple("abcde")),), LENGTH).observations
    made = FusedScorer.fit((history,), FusedScorer.Config(kernels=16), 0, ("half",), halved)
    new = cut((Series(5 * plant(9, 8).reshape(-1, VARIABLES), tuple("abcde"), entity="new"),), LENGTH).observations
    made.adapt(new, halved)
    assert made.views.peaks[2].usual("new") > 3 * made.views.peaks[2].usual("series")


def test_shapes_get_more_weight_if_training_observations_are_few():
    history = cut((Series(plant(40, 7).reshape(-1, VARIABLES), tuple("abcde")),), LENGTH).observations
    made = FusedScorer.fit((history,), FusedScorer.Config(kernels=16), 0)
    features = [made.extractor(history.read(i), ()).features for i in range(40)]
    plain, trust = Fusion.fit(np.stack([made.views.score("series", each) for each in features])), np.ones(7)
    trust[3] = 1 + 100 / 40
    expected = plain.weight * trust / (plain.weight * trust).mean()
    np.testing.assert_allclose(made.fusion.weight, expected)


def test_many_variables_leave_enough_observations_to_learn_from():
    rows = np.zeros((600 * 16, 200), dtype=np.float32)
    many = cut((Series(rows, tuple(map(str, range(200)))),), 16).observations
    # Three kinds of 200 variables in 3 windows are fewer features than 5,000 pairs.
    assert [len(part) for part in training_sample((many,), FusedScorer.Config(kernels=64))] == [600]
    assert [len(part) for part in training_sample((many,), FusedScorer.Config(kernels=2000))] == [2**23 // 24_000]


def test_with_many_variables_a_saved_scorer_gives_the_same_numbers():
    values = np.random.default_rng(0).normal(size=(30 * 16, 110))
    history = cut((Series(values, tuple(map(str, range(110)))),), 16).observations
    made = FusedScorer.fit((history,), FusedScorer.Config(kernels=8), 5)
    assert made.views.correlations.pool.shape[1] == 4950  # 45 partners of each of 110, each pair counted once
    z = history.read(2)
    z[4] = z[9]
    evidence = made.evidence("series", z)
    again = FusedScorer.restore(made.state(), FusedScorer.Config(kernels=8), 110, 16).evidence("series", z)
    assert again.score == evidence.score
    assert again.contributions.tobytes() == evidence.contributions.tobytes()
