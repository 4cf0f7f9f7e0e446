"""Random dilated convolutions: which shapes an observation is made of, whatever its level. After ROCKET (Dempster,
Petitjean, Webb 2020): kernels are drawn, not learnt; a feature is the share of steps at which a kernel answers.

    name       recipe   meaning
    channels            (kernel, 3) the 1 to 3 variables a kernel looks at; -1 where there are fewer
    weights             (kernel, 3, 9) normal, mean 0 for each variable, so that a level alone gives no answer
    dilations           (kernel,) 1, 2, 4, ...: steps between the 9 points a kernel looks at
    bias                (kernel,) a .6 to .95 quantile of the kernel's outputs in training
    features   P        (kernel,) arcsin sqrt of the share of outputs above the bias
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tsadc.detectors.ensemble.features import Owners
from tsadc.series import Floats, Observations
from tsadc.subsample import evenly_spaced

TAPS = 9
MOST_CHANNELS = 3
MOST_DILATIONS = 6
LARGEST = 8.0  # z is clipped here: how far out a value is belongs to another view
QUANTILES = (0.6, 0.95)
SAMPLED, STEPS = 128, 64  # training observations, and steps of each, that biases are taken from


class Convolutions:
    """Kernels and their biases."""

    def __init__(
        self,
        channels: NDArray[np.int64],
        weights: Floats,
        dilations: NDArray[np.int64],
        bias: Floats,
        variables: int,
    ) -> None:
        self.channels, self.weights, self.dilations, self.bias = channels, weights, dilations, bias
        kernel, place = np.nonzero(channels >= 0)
        self.owners: Owners = (kernel, channels[kernel, place])
        self.variables = variables
        self.groups = [(int(d), self._matrix(dilations == d)) for d in np.unique(dilations)]

    @classmethod
    def fit(cls, train: Observations, kernels: int, seed: int) -> Self:
        """`kernels` of each dilation, drawn by `seed`, with biases from training outputs."""
        rng = np.random.default_rng(seed)
        variables = len(train.names)
        fitting = [2**i for i in range(MOST_DILATIONS) if (TAPS - 1) * 2**i < train.length]
        dilations = np.repeat(fitting or [1], kernels)
        number = rng.integers(1, min(MOST_CHANNELS, variables) + 1, len(dilations))
        order = np.argsort(rng.random((len(dilations), variables)), axis=1)[:, :MOST_CHANNELS]
        channels = np.full((len(dilations), MOST_CHANNELS), -1)
        channels[:, : order.shape[1]] = np.where(np.arange(order.shape[1]) < number[:, None], order, -1)
        weights = rng.normal(size=(len(dilations), MOST_CHANNELS, TAPS))
        weights -= weights.mean(axis=2, keepdims=True)
        weights = np.where(channels[:, :, None] >= 0, weights, 0).astype(np.float32)
        drawn = cls(channels, weights, dilations, np.zeros(len(dilations), dtype=np.float32), variables)
        levels = rng.uniform(*QUANTILES, len(dilations))
        outputs = drawn._sample(train, rng)
        bias = [np.quantile(outputs[i], level) for i, level in enumerate(levels)]
        return cls(channels, weights, dilations, np.array(bias, dtype=np.float32), variables)

    def __call__(self, z: Floats) -> Floats:
        measured = np.isfinite(z)
        seen, found = measured.any(axis=0), np.asarray(measured.any(axis=1))
        share = np.empty(len(self.bias))
        for mine, outputs in self._outputs(z):
            above = outputs[:, seen] > self.bias[mine, None]
            share[mine] = np.count_nonzero(above, axis=1) / max(int(seen.sum()), 1)
        blind = ~found[self.channels] & (self.channels >= 0)
        return np.where(blind.any(axis=1), np.nan, np.arcsin(np.sqrt(share)))

    def _matrix(self, mine: NDArray[np.bool_]) -> csr_array:
        """The kernels `mine` as rows over (tap, variable): sparse, as each looks at few of the variables."""
        kernel, place = np.nonzero(self.channels[mine] >= 0)
        dense = np.zeros((int(mine.sum()), TAPS, self.variables), dtype=np.float32)
        dense[kernel, :, self.channels[mine][kernel, place]] = self.weights[mine][kernel, place]
        return csr_array(dense.reshape(len(dense), -1))

    def _outputs(self, z: Floats) -> Iterator[tuple[NDArray[np.bool_], Floats]]:
        """For each dilation, its kernels and their outputs (kernel, time). Beyond the ends, and where nothing was
        measured, is the median: 0."""
        known = np.clip(np.nan_to_num(z, nan=0.0), -LARGEST, LARGEST)
        length = z.shape[1]
        for dilation, matrix in self.groups:
            reach = (TAPS - 1) // 2 * dilation
            padded = np.pad(known, ((0, 0), (reach, reach)))
            shifted = [padded[:, tap * dilation : tap * dilation + length] for tap in range(TAPS)]
            yield self.dilations == dilation, matrix @ np.concatenate(shifted)

    def _sample(self, train: Observations, rng: np.random.Generator) -> Floats:
        """Outputs (kernel, sample) at some measured steps of observations spread over the training part."""
        found = []
        for i in evenly_spaced(len(train), SAMPLED):
            z = train.read(int(i))
            seen = np.flatnonzero(np.isfinite(z).any(axis=0))
            steps = np.sort(rng.choice(seen, min(STEPS, len(seen)), replace=False))
            outputs = np.empty((len(self.bias), len(steps)), dtype=np.float32)
            for mine, values in self._outputs(z):
                outputs[mine] = values[:, steps]
            found.append(outputs)
        return np.concatenate(found, axis=1)

    def state(self) -> dict[str, NDArray[Any]]:
        return {
            "kernels.channels": self.channels,
            "kernels.weights": self.weights,
            "kernels.dilations": self.dilations,
            "kernels.bias": self.bias,
        }

    @classmethod
    def restore(cls, state: Mapping[str, NDArray[Any]], variables: int) -> Self:
        return cls(
            state["kernels.channels"],
            state["kernels.weights"],
            state["kernels.dilations"],
            state["kernels.bias"],
            variables,
        )
