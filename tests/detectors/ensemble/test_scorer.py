"""All views together: what is judged, which history counts as normal, and scores with and without evidence."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsadc.detectors.ensemble import scorer as module
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.scorer import VIEWS, FusedScorer, judged_variables, training_sample
from tsadc.detectors.store import load
from tsadc.errors import ConfigError, TsadcNotice
from tsadc.series import Observations, Series
from tsadc.windows import cut

LENGTH, VARIABLES = 96, 5
CONFIG = FusedScorer.Config(kernels=16)


def plant(count: int, seed: int) -> np.ndarray:
    """Variables 0 and 1 follow one cause, 2 and 3 another, 4 none."""
    rng = np.random.default_rng(seed)
    time = np.arange(LENGTH)[None, :, None]
    phase = rng.uniform(0, 2 * np.pi, size=(count, 1, 3))
    causes = np.sin(2 * np.pi * time / np.array([12, 24, 32]) + phase)
    return causes[:, :, [0, 0, 1, 1, 2]] + 0.2 * rng.normal(size=(count, LENGTH, VARIABLES))


def observed(*series: np.ndarray, length: int = LENGTH) -> Observations:
    """Observations of one series for each array (time, variable), named a, b, ..."""
    names = tuple(f"v{k}" for k in range(series[0].shape[1]))
    every = tuple(Series(values, names, entity=entity) for values, entity in zip(series, "abcdefghij", strict=False))
    return cut(every, length).observations


@pytest.fixture(scope="module")
def detector() -> Ensemble:
    return Ensemble(length=LENGTH, config=Ensemble.Config(kernels=64)).fit(plant(60, 0))


def damage(new: np.ndarray, view: str) -> None:
    """An anomaly of observation 5 that `view` should see, in variable 3."""
    rng = np.random.default_rng(9)
    if view == "departure":
        new[5, 40:43, 3] += 300
    elif view in ("combination", "density"):
        new[5, 40:46, 3] *= -2.5
    elif view == "level":
        new[5, :, 3] += 4
    elif view == "range":
        new[5, 40:52, 3] += np.linspace(0, 6, 12)
    elif view == "energy":
        new[5, 30:60, 3] = new[5, 30, 3]
    elif view == "roughness":
        new[5, 30:60, 3] += 0.8 * rng.normal(size=30)
    elif view in ("shape", "bands"):
        new[5, :, 3] = np.sign(new[5, :, 3]) + 0.2 * rng.normal(size=LENGTH)
    elif view == "quarters":
        new[5, 48:72, 3] = plant(1, 5)[0, :24, 0]
    else:
        new[5, :, 3] = plant(1, 77)[0, :, 3]


@pytest.mark.parametrize("view", VIEWS)
def test_each_view_detects_its_kind_and_the_fused_score_keeps_it(detector, view):
    new = plant(12, 1)
    damage(new, view)
    result = detector.detect(new)
    assert result.observations[f"{view}_score"].argmax() == 5
    assert result.observations["score"].argmax() == 5
    assert result.observations["anomalous"][5]
    inside = result.variables.to_numpy().reshape(12, LENGTH, VARIABLES)[5]
    # Of two variables that no longer fit together, either may be to blame.
    culprits = (2, 3) if view in ("sustained", "correlation", "conditional") else (3,)
    assert np.square(inside).sum(axis=0).argmax() in culprits


def test_a_spike_is_found_at_its_steps(detector):
    new = plant(12, 1)
    damage(new, "departure")
    evidence = detector.scorer_.evidence("series", detector.scaler_("series", new[5]).T)
    assert set(np.argsort(evidence.steps)[-3:]) == {40, 41, 42}
    assert evidence.contributions[:, 41].argmax() == 3


@pytest.fixture(scope="module")
def scorer() -> FusedScorer:
    """Two entities; variable 4 is a command, and some cells are missing."""
    values = [plant(30, 0).reshape(-1, VARIABLES), plant(12, 1).reshape(-1, VARIABLES)]
    for rows in values:
        rows[:, 4] = np.arange(len(rows)) // 40 % 3
        rows[np.random.default_rng(2).random(rows.shape) < 0.02] = np.nan
    with pytest.warns(TsadcNotice, match="Not judged, as it has at most 10 different values in the history: v4"):
        return FusedScorer.fit((observed(*values),), CONFIG, 0)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**16), missing=st.sampled_from([0.0, 0.3, 0.9]), entity=st.sampled_from(["a", "b", "new"]))
def test_scores_are_the_same_with_and_without_evidence(scorer, seed, missing, entity):
    rng = np.random.default_rng(seed)
    z = (plant(1, seed)[0].T * rng.choice([0.1, 1, 20])).astype(np.float32)
    z[rng.random(z.shape) < missing] = np.nan
    first, last = np.sort(rng.integers(0, LENGTH, 2))
    z[rng.integers(0, 2) * 3 :, first:last] = np.nan
    evidence = scorer.evidence(entity, z)
    assert evidence.score == scorer.score(entity, z)
    assert evidence.score == np.nanmax(evidence.steps)
    assert sum(evidence.view_scores.values()) == pytest.approx(evidence.score, abs=1e-4)
    measured = np.isfinite(z)
    np.testing.assert_array_equal(np.isnan(evidence.steps), ~measured.any(axis=0))
    np.testing.assert_array_equal(np.isnan(evidence.contributions), ~measured)
    assert (evidence.contributions[4][measured[4]] == 0).all()  # a command is not judged
    assert np.nanmin(evidence.contributions) >= 0


def test_a_saved_scorer_gives_the_same_scores(scorer, tmp_path):
    again = FusedScorer.restore(scorer.state(), CONFIG, LENGTH)
    assert again.view_names == scorer.view_names == VIEWS
    assert again.usual == scorer.usual
    for i, z in enumerate(plant(6, 3).transpose(0, 2, 1)):
        for entity in ("a", "b", "new"):
            before, after = (made.evidence(entity, z) for made in (scorer, again))
            assert after.score == before.score
            assert after.view_scores == before.view_scores
            assert after.contributions.tobytes() == before.contributions.tobytes(), i
    made = Ensemble(length=LENGTH, config=Ensemble.Config(kernels=16)).fit(plant(20, 4))
    made.save(tmp_path / "model")
    new = plant(5, 5)
    assert load(tmp_path / "model").decision_function(new).tobytes() == made.decision_function(new).tobytes()


def test_scores_against_the_views_one_by_one(scorer):
    z = plant(1, 8)[0].T.astype(np.float32)
    logs = [group.score("a", group.measure(z[:4], "a")) for group in scorer.groups]
    expected = 0.0
    for s, middle, weight in zip(np.concatenate(logs), scorer.fusion.middle, scorer.fusion.weight, strict=True):
        expected += weight * (s - middle) * (1 if s > middle else 0.25)
    assert scorer.score("a", z) == pytest.approx(expected, rel=1e-5)


def test_a_step_without_judged_values_is_no_more_unusual_than_any_other(scorer):
    z = plant(1, 8)[0].T.astype(np.float32)
    z[:4, 20:30] = np.nan
    evidence = scorer.evidence("a", z)
    assert (evidence.steps[20:30] == np.nanmin(evidence.steps)).all()
    blind = z.copy()
    blind[:4] = np.nan
    evidence = scorer.evidence("a", blind)
    assert evidence.score == scorer.score("a", blind) == 0
    assert (evidence.steps == 0).all()
    assert set(evidence.view_scores) == set(VIEWS)


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_a_training_observation_without_judged_values_scores_as_a_new_one_does():
    rows = plant(20, 6).reshape(-1, VARIABLES)
    rows[:, 4] = np.arange(len(rows)) // 40 % 3
    rows[5 * LENGTH : 9 * LENGTH, :4] = np.nan
    history = observed(rows)
    made = FusedScorer.fit((history,), CONFIG, 0)
    (scores,) = made.training_scores
    assert (scores == 0).tolist() == [5 <= i < 9 for i in range(20)]
    assert made.scores(history.take(range(5, 9))).tolist() == [0] * 4


@pytest.mark.parametrize(("states", "judged"), [((10, 11, 300), [False, True, True]), ((2, 10, 1), [True] * 3)])
def test_variables_with_at_most_ten_different_values_are_not_judged(states, judged):
    rng = np.random.default_rng(0)
    rows = np.stack([rng.permutation(np.arange(400) % count) for count in states], axis=1).astype(float)
    rows[5] = np.nan
    assert judged_variables((observed(rows[:200]), observed(rows[200:]))).tolist() == judged


def test_values_of_all_entities_and_parts_count():
    quiet, lively = np.zeros((200, 2)), np.stack([np.zeros(200), np.arange(200.0)], axis=1)
    assert judged_variables((observed(quiet, lively),)).tolist() == [False, True]


def dirty_plant(count: int, share: float) -> np.ndarray:
    history = plant(count, 3)
    bad = round(share * count)
    history[np.linspace(0, count - 1, bad).astype(int)] = 3 * np.random.default_rng(4).normal(
        size=(bad, LENGTH, VARIABLES)
    )
    return history.reshape(-1, VARIABLES)


@pytest.mark.parametrize(
    ("history", "count", "share", "kept"),
    [
        ("clean", 60, 0.15, 60),
        ("dirty", 60, 0.15, 48),
        ("dirty", 60, 0, 48),
        ("dirty", 40, 0, 32),
        ("dirty", 39, 0, 39),  # too short to leave anything out
        ("auto", 60, 0.15, 48),
        ("auto", 60, 0, 60),
        ("auto", 39, 0.2, 39),
    ],
)
def test_how_much_of_the_history_counts_as_normal(history, count, share, kept):
    made = FusedScorer.fit(
        (observed(dirty_plant(count, share)),), FusedScorer.Config(kernels=16, history=history), seed=0
    )
    pools = {len(group.pool) for group in made.groups if group.stored in ("shape", "bands", "correlation")}
    assert pools == {kept}


def test_anomalies_of_a_dirty_history_score_highest():
    made = FusedScorer.fit((observed(dirty_plant(60, 0.15)),), CONFIG, 0)
    (scores,) = made.training_scores
    assert set(np.argsort(scores)[-9:]) == set(np.linspace(0, 59, 9).astype(int))


@pytest.mark.parametrize("counts", [(20,), (12, 8), (2,) * 10])
def test_training_scores_are_as_high_as_those_of_new_data(counts):
    """Of noise with many variables, on average over four draws. Without cross-fitting, new data would score higher by
    .8 of the spread of the scores, by .6 to 2.4 in the views that learn from rows."""
    fused, views = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        train = [rng.normal(size=(16 * count, 10)) for count in counts]
        made = FusedScorer.fit((observed(*train, length=16),), FusedScorer.Config(kernels=16, history="clean"), 0)
        new = observed(rng.normal(size=(16 * 80, 10)), length=16)
        logs = np.stack([made.log_scores("a", new.read(i)) for i in range(80)])
        for before, after, differences in (
            (np.concatenate(made.training_scores), made.fusion(logs), fused),
            (made.training_log_scores, logs, views),
        ):
            spread = np.subtract(*np.quantile(after, [0.75, 0.25], axis=0))
            differences.append((np.median(after, axis=0) - np.median(before, axis=0)) / spread)
    assert abs(np.mean(fused)) < 0.3
    assert np.abs(np.mean(views, axis=0)).max() < 0.5, np.mean(views, axis=0)


def test_observations_outside_the_sample_are_scored_as_new_ones(monkeypatch):
    history = observed(plant(30, 0).reshape(-1, VARIABLES))
    chosen = np.arange(0, 30, 2)
    monkeypatch.setattr(module, "training_sample", lambda parts, config: [chosen])
    made = FusedScorer.fit((history,), CONFIG, 0)
    others = np.setdiff1d(np.arange(30), chosen)
    (scores,) = made.training_scores
    np.testing.assert_array_equal(scores[others], made.scores(history.take(others)))
    assert len(made.training_log_scores) == 15


def test_many_variables_leave_enough_observations_to_learn_from():
    rows = np.zeros((600 * 16, 200), dtype=np.float32)
    many = observed(rows, length=16)
    assert [len(part) for part in training_sample((many,), FusedScorer.Config(kernels=64))] == [600]
    assert [len(part) for part in training_sample((many,), FusedScorer.Config(kernels=2000))] == [2**23 // 24_000]


def test_with_many_variables_a_saved_scorer_gives_the_same_numbers():
    history = observed(np.random.default_rng(0).normal(size=(30 * 16, 110)), length=16)
    made = FusedScorer.fit((history,), FusedScorer.Config(kernels=8), 5)
    (pool,) = (group.pool for group in made.groups if group.stored == "correlation")
    assert pool.shape[1] == 4950  # 45 partners of each of 110, each pair counted once
    z = history.read(2)
    z[4] = z[9]
    again = FusedScorer.restore(made.state(), FusedScorer.Config(kernels=8), 16)
    assert again.evidence("a", z).contributions.tobytes() == made.evidence("a", z).contributions.tobytes()


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
    assert np.median(after) < np.median(scaled.decision_function((new,))) - 1
    (departure,) = (group for group in model.scorer_.groups if group.stored == "departure")
    assert departure.entities["new"] > departure.entities["series"] + 0.4
    few = Series(spiky(4, 22).reshape(-1, VARIABLES), model.variables_, entity="few")
    model._adapt(cut((few,), LENGTH).observations.scaled(model.scaler_))
    assert "few" not in departure.entities


def test_settings_out_of_range():
    with pytest.raises(ConfigError, match="`kernels` must be at least 1"):
        FusedScorer.Config(kernels=0)
    with pytest.raises(ConfigError, match="`neighbours` must be at least 1"):
        FusedScorer.Config(neighbours=0)


def halved(observations):
    """A model that leaves half of every value unexplained, and nothing of the first variable's."""
    for z in observations:
        cells = np.abs(z) / 2
        cells[0] = np.nan
        yield (cells,)


def test_residuals_of_a_model_are_views_of_their_own():
    history = observed(plant(40, 7).reshape(-1, VARIABLES))
    made = FusedScorer.fit((history,), CONFIG, 0, ("half",), halved)
    assert made.view_names == (*VIEWS, "half")
    z = history.read(3)
    z[2, 50] = 40.0
    (cells,) = next(halved([z]))
    evidence = made.evidence("a", z, (cells,), expected=z / 2)
    largest = max(np.mean(np.sort(np.abs(z[1:, t]) / 2)[-3:]) for t in range(LENGTH))
    log = np.log(0.1 + largest) - made.residuals.entities["a"][0]
    fusion = made.fusion
    assert evidence.view_scores["half"] == pytest.approx(fusion.weight[-1] * (log - fusion.middle[-1]), abs=1e-5)
    assert evidence.expected is not None
    assert evidence.steps.argmax() == 50
    again = FusedScorer.restore(made.state(), CONFIG, LENGTH, ("half",))
    same = again.evidence("a", z, (cells,))
    assert same.score == evidence.score
    assert same.contributions.tobytes() == evidence.contributions.tobytes()
    assert made.scores(history, halved)[4] == made.evidence("a", history.read(4), next(halved([history.read(4)]))).score


def test_adapting_uses_the_residuals_of_the_model():
    made = FusedScorer.fit((observed(plant(20, 7).reshape(-1, VARIABLES)),), CONFIG, 0, ("half",), halved)
    made.adapt(observed(plant(2, 1)[0], 5 * plant(9, 8).reshape(-1, VARIABLES)), halved)
    assert made.residuals.entities["b"] > made.residuals.entities["a"] + 1
