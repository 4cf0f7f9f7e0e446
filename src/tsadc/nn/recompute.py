"""Less memory for more time: of a piece of work only its inputs are kept, and the rest is made again when the gradient
needs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from tsadc.nn.dropout import drawing_from, generator_in_use

CELLS = 3_000_000  # of an input: from here on what is kept for the gradient outgrows the memory of a small machine


def recomputed(work: Callable[..., Tensor], *inputs: Tensor) -> Tensor:
    """`work(*inputs)`, made twice if these are large and gradients are wanted; dropout draws the same again."""
    if not torch.is_grad_enabled() or inputs[0].numel() < CELLS:
        return work(*inputs)
    generator = generator_in_use()
    state = None if generator is None else generator.get_state()

    def again() -> AbstractContextManager[None]:
        if generator is None or state is None:
            return nullcontext()
        copy = torch.Generator(generator.device)
        copy.set_state(state)
        return drawing_from(copy)

    made: Tensor = checkpoint(
        work,
        *inputs,
        use_reentrant=False,
        preserve_rng_state=generator is None,
        context_fn=lambda: (nullcontext(), again()),
    )
    return made
