"""S4 filters shared by the micro-batches of an update.

The convolution filter of an S4 layer depends on its parameters alone, not on the input. An update therefore computes it
once, and differentiates it once, for all micro-batches.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from tsadc.nn import recompute
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.s4 import S4


class _SharedFilter(NamedTuple):
    """A filter: attached to the parameters, detached, and its spectrum.

    `attached` is None for a large filter, which is computed again for the gradient. Gradients of the micro-batches
    gather at `leaf`.
    """

    attached: Tensor | None
    leaf: Tensor
    spectrum: Tensor


class SharedFilters:
    """A context in which the S4 layers of `network` take their filters from here.

    Gradients of a micro-batch end at `leaves`; `gradients` continues from there to the parameters.
    """

    def __init__(self, network: nn.Module) -> None:
        self.layers = [module for module in network.modules() if isinstance(module, S4)]
        self.filters: dict[tuple[int, int], _SharedFilter] = {}  # by (layer number, time length)
        self.locks = [threading.Lock() for _ in self.layers]

    def __enter__(self) -> Self:
        # The filters that the last update used are computed at once, in parallel; in the first update, on demand.
        used = [(number, length) for number, layer in enumerate(self.layers) for length in layer.filter_lengths]
        list(parallel_map(lambda key: self._compute(*key), used))
        for number, layer in enumerate(self.layers):
            layer.filter_lengths.clear()
            layer.shared_filter = lambda length, number=number: self._get(number, length)
        return self

    def __exit__(self, *error: object) -> None:
        for layer in self.layers:
            layer.shared_filter = None

    def _get(self, number: int, length: int) -> tuple[Tensor, Tensor]:
        """Return the leaf and the spectrum of a layer's filter."""
        with self.locks[number]:
            if (number, length) not in self.filters:
                self._compute(number, length)
            if length not in self.layers[number].filter_lengths:
                self.layers[number].filter_lengths.append(length)
        return self.filters[number, length][1:]

    def _compute(self, number: int, length: int) -> None:
        layer = self.layers[number]
        # A filter has two lags per time step. The history of a large one would take memory for the whole update.
        large = 2 * length * len(layer.D) >= recompute.CELLS
        with torch.set_grad_enabled(not large):
            filter_ = layer.filter(length)
        leaf = filter_.detach().requires_grad_()
        spectrum = torch.fft.rfft(filter_.detach())
        self.filters[number, length] = _SharedFilter(None if large else filter_, leaf, spectrum)

    @property
    def leaves(self) -> list[Tensor]:
        """Return the filters computed so far, in the order of the layers, whichever thread came first."""
        return [self.filters[key].leaf for key in sorted(self.filters)]

    def gradients(self, grads: Sequence[Tensor | None]) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """Turn the gradients of `leaves` into those of the parameters behind them."""

        def differentiate(item: tuple[tuple[int, int], Tensor]) -> list[tuple[nn.Parameter, Tensor]]:
            (number, length), grad = item
            layer = self.layers[number]
            trained = [parameter for parameter in layer.filter_parameters() if parameter.requires_grad]
            if not trained:
                return []
            with torch.enable_grad():
                attached = self.filters[number, length].attached
                attached = layer.filter(length) if attached is None else attached
            return list(zip(trained, torch.autograd.grad(attached, trained, grad), strict=True))

        used = [(key, grad) for key, grad in zip(sorted(self.filters), grads, strict=True) if grad is not None]
        for pairs in parallel_map(differentiate, used):
            yield from pairs
