"""Activation recomputation: keep only the inputs of a large computation, and repeat it for the gradient."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tsadc.nn.randomness import current_generator, use_generator

CELLS = 3_000_000  # of an input: from here on the tensors kept for the gradient outgrow the memory of a small machine


def recomputed(compute: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """Return `compute(*inputs)`; if the first input is large and gradients are on, repeat it in the backward pass.

    Dropout draws the same numbers both times.
    """
    if not torch.is_grad_enabled() or inputs[0].numel() < CELLS:
        return compute(*inputs)
    generator = current_generator()
    state = None if generator is None else generator.get_state()

    def second_time() -> AbstractContextManager[None]:
        if state is None:
            return nullcontext()
        copy = torch.Generator()
        copy.set_state(state)
        return use_generator(copy)

    out: Tensor = checkpoint(
        compute,
        *inputs,
        use_reentrant=False,
        preserve_rng_state=generator is None,
        context_fn=lambda: (nullcontext(), second_time()),
    )
    return out
