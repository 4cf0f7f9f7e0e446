"""A network and data small enough to train in milliseconds, shared by the tests of training and their children."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from tsadc.nn.layers import Dropout
from tsadc.nn.trainable import Batch


@dataclass(frozen=True)
class NoisyBatch(Batch):
    x: Tensor
    hidden: Tensor
    level: Tensor
    noise: Tensor


@dataclass(frozen=True)
class OnlyX(Batch):
    x: Tensor


class Denoiser(nn.Module):
    """Predicts noise at hidden positions by one convolution; draws what to hide, how much noise, and the noise."""

    def __init__(self, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            self.mix = nn.Conv1d(4, 2, 3, padding=1)
            self.out = nn.Conv1d(2, 2, 1)
        self.dropout = Dropout(dropout)

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> Batch:
        hidden = observed & (torch.rand(x.shape, generator=generator) < 0.5)
        level = torch.rand(len(x), generator=generator)
        noise = torch.randn(x.shape, generator=generator)
        return NoisyBatch(x, hidden, level, noise)

    def losses(self, batch: NoisyBatch) -> dict[str, Tensor]:
        hidden = batch.hidden.float()
        noisy = batch.x + batch.level[:, None, None] * batch.noise * hidden
        noise_hat = self.out(self.dropout(torch.tanh(self.mix(torch.cat([noisy, hidden], dim=1)))))
        error = ((noise_hat - batch.noise) ** 2 * hidden).sum((1, 2)) / hidden.sum((1, 2)).clamp(min=1)
        return {"noise": error, "size": 0.1 * (noise_hat**2).mean((1, 2))}


class Waves:
    """`count` observations (2, 8), some values missing."""

    def __init__(self, count: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.values = np.sin(np.arange(8) + rng.uniform(0, 6, (count, 2, 1))).astype(np.float32)
        self.values[rng.random(self.values.shape) < 0.1] = np.nan
        self.reads = 0

    def __len__(self) -> int:
        return len(self.values)

    def batch(self, indices: np.ndarray) -> np.ndarray:
        self.reads += 1
        return self.values[indices]


def weights(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
