"""Properties that every detector with a network has."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from networks import TRAINED, cells, coupled, tiny
from tsadc.config import update
from tsadc.detectors import find
from tsadc.detectors.residual import ResidualDetector
from tsadc.errors import ConfigError

every = pytest.mark.parametrize("name", TRAINED)
RECONSTRUCTING = ["lstm-ae", "s4-ae", "gae", "gru-gnn", "graphs4mer"]
IN_Z = [*RECONSTRUCTING, "interfusion", "dvgcrn", "imdiffusion", "eeg-cgs"]  # whose last residual is |z - expected|

# Characteristic settings of each published preset.
PUBLISHED: dict[str, dict[str, Any]] = {
    "tsadc": {},
    "usad": {"window": 12, "latent": 40, "pace": 1},
    "lstm-ae": {"window": 208, "hidden": 45, "forcing": True},
    "s4-ae": {"state": 64, "kernel": "dplr"},
    "dcdetector": {"window": 100, "patches": (5,), "features": 256, "opposed": True},
    "gae": {"widths": (2,)},
    "gdn": {"top": 15, "window": 5},
    "eeg-cgs": {"features": 256, "neighbours": 3, "subgraph": 4, "rounds": 80},
    "interfusion": {"window": 100, "flows": 20, "samples": 100, "refine": 10},
    "dvgcrn": {"latents": (15, 10, 5), "units": (20, 15, 10), "embedding": 256},
    "gru-gnn": {"features": 128, "own": True, "identity": False},
    "graphs4mer": {"features": 128, "window": 100},
    "imdiffusion": {"channels": 64, "blocks": 4, "heads": 8, "stride": 3},
}

# Its training: epochs, batch, learning rate, decay, warm-up epochs, patience, gradient clipping. No weight averaging.
GRAPHS4MER = (100, 4, 8e-4, 5e-3, 5, 20, 0)
TRAINING: dict[str, tuple[float, ...]] = {
    "tsadc": (100, 4, 8e-4, 5e-3, 5, 20, 1),
    "usad": (70, 13, 1e-3, 0, 0, 0, 0),
    "lstm-ae": (100, 8, 1e-3, 0, 0, 10, 0),
    "s4-ae": (100, 4, 1e-3, 5e-3, 5, 20, 0),
    "dcdetector": (2, 43, 1e-4, 0, 0, 0, 0),
    "gae": (100, 16, 3e-3, 0, 0, 0, 0),
    "gdn": (50, 1, 1e-3, 0, 0, 10, 0),
    "eeg-cgs": (55, 15, 1e-3, 0, 0, 0, 0),
    "interfusion": (40, 17, 1e-3, 1e-4, 0, 0, 10),
    "dvgcrn": (60, 17, 2e-4, 0, 0, 0, 0),
    "gru-gnn": GRAPHS4MER,
    "graphs4mer": GRAPHS4MER,
    "imdiffusion": (100, 2, 1e-3, 1e-6, 0, 6, 0),
}

# Settings that only scoring reads, with values that differ from the tiny preset.
LATER: dict[str, dict[str, Any]] = {
    "tsadc": {"inference": {"masks": 3}},
    "usad": {"alpha": 0.1},
    "interfusion": {"samples": 2, "refine": 1, "suspect": 0.3},
    "dvgcrn": {"hop": 2, "forecast": 0.5},
    "eeg-cgs": {"rounds": 3},
    "imdiffusion": {"chain": 3, "voting": 0.9, "stride": 2, "share": 0.2},
}

# Settings out of range, and the message.
WRONG: dict[str, list[tuple[str, Any, str]]] = {
    "tsadc": [("selected", 0.0, "above 0 and at most 1")],
    "usad": [
        ("window", 0, "at least 1"),
        ("stride", 13, "from 1 to window"),
        ("latent", 0, "at least 1"),
        ("alpha", 1.5, "from 0 to 1"),
        ("pace", 0, "at least 1"),
    ],
    "lstm-ae": [("window", 1, "at least 2"), ("hidden", 0, "at least 1")],
    "s4-ae": [
        *((name, 0, "at least 1") for name in ("channels", "layers", "latent", "factor")),
        ("state", 7, "an even number of at least 2"),
        ("dropout", 1.0, "at least 0 and below 1"),
    ],
    "dcdetector": [
        ("patches", (), "one or more sizes of at least 2"),
        ("window", 50, "a multiple of 15"),
        ("layers", 0, "at least 1"),
        ("heads", 0, "at least 1"),
        ("features", 31, "a multiple of 2"),
        ("length", 12, "at least 15, the shortest window with two patches of every size"),
    ],
    "gae": [
        ("window", 1, "at least 2"),
        ("widths", [], "one or more sizes of at least 1"),
        ("widths", [4, 0], "one or more sizes of at least 1"),
        ("embedding", 0, "at least 1"),
    ],
    "gdn": [
        *((name, 0, "at least 1") for name in ("window", "features", "top", "stride")),
        ("hidden", -1, "at least 0"),
        ("dropout", 1.0, "at least 0 and below 1"),
    ],
    "eeg-cgs": [
        ("window", 1, "at least 2"),
        ("features", 0, "at least 1"),
        ("neighbours", 0, "at least 1"),
        ("subgraph", 1, "at least 2"),
        ("rounds", 0, "at least 1"),
        ("share", 1.1, "from 0 to 1"),
    ],
    "interfusion": [
        ("window", 3, "at least 4"),
        ("metrics", 1, "at least 2 with flows"),
        ("hidden", 0, "at least 1"),
        ("refine", -1, "at least 0"),
        ("pretrain", 1.0, "at least 0 and below 1"),
        ("anneal", 1.1, "from 0 to 1"),
        ("suspect", 0.0, "between 0 and 1"),
    ],
    "dvgcrn": [
        ("window", 1, "at least 2"),
        ("hop", 20, "from 1 to below the window"),
        ("latents", [4, 0], "one or more sizes of at least 1"),
        ("units", [4], "sizes of at least 1, as many as latents"),
        ("embedding", 0, "at least 1"),
        ("anneal", 1.5, "from 0 to 1"),
        ("forecast", -1.0, "at least 0"),
    ],
    "gru-gnn": [
        *((name, 0, "at least 1") for name in ("features", "layers", "graphs", "neighbours", "gin_layers")),
        ("dropout", 1.0, "at least 0 and below 1"),
        ("zeta", 1.0, "at least 0 and below 1"),
    ],
    "graphs4mer": [
        *((name, 0, "at least 1") for name in ("features", "layers", "window", "neighbours", "gin_layers")),
        ("state", 3, "an even number of at least 2"),
        ("zeta", 1.0, "at least 0 and below 1"),
        ("prune", -0.1, "at least 0 and below 1"),
        ("dropout", 1.0, "at least 0 and below 1"),
    ],
    "imdiffusion": [
        ("window", 1, "at least 2"),
        ("stripes", 1, "at least 2"),
        *((name, 0, "at least 1") for name in ("patch", "blocks", "heads", "stride")),
        ("channels", 15, "an even multiple of heads"),
        ("chain", 51, "from 0 to diffusion.steps"),
        ("voting", 0.0, "above 0 and at most 1"),
        ("share", 1.0, "between 0 and 1"),
    ],
}


# Added to the tiny presets, to cover what they leave out.
EXTRA: dict[str, dict[str, Any]] = {"dcdetector": {"heads": 2}, "usad": {"pace": 1}, "lstm-ae": {"forcing": True}}


def built(name: str) -> Any:
    """Return a network late in its training, without parameters that are zero."""
    network = tiny(name, **EXTRA.get(name, {}))._build(4).train()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    if hasattr(network, "begin_epoch"):
        network.begin_epoch(5)
    return network


@every
def test_losses_of_a_batch_are_those_of_its_observations(name: str) -> None:
    network = built(name)
    drawn = network.draw(*cells(4), torch.Generator().manual_seed(2))
    with torch.no_grad():
        together = network.losses(drawn)
        assert all(loss.shape == (4,) for loss in together.values())
        for i in range(4):
            alone = network.losses(drawn[i : i + 1])
            assert set(alone) == set(together)
            for part, loss in together.items():
                torch.testing.assert_close(alone[part], loss[i : i + 1], rtol=1e-4, atol=1e-5)


@every
@pytest.mark.parametrize("fill", [50.0, -1e6])
def test_missing_cells_do_not_affect_the_losses(name: str, fill: float) -> None:
    network = built(name)
    x, observed = cells(2)
    with torch.no_grad():
        first, second = (
            network.losses(network.draw(torch.where(observed, x, value), observed, torch.Generator().manual_seed(2)))
            for value in (0.0, fill)
        )
    for part, loss in first.items():
        assert torch.equal(second[part], loss), part


@every
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """Every parameter gets a gradient, some of them only in pretraining."""
    reached: set[str] = set()
    network = built(name)
    for epoch in (1, 5):
        if hasattr(network, "begin_epoch"):
            network.begin_epoch(epoch)
        network.zero_grad()
        losses = network.losses(network.draw(*cells(3), torch.Generator().manual_seed(2)))
        sum(loss.sum() for loss in losses.values()).backward()
        reached |= {
            key for key, parameter in network.named_parameters() if parameter.grad is not None and parameter.grad.any()
        }
    assert {key for key, _ in network.named_parameters()} == reached


# The weights of each tiny preset for four variables, as version 0.1 stored them.
STORED: dict[str, dict[str, list[int]]] = json.loads(
    (Path(__file__).parents[1] / "golden/stored_weights.json").read_text()
)


@pytest.mark.parametrize("name", STORED)
def test_weights_keep_the_names_that_stored_models_have(name: str) -> None:
    state = tiny(name)._build(4).state_dict()
    assert {key: list(tensor.shape) for key, tensor in state.items()} == STORED[name]


@every
def test_presets(name: str) -> None:
    config = find(name).Config
    assert issubclass(find(name), ResidualDetector)
    assert config.preset("tiny") == config.tiny()
    published = config.preset("paper" if name == "tsadc" else "published")
    assert published != config()
    assert published.scoring == "own"
    for setting, value in PUBLISHED[name].items():
        assert getattr(published, setting) == value, setting
    training = published.training
    rates = (training.learning_rate, training.weight_decay)
    assert (
        training.epochs,
        training.batch,
        *rates,
        training.warmup_epochs,
        training.patience,
        training.clip,
    ) == TRAINING[name]
    assert training.ema == 0


def unfitted(name: str, variables: int = 4) -> ResidualDetector:
    """Return a detector with an untrained network whose parameters are not zero."""
    detector = tiny(name, scoring="own")
    detector.variables_ = tuple("abcd"[:variables])
    detector.network_ = built(name).eval()
    detector.scale_, detector.tau_ = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([0.5])
    return detector


def observation(length: int = 40) -> np.ndarray:
    z = 2 * coupled(1, 3, length)[0].T.astype(np.float32)
    z[1, 3:6] = np.nan
    z[:, 9] = np.nan
    z[2, 20] = 300.0
    return z


@pytest.mark.parametrize("name", RECONSTRUCTING)
def test_a_residual_is_how_far_a_cell_is_from_its_reconstruction(name: str) -> None:
    detector, z = unfitted(name), observation()
    with torch.no_grad():
        reconstruction = detector.network_(torch.from_numpy(np.arcsinh(np.nan_to_num(z)))[None])
        output = detector._make_inference()(z)
    expected = np.sinh((reconstruction if isinstance(reconstruction, torch.Tensor) else reconstruction[0])[0].numpy())
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(output.expected, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(output.residuals[0], np.abs(z - expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", IN_Z)
def test_a_residual_is_missing_exactly_where_nothing_was_measured(name: str) -> None:
    detector, z = unfitted(name), observation()
    with torch.no_grad():
        output = detector._make_inference()(z)
    kind = 0 if name == "dvgcrn" else -1  # its second residual compares with the forecast
    np.testing.assert_allclose(output.residuals[kind], np.abs(z - output.expected), rtol=1e-4, atol=1e-5)
    assert np.isfinite(output.expected).all()


@pytest.mark.parametrize("name", [name for name in TRAINED if find(name).inference_settings])
def test_settings_that_only_scoring_reads_do_not_retrain(name: str, tmp_path: Path) -> None:
    data, file = coupled(14, 0), tmp_path / "run"
    assert set(LATER[name]) == set(find(name).inference_settings)
    settings = {"scoring": "own", "training": {"epochs": 1}}
    first = tiny(name, **settings).fit(data, checkpoint=file)
    epochs: list[int] = []
    second = tiny(name, **settings, **LATER[name]).fit(
        data,
        checkpoint=file,
        resume=True,
        progress=lambda now: epochs.extend([now.epoch] if hasattr(now, "epoch") else []),
    )
    assert epochs == []
    for key, weights in first.network_.state_dict().items():
        assert torch.equal(weights, second.network_.state_dict()[key]), key
    assert not np.array_equal(first.decision_scores_, second.decision_scores_)


def test_the_detectors_with_settings_that_only_scoring_reads() -> None:
    assert {name for name in TRAINED if find(name).inference_settings} == set(LATER)


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [pytest.param(name, *wrong, id=f"{name}-{wrong[0]}-{wrong[1]}") for name in TRAINED for wrong in WRONG[name]],
)
def test_settings_out_of_range(name: str, setting: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"`{setting}` must be {message}"):
        update(find(name).Config(), {setting: value})
