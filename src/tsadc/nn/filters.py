"""One filter for many micro-batches: an S4 layer's convolution filter depends on its parameters alone, not on the
input, so that an update makes it once and differentiates it once."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from tsadc.nn import recompute
from tsadc.nn.runtime.threads import spread
from tsadc.nn.s4 import S4


class _Made(NamedTuple):
    """A filter with its history back to the parameters, None where that is large and made again for the gradient;
    without it, where gradients gather; and its spectrum."""

    circle: Tensor | None
    leaf: Tensor
    spectrum: Tensor


class Filters:
    """Within, the S4 layers of `network` take their filters from here. A micro-batch differentiates as far as
    `leaves`; `gradients` goes on from there."""

    def __init__(self, network: nn.Module) -> None:
        self.layers = [part for part in network.modules() if isinstance(part, S4)]
        self.made: dict[tuple[int, int], _Made] = {}
        self.locks = [threading.Lock() for _ in self.layers]

    def __enter__(self) -> Self:
        # What the last update used is made at once, side by side; the first one makes each when it is asked for.
        wanted = [(place, length) for place, layer in enumerate(self.layers) for length in layer.lengths]
        list(spread(lambda one: self._make(*one), wanted))
        for place, layer in enumerate(self.layers):
            layer.lengths.clear()
            layer.given = lambda length, place=place: self._give(place, length)
        return self

    def __exit__(self, *error: object) -> None:
        for layer in self.layers:
            layer.given = None

    def _give(self, place: int, length: int) -> tuple[Tensor, Tensor]:
        with self.locks[place]:
            if (place, length) not in self.made:
                self._make(place, length)
            if length not in self.layers[place].lengths:
                self.layers[place].lengths.append(length)
        return self.made[place, length][1:]

    def _make(self, place: int, length: int) -> None:
        layer = self.layers[place]
        # Two lags for each step: the history of a filter this long would outlast the whole update.
        large = 2 * length * len(layer.D) >= recompute.CELLS
        with torch.set_grad_enabled(not large):
            circle = layer.circle(length)
        leaf = circle.detach().requires_grad_()
        self.made[place, length] = _Made(None if large else circle, leaf, torch.fft.rfft(circle.detach()))

    @property
    def leaves(self) -> list[Tensor]:
        """The filters made so far, in the order of the layers, whichever thread asked first."""
        return [self.made[key].leaf for key in sorted(self.made)]

    def gradients(self, grads: Sequence[Tensor | None]) -> Iterator[tuple[nn.Parameter, Tensor]]:
        """From the gradients of `leaves` to those of the parameters behind them."""

        def back(one: tuple[tuple[int, int], Tensor]) -> list[tuple[nn.Parameter, Tensor]]:
            (place, length), grad = one
            layer = self.layers[place]
            behind = [parameter for parameter in layer.behind_filter() if parameter.requires_grad]
            if not behind:
                return []
            with torch.enable_grad():
                circle = self.made[place, length].circle
                circle = layer.circle(length) if circle is None else circle
            return list(zip(behind, torch.autograd.grad(circle, behind, grad), strict=True))

        used = [(key, grad) for key, grad in zip(sorted(self.made), grads, strict=True) if grad is not None]
        for pairs in spread(back, used):
            yield from pairs
