import dataclasses
import itertools
import math

import numpy as np
import pytest
import torch

from tsadc.detectors.tsadc.decontaminator import Decontaminator, StepEmbedding, draw_masks
from tsadc.errors import ConfigError
from tsadc.nn.diffusion import Diffusion
from tsadc.nn.inputs import masked_mean

VARIABLES, LENGTH, BATCH, STEPS = 3, 12, 2, 6


def make(target: str = "noise", steps: int = STEPS, **settings: object) -> Decontaminator:
    diffusion = Diffusion.Config(steps=steps, beta_start=0.01, beta_end=0.3, target=target)
    torch.manual_seed(0)
    config = Decontaminator.Config(**{"channels": 4, "blocks": 2, "state": 4, "diffusion": diffusion, **settings})
    return Decontaminator(config, VARIABLES).eval()


def awaken(model: Decontaminator) -> Decontaminator:
    """Give the last layer weights: it starts at zero."""
    torch.nn.init.normal_(model.network.output_proj.weight)
    torch.nn.init.normal_(model.network.output_proj.bias)
    return model


@pytest.fixture
def cells() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    shape = (BATCH, VARIABLES, LENGTH)
    measured = torch.rand(shape, generator=generator) < 0.8
    return {
        "x": torch.where(measured, torch.randn(shape, generator=generator), 0.0),
        "measured": measured,
        "observed": measured & (torch.rand(shape, generator=generator) < 0.7),
        "noise": torch.randn(shape, generator=generator),
    }


every_kind = pytest.mark.parametrize(
    ("target", "start", "loss"),
    [
        (target, start, loss)
        for target in ("noise", "start")
        for start in ("signal", "masked")
        for loss in ("masked", "entire")
    ],
)


@every_kind
@torch.no_grad()
def test_loss_against_a_loop_over_cells(cells, target, start, loss):
    model = awaken(make(target, start=start, loss=loss))
    x, measured, observed, noise = cells.values()
    step = torch.tensor([2, STEPS])
    found, prediction = model.loss(x, measured, observed, step, noise)
    alpha_bar = model.diffusion.alpha_bar
    noisy = torch.empty_like(x)
    for b in range(BATCH):
        for k in range(VARIABLES):
            for t in range(LENGTH):
                clean = 0.0 if start == "masked" and not observed[b, k, t] else x[b, k, t]
                signal, spread = alpha_bar[step[b]].sqrt(), (1 - alpha_bar[step[b]]).sqrt()
                noisy[b, k, t] = signal * clean + spread * noise[b, k, t]
                if start == "signal" and loss == "masked" and observed[b, k, t]:
                    noisy[b, k, t] = x[b, k, t]
    torch.testing.assert_close(prediction, model.network(noisy, step, x, observed))
    for b in range(BATCH):
        errors = []
        for k in range(VARIABLES):
            for t in range(LENGTH):
                if not measured[b, k, t] or (loss == "masked" and observed[b, k, t]):
                    continue
                clean = 0.0 if start == "masked" and not observed[b, k, t] else float(x[b, k, t])
                goal = float(noise[b, k, t]) if target == "noise" else clean
                errors.append((float(prediction[b, k, t]) - goal) ** 2)
        assert float(found[b]) == pytest.approx(sum(errors) / len(errors), rel=1e-5)


def test_noise_reaches_hidden_cells_only(cells):
    x, _, observed, noise = cells.values()
    for step in (1, 3, STEPS):
        noisy = make().noisy(x, observed, step, noise)
        assert torch.equal(noisy[observed], x[observed])
        alpha_bar = float(make().diffusion.alpha_bar[step])
        expected = math.sqrt(alpha_bar) * x + math.sqrt(1 - alpha_bar) * noise
        torch.testing.assert_close(noisy[~observed], expected[~observed])


def test_a_masked_start_begins_from_zeros_with_noise_everywhere(cells):
    model = make(start="masked")
    x, observed, noise = cells["x"], cells["observed"], cells["noise"]
    signal, spread = float(model.diffusion.alpha_bar[4].sqrt()), float((1 - model.diffusion.alpha_bar[4]).sqrt())
    noisy = model.noisy(x, observed, 4, noise)
    torch.testing.assert_close(noisy[~observed], spread * noise[~observed])
    torch.testing.assert_close(noisy[observed], signal * x[observed] + spread * noise[observed])


@pytest.mark.parametrize("settings", [{}, {"start": "masked"}, {"loss": "entire"}])
def test_the_estimate_is_the_papers_formula_at_the_last_step(cells, settings):
    model = awaken(make("noise", **settings))
    x, observed, noise = cells["x"], cells["observed"], cells["noise"]
    noisy = model.noisy(x, observed, STEPS, noise)
    noise_hat = model.network(noisy, torch.full((BATCH,), STEPS), x, observed)
    alpha_bar = 1.0
    for step in range(STEPS):
        alpha_bar *= 1 - (0.01 + (0.3 - 0.01) * step / (STEPS - 1))
    expected = (noisy - math.sqrt(1 - alpha_bar) * noise_hat) / math.sqrt(alpha_bar)
    if not settings:
        expected = torch.where(observed, x, expected)
    found = model.estimate(x, observed, noise)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(model.estimate(x, observed, noise, noise_hat), found)


def test_the_estimate_of_a_start_target_is_the_prediction_under_the_mask(cells):
    model = awaken(make("start"))
    x, measured, observed, noise = cells.values()
    _, prediction = model.loss(x, measured, observed, torch.full((BATCH,), STEPS), noise)
    found = model.estimate(x, observed, noise)
    assert torch.equal(found[observed], x[observed])
    torch.testing.assert_close(found[~observed], prediction[~observed])


def test_a_perfect_prediction_gives_the_signal_back(cells):
    model = make("noise")
    x, observed, noise = cells["x"], cells["observed"], cells["noise"]
    torch.testing.assert_close(model.estimate(x, observed, noise, noise), x, rtol=1e-4, atol=1e-5)


def record(model: Decontaminator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Replace the network by one that predicts zeros and keeps the steps and the noisy observations it is shown."""
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []

    def predict(noisy, step, known):
        seen.append((step, noisy.clone()))
        return torch.zeros_like(noisy)

    model.network.predict = predict
    return seen


def test_the_complete_chain_visits_every_step_and_keeps_what_is_observed(cells):
    model = make("noise")
    seen = record(model)
    x, observed, noise = cells["x"], cells["observed"], cells["noise"]
    out = model.sample(x, observed, noise, torch.Generator().manual_seed(0))
    assert [step.tolist() for step, _ in seen] == [[step] * BATCH for step in range(STEPS, 0, -1)]
    torch.testing.assert_close(seen[0][1], model.noisy(x, observed, STEPS, noise))
    for _, noisy in seen:
        assert torch.equal(noisy[observed], x[observed])
    assert torch.equal(out[observed], x[observed])
    assert not torch.isclose(out[~observed], x[~observed]).any()
    again = model.sample(x, observed, noise, torch.Generator().manual_seed(0))
    assert torch.equal(again, out)


@pytest.mark.parametrize("settings", [{"start": "masked"}, {"loss": "entire"}])
def test_with_noise_everywhere_nothing_is_kept(cells, settings):
    model = make("noise", **settings)
    record(model)
    x, observed = cells["x"], cells["observed"]
    out = model.sample(x, observed, cells["noise"], torch.Generator().manual_seed(0))
    assert not torch.isclose(out[observed], x[observed]).any()


@pytest.mark.parametrize(("count", "expected"), [(1, [6]), (2, [6, 3]), (3, [6, 4, 2])])
def test_a_short_chain_visits_some_steps_and_draws_nothing(cells, count, expected):
    model = make("noise")
    seen = record(model)
    x, observed, noise = cells["x"], cells["observed"], cells["noise"]
    outs = [model.sample(x, observed, noise, torch.Generator().manual_seed(i), steps=count) for i in range(2)]
    assert [int(step[0]) for step, _ in seen[:count]] == expected
    assert torch.equal(outs[0], outs[1])


def test_a_chain_of_one_step_is_the_estimate(cells):
    for target in ("noise", "start"):
        model = awaken(make(target))
        x, observed, noise = cells["x"], cells["observed"], cells["noise"]
        with torch.no_grad():
            expected = model.estimate(x, observed, noise)
        found = model.sample(x, observed, noise, torch.Generator(), steps=1)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_the_network_predicts_zero_at_first(cells):
    for target in ("noise", "start"):
        model = make(target)
        x, measured, observed, noise = cells.values()
        loss, prediction = model.loss(x, measured, observed, torch.tensor([1, STEPS]), noise)
        assert torch.equal(prediction, torch.zeros_like(prediction))
        goal = noise if target == "noise" else x
        torch.testing.assert_close(loss[0], goal[0][measured[0] & ~observed[0]].square().mean())


def test_the_condition_is_what_is_observed_and_where(cells):
    model = make()
    x, observed = cells["x"], cells["observed"]
    condition = torch.cat([x * observed, observed.float()], dim=1)
    for known, block in zip(model.network.embed_condition(x, observed), model.network.blocks, strict=True):
        torch.testing.assert_close(known, block.condition_proj(condition))
    changed = torch.where(observed, x, 77.0)
    before, after = (model.network.embed_condition(values, observed) for values in (x, changed))
    assert all(map(torch.equal, before, after))


def test_the_prediction_depends_on_step_noisy_values_and_condition(cells):
    model = awaken(make())
    x, observed = cells["x"], cells["observed"]
    step = torch.tensor([2, 2])
    base = model.network(x, step, x, observed)
    for other in (
        model.network(x, step + 1, x, observed),
        model.network(x + 1, step, x, observed),
        model.network(x, step, x + 1, observed),
        model.network(x, step, x, ~observed),
    ):
        assert (other - base).abs().max() > 1e-4


def test_the_blocks_against_their_definition(cells):
    """h = x + W step; S4, condition, S4; tanh * sigmoid; skips summed over sqrt(blocks)."""
    model = awaken(make())
    network, x, observed = model.network, cells["x"], cells["observed"]
    step = torch.tensor([1, 5])
    embedded = network.step_embedding(step)
    hidden, total = torch.relu(network.input_proj(x)), torch.zeros(BATCH, 4, LENGTH)
    for block, known in zip(network.blocks, network.embed_condition(x, observed), strict=True):
        wide = block.second_s4(block.first_s4(block.widen_conv(hidden + block.step_proj(embedded)[..., None])) + known)
        gated = torch.tanh(wide[:, :4]) * torch.sigmoid(wide[:, 4:])
        out = block.gate_proj(gated)
        hidden = (hidden + out[:, :4]) / 2**0.5
        total += out[:, 4:]
    expected = network.output_proj(torch.relu(network.skip_proj(total / 2**0.5)))
    torch.testing.assert_close(network(x, step, x, observed), expected)


def test_the_step_embedding_tells_steps_apart():
    embedding = StepEmbedding(8)
    embedding.layers = torch.nn.Identity()
    waves = embedding(torch.arange(1, 1001))
    torch.testing.assert_close(waves[:, :64].square() + waves[:, 64:].square(), torch.ones(1000, 64))
    assert torch.pdist(waves).min() > 0.5
    angle = 2 * math.pi * 37 / 1e4
    assert float(waves[36, 0]) == pytest.approx(math.sin(angle), rel=1e-5)


def test_cell_mean_of_no_cells_is_zero():
    values = torch.tensor([[[1.0, 3.0]], [[5.0, 7.0]]], requires_grad=True)
    cells = torch.tensor([[[True, True]], [[False, False]]])
    out = masked_mean(values, cells)
    assert out.tolist() == [2.0, 0.0]
    out.sum().backward()
    assert values.grad.tolist() == [[[0.5, 0.5]], [[0.0, 0.0]]]


def test_cell_mean_does_not_see_what_is_not_a_cell():
    values = torch.tensor([[[1.0, torch.nan, torch.inf]]])
    assert masked_mean(values, torch.tensor([[[True, False, False]]])).tolist() == [1.0]


@pytest.mark.parametrize(
    ("name", "value"), [("channels", 0), ("blocks", 0), ("state", 3), ("state", 0), ("dropout", 1.0), ("dropout", -0.1)]
)
def test_settings_out_of_range(name, value):
    with pytest.raises(ConfigError, match=f"`{name}` must be"):
        dataclasses.replace(Decontaminator.Config(), **{name: value})


def test_masks_are_drawn_anew_each_time_and_the_same_by_seed() -> None:
    first, second = itertools.islice(draw_masks("RandBM", (5, 3, 20), 0.25, seed=1), 2)
    assert first.shape == (5, 3, 20)
    assert ((~first).sum(axis=-1) == 5).all()
    assert (first != second).any()
    np.testing.assert_array_equal(first, next(draw_masks("RandBM", (5, 3, 20), 0.25, seed=1)))
