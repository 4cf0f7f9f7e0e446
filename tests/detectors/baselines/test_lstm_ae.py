from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.lstm_ae import LSTMAE, Network

Config = LSTMAE.Config
LENGTH, VARIABLES = 24, 4
waves = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(1)
    return Network(update(Config.tiny(), settings), VARIABLES, LENGTH).double()


def cell(x, h, c, weights):
    """One step of an LSTM, in its textbook form."""
    w_ih, w_hh, b_ih, b_hh = weights
    i, f, g, o = (w_ih @ x + b_ih + w_hh @ h + b_hh).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


@pytest.mark.parametrize("forcing", [True, False])
def test_the_encoder_reads_forwards_and_the_decoder_reconstructs_backwards(forcing):
    net = network()
    encoder, decoder = list(net.encoder.parameters()), list(net.decoder.parameters())
    x = torch.randn(2, VARIABLES, 2, 12, dtype=torch.float64)
    reconstruction = net.reconstruct(x, forcing=forcing)
    assert reconstruction.shape == x.shape
    for i, w in ((0, 0), (1, 1)):
        window = x[i, :, w]
        h = c = torch.zeros(12, dtype=torch.float64)
        for step in range(12):
            h, c = cell(window[:, step], h, c, encoder)
        for step in reversed(range(12)):
            output = net.output.weight @ h + net.output.bias
            torch.testing.assert_close(reconstruction[i, :, w, step], output)
            h, c = cell(window[:, step] if forcing else output, h, c, decoder)


def test_the_decoder_sees_true_values_in_training_only():
    net = network(forcing=True)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(3, VARIABLES, LENGTH, generator=generator).double()
    drawn = net.draw(x, torch.ones_like(x, dtype=torch.bool), generator)
    squashed = torch.asinh(x).unflatten(2, (2, 12))
    for training, forcing in ((True, True), (False, False)):
        expected = (squashed - net.reconstruct(squashed, forcing=forcing)).square().flatten(1).mean(1)
        torch.testing.assert_close(net.train(training).losses(drawn)["reconstruction"], expected)


def test_residuals_are_the_error_in_z_units():
    detector = LSTMAE(length=LENGTH, config=update(Config.tiny(), {"scoring": "own"})).fit(waves(30, 0))
    z = waves(1, 7)[0].T.astype(np.float32)
    z[1, 3:6] = np.nan
    with torch.no_grad():
        output = detector._make_inference()(z)
        inside = torch.asinh(torch.from_numpy(np.nan_to_num(z))).reshape(1, VARIABLES, 2, 12)
        expected = torch.sinh(detector.network_.reconstruct(inside, forcing=False)).reshape(VARIABLES, LENGTH).numpy()
    np.testing.assert_allclose(output.expected, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(output.residuals[0], np.abs(z - expected), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(output.own_scores, np.nanmean(np.square(z - expected), axis=0), rtol=1e-4)


@pytest.mark.parametrize("scoring", ["own", "fused"])
def test_it_learns_and_finds_a_planted_anomaly(scoring):
    training = {"epochs": 12, "learning_rate": 1e-2}
    detector = LSTMAE(length=LENGTH, config=update(Config.tiny(), {"scoring": scoring, "training": training}))
    detector.fit(waves(30, 0))
    history = detector.history_
    assert history.best.loss < 0.7 * history.epochs[0].loss
    assert history.best.validation < 0.8 * history.epochs[0].validation
    new = waves(5, 5)
    new[3, 10:14, 2] += 6
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_2"
