import ast
import dataclasses
import doctest
import re

import numpy as np
import pytest
import torch

from tsadc.config import update
from tsadc.data.plant import Plant
from tsadc.detectors.store import load
from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.errors import ConfigError, ModelFileError
from tsadc.nn.diffusion import Diffusion
from tsadc.nn.masks import masked_length
from tsadc.nn.train import Training
from tsadc.series import Series

LENGTH = 40


@pytest.fixture(scope="module")
def history() -> tuple[Series, ...]:
    return Plant(Plant.Config(entities=2, variables=4, rows=400, length=LENGTH, missing=0.02, seed=1)).split().train


@pytest.fixture(scope="module")
def new() -> tuple[Series, ...]:
    return (
        Plant(Plant.Config(entities=2, variables=4, rows=400, length=LENGTH, missing=0.02, seed=1)).split().test.series
    )


def tiny(epochs: int = 2, **settings: object) -> TSADC.Config:
    return update(TSADC.Config.tiny(), {"training": {"epochs": epochs}, **settings})


def small_paper(**settings: object) -> TSADC.Config:
    """The paper's method, too small to be good."""
    sizes = {
        "decontaminator": {"channels": 8, "blocks": 1, "state": 4, "diffusion": {"steps": 5}},
        "dependencies": {"features": 8, "state": 4},
        "training": {"epochs": 2, "warmup_epochs": 1},
    }
    return update(update(TSADC.Config.paper(), sizes), settings)


def weights(detector: TSADC) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in detector._state().items()}


@pytest.mark.parametrize(
    "config", [TSADC.Config, Decontaminator.Config, Dependencies.Config, Inference.Config, Diffusion.Config, Training]
)
def test_the_documentation_explains_every_setting(config):
    documented = re.findall(r"^ *(\w+) : ", config.__doc__, re.MULTILINE)
    assert sorted(documented) == sorted(field.name for field in dataclasses.fields(config))


def test_documented_defaults_are_the_defaults():
    for config in (TSADC.Config, Decontaminator.Config, Dependencies.Config, Inference.Config, Training):
        for name, default in re.findall(r"^ *(\w+) : .*, default (.+)$", config.__doc__, re.MULTILINE):
            assert getattr(config(), name) == ast.literal_eval(default), name


def test_the_documentation_explains_every_fitted_attribute(uninterrupted):
    documented = re.findall(r"^(\w+_) : ", TSADC.__doc__, re.MULTILINE)
    assert set(documented) == {name for name in vars(uninterrupted) if name.endswith("_")} | {"labels_"}


def test_the_example_of_the_documentation_runs():
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(TSADC, "TSADC", globs={}):
        runner.run(example)
    assert runner.summarize().failed == 0
    assert runner.tries > 5


class Killed(Exception):
    pass


def kill_after(epoch: int):
    def progress(report) -> None:
        if getattr(report, "epoch_ended", False) and report.epoch == epoch:
            raise Killed

    return progress


@pytest.fixture(scope="module")
def uninterrupted(history) -> TSADC:
    return TSADC(length=LENGTH, config=tiny(4)).fit(history)


def test_a_run_that_was_killed_ends_with_the_same_bits(history, new, uninterrupted, tmp_path):
    checkpoint = tmp_path / "run.safetensors"
    detector = TSADC(length=LENGTH, config=tiny(4))
    with pytest.raises(Killed):
        detector.fit(history, checkpoint=checkpoint, progress=kill_after(2))
    assert not hasattr(detector, "threshold_")
    epochs = []
    resumed = TSADC(length=LENGTH, config=tiny(4)).fit(
        history, checkpoint=checkpoint, resume=True, progress=lambda r: epochs.append(getattr(r, "epoch", None))
    )
    assert min(epoch for epoch in epochs if epoch) == 3
    assert len(resumed.history_.epochs) == 4
    assert weights(resumed) == weights(uninterrupted)
    assert resumed.threshold_ == uninterrupted.threshold_
    assert resumed.decision_function(new).tobytes() == uninterrupted.decision_function(new).tobytes()


def test_only_the_same_run_is_resumed(history, tmp_path):
    checkpoint = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        TSADC(length=LENGTH, config=tiny(4)).fit(history, checkpoint=checkpoint, progress=kill_after(1))
    other = (dataclasses.replace(history[0], values=history[0].values + 1e-9), *history[1:])
    runs = [
        (TSADC(length=LENGTH, config=tiny(4), seed=1), history, "seed was 0 and is now 1"),
        (TSADC(length=LENGTH, config=tiny(5)), history, "training.epochs was 4 and is now 5"),
        (TSADC(length=LENGTH, config=tiny(4), contamination=0.2), history, "contamination was 'auto' and is now 0.2"),
        (TSADC(length=LENGTH, config=tiny(4, squash=False)), history, "squash was True and is now False"),
        (TSADC(length=LENGTH, config=tiny(4)), other, "digest was"),
    ]
    for detector, data, expected in runs:
        with pytest.raises(ConfigError, match=expected):
            detector.fit(data, checkpoint=checkpoint, resume=True)


def test_a_checkpoint_is_a_file_and_resuming_needs_one(history, tmp_path):
    with pytest.raises(ModelFileError, match="The checkpoint must be a file"):
        TSADC(length=LENGTH, config=tiny()).fit(history, checkpoint=tmp_path)
    with pytest.raises(ConfigError, match="A run can only be resumed from a checkpoint"):
        TSADC(length=LENGTH, config=tiny()).fit(history, resume=True)


def test_the_paper_preset_is_the_last_column_of_the_table():
    config = TSADC.Config.paper()
    one, two, diffusion = config.decontaminator, config.dependencies, config.decontaminator.diffusion
    assert (one.channels, one.blocks, one.state, one.kernel, one.dropout) == (256, 8, 64, "dplr", 0.1)
    assert (diffusion.steps, diffusion.beta_start, diffusion.beta_end, diffusion.target) == (50, 1e-4, 0.02, "noise")
    assert (one.masking, one.start, one.loss, one.at) == ("RandBM", "signal", "masked", "uniform")
    assert (two.features, two.layers, two.state, two.kernel, two.dropout) == (128, 4, 64, "dplr", 0.1)
    assert (two.graphs, two.neighbours, two.zeta, two.gin_layers) == (6, 3, 0.6, 2)
    assert (two.weights.smooth, two.weights.sparse, two.weights.connect) == (1.0, 0.05, 0.5)
    assert (two.symmetric, two.own, two.identity) == (False, True, False)
    scoring, training = config.inference, config.training
    assert (config.scoring, scoring.masks, scoring.steps, scoring.weights) == ("own", 0, 0, (0.01, 1.2))
    assert (config.decontaminate, config.selected) == (True, 1.0)
    assert (training.learning_rate, training.batch, training.epochs, training.patience) == (8e-4, 4, 100, 20)
    assert (training.weight_decay, training.warmup_epochs, training.ema) == (5e-3, 5, 0.0)
    assert (config.scaler.method, config.scaler.scope) == ("standard", "pooled")
    assert (config.hidden, config.squash, config.joint) == (None, False, True)


def test_the_paper_preset_does_not_hang_on_the_defaults(monkeypatch):
    """Every setting of the two modules and of scoring that the defaults may change is said in the preset."""
    expected = TSADC.Config.paper()
    changed = {
        "decontaminator": {"masking": "BoM", "start": "masked", "loss": "entire", "at": "last"},
        "dependencies": {"graphs": 9, "neighbours": 1, "gin_layers": 5, "weights": {"smooth": 0.0, "sparse": 9.0}},
        "inference": {"weights": [1.0, 1.0]},
        "training": {"epochs": 1, "ema": 0.9, "clip": 0.1, "ssm_learning_rate": 1e-5},
    }

    def with_settings(cls, **settings):
        return update(update(cls(), changed), settings)

    monkeypatch.setattr(TSADC.Config, "with_settings", classmethod(with_settings))
    assert TSADC.Config.paper() == expected


def test_presets_by_name():
    for name, expected in (("default", TSADC.Config()), ("paper", TSADC.Config.paper()), ("tiny", TSADC.Config.tiny())):
        assert TSADC.Config.preset(name) == expected
    with pytest.raises(ConfigError, match="A preset must be one of default, paper, tiny, but got 'large'"):
        TSADC.Config.preset("large")


@pytest.fixture(scope="module")
def papers(history) -> TSADC:
    return TSADC(length=LENGTH, config=small_paper()).fit(history)


def test_the_papers_method_trains_scores_saves_and_loads(papers, new, tmp_path):
    assert [epoch.number for epoch in papers.history_.epochs] == [1, 2]
    assert all(np.isfinite(epoch.validation) for epoch in papers.history_.epochs)
    papers.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.settings == papers.settings
    result = papers.detect(new)
    assert again.decision_function(new).tobytes() == result.observations["score"].to_numpy().tobytes()
    frame = result.observations
    expected = 0.01 * frame["imputation_score"] + 1.2 * frame["reconstruction_score"]
    np.testing.assert_allclose(frame["score"], expected, rtol=1e-6)
    assert (frame["imputation_score"] > 0).all()
    for _, row in frame.iterrows():
        steps = result.timeline.query("entity == @row.entity and @row.start <= time < @row.end")["score"].dropna()
        assert set(steps) == {row["score"]}


def test_the_papers_scores_are_rmse_over_the_cells(papers, new):
    observations = papers._cut(new).observations.scaled(papers.scaler_)
    inference = papers._make_inference()
    hidden = ~inference.shown[0].numpy()
    assert (hidden.sum(axis=1) == masked_length(0.1, LENGTH)).all()
    for i, evidence in enumerate(papers._score(observations)):
        z = observations.read(i)
        with torch.no_grad():
            imputation, reconstruction = inference(z).residuals
        np.testing.assert_array_equal(np.isfinite(imputation), hidden & np.isfinite(z))
        rmse = [np.sqrt(np.nanmean(np.square(one, dtype=float))) for one in (imputation, reconstruction)]
        assert evidence.score == pytest.approx(0.01 * rmse[0] + 1.2 * rmse[1], rel=1e-6)


BOTH = ["imputation", "reconstruction"]


@pytest.mark.parametrize(
    "settings",
    [
        {"decontaminator": {"start": "masked"}},
        {"decontaminator": {"loss": "entire", "masking": "BoM"}},
        {"decontaminator": {"masking": "RandM"}, "dependencies": {"layers": 0, "symmetric": True}},
        {"scoring": "fused", "selected": 0.8, "inference": {"residuals": BOTH, "masks": 3, "steps": 2}},
        {"scoring": "fused", "decontaminate": False, "inference": {"residuals": BOTH, "masks": 0, "steps": 1}},
    ],
)
def test_every_option_of_the_papers_method_gives_finite_scores(history, new, settings):
    config = small_paper(training={"epochs": 1}, **settings)
    detector = TSADC(length=LENGTH, contamination=0.2, config=config).fit(history)
    # Half an observation: the single mask may lie where nothing was measured.
    half = dataclasses.replace(new[0], values=np.concatenate([new[0].values[:LENGTH], new[0].values[: LENGTH // 2]]))
    for data in (new, half):
        assert np.isfinite(detector.detect(data).observations["score"]).all()


def test_hidden_is_the_contamination_where_the_paper_says_so(history):
    assert TSADC(length=100, contamination=0.3, config=small_paper())._network(4).masked_length == 30
    assert TSADC(length=100, contamination=0.3, config=tiny(hidden=0.05))._network(4).masked_length == 5


def test_settings_that_do_not_go_together():
    with pytest.raises(ConfigError, match="`hidden` must be between 0 and 1, or none"):
        tiny(hidden=1.5)
    with pytest.raises(ConfigError, match=r"`inference.steps` must be at most the 5 of decontaminator.diffusion.steps"):
        small_paper(inference={"steps": 6})
    assert small_paper(inference={"steps": 5}).inference.steps == 5
    with pytest.raises(ConfigError, match="hides all 8 steps"):
        TSADC(length=8, config=tiny(hidden=0.99)).fit(np.random.default_rng(0).normal(size=(80, 3)))


def test_settings_by_their_names():
    config = TSADC.Config.with_settings(squash=False, decontaminator={"diffusion": {"steps": 7}})
    assert (config.squash, config.decontaminator.diffusion.steps) == (False, 7)
    with pytest.raises(ConfigError, match=r"There is no setting `decontaminator\.chanels`; did you mean"):
        TSADC.Config.with_settings(decontaminator={"chanels": 7})


def test_the_weights_hang_on_the_seed_alone(history):
    torch.manual_seed(1)
    one = TSADC(length=LENGTH, config=tiny())._build(4).state_dict()
    torch.manual_seed(2)
    two = TSADC(length=LENGTH, config=tiny())._build(4).state_dict()
    other = TSADC(length=LENGTH, config=tiny(), seed=1)._build(4).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_training_lowers_the_loss_and_is_told(history, uninterrupted):
    losses = [epoch.validation for epoch in uninterrupted.history_.epochs]
    assert losses[-1] < losses[0]
    assert uninterrupted.provenance_["training"]["best_epoch"] == uninterrupted.history_.best.number
    assert not uninterrupted.network_.training


def test_observations_score_as_their_worst_step(uninterrupted, new):
    result = uninterrupted.detect(new)
    for _, row in result.observations.iterrows():
        steps = result.timeline.query("entity == @row.entity and @row.start <= time < @row.end")
        assert steps["score"].max() == row["score"]
        assert steps["anomalous"].any() == row["anomalous"]


def test_a_changed_cell_changes_nothing_that_came_from_other_observations(uninterrupted, new):
    values = new[0].values.copy()
    values[5, 1] += 1e3
    changed = (dataclasses.replace(new[0], values=values), *new[1:])
    before, after = uninterrupted.detect(new), uninterrupted.detect(changed)
    touched = before.observations.index[0]
    assert after.observations["score"][touched] > before.observations["score"][touched] + 1
    np.testing.assert_array_equal(after.observations["score"].drop(touched), before.observations["score"].drop(touched))


def test_module_outputs_are_in_the_units_of_the_data(new, history) -> None:
    """With one mask, cells outside of it come back as they were, at the offsets and gains of each entity."""
    detector = TSADC(config=tiny(1, length=LENGTH, inference={"masks": 0})).fit(history)
    found = list(detector.module_outputs(new))
    assert len(found) == 20
    x = np.concatenate([one.values.reshape(-1, LENGTH, 4).transpose(0, 2, 1) for one in new])
    for one, values in zip(found, x, strict=True):
        shown = ~one.hidden & np.isfinite(values)
        np.testing.assert_allclose(one.decontaminated[shown], values[shown], rtol=1e-4, atol=1e-3)
        assert (one.hidden.sum(axis=1) == masked_length(0.2, LENGTH)).all()
        assert np.isfinite(one.decontaminated).all()
    # The residual that scoring has is the same thing in z units.
    z = detector.scaler_("unit-1", x[0].T)
    expected = np.abs(z - detector.scaler_("unit-1", found[0].reconstruction.T)).T
    with torch.no_grad():
        residuals = detector._inference(RESIDUALS)(z.T).residuals
    np.testing.assert_allclose(residuals[1], expected, rtol=1e-3, atol=1e-4)
