from dataclasses import replace

import pytest
import torch

from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.nn.diffusion import Diffusion
from tsadc.nn.inputs import MAX_SQUASHED
from tsadc.nn.s4 import ssm_parameters
from tsadc.nn.train import Training

BATCH, VARIABLES, LENGTH, HIDDEN = 3, 4, 20, 5
LOSSES = ("noise", "graph", "reconstruction")


def make(squash: bool = True, joint: bool = False, target: str = "start", **decontaminator: object) -> Network:
    torch.manual_seed(0)
    diffusion = Diffusion.Config(steps=5, beta_start=0.01, beta_end=0.3, target=target)
    network = Network(
        Decontaminator.Config(**{"channels": 4, "blocks": 1, "state": 4, "diffusion": diffusion, **decontaminator}),
        Dependencies.Config(features=6, layers=1, state=4, graphs=2, neighbours=2),
        variables=VARIABLES,
        masked_length=HIDDEN,
        squash=squash,
        joint=joint,
    )
    torch.nn.init.normal_(network.decontaminator.network.output_proj.weight, std=0.3)
    return network.eval()


def batch(seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    measured = torch.rand(BATCH, VARIABLES, LENGTH, generator=generator) < 0.8
    return torch.where(measured, 2 * torch.randn(measured.shape, generator=generator), 0.0), measured


def drawn(network: Network, seed: int = 2) -> TSADCBatch:
    return network.draw(*batch(), torch.Generator().manual_seed(seed))


both = pytest.mark.parametrize("at", ["uniform", "last"])
kinds = pytest.mark.parametrize(
    "settings",
    [
        {},
        {"at": "uniform", "target": "noise"},
        {"start": "masked", "at": "uniform"},
        {"loss": "entire", "target": "noise"},
        {"joint": True, "at": "uniform"},
    ],
)


@both
@pytest.mark.parametrize("masking", ["RandM", "RandBM", "BoM"])
def test_a_draw_hides_some_of_what_was_measured(at, masking):
    network = make(at=at, masking=masking)
    x, _ = batch()
    everything = torch.ones_like(x, dtype=torch.bool)
    for measured in (everything, batch()[1]):
        found = network.draw(x, measured, torch.Generator().manual_seed(3))
        assert torch.equal(found.measured, measured)
        assert not (found.observed & ~measured).any()
        if measured is everything:
            hidden = ~found.observed
            assert (hidden.sum(-1) == HIDDEN).all()
            if masking != "RandM":
                edges = hidden.int().diff(dim=-1).abs().sum(-1)
                assert (edges <= 2).all()
            assert (hidden == hidden[:, :1]).all() == (masking == "BoM")
    torch.testing.assert_close(found.x, torch.asinh(x))
    assert all(len(tensor) == BATCH for tensor in found.tensors().values())
    assert (found.step is not None) == (at == "uniform")


def test_steps_and_noise_are_drawn_alike():
    network = make(at="uniform")
    x, measured = torch.zeros(400, VARIABLES, LENGTH), torch.ones(400, VARIABLES, LENGTH, dtype=torch.bool)
    found = network.draw(x, measured, torch.Generator().manual_seed(4))
    counts = found.step.bincount(minlength=6)
    assert counts[0] == 0
    assert (counts[1:] > 50).all()
    for noise in (found.noise, found.last_noise):
        assert abs(float(noise.mean())) < 0.03
        assert float(noise.std()) == pytest.approx(1, abs=0.03)
    assert not torch.equal(found.noise, found.last_noise)


@both
def test_the_same_generator_draws_the_same(at):
    network = make(at=at)
    one, two, other = drawn(network, 5), drawn(network, 5), drawn(network, 6)
    assert all(map(torch.equal, one.tensors().values(), two.tensors().values()))
    assert not torch.equal(one.noise, other.noise)


@kinds
@torch.no_grad()
def test_losses_against_their_parts(settings):
    network = make(**settings)
    cells = drawn(network)
    x, measured, observed = cells.x, cells.measured, cells.observed
    model = network.decontaminator
    step = torch.full((BATCH,), model.last) if cells.step is None else cells.step
    last_noise = cells.noise if cells.last_noise is None else cells.last_noise
    noise_loss, _ = model.loss(x, measured, observed, step, cells.noise)
    decontaminated = model.estimate(x, observed, last_noise)
    reconstruction, graph_loss = network.dependencies(decontaminated)
    found = network.losses(cells)
    assert tuple(found) == LOSSES
    torch.testing.assert_close(found["noise"], noise_loss)
    torch.testing.assert_close(found["graph"], graph_loss)
    for b in range(BATCH):
        errors = (decontaminated - reconstruction)[b][measured[b]].square()
        torch.testing.assert_close(found["reconstruction"][b], errors.mean(), rtol=1e-5, atol=1e-6)


@kinds
@pytest.mark.parametrize("rubbish", [1e6, float("nan"), float("-inf")])
def test_what_was_not_measured_reaches_no_loss(settings, rubbish):
    network = make(**settings)
    cells = drawn(network)
    assert (~cells.measured).any()
    expected = network.losses(cells)
    other = replace(cells, x=torch.where(cells.measured, cells.x, rubbish).requires_grad_())
    found = network.losses(other)
    for name in LOSSES:
        assert torch.equal(found[name], expected[name])
    sum(found.values()).sum().backward()
    assert (other.x.grad[~cells.measured] == 0).all()
    assert torch.isfinite(other.x.grad).all()


@kinds
@torch.no_grad()
def test_an_observation_does_not_depend_on_its_batch(settings):
    network = make(**settings)
    cells = drawn(network)
    together = network.losses(cells)
    changed = replace(cells, x=cells.x.clone(), noise=cells.noise.clone())
    changed.x[1:], changed.noise[1:] = 5.0, -3.0
    beside_others = network.losses(changed)
    alone = network.losses(cells[:1])
    for name in LOSSES:
        torch.testing.assert_close(beside_others[name][0], together[name][0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alone[name][0], together[name][0], rtol=1e-5, atol=1e-6)


def gradients(network: Network, name: str) -> tuple[float, float]:
    """The size of one loss's gradient in the Decontaminator and in the Dependencies."""
    network.zero_grad()
    network.losses(drawn(network))[name].sum().backward()
    parts = (network.decontaminator, network.dependencies)
    sizes = [[p.grad.abs().sum() for p in part.parameters() if p.grad is not None] for part in parts]
    return tuple(float(sum(one)) for one in sizes)


@both
def test_apart_the_decontaminator_learns_from_its_own_loss_alone(at):
    network = make(at=at, joint=False)
    for name in ("reconstruction", "graph"):
        decontaminator, dependencies = gradients(network, name)
        assert decontaminator == 0
        assert dependencies > 0
    decontaminator, dependencies = gradients(network, "noise")
    assert decontaminator > 0
    assert dependencies == 0


@both
def test_jointly_the_reconstruction_reaches_the_decontaminator(at):
    network = make(at=at, joint=True)
    decontaminator, dependencies = gradients(network, "reconstruction")
    assert decontaminator > 0
    assert dependencies > 0


def test_losses_without_gradients_stay_so():
    network = make(at="uniform", joint=True)
    with torch.no_grad():
        assert not any(loss.requires_grad for loss in network.losses(drawn(network)).values())


def test_squashing_and_back():
    z = torch.tensor([-1e4, -3.0, -1e-3, 0.0, 0.5, 40.0, 8e4])
    for squash in (True, False):
        network = make(squash=squash)
        torch.testing.assert_close(network.to_z(network.to_input(z)), z, rtol=1e-5, atol=1e-6)
    assert float(make().to_input(torch.tensor(100.0))) == pytest.approx(5.298342, rel=1e-6)
    assert torch.isfinite(make().to_z(torch.tensor([1e30, -1e30]))).all()
    assert float(make().to_input(torch.tensor(8e4))) < MAX_SQUASHED < float(make().to_input(torch.tensor(9e4)))


def test_state_space_parameters_do_not_decay():
    network = make()
    config = Training(learning_rate=2e-3, ssm_learning_rate=1e-3, weight_decay=0.3)
    plain, slow = network.parameter_groups(config)
    dynamics = {id(p) for p in ssm_parameters(network)}
    assert {id(p) for p in slow["params"]} == dynamics
    assert {id(p) for p in plain["params"]} == {id(p) for p in network.parameters()} - dynamics
    assert (plain["weight_decay"], plain["lr"]) == (0.3, 2e-3)
    assert (slow["weight_decay"], slow["lr"]) == (0.0, 1e-3)
