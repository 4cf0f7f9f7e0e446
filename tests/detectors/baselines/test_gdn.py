from functools import partial

import numpy as np
import pytest
import torch

import networks
from tsadc.config import update
from tsadc.detectors.baselines.gdn import GDN, Network, deviations, forward_fill, step_scores

Config = GDN.Config
LENGTH, VARIABLES = 40, 4
coupled = partial(networks.coupled, length=LENGTH, variables=VARIABLES)


def network(**settings: object) -> Network:
    torch.manual_seed(0)
    return Network(update(Config.tiny(), settings), VARIABLES, 5)


def batch(count: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.from_numpy(coupled(count, 1)).float().mT.contiguous()
    observed = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.8
    return torch.where(observed, x, 0.0), observed


def test_the_graph_holds_the_nearest_embeddings_by_cosine():
    net = network(top=1)
    with torch.no_grad():
        net.embedding.zero_()
        # By angle: 0 and 1 are close, 3 lies between 1 and 2 but nearer to 2; lengths must not matter.
        for row, (angle, size) in enumerate([(0, 1.0), (20, 9.0), (80, 0.1), (60, 5.0)]):
            net.embedding[row, :2] = size * torch.tensor([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    neighbours = [sorted(np.flatnonzero(row).tolist()) for row in net.edges().numpy()]
    assert neighbours == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert network(top=9).edges().all()


def test_attention_and_forecast_are_those_of_the_paper_variable_by_variable():
    net = network()
    history = batch()[0][0, :, :5]
    edges = net.edges().numpy()
    with torch.no_grad():
        a, projected = net.attention_vector.flatten(), history @ net.history_proj.weight.T
        g = torch.cat([net.embedding, projected], dim=1)
        read = []
        for i in range(VARIABLES):
            allowed = np.flatnonzero(edges[i])
            scores = torch.stack([torch.cat([g[i], g[j]]) @ a for j in allowed])
            alpha = torch.softmax(torch.where(scores > 0, scores, 0.2 * scores), dim=0)
            z = sum(w * projected[j] for w, j in zip(alpha, allowed, strict=True)).relu()
            read.append(net.embedding[i] * z)
            torch.testing.assert_close(net.attention(projected)[i, allowed], alpha)
        hidden = (net.output_mlp[1].weight @ torch.cat(read) + net.output_mlp[1].bias).relu()
        torch.testing.assert_close(net(history), net.output_mlp[3].weight @ hidden + net.output_mlp[3].bias)
        assert ((net.attention(projected) > 0).numpy() == edges).all()


def test_the_score_is_the_smoothed_maximum_of_normalised_errors():
    error = np.array([[np.nan, 1.0, 3.0, 5.0, 1.0, 1.0, np.nan], [np.nan, 2.0, 2.0, np.nan, 2.0, 8.0, np.nan]])
    cells = deviations(error, np.array([1.0, 2.0]), np.array([0.95, 1.95]))
    np.testing.assert_allclose(cells[0], [np.nan, 0, 2, 4, 0, 0, np.nan])
    np.testing.assert_allclose(cells[1], [np.nan, 0, 0, np.nan, 0, 3, np.nan])
    # Maxima 0, 2, 4, 0, 3 of the steps that have any; up to four of them are averaged.
    np.testing.assert_allclose(step_scores(cells), [np.nan, 0, 1, 2, 1.5, 2.25, np.nan])


def test_a_missing_value_is_replaced_by_the_last_measured_one():
    x = torch.tensor([7.0, 1.0, 9.0, 9.0, 2.0])
    observed = torch.tensor([False, True, False, False, True])
    assert forward_fill(x, observed).tolist() == [0.0, 1.0, 1.0, 1.0, 2.0]


def test_training_draws_every_fifth_step_with_its_past():
    net, (x, observed) = network(), batch(40)
    drawn = net.draw(x, observed, torch.Generator().manual_seed(0))
    filled = forward_fill(x.asinh(), observed)
    assert drawn.history.shape == (40, 7, VARIABLES, 5)
    begun = set()
    for i in range(40):
        steps = [t for t in range(5, LENGTH) if torch.equal(filled[i, :, t], drawn.target[i, 0])]
        begun.add(steps[0])
        for k in range(7):
            t = steps[0] + 5 * k
            assert torch.equal(drawn.history[i, k], filled[i, :, t - 5 : t])
            assert torch.equal(drawn.target[i, k], filled[i, :, t])
            assert torch.equal(drawn.known[i, k], observed[i, :, t])
    assert begun == {5, 6, 7, 8, 9}


def test_the_loss_is_the_mean_square_over_what_was_measured():
    net, (x, observed) = network(), batch()
    drawn = net.draw(x, observed, torch.Generator().manual_seed(0))
    together = net.losses(drawn)["forecast"]
    with torch.no_grad():
        apart = (net(drawn.history) - drawn.target)[1][drawn.known[1]]
    torch.testing.assert_close(together[1], apart.square().mean())


@pytest.mark.parametrize("scoring", ["fused", "own"])
def test_it_learns_and_finds_what_the_past_did_not_announce(scoring):
    training = {"epochs": 15, "learning_rate": 0.02, "batch": 4}
    config = update(Config.tiny(), {"scoring": scoring, "features": 16, "training": training})
    detector = GDN(length=LENGTH, contamination=0.1, config=config).fit(coupled(60, 0))
    losses = [epoch.loss for epoch in detector.history_.epochs]
    assert losses[-1] < 0.1 * losses[0]
    new = coupled(8, 5)
    new[3, 20:28, 1] *= -1  # as large as ever, but against its past
    result = detector.detect(new)
    assert result.observations["score"].argmax() == 3
    if scoring == "fused":  # its other views know the variable; the forecasts of its neighbours suffer too
        assert next(iter(result.worst(1).iloc[0]["variables"])) == "variable_1"


def test_errors_are_normalised_by_those_of_the_training_data():
    config = update(Config.tiny(), {"scoring": "own", "training": {"epochs": 2}})
    data = coupled(30, 0)
    data[:, :, 2] += 2 * np.random.default_rng(1).normal(size=data.shape[:2])  # pure noise, which nothing forecasts
    detector = GDN(length=LENGTH, contamination=0.1, config=config).fit(data)
    with torch.no_grad():
        errors = np.stack([detector._errors(detector.scaler_("series", values).T)[0] for values in data])
    assert np.isnan(errors[:, :, :5]).all()
    low, middle, high = np.quantile(errors[:, :, 5:], (0.25, 0.5, 0.75), axis=(0, 2))
    np.testing.assert_allclose(detector.median_, middle, rtol=1e-5)
    np.testing.assert_allclose(detector.iqr_, high - low, rtol=1e-5)


def test_the_errors_of_a_limited_number_of_observations_are_normalised(monkeypatch):
    monkeypatch.setattr("tsadc.detectors.residual.MAX_SAMPLE_CELLS", 4 * LENGTH * VARIABLES)
    config = update(Config.tiny(), {"scoring": "own", "training": {"epochs": 1}})
    detector = GDN(length=LENGTH, contamination=0.1, config=config)
    seen: list[np.ndarray] = []
    inner = detector._errors
    monkeypatch.setattr(detector, "_errors", lambda z: seen.append(z) or inner(z), raising=False)
    settled: list[int] = []
    settle = detector._after_training
    monkeypatch.setattr(
        detector, "_after_training", lambda *parts: (settle(*parts), settled.append(len(seen))), raising=False
    )
    detector.fit(coupled(30, 0))
    assert settled == [4]  # two of each part
    with torch.no_grad():
        errors = np.concatenate([inner(z)[0] for z in seen[:4]], axis=1)
    np.testing.assert_allclose(detector.median_, np.nanmedian(errors, axis=1), rtol=1e-5)


def test_a_forecast_in_parts_is_the_forecast(monkeypatch):
    config = update(Config.tiny(), {"training": {"epochs": 1}})
    detector = GDN(length=LENGTH, contamination=0.1, config=config).fit(coupled(12, 0))
    z = coupled(1, 3)[0].T
    with torch.no_grad():
        whole = detector._errors(z)[1]
        monkeypatch.setattr("tsadc.detectors.baselines.gdn.MOST_WEIGHTS", 7 * VARIABLES**2)
        np.testing.assert_allclose(detector._errors(z)[1], whole, rtol=1e-5, atol=1e-6)
