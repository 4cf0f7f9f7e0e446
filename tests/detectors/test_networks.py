"""What holds for every detector that trains a network, whatever the network is."""

from typing import Any

import pytest
import torch

from networks import TRAINED, cells, tiny
from tsadc.config import update
from tsadc.detectors import find
from tsadc.detectors.residual import ResidualDetector
from tsadc.errors import ConfigError

every = pytest.mark.parametrize("name", TRAINED)

# Of each published preset, what makes it that.
PUBLISHED: dict[str, dict[str, Any]] = {
    "tsadc": {},
    "usad": {"window": 12, "latent": 40, "pace": 1},
    "lstm-ae": {"window": 208, "hidden": 45, "forcing": True},
    "s4-ae": {"state": 64, "kernel": "dplr"},
    "dcdetector": {"window": 100, "patches": (5,), "features": 256, "opposed": True},
    "gae": {"widths": (2,), "head": "paper"},
    "gdn": {"top": 15, "window": 5, "head": "paper"},
    "eeg-cgs": {"features": 256, "neighbours": 3, "subgraph": 4, "rounds": 80, "head": "paper"},
    "interfusion": {"window": 100, "flows": 20, "samples": 100, "refine": 10, "head": "paper"},
    "dvgcrn": {"latents": (15, 10, 5), "units": (20, 15, 10), "embedding": 256, "head": "paper"},
    "gru-gnn": {"features": 128, "own": True, "identity": False, "head": "paper"},
    "graphs4mer": {"features": 128, "window": 100, "head": "paper"},
    "imdiffusion": {"channels": 64, "blocks": 4, "heads": 8, "stride": 3, "head": "paper"},
}

# Settings that are out of range, and what is said of them.
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
        ("state", 7, "an even number from 2"),
        ("dropout", 1.0, "from 0 to below 1"),
    ],
    "dcdetector": [
        ("patches", (), "sizes from 2"),
        ("window", 50, "a multiple of 15"),
        ("layers", 0, "at least 1"),
        ("heads", 0, "at least 1"),
        ("features", 31, "a multiple of 2"),
        ("length", 12, "at least the 15 steps"),
    ],
    "gae": [
        ("window", 1, "at least 2 steps"),
        ("widths", [], "one or more, from 1"),
        ("widths", [4, 0], "one or more, from 1"),
        ("embedding", 0, "at least 1"),
    ],
    "gdn": [
        *((name, 0, "at least 1") for name in ("window", "features", "top", "stride")),
        ("hidden", -1, "zero or more"),
        ("dropout", 1.0, "from 0 to below 1"),
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
        ("refine", -1, "zero or more"),
        ("pretrain", 1.0, "from 0 to below 1"),
        ("anneal", 1.1, "from 0 to 1"),
        ("suspect", 0.0, "between 0 and 1"),
    ],
    "dvgcrn": [
        ("window", 1, "at least 2"),
        ("hop", 20, "from 1 to below the window"),
        ("latents", [4, 0], "sizes from 1"),
        ("units", [4], "sizes from 1, as many as latents"),
        ("embedding", 0, "at least 1"),
        ("anneal", 1.5, "from 0 to 1"),
        ("forecast", -1.0, "zero or more"),
    ],
    "gru-gnn": [
        *((name, 0, "at least 1") for name in ("features", "layers", "graphs", "neighbours", "gin_layers")),
        ("dropout", 1.0, "from 0 to below 1"),
        ("zeta", 1.0, "from 0 to below 1"),
    ],
    "graphs4mer": [
        *((name, 0, "at least 1") for name in ("features", "layers", "window", "neighbours", "gin_layers")),
        ("state", 3, "an even number from 2"),
        ("zeta", 1.0, "from 0 to below 1"),
        ("prune", -0.1, "from 0 to below 1"),
        ("dropout", 1.0, "from 0 to below 1"),
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


# Beside the tiny presets, so that what they leave out is there.
MORE: dict[str, dict[str, Any]] = {"dcdetector": {"heads": 2}, "usad": {"pace": 1}, "lstm-ae": {"forcing": True}}


def built(name: str) -> Any:
    """A network of which no part is idle, as some are that start at zero, late in its training."""
    network = tiny(name, **MORE.get(name, {}))._build(4).train()
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
            alone = network.losses({key: value[i : i + 1] for key, value in drawn.items()})
            assert set(alone) == set(together)
            for part, loss in together.items():
                torch.testing.assert_close(alone[part], loss[i : i + 1], rtol=1e-4, atol=1e-5)


@every
@pytest.mark.parametrize("fill", [50.0, -1e6])
def test_what_is_stored_where_nothing_was_measured_reaches_no_loss(name: str, fill: float) -> None:
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
def test_every_part_learns_something(name: str) -> None:
    """A parameter that no loss reaches would be dead weight; what only pretraining teaches is asked for there."""
    reached: set[str] = set()
    network = built(name)
    for epoch in (1, 5):
        if hasattr(network, "begin_epoch"):
            network.begin_epoch(epoch)
        network.zero_grad()
        losses = network.losses(network.draw(*cells(3), torch.Generator().manual_seed(2)))
        sum(loss.sum() for loss in losses.values()).backward()
        reached |= {key for key, one in network.named_parameters() if one.grad is not None and one.grad.any()}
    assert {key for key, _ in network.named_parameters()} == reached


@every
def test_presets(name: str) -> None:
    config = find(name).Config
    assert issubclass(find(name), ResidualDetector)
    assert config.preset("tiny") == config.tiny()
    published = config.preset("paper" if name == "tsadc" else "published")
    assert published != config()
    for setting, value in PUBLISHED[name].items():
        assert getattr(published, setting) == value, setting


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [pytest.param(name, *wrong, id=f"{name}-{wrong[0]}-{wrong[1]}") for name in TRAINED for wrong in WRONG[name]],
)
def test_settings_out_of_range(name: str, setting: str, value: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"`{setting}` must be {message}"):
        update(find(name).Config(), {setting: value})
