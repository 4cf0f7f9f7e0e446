import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import ConfigError
from tsadc.nn.diffusion import Diffusion

SHAPE = (4, 3, 20)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(seed: int, shape=SHAPE) -> torch.Tensor:
    return torch.randn(shape, generator=seeded(seed))


@pytest.mark.parametrize("steps", [1, 2, 50])
def test_the_schedule_is_linear_and_alpha_bar_is_the_running_product(steps):
    diffusion = Diffusion(Diffusion.Config(steps=steps, beta_start=1e-4, beta_end=0.02))
    product = 1.0
    assert diffusion.alpha_bar[0] == 1
    for step in range(1, steps + 1):
        beta = 1e-4 + (0.02 - 1e-4) * (step - 1) / max(steps - 1, 1)
        product *= 1 - beta
        assert diffusion.beta[step].item() == pytest.approx(beta, rel=1e-6)
        assert diffusion.alpha[step].item() == pytest.approx(1 - beta, rel=1e-6)
        assert diffusion.alpha_bar[step].item() == pytest.approx(product, rel=1e-6)


def test_the_papers_schedule_leaves_much_of_the_signal():
    assert Diffusion().alpha_bar[-1].item() == pytest.approx(0.603, abs=5e-4)


def test_noising_is_the_forward_chain_in_one_stride():
    """Mean and variance of x_t from x_{t-1}, iterated, against the weights the closed form gives x_0 and the noise."""
    diffusion = Diffusion(Diffusion.Config(steps=10, beta_end=0.3))
    one, zero = torch.ones(1, 1, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.float64)
    mean, variance = 1.0, 0.0
    for step, beta in enumerate(diffusion.beta.double().tolist()[1:], start=1):
        mean, variance = (1 - beta) ** 0.5 * mean, (1 - beta) * variance + beta
        assert diffusion.add_noise(one, step, zero).item() == pytest.approx(mean, rel=1e-6)
        assert diffusion.add_noise(zero, step, one).item() ** 2 == pytest.approx(variance, rel=1e-5)


def test_each_item_of_a_batch_has_its_own_step():
    diffusion, start, noise = Diffusion(), normal(0), normal(1)
    together = diffusion.add_noise(start, torch.tensor([1, 50, 7, 23]), noise)
    for i, step in enumerate([1, 50, 7, 23]):
        torch.testing.assert_close(together[i : i + 1], diffusion.add_noise(start[i : i + 1], step, noise[i : i + 1]))


@given(step=st.integers(1, 50), beta_end=st.floats(1e-4, 0.2))
def test_the_estimates_undo_the_noise_for_both_targets(step, beta_end):
    start, noise = normal(0), normal(1)
    for target, prediction in [("noise", noise), ("start", start)]:
        diffusion = Diffusion(Diffusion.Config(beta_end=beta_end, target=target))
        noisy = diffusion.add_noise(start, step, noise)
        torch.testing.assert_close(diffusion.estimate_start(noisy, step, prediction), start, rtol=0, atol=5e-4)
        torch.testing.assert_close(diffusion.estimate_noise(noisy, step, prediction), noise, rtol=0, atol=5e-4)


@pytest.mark.parametrize("step", [1, 2, 30, 50])
def test_one_ancestral_step_is_the_papers_formula(step):
    diffusion, noisy, noise_hat = Diffusion(), normal(0), normal(1)
    beta = torch.linspace(1e-4, 0.02, 50, dtype=torch.float64)
    alpha_bar = torch.cat([torch.ones(1, dtype=torch.float64), (1 - beta).cumprod(0)])
    beta_t = beta[step - 1]
    mean = (noisy - beta_t / (1 - alpha_bar[step]).sqrt() * noise_hat) / (1 - beta_t).sqrt()
    variance = beta_t if step == 1 else (1 - alpha_bar[step - 1]) / (1 - alpha_bar[step]) * beta_t
    drawn = torch.randn(SHAPE, generator=seeded(5))
    expected = mean + variance.sqrt() * drawn
    torch.testing.assert_close(diffusion.reverse_step(noisy, step, noise_hat, seeded(5)), expected.float())


def test_both_targets_take_the_same_step_when_they_say_the_same():
    noisy, noise_hat = normal(0), normal(1)
    by_noise, by_start = Diffusion(), Diffusion(Diffusion.Config(target="start"))
    for step in (2, 25, 50):
        start_hat = by_noise.estimate_start(noisy, step, noise_hat)
        expected = by_noise.reverse_step(noisy, step, noise_hat, seeded())
        torch.testing.assert_close(by_start.reverse_step(noisy, step, start_hat, seeded()), expected, rtol=0, atol=1e-5)
        expected = by_noise.ddim_step(noisy, step, step - 2, noise_hat)
        torch.testing.assert_close(by_start.ddim_step(noisy, step, step - 2, start_hat), expected, rtol=0, atol=1e-5)


def test_knowing_the_start_the_ancestral_chain_passes_through_the_noised_starts():
    """If x_0 is one known number, every reverse step must land on q(x_{t-1} | x_0): N(sqrt(a) x_0, 1 - a)."""
    diffusion = Diffusion(Diffusion.Config(steps=20, beta_end=0.3, target="start"))
    known, moments = 1.7, {}

    def watch(noisy, step):
        moments[step] = (noisy.mean().item(), noisy.std().item())
        return noisy

    begin = diffusion.add_noise(torch.full((40_000, 1), known), 20, normal(2, (40_000, 1)))
    diffusion.sample(lambda noisy, _: torch.full_like(noisy, known), begin, keep=watch, generator=seeded(3))
    assert list(moments) == list(range(20, -1, -1))
    for step in range(1, 20):
        alpha_bar = diffusion.alpha_bar[step].item()
        assert moments[step][0] == pytest.approx(alpha_bar**0.5 * known, abs=0.02)
        assert moments[step][1] == pytest.approx((1 - alpha_bar) ** 0.5, rel=0.02)
    assert moments[0] == (pytest.approx(known, abs=1e-3), pytest.approx(1e-4**0.5, rel=0.02))


@pytest.mark.parametrize("steps", [None, 1, 7, (3, 50, 11)])
@pytest.mark.parametrize("target", ["noise", "start"])
def test_knowing_the_start_ddim_returns_it_over_any_subset(steps, target):
    diffusion, start = Diffusion(Diffusion.Config(target=target)), normal(0)

    def oracle(noisy, step):
        by_start = Diffusion(Diffusion.Config(target="start"))
        return start if target == "start" else by_start.estimate_noise(noisy, step, start)

    out = diffusion.sample(oracle, normal(1), method="ddim", steps=steps)
    torch.testing.assert_close(out, start, rtol=0, atol=1e-4)


def test_ddim_in_one_step_is_the_papers_training_estimate():
    diffusion, noisy, noise_hat = Diffusion(), normal(0), normal(1)
    out = diffusion.sample(lambda *_: noise_hat, noisy, method="ddim", steps=1)
    torch.testing.assert_close(out, diffusion.estimate_start(noisy, 50, noise_hat))


def test_ddim_with_eta_1_is_ancestral_except_for_the_draw_at_step_1():
    diffusion, noisy, noise_hat = Diffusion(), normal(0), normal(1)
    for step in (2, 3, 50):
        expected = diffusion.reverse_step(noisy, step, noise_hat, seeded())
        actual = diffusion.ddim_step(noisy, step, step - 1, noise_hat, eta=1, generator=seeded())
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6)


def in_double_precision(scheduler):
    """Their 1 - alpha_bar is rounded in single precision, which shows at the first steps (4e-5); ours is not."""
    scheduler.betas = torch.linspace(1e-4, 0.02, 50, dtype=torch.float64)
    scheduler.alphas = 1 - scheduler.betas
    scheduler.alphas_cumprod = scheduler.alphas.cumprod(0)
    return scheduler


@pytest.mark.parametrize("target", ["noise", "start"])
def test_ancestral_steps_agree_with_diffusers(target):
    diffusers = pytest.importorskip("diffusers")
    kind = {"noise": "epsilon", "start": "sample"}[target]
    theirs = diffusers.DDPMScheduler(num_train_timesteps=50, clip_sample=False, prediction_type=kind)
    ours, prediction, x = Diffusion(Diffusion.Config(target=target)), normal(1), normal(0)
    torch.testing.assert_close(ours.alpha_bar[1:], theirs.alphas_cumprod)
    theirs = in_double_precision(theirs)
    torch.testing.assert_close(ours.add_noise(x, 30, prediction), theirs.add_noise(x, prediction, torch.tensor([29])))
    for step in range(50, 1, -1):
        expected = theirs.step(prediction, step - 1, x, generator=seeded(step)).prev_sample
        x = ours.reverse_step(x, step, prediction, seeded(step))
        torch.testing.assert_close(x, expected, rtol=0, atol=2e-6)
    # At the last step they return the mean; the paper draws once more, with variance beta_1.
    expected = theirs.step(prediction, 0, x).prev_sample + 0.01 * torch.randn(SHAPE, generator=seeded(1))
    torch.testing.assert_close(ours.reverse_step(x, 1, prediction, seeded(1)), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("eta", [0.0, 0.6])
@pytest.mark.parametrize("count", [50, 10, 5])
def test_ddim_chains_agree_with_diffusers(count, eta):
    diffusers = pytest.importorskip("diffusers")
    theirs = diffusers.DDIMScheduler(num_train_timesteps=50, clip_sample=False, timestep_spacing="trailing")
    theirs = in_double_precision(theirs)
    theirs.set_timesteps(count)
    ours = Diffusion()
    assert [step - 1 for step in reversed(ours.subset(count))] == theirs.timesteps.tolist()

    def predict(noisy, step):
        return torch.sin(3 * noisy) + step.view(-1, 1, 1) / 50

    x, generator = normal(0), seeded(9)
    for t in theirs.timesteps.tolist():
        prediction = predict(x, torch.full((4,), t + 1))
        x = theirs.step(prediction, t, x, eta=eta, generator=generator).prev_sample
    out = ours.sample(predict, normal(0), method="ddim", steps=count, eta=eta, generator=seeded(9))
    torch.testing.assert_close(out, x, rtol=0, atol=1e-5)


def test_the_network_sees_the_kept_values_at_every_step():
    diffusion, known = Diffusion(Diffusion.Config(steps=5)), normal(0)
    observed = torch.rand(SHAPE, generator=seeded(1)) < 0.5
    seen = []

    def predict(noisy, step):
        assert torch.equal(noisy[observed], known[observed])
        seen.append(step.tolist())
        return torch.zeros_like(noisy)

    out = diffusion.sample(
        predict, normal(2), keep=lambda noisy, _: torch.where(observed, known, noisy), generator=seeded()
    )
    assert seen == [[step] * 4 for step in (5, 4, 3, 2, 1)]
    assert torch.equal(out[observed], known[observed])
    assert not torch.equal(out[~observed], known[~observed])


@given(steps=st.integers(1, 200), data=st.data())
def test_subsets_rise_evenly_to_the_last_step(steps, data):
    count = data.draw(st.integers(1, steps))
    chosen = Diffusion(Diffusion.Config(steps=steps)).subset(count)
    gaps = [b - a for a, b in zip((0, *chosen), chosen, strict=False)]
    assert len(chosen) == count
    assert chosen[-1] == steps
    assert min(gaps) >= 1
    assert max(gaps) - min(gaps) <= 1


def test_sampling_repeats_with_its_generator_and_leaves_the_global_one_alone():
    diffusion, state = Diffusion(), torch.get_rng_state()
    runs = [diffusion.sample(lambda x, _: x, normal(0), generator=seeded(4)) for _ in range(2)]
    assert torch.equal(runs[0], runs[1])
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize(
    "settings",
    [
        {"steps": 0},
        {"beta_start": 0.0},
        {"beta_start": 0.03},
        {"beta_end": 1.0},
        {"beta_end": float("nan")},
        {"target": "velocity"},
    ],
)
def test_settings_out_of_range_are_named(settings):
    with pytest.raises(ConfigError, match=str(next(iter(settings.values())))):
        Diffusion.Config(**settings)


@pytest.mark.parametrize(
    "options",
    [
        {"method": "euler"},
        {"method": "ancestral", "steps": 5},
        {"method": "ddim", "steps": 51},
        {"method": "ddim", "steps": ()},
        {"method": "ddim", "steps": (0, 3)},
        {"method": "ddim", "steps": (3, 3)},
    ],
)
def test_impossible_ways_of_sampling_are_refused(options):
    with pytest.raises(ConfigError):
        Diffusion().sample(lambda x, _: x, normal(0), generator=seeded(), **options)


@pytest.mark.parametrize("step", [0, 51, -1])
def test_a_step_outside_the_chain_is_refused(step):
    with pytest.raises(ValueError, match="from 1 to 50"):
        Diffusion().add_noise(normal(0), torch.tensor([1, 2, 3, step]), normal(1))


def test_drawing_without_a_generator_is_refused():
    with pytest.raises(ValueError, match=r"torch\.Generator"):
        Diffusion().sample(lambda x, _: x, normal(0))
    with pytest.raises(ValueError, match=r"torch\.Generator"):
        Diffusion().sample(lambda x, _: x, normal(0), method="ddim", eta=1.0)
