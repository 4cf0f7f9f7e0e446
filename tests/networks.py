"""Tiny data and tiny networks for the tests of detectors with a network."""

from __future__ import annotations

import numpy as np
import torch

from tsadc.config import update
from tsadc.detectors import REGISTRY, find
from tsadc.detectors.residual import ResidualDetector

TRAINED = [name for name in REGISTRY if issubclass(find(name), ResidualDetector)]


def coupled(count: int, seed: int, length: int = 40, variables: int = 4) -> np.ndarray:
    """Return noisy sine waves (observation, time, variable) whose variables share a random phase per observation."""
    rng = np.random.default_rng(seed)
    phase = np.arange(length)[:, None] / 3 + np.arange(variables) + rng.uniform(0, 6, (count, 1, 1))
    return np.sin(phase) + 0.05 * rng.normal(size=(count, length, variables))


def following(count: int, seed: int, length: int = 40, variables: int = 4) -> np.ndarray:
    """Return noisy sine waves (observation, time, variable); each observation continues the previous one."""
    rng = np.random.default_rng(seed)
    time = np.arange(count * length)[:, None] / 6 + np.arange(variables) / 3
    return (np.sin(time) + 0.05 * rng.normal(size=time.shape)).reshape(count, length, variables)


def cells(count: int, length: int = 40, variables: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Return normal noise (observation, variable, time), 0 where missing, and True where measured."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, variables, length, generator=generator)
    observed = torch.rand(x.shape, generator=generator) < 0.8
    return torch.where(observed, x, 0.0), observed


def tiny(name: str, length: int = 40, **settings: object) -> ResidualDetector:
    """Return an unfitted detector with its tiny preset and `settings`."""
    cls = find(name)
    assert issubclass(cls, ResidualDetector)
    return cls(length=length, contamination=0.1, config=update(cls.Config.tiny(), settings))
