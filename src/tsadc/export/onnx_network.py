"""The network of TSAD-C as a part of an ONNX graph.

Each function adds what a function of `detectors/tsadc` or `nn` computes in eval mode, and names it. Masks and noise are
the same for every observation (`Inference`), so they are constants of the graph, and so are the filters of S4. All of
it is float32, as in torch.

    name        meaning
    x           (variable, time) the input of both modules: asinh(z), 0 where not measured
    hidden      (mask, channel, time) in module 1, (variable, feature, time) in module 2
    residual    cells (variable, time) >= 0, and where they are known
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tsadc.errors import ConfigError
from tsadc.export.graph import Tensor, joined
from tsadc.export.onnx_convolution import Array, convolved
from tsadc.export.onnx_views import Observation

if TYPE_CHECKING:  # this module can be imported without torch
    from tsadc.detectors.tsadc.decontaminator import Decontaminator, Denoiser
    from tsadc.detectors.tsadc.dependencies import Dependencies
    from tsadc.detectors.tsadc.detector import TSADC
    from tsadc.detectors.tsadc.inference import Inference
    from tsadc.nn.graph import AttentionGraph
    from tsadc.nn.s4 import S4

Residual = tuple[Tensor, Tensor]


def check_network(detector: TSADC) -> None:
    """Raise a sentence if the network cannot be written as a graph."""
    steps = detector.settings.inference.steps
    if steps != 1:
        raise ConfigError(
            f"The model imputes with inference.steps={steps}, but only imputations in one diffusion step can be "
            "exported; fit it with `--set inference.steps=1`."
        )


def residuals(detector: TSADC, own: Observation) -> list[Residual]:
    """Follow `Inference.__call__` for all variables of an observation."""
    inference, network = detector._inference(detector._residual_names()), detector.network_
    shown = inference.shown.numpy()
    x = _unary("Asinh", own.z) if network.squash else own.z
    imputed = _imputed(inference, x, own)
    # Unmeasured cells are hidden in every mask, so module 2 sees an imputation there and never a made-up zero.
    reconstruction = _dependencies(network.dependencies, own.measured.where(x, imputed), own)
    outputs = {
        "imputation": (imputed, own.measured & own.graph.constant(~shown.all(axis=0))),
        "reconstruction": (reconstruction, own.measured),
    }
    found = []
    for output, where in map(outputs.__getitem__, inference.residuals):
        cells = (own.z - (_unsquashed(output) if network.squash else output)).abs()
        known = where & ~cells.is_nan()
        found.append((known.where(cells, 0.0), known))
    return found


def weighted_errors(weights: Sequence[float], found: Sequence[Residual]) -> Tensor:
    """Follow `inference.own_evidence`: the weighted RMSE (view,) of each residual."""
    parts = []
    for weight, (cells, known) in zip(weights, found, strict=True):
        total = cells.cast(np.float64).square().reshape(-1).sum(0, keepdims=True)
        number = known.reshape(-1).count(0, keepdims=True)
        parts.append((total / number.at_least(1.0)).sqrt() * weight)
    return joined(parts)


# Module 1.


def _imputed(inference: Inference, x: Tensor, own: Observation) -> Tensor:
    """Follow `Inference._impute`, which does nothing if every cell is seen in every mask."""
    model, shown = inference.network.decontaminator, inference.shown.numpy()
    noise = inference.noise

    def impute(given: list[Tensor]) -> Tensor:
        x, measured = given
        observed = x.graph.constant(shown) & measured
        estimates = _estimate(model, x, observed, noise, own)
        number = (~observed).cast(np.float32).sum(0)
        return (~observed).where(estimates, 0.0).sum(0) / number.at_least(1.0)

    if not shown.all():
        return impute([x, own.measured])
    complete = ~(~own.measured).reshape(-1).any(0).reshape()
    return own.graph.either(complete, [x, own.measured], lambda given: given[0], impute)


def _estimate(model: Decontaminator, x: Tensor, observed: Tensor, noise: Any, own: Observation) -> Tensor:
    """Follow `Decontaminator.estimate`: (mask, variable, time)."""
    diffusion, last = model.diffusion, model.last
    one, zero = noise.new_ones(1, 1), noise.new_zeros(1, 1)
    signal, scale = float(diffusion.add_noise(one, last, zero)), float(diffusion.add_noise(zero, last, one))
    seen = observed.where(x, 0.0)
    start = seen if model.config.start == "masked" else x
    noised = start * signal + _array(noise) * np.float32(scale)
    noisy = noised if model.noise_everywhere else observed.where(x, noised)
    prediction = _denoised(model.network, noisy, last, joined([seen, observed.cast(np.float32)], axis=1), own)
    if diffusion.target == "start":
        return prediction
    return (noisy - prediction * scale) / signal


def _denoised(model: Denoiser, noisy: Tensor, step: int, condition: Tensor, own: Observation) -> Tensor:
    """Follow `Denoiser.forward`."""
    hidden = _relu(_mixed(noisy, model.input_proj))
    embedded = model.step_embedding(model.input_proj.weight.new_full((1,), step))
    skips = None
    for block in model.blocks:
        hidden, skip = _residual_block(block, hidden, embedded, condition, own.length)
        skips = skip if skips is None else skips + skip
    assert skips is not None
    out = _relu(_mixed(skips / math.sqrt(len(model.blocks)), model.skip_proj))
    return _mixed(out, model.output_proj)


def _residual_block(block: Any, x: Tensor, embedded: Any, condition: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Follow `ResidualBlock.forward`."""
    shifted = x + _array(block.step_proj(embedded))[:, :, None]
    widen = block.widen_conv
    weights = (x.graph.constant(_array(own)) for own in (widen.weight, widen.bias))
    hidden = x.graph.node("Conv", shifted, *weights, dtype=np.float32, pads=[1, 1])
    hidden = _s4(block.second_s4, _s4(block.first_s4, hidden, length) + _mixed(condition, block.condition_proj), length)
    filtered, gate = _halves(hidden, 1)
    gated = _unary("Tanh", filtered) * _unary("Sigmoid", gate)
    residual, skip = _halves(_mixed(gated, block.gate_proj), 1)
    return (x + residual) / math.sqrt(2.0), skip


# Module 2.


def _dependencies(model: Dependencies, x: Tensor, own: Observation) -> Tensor:
    """Follow `Dependencies.forward` without the graph loss: x (variable, time) reconstructed."""
    variables, length = own.variables, own.length
    hidden = _mixed(x.reshape(variables, 1, length), model.value_proj)
    if model.variable_embedding is not None:
        hidden = hidden + _array(model.variable_embedding)[:, :, None]
    for layer in model.layers:
        hidden = _s4(layer, hidden, length)  # type: ignore[arg-type]
    weight, bias = model.output_weight.expand(variables, -1), model.output_bias.expand(variables)
    if model.config.gin_layers:
        # The last product of the GIN and the projection are one product (`GIN.read`).
        last: Any = model.gin.mlps[-1][-1]  # type: ignore[index]
        hidden = _messages_passed(model, hidden, own)
        weight, bias = weight @ last.weight.squeeze(-1), bias + weight @ last.bias
    return (_array(weight)[:, None] @ hidden).reshape(variables, length) + _array(bias)[:, None]


def _messages_passed(model: Dependencies, hidden: Tensor, own: Observation) -> Tensor:
    """Follow `GIN._hidden` with the graphs of all windows."""
    windows = _windows(own.length, min(model.config.graphs, own.length))
    means = [hidden.part(first, stop, 2).sum(2) / float(stop - first) for first, stop in windows]
    features = model.config.features
    nodes = joined([mean.reshape(1, own.variables, features) for mean in means])
    graphs = _adjacency(model.graph, nodes, own.variables)
    mlps: Any = model.gin.mlps
    same = np.eye(own.variables, dtype=np.float32)
    for number, mlp in enumerate(mlps):
        is_last = number == len(mlps) - 1
        if model.gin.eps is not None:
            hidden = _mixed_variables(hidden, graphs + (1 + _array(model.gin.eps)[number]) * same, windows, own)
        elif is_last:
            hidden = _mixed_variables(hidden, graphs * (1 - same), windows, own)
        hidden = _relu(_mixed(hidden, mlp[0]))
        if not is_last:
            hidden = _relu(_mixed(hidden, mlp[-1]))
    return hidden


def _windows(length: int, count: int) -> list[tuple[int, int]]:
    """Follow `graph.split_windows`: the first and the last step of each window."""
    least, longer = divmod(length, count)
    return list(pairwise(accumulate((least + (i < longer) for i in range(count)), initial=0)))


def _mixed_variables(hidden: Tensor, graphs: Tensor, windows: list[tuple[int, int]], own: Observation) -> Tensor:
    """Follow `graph._pass_messages`: multiply the variables of a window by its graph (window, variable, variable)."""
    parts = []
    for number, (first, stop) in enumerate(windows):
        part = hidden.part(first, stop, 2).reshape(own.variables, -1)
        parts.append((graphs.take(number) @ part).reshape(own.variables, -1, stop - first))
    return joined(parts, axis=2)


def _adjacency(model: AttentionGraph, nodes: Tensor, variables: int) -> Tensor:
    """Follow `AttentionGraph.forward` for nodes (window, variable, feature)."""
    query, key = (nodes @ _array(linear.weight).T for linear in (model.query, model.key))
    features = model.query.in_features
    attention = nodes.graph.node(
        "Softmax", query @ key.transpose(0, 2, 1) / math.sqrt(features), dtype=np.float32, axis=-1
    )
    adjacency = _nearest(nodes, model.neighbours, variables) * model.zeta + attention * (1 - model.zeta)
    return (adjacency + adjacency.transpose(0, 2, 1)) / 2.0 if model.symmetric else adjacency


def _nearest(nodes: Tensor, neighbours: int, variables: int) -> Tensor:
    """Follow `graph.knn_adjacency`."""
    size = nodes.square().sum(2, keepdims=True).sqrt()
    direction = nodes / (size < float(np.finfo(np.float32).eps)).where(size * 0.0 + 1.0, size)
    similarity = (direction @ direction.transpose(0, 2, 1)).at_least(0.0)
    others = nodes.graph.constant(~np.eye(variables, dtype=bool))
    values, places = others.where(similarity, -1.0).top(min(neighbours, variables - 1), axis=2)
    return nodes.graph.node("ScatterElements", similarity * 0.0, places, values, dtype=np.float32, axis=2)


# Layers.


def _s4(layer: S4, x: Tensor, length: int) -> Tensor:
    """Follow `S4.forward` for x (batch, channel, time)."""
    y = convolved(x, _lags(layer, length), length)
    gelu = y * (_unary("Erf", y / math.sqrt(2.0)) + 1.0) * 0.5
    value, gate = _halves(_array(layer.mix_weight) @ gelu + _array(layer.mix_bias)[:, None], 1)
    x = x + value * _unary("Sigmoid", gate)
    # Follow `ChannelNorm.forward`.
    channels = float(len(layer.D))
    centred = x - x.sum(1, keepdims=True) / channels
    size = (centred.square().sum(1, keepdims=True) / channels + layer.norm.eps).sqrt()
    return centred / size * _array(layer.norm.weight)[:, None] + _array(layer.norm.bias)[:, None]


def _lags(layer: S4, length: int) -> Array:
    """Return the filter (channel, lag) of an S4 layer at the lags from -(length - 1) to length - 1."""
    circle = _array(layer.filter(length))
    return np.concatenate([circle[:, circle.shape[1] - length + 1 :], circle[:, :length]], axis=1)


def _mixed(x: Tensor, layer: Any) -> Tensor:
    """Follow `Pointwise.forward`."""
    return _array(layer.weight.squeeze(-1)) @ x + _array(layer.bias)[:, None]


def _halves(x: Tensor, axis: int) -> list[Tensor]:
    """Follow `Tensor.chunk(2)`."""
    return x.graph.nodes_of("Split", [x], [np.float32, np.float32], axis=axis)


def _relu(x: Tensor) -> Tensor:
    return _unary("Relu", x)


def _unsquashed(x: Tensor) -> Tensor:
    """Follow `inputs.unsquash`."""
    from tsadc.nn.inputs import MAX_SQUASHED

    return _unary("Sinh", x.clip(MAX_SQUASHED))


def _unary(kind: str, x: Tensor) -> Tensor:
    return x.graph.node(kind, x, dtype=x.dtype)


def _array(tensor: Any) -> Array:
    """Return a tensor of torch as an array."""
    array: Array = tensor.detach().numpy()
    return array
