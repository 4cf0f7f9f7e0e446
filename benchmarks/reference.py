"""The reference of the speed measurements: TSAD-C (preset `paper`), computed the way the published code does.

This is not a copy of that code; it shows what the method costs without optimisation. `tsadc.nn` computes the same
numbers by other algebra, here they follow the definitions.

| here | what the published code does |
|---|---|
| `dplr_kernel` | complex Cauchy sums at the roots of unity, as one temporary (rows, columns, channel, frequency, N) |
| `diagonal_kernel` | the complex Vandermonde matrix (channel, N/2, time) |
| `s4` | (batch, time, channel), transposed around an FFT of a power of two; a new kernel at every call |
| `estimate` | projects the condition again at every diffusion step |
| `gin` | a sparse graph for every time step of a window: an edge list, messages along edges, sums at their ends |
| `training_step` | the whole batch at once |
| `score` | all T ancestral steps, one mask at a time |

Weights and settings are those of a `Network`, whose own computations are not used. The published code stores C times
I - dA^L, which ties the weights to one length; ours stores C. `published` copies a module and multiplies C once, and
everything from `kernel` on expects such a copy, so the reference does no work that the published code does not do.
Outputs then equal those of the fast path, and so do gradients, after `corrected` maps those of C back.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsadc.detectors.tsadc.decontaminator import Decontaminator, ResidualBlock, StepEmbedding
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.network import Network, TSADCBatch
from tsadc.nn.diffusion import Diffusion
from tsadc.nn.graph import GIN, AttentionGraph, GraphLossWeights
from tsadc.nn.s4 import S4, StateSpace

Module = TypeVar("Module", bound=nn.Module)


def with_conjugates(x: Tensor) -> Tensor:
    """(..., N/2), one of each conjugate pair -> (..., N), both."""
    return torch.cat([x, x.conj()], dim=-1)


def corrected(log_dt: Tensor, Lambda: Tensor, P: Tensor, C: Tensor, length: int) -> Tensor:
    """C (I - dA^L), all N: the roots of unity see the infinite kernel wrapped round, and this unwraps it.

    `log_dt` (channel,), the others as in `dplr_kernel`; dA is the bilinear rule on the dense A = Λ - P P*. In float64,
    since powers pile up rounding: in float32, scores at the published widths would be off by 2e-5 instead of 1e-6.
    """
    half = (log_dt.double().exp() / 2)[:, None, None]
    p = with_conjugates(P).to(torch.complex128)
    A = torch.diag_embed(with_conjugates(Lambda)) - p.unsqueeze(-1) * p.conj().unsqueeze(-2)
    eye = torch.eye(A.shape[-1], dtype=A.dtype)
    dA = torch.linalg.solve(eye - half * A, eye + half * A)
    unwrap = eye - torch.linalg.matrix_power(dA, length)
    return torch.einsum("...hm,hmn->...hn", with_conjugates(C).to(A.dtype), unwrap).to(C.dtype)


def cauchy_kernel(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, length: int) -> Tensor:
    """Kernel (direction, channel, length) of the corrected `C` (direction, channel, N).

    K(z) = k_CB - k_CP h k_PB / (1 + h k_PP), h = (1 + z) / 2, k_XY = Σ_n X_n Y_n Δ / (1 - z - (1 + z) Δ λ_n / 2): the
    Cauchy sum over 2/Δ (1 - z) / (1 + z) - λ with 1 + z multiplied through, which is finite at Nyquist, z = -1.
    """
    dt = log_dt.exp()[:, None, None]
    angle = -2 * math.pi / length * torch.arange(length // 2 + 1, dtype=dt.dtype)
    z = torch.polar(torch.ones_like(angle), angle)
    p = with_conjugates(P)
    rows = torch.cat([C, p.conj().unsqueeze(0)])
    columns = torch.stack([with_conjugates(B), p])
    products = rows.unsqueeze(1) * columns
    denominator = 1 - z[:, None] - (1 + z[:, None]) * dt / 2 * with_conjugates(Lambda).unsqueeze(1)
    k = (dt * products.unsqueeze(-2) / denominator).sum(-1)
    k_CB, k_CP = k[:-1].unbind(1)
    k_PB, k_PP = k[-1]
    h = (1 + z) / 2
    out: Tensor = torch.fft.irfft(k_CB - k_CP * h * k_PB / (1 + h * k_PP), n=length)
    return out


def dplr_kernel(log_dt: Tensor, Lambda: Tensor, P: Tensor, B: Tensor, C: Tensor, length: int) -> Tensor:
    """K[l] = Re(C dA^l dB), (direction, channel, length).

    `log_dt` (channel,); `Lambda`, `P`, `B` (channel, N/2) and `C` (direction, channel, N/2) complex.
    """
    return cauchy_kernel(log_dt, Lambda, P, B, corrected(log_dt, Lambda, P, C, length), length)


def diagonal_kernel(log_dt: Tensor, Lambda: Tensor, B: Tensor, C: Tensor, length: int) -> Tensor:
    """K[l] = 2 Re Σ_n C_n B_n (e^{Δλ} - 1) / λ e^{Δλ l}, a zero-order hold; shapes as in `dplr_kernel`."""
    exponent = log_dt.exp()[:, None] * Lambda
    vandermonde = torch.exp(exponent.unsqueeze(-1) * torch.arange(length))
    weights = C * B * (exponent.exp() - 1) / Lambda
    return 2 * torch.einsum("dhn,hnl->dhl", weights, vandermonde).real


def poles(space: StateSpace) -> Tensor:
    return torch.complex(-space.log_decay.exp(), space.frequency)


def stored_C(space: StateSpace, length: int) -> Tensor:
    """C as the published code stores it for this length, as pairs of reals: (direction, channel, N, 2)."""
    assert space.P is not None
    P, C = torch.view_as_complex(space.P), torch.view_as_complex(space.C)
    return torch.view_as_real(corrected(space.log_dt, poles(space), P, C, length))


def published(module: Module, length: int) -> Module:
    """A copy of a `Network`, or of a part of one, with C as the published code stores it for this length."""
    copied = deepcopy(module)
    for space in copied.modules():
        if isinstance(space, StateSpace) and space.P is not None:
            space.C = nn.Parameter(stored_C(space, length).detach())
    return copied


def kernel(space: StateSpace, length: int) -> Tensor:
    """The kernels of a `published` layer, (direction, channel, length)."""
    B, C = torch.view_as_complex(space.B), torch.view_as_complex(space.C)
    if space.P is None:
        return diagonal_kernel(space.log_dt, poles(space), B, C, length)
    return cauchy_kernel(space.log_dt, poles(space), torch.view_as_complex(space.P), B, C, length)


def convolve(u: Tensor, forward: Tensor, backward: Tensor) -> Tensor:
    """u (batch, channel, time) with both kernels (channel, time); the backward one starts one step ahead."""
    length = u.shape[-1]
    size = 2 ** math.ceil(math.log2(2 * length))
    circle = F.pad(forward, (0, size - length)) + F.pad(backward.flip(-1), (size - length, 0))
    out: Tensor = torch.fft.irfft(torch.fft.rfft(u, n=size) * torch.fft.rfft(circle, n=size), n=size)[..., :length]
    return out


def s4(layer: S4, x: Tensor, dropout: float = 0.0) -> Tensor:
    """A bidirectional layer: x (batch, time, channel) -> the same shape. `dropout` acts in training."""
    u = x.transpose(1, 2)
    y = convolve(u, *kernel(layer.space, x.shape[1])) + layer.D.unsqueeze(-1) * u
    y = F.gelu(y).transpose(1, 2)
    mixed = F.glu(F.linear(y, layer.mix_weight, layer.mix_bias), dim=-1)
    mixed = F.dropout(mixed, dropout, layer.training)
    return F.layer_norm(x + mixed, x.shape[-1:], layer.norm.weight, layer.norm.bias, layer.norm.eps)


def pointwise(layer: nn.Module, x: Tensor) -> Tensor:
    """A convolution of width 1 as the linear layer that it is: x (..., channel)."""
    assert isinstance(layer, nn.Conv1d)
    return F.linear(x, layer.weight.squeeze(-1), layer.bias)


def embed_step(layer: StepEmbedding, step: Tensor) -> Tensor:
    """step (batch,) -> (batch, feature)."""
    assert isinstance(layer.frequency, Tensor)
    angle = 2 * math.pi * step[:, None].to(layer.frequency) * layer.frequency / 1e4
    waves = torch.cat([angle.sin(), angle.cos()], dim=1)
    first, _, second, _ = layer.layers
    return F.silu(second(F.silu(first(waves))))


def block(part: ResidualBlock, x: Tensor, step: Tensor, condition: Tensor, dropout: float) -> tuple[Tensor, Tensor]:
    """x (batch, time, channel), step (batch, feature), condition (batch, time, 2 variables) -> next x, and skip."""
    hidden = x + part.step_proj(step)[:, None]
    hidden = F.conv1d(hidden.transpose(1, 2), part.widen_conv.weight, part.widen_conv.bias, padding=1).transpose(1, 2)
    hidden = s4(part.first_s4, hidden, dropout) + pointwise(part.condition_proj, condition)
    hidden = s4(part.second_s4, hidden, dropout)
    filtered, gate = hidden.chunk(2, dim=-1)
    residual, skip = pointwise(part.gate_proj, torch.tanh(filtered) * torch.sigmoid(gate)).chunk(2, dim=-1)
    return (x + residual) / math.sqrt(2), skip


def estimate(model: Decontaminator, noisy: Tensor, step: Tensor, x: Tensor, observed: Tensor) -> Tensor:
    """The predicted noise: noisy, x, observed (batch, time, variable), step (batch,) -> like x."""
    network = model.network
    condition = torch.cat([x * observed, observed.to(x.dtype)], dim=-1)
    hidden, embedded, skips = F.relu(pointwise(network.input_proj, noisy)), embed_step(network.step_embedding, step), []
    for part in network.blocks:
        assert isinstance(part, ResidualBlock)
        hidden, skip = block(part, hidden, embedded, condition, model.config.dropout)
        skips.append(skip)
    total = torch.stack(skips).sum(0) / math.sqrt(len(skips))
    return pointwise(network.output_proj, F.relu(pointwise(network.skip_proj, total)))


class Schedule:
    """The noise schedule; row t is step t, row 0 the clean observation. Small differences, hence float64."""

    def __init__(self, config: Diffusion.Config) -> None:
        linear = torch.linspace(config.beta_start, config.beta_end, config.steps, dtype=torch.float64)
        beta = torch.cat([torch.zeros(1, dtype=torch.float64), linear])
        alpha_bar = torch.cumprod(1 - beta, 0)
        self.steps = config.steps
        self.beta, self.signal, self.noise = beta, alpha_bar.sqrt(), (1 - alpha_bar).sqrt()
        self.deviation = beta.sqrt()
        self.deviation[2:] *= self.noise[1:-1] / self.noise[2:]

    def add_noise(self, x: Tensor, observed: Tensor, step: Tensor, noise: Tensor) -> Tensor:
        """x_t, with noise on hidden cells only: x (batch, time, variable), step (batch,)."""
        signal, spread = (table[step][:, None, None].to(x) for table in (self.signal, self.noise))
        return torch.where(observed, x, signal * x + spread * noise)

    def step_back(self, noisy: Tensor, step: int, noise_hat: Tensor, noise: Tensor) -> Tensor:
        """x_{t-1} from x_t, Eq. "sampling"."""
        mean = (noisy - self.beta[step] / self.noise[step] * noise_hat) / (1 - self.beta[step]).sqrt()
        return mean + self.deviation[step] * noise


def sample(model: Decontaminator, x: Tensor, observed: Tensor, noises: Sequence[Tensor]) -> Tensor:
    """The whole reverse chain: x, observed (batch, time, variable), `noises` for the start and each step T .. 1."""
    schedule = Schedule(model.config.diffusion)
    first, *rest = noises
    noisy = schedule.add_noise(x, observed, torch.full((len(x),), schedule.steps), first)
    for step, noise in zip(range(schedule.steps, 0, -1), rest, strict=True):
        noise_hat = estimate(model, noisy, torch.full((len(x),), step), x, observed)
        noisy = torch.where(observed, x, schedule.step_back(noisy, step, noise_hat, noise))
    return noisy


def learn_graph(graph: AttentionGraph, nodes: Tensor) -> Tensor:
    """nodes (batch, node, feature) -> adjacency (batch, node, node)."""
    learned = torch.softmax(graph.query(nodes) @ graph.key(nodes).mT / math.sqrt(nodes.shape[-1]), dim=-1)
    similarity = F.cosine_similarity(nodes.unsqueeze(2), nodes.unsqueeze(1), dim=-1).clamp_min(0)
    eye = torch.eye(nodes.shape[1], dtype=torch.bool)
    nearest = similarity.masked_fill(eye, -1).topk(min(graph.neighbours, nodes.shape[1] - 1), dim=-1).indices
    chosen = torch.zeros_like(similarity).scatter(-1, nearest, 1.0)
    return graph.zeta * similarity * chosen + (1 - graph.zeta) * learned


def penalty(nodes: Tensor, adjacency: Tensor, weights: GraphLossWeights) -> Tensor:
    """L_graph of each graph, (batch,)."""
    degree = adjacency.sum(-1)
    laplacian = torch.diag_embed(degree) - adjacency
    count = nodes.shape[1]
    smooth = torch.einsum("bii->b", nodes.mT @ laplacian @ nodes) / count**2
    sparse = adjacency.square().sum((-2, -1)) / count**2
    connect = -degree.clamp_min(1e-8).log().sum(-1) / count
    return weights.smooth * smooth + weights.sparse * sparse + weights.connect * connect


def gin(layers: GIN, embedding: Tensor, adjacency: Tensor, dropout: float) -> Tensor:
    """embedding (batch, time, node, feature), adjacency (batch, node, node) -> like embedding; a graph per time step.

    All graphs together are one with batch * time * node nodes. An edge (i, j) brings node i what node j sends.
    """
    batch, time, node, feature = embedding.shape
    graph, row, column = adjacency.detach().nonzero(as_tuple=True)
    start = ((graph[:, None] * time + torch.arange(time)) * node).flatten()
    receiver = start + row.repeat_interleave(time)
    sender = start + column.repeat_interleave(time)
    weight = adjacency[graph, row, column].repeat_interleave(time)
    hidden = embedding.reshape(-1, feature)
    assert layers.eps is not None
    for i, mlp in enumerate(layers.mlps):
        assert isinstance(mlp, nn.Sequential)
        first, second = (part for part in mlp if isinstance(part, nn.Conv1d))
        messages = hidden[sender] * weight[:, None]
        gathered = torch.zeros_like(hidden).scatter_add(0, receiver[:, None].expand_as(messages), messages)
        hidden = F.relu(pointwise(first, (1 + layers.eps[i]) * hidden + gathered))
        hidden = pointwise(second, F.dropout(hidden, dropout, layers.training))
        if i < len(layers.mlps) - 1:
            hidden = F.relu(hidden)
    return hidden.reshape(batch, time, node, feature)


def reconstruct(model: Dependencies, x: Tensor) -> tuple[Tensor, Tensor]:
    """x (batch, time, variable) -> reconstruction like x, and L_graph (batch,)."""
    batch, time, variables = x.shape
    hidden = pointwise(model.value_proj, x.transpose(1, 2).reshape(batch * variables, time, 1))
    for layer in model.layers:
        assert isinstance(layer, S4)
        hidden = s4(layer, hidden, model.config.dropout)
    embedding = hidden.reshape(batch, variables, time, -1).transpose(1, 2)
    outputs, penalties = [], []
    for window in embedding.tensor_split(min(model.config.graphs, time), dim=1):
        nodes = window.mean(1)
        adjacency = learn_graph(model.graph, nodes)
        outputs.append(gin(model.gin, window, adjacency, model.config.dropout))
        penalties.append(penalty(nodes, adjacency, model.config.weights))
    hidden = torch.cat(outputs, dim=1)
    return F.linear(hidden, model.output_weight, model.output_bias).squeeze(-1), torch.stack(penalties).mean(0)


def cell_mean(values: Tensor, cells: Tensor) -> Tensor:
    """Mean over the `cells` of each observation, (batch,)."""
    return (values * cells).sum((1, 2)) / cells.sum((1, 2)).clamp_min(1)


def losses(network: Network, batch: TSADCBatch) -> dict[str, Tensor]:
    """What `Network.losses` returns, from what `Network.draw` drew: (batch, variable, time)."""
    require_paper(network)
    model, schedule = network.decontaminator, Schedule(network.decontaminator.config.diffusion)
    names = ("x", "measured", "observed", "noise", "last_noise")
    x, measured, observed, noise, last_noise = (getattr(batch, name).transpose(1, 2) for name in names)
    x = x * measured
    noisy = schedule.add_noise(x, observed, batch.step, noise)
    noise_hat = estimate(model, noisy, batch.step, x, observed)
    last = torch.full((len(x),), schedule.steps)
    noisy = schedule.add_noise(x, observed, last, last_noise)
    last_hat = estimate(model, noisy, last, x, observed)
    start = (noisy - schedule.noise[-1] * last_hat) / schedule.signal[-1]
    decontaminated = torch.where(observed, x, start)
    reconstruction, graph = reconstruct(network.dependencies, decontaminated)
    return {
        "noise": cell_mean((noise_hat - noise).square(), measured & ~observed),
        "graph": graph,
        "reconstruction": cell_mean((decontaminated - reconstruction).square(), measured),
    }


def training_step(network: Network, batch: TSADCBatch) -> dict[str, Tensor]:
    """The losses of a batch, each (batch,); adds the gradient of their mean to the weights."""
    found = losses(network, batch)
    torch.stack(list(found.values())).sum(0).mean().backward()
    return {name: loss.detach() for name, loss in found.items()}


@torch.no_grad()
def score(
    network: Network, z: Tensor, shown: Tensor, noise: Tensor, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Residuals of an observation z (variable, time), NaN where not measured: s1 on hidden cells, s2 on all, else NaN.

    `shown` and `noise` (mask, variable, time) are an `Inference`'s, `generator` one with its seed: the same noise.
    """
    require_paper(network)
    steps = network.decontaminator.config.diffusion.steps
    # All masks of a step are drawn together, as the fast path runs them; then each goes its own way.
    noises = [noise, *(torch.randn(noise.shape, generator=generator) for _ in range(steps))]
    measured = torch.isfinite(z)
    x = torch.where(measured, z, 0.0)
    total, count = torch.zeros_like(x), torch.zeros_like(x)
    for i, seen in enumerate(shown & measured):
        of_mask = [one[i : i + 1].transpose(1, 2) for one in noises]
        found = sample(network.decontaminator, x.T[None], seen.T[None], of_mask)[0].T
        total, count = total + found * ~seen, count + ~seen
    imputed = total / count.clamp_min(1)
    filled = torch.where(measured, x, imputed)
    reconstruction = reconstruct(network.dependencies, filled.T[None])[0][0].T
    hidden = measured & ~shown.all(0)
    residuals = torch.where(hidden, (z - imputed).abs(), torch.nan)
    return residuals, torch.where(measured, (z - reconstruction).abs(), torch.nan)


def require_paper(network: Network) -> None:
    """Only the method of the preset `paper` is written here, at any width."""
    model, other = network.decontaminator.config, network.dependencies.config
    form = (model.start, model.loss, model.at, model.diffusion.target, other.symmetric, other.own, other.identity)
    if form != ("signal", "masked", "uniform", "noise", False, True, False) or network.squash or not network.joint:
        raise ValueError(f"The reference knows the form of the preset `paper` only, but got {model} and {other}.")
