"""Seeds and generators. Random numbers belong to a piece of work, not to the process, so threads cannot change them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_current = threading.local()


def derive_seed(*key: int) -> int:
    """Mix small numbers such as (seed, epoch, purpose) into a seed for torch."""
    # The length is part of the key: SeedSequence pads with zeros, so (1,) and (1, 0) would give the same seed.
    return int(np.random.SeedSequence((len(key), *key)).generate_state(1, np.uint64)[0] >> np.uint64(1))


def current_generator() -> torch.Generator | None:
    """Return the generator that dropout uses in this thread; None stands for torch's global one."""
    return getattr(_current, "generator", None)


@contextmanager
def use_generator(generator: torch.Generator) -> Iterator[None]:
    """Let dropout draw from `generator` within the block, in this thread."""
    before = current_generator()
    _current.generator = generator
    try:
        yield
    finally:
        _current.generator = before
