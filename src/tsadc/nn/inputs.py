"""The inputs of networks, and means over measured cells.

Values are robust z-scores and can be in the thousands. Networks see asinh(z), so that an extreme value is large but not
huge.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_SQUASHED = 12.0  # asinh of 8e4 robust standard deviations


def squash(z: Tensor) -> Tensor:
    """Return asinh(z), the input of a network."""
    return torch.asinh(z)


def unsquash(x: Tensor) -> Tensor:
    """Invert `squash`. The result is finite, whatever a network returns."""
    return torch.sinh(x.clamp(-MAX_SQUASHED, MAX_SQUASHED))


def prepare_input(z: NDArray[np.floating[Any]]) -> tuple[Tensor, Tensor, Tensor]:
    """Convert one observation (variable, time), NaN where not measured, for a network.

    Returns:
        The values, NaN where not measured; True where measured; the network's input, 0 where not measured.
    """
    values = torch.from_numpy(np.asarray(z, dtype=np.float32))
    measured = torch.isfinite(values)
    return values, measured, torch.where(measured, squash(values), 0.0)


def masked_mean(values: Tensor, cells: Tensor) -> Tensor:
    """Return the mean of `values` (batch, ...) where `cells` is True, per observation (batch,); 0 if it never is."""
    axes = tuple(range(1, values.ndim))
    return torch.where(cells, values, 0.0).sum(axes) / cells.sum(axes).clamp_min(1)
