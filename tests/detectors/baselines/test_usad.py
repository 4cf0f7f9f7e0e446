from functools import partial

import numpy as np
import pytest
import torch
from torch.nn.functional import linear

import networks
from tsadc.config import update
from tsadc.detectors.baselines.usad import MLP, RANGE, USAD, Network
from tsadc.nn.trainable import ObservedBatch

Config = USAD.Config
LENGTH, VARIABLES = 24, 4
waves = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def batch(count: int = 3) -> ObservedBatch:
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(count, VARIABLES, LENGTH, generator=generator)
    return ObservedBatch(x, torch.rand(x.shape, generator=generator) > 0.2)


def network(**settings: object) -> Network:
    torch.manual_seed(1)
    return Network(update(Config.tiny(), settings), VARIABLES, LENGTH)


def autoencode(decoder: MLP, net: Network, vectors: torch.Tensor) -> torch.Tensor:
    """tanh D(relu E(W)), layer by layer."""
    for i, layer in enumerate((*net.encoder.layers, *decoder.layers)):
        vectors = linear(vectors.clamp_min(0) if i else vectors, layer.weight, layer.bias)
    return vectors.tanh()


def definition(net: Network, drawn: ObservedBatch, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """L_AE1 and L_AE2 as the paper writes them, over all windows of all observations."""
    x = torch.where(drawn.observed, drawn.x, 0.0)
    losses1, losses2 = [], []
    for z, seen in zip(x, drawn.observed, strict=True):
        terms = []
        for start in range(0, LENGTH - 7, 4):
            W = (torch.asinh(z[:, start : start + 8]) / RANGE).flatten()
            cells = seen[:, start : start + 8].flatten()
            first = autoencode(net.decoder1, net, W)
            reconstructions = (first, autoencode(net.decoder2, net, W), autoencode(net.decoder2, net, first))
            terms.append(
                torch.stack([(RANGE * (W - each))[cells].square().sum() for each in reconstructions] + [cells.sum()])
            )
        first_error, second_error, ae2_of_ae1_error, count = torch.stack(terms).sum(0)
        losses1.append((first_error / n + (1 - 1 / n) * ae2_of_ae1_error) / count)
        losses2.append((second_error / n - (1 - 1 / n) * ae2_of_ae1_error) / count)
    return torch.stack(losses1), torch.stack(losses2)


@pytest.mark.parametrize(("epoch", "pace", "n"), [(1, 1, 1), (4, 1, 4), (10, 10, 1), (11, 10, 2), (70, 1, 70)])
def test_the_losses_weigh_their_parts_by_the_epoch(epoch, pace, n):
    net, drawn = network(pace=pace), batch()
    net.begin_epoch(epoch)
    losses = net.losses(drawn)
    first, second = definition(net, drawn, n)
    torch.testing.assert_close(losses["first"], first)
    torch.testing.assert_close(losses["second"], second)


def test_each_loss_trains_its_own_decoder_and_both_train_the_encoder():
    net, drawn = network(pace=1), batch()
    net.begin_epoch(3)
    torch.stack(list(net.losses(drawn).values())).sum().backward()
    gradients = {name: parameter.grad for name, parameter in net.named_parameters()}
    first, second = (loss.sum() for loss in definition(net, drawn, 3))
    names, weights = zip(*net.named_parameters(), strict=True)
    gradients1 = torch.autograd.grad(first, weights, retain_graph=True, allow_unused=True)
    gradients2 = torch.autograd.grad(second, weights, allow_unused=True)
    for name, grad1, grad2 in zip(names, gradients1, gradients2, strict=True):
        expected = {
            "encoder": lambda one, two: one + two,
            "decoder1": lambda one, _: one,
            "decoder2": lambda _, two: two,
        }
        torch.testing.assert_close(
            gradients[name], expected[name.partition(".")[0]](grad1, grad2), rtol=1e-4, atol=1e-6
        )
        assert gradients[name].abs().sum() > 0


def test_the_score_mixes_both_errors():
    """alpha |W - AE_1(W)|^2 + beta |W - AE_2(AE_1(W))|^2, window by window, and the mean over those a cell is in."""
    detector = USAD(length=LENGTH, config=update(Config.tiny(), {"scoring": "own", "alpha": 0.3})).fit(waves(30, 0))
    net, z = detector.network_, waves(1, 7)[0].T.astype(np.float32)
    z[1, 3:6] = np.nan
    total, expected_sum, count = np.zeros(z.shape), np.zeros(z.shape), np.zeros(LENGTH)
    with torch.no_grad():
        output = detector._make_inference()(z)
        for start in (0, 4, 8, 12, 16):
            here = slice(start, start + 8)
            W = torch.from_numpy(np.arcsinh(np.nan_to_num(z[:, here])) / RANGE).flatten()
            ae1 = autoencode(net.decoder1, net, W)
            first, ae2_of_ae1 = (
                np.sinh(RANGE * each.numpy()).reshape(VARIABLES, 8)
                for each in (ae1, autoencode(net.decoder2, net, ae1))
            )
            total[:, here] += 0.3 * (z[:, here] - first) ** 2 + 0.7 * (z[:, here] - ae2_of_ae1) ** 2
            expected_sum[:, here] += first
            count[here] += 1
    expected = total / count
    assert set(count) == {1, 2}
    np.testing.assert_allclose(np.square(output.residuals[0]), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(output.own_scores, np.nanmean(expected, axis=0), rtol=1e-4)
    np.testing.assert_allclose(output.expected, expected_sum / count, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("scoring", ["own", "fused"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    training = {"epochs": 12, "learning_rate": 3e-3}
    detector = USAD(length=LENGTH, config=update(Config.tiny(), {"scoring": scoring, "pace": 6, "training": training}))
    detector.fit(waves(30, 0))
    history = detector.history_.epochs
    assert history[5].loss < 0.6 * history[0].loss
    assert history[6].parts["second"] < 0.5 * history[5].parts["second"]  # the adversarial terms start here
    new = waves(5, 5)
    new[3, 10:14, 2] += 6
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"


def test_a_resumed_run_weighs_its_losses_as_if_it_had_not_stopped(tmp_path):
    class Killed(Exception):
        pass

    def kill(report: object) -> None:
        if getattr(report, "epoch_ended", False) and report.epoch == 2:
            raise Killed

    config = update(Config.tiny(), {"scoring": "own", "pace": 1, "training": {"epochs": 4}})
    whole = USAD(length=LENGTH, config=config).fit(waves(30, 0))
    checkpoint = tmp_path / "run.safetensors"
    with pytest.raises(Killed):
        USAD(length=LENGTH, config=config).fit(waves(30, 0), checkpoint=checkpoint, progress=kill)
    resumed = USAD(length=LENGTH, config=config).fit(waves(30, 0), checkpoint=checkpoint, resume=True)
    assert resumed.decision_scores_.tobytes() == whole.decision_scores_.tobytes()
