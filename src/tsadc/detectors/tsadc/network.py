"""Both modules as one network that `nn.train` can train: draw masks, steps and noise; return the losses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.nn import masks
from tsadc.nn.inputs import masked_mean, squash, unsquash
from tsadc.nn.s4 import ssm_parameters
from tsadc.nn.train import Training, parameter_groups
from tsadc.nn.trainable import Batch


@dataclass(frozen=True)
class TSADCBatch(Batch):
    """What `Network.draw` draws; `x` and the masks are (batch, variable, time), `step` is (batch,).

    `observed` is False where a value was not measured or is hidden by the mask. `step` and `last_noise` are None if the
    Decontaminator trains at the last diffusion step only.
    """

    x: Tensor
    measured: Tensor
    observed: Tensor
    noise: Tensor
    step: Tensor | None = None
    last_noise: Tensor | None = None


class Network(nn.Module):
    """Decontaminator and Dependencies. `squash` feeds them asinh(z), so that an extreme value is large but not huge;
    `joint` lets the reconstruction loss reach the Decontaminator, as the paper's total loss does. Without
    `decontaminate`, Dependencies learns from what was measured, anomalies included."""

    def __init__(
        self,
        decontaminator: Decontaminator.Config,
        dependencies: Dependencies.Config,
        *,
        variables: int,
        masked_length: int,
        squash: bool,
        joint: bool,
        decontaminate: bool = True,
    ) -> None:
        super().__init__()
        self.decontaminator = Decontaminator(decontaminator, variables)
        self.dependencies = Dependencies(dependencies, variables)
        self.masked_length, self.squash = masked_length, squash
        self.joint, self.decontaminate = joint, decontaminate

    def enter(self, z: Tensor) -> Tensor:
        """From z units to what the networks see."""
        return squash(z) if self.squash else z

    def leave(self, x: Tensor) -> Tensor:
        """Back to z units."""
        return unsquash(x) if self.squash else x

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> TSADCBatch:
        """Draw the mask, the noise and, unless training is at the last step only, a diffusion step per observation."""
        config = self.decontaminator.config
        batch, channel, time = x.shape
        shown = masks.draw(config.masking, (batch, channel, time), self.masked_length, generator)
        noise = torch.randn(x.shape, generator=generator)
        step = last_noise = None
        if config.at == "uniform":
            step = torch.randint(1, self.decontaminator.last + 1, (batch,), generator=generator)
            last_noise = torch.randn(x.shape, generator=generator)
        return TSADCBatch(self.enter(x), observed, shown & observed, noise, step, last_noise)

    def losses(self, batch: TSADCBatch) -> dict[str, Tensor]:
        """L = L_noise + L_graph + L_recon, each (batch,)."""
        measured, observed, noise = batch.measured, batch.observed, batch.noise
        # Whatever is stored where nothing was measured must not reach a loss, not even through what a network sees.
        x = torch.where(measured, batch.x, 0.0)
        model = self.decontaminator
        if batch.step is not None and batch.last_noise is not None:
            noise_loss, _ = model.loss(x, measured, observed, batch.step, noise)
            with torch.set_grad_enabled(self.joint and torch.is_grad_enabled()):
                decontaminated = model.estimate(x, observed, batch.last_noise)
        else:
            last = torch.full((len(x),), model.last)
            noise_loss, prediction = model.loss(x, measured, observed, last, noise)
            decontaminated = model.estimate(x, observed, noise, prediction)
        if not self.decontaminate:
            decontaminated = torch.where(measured, x, decontaminated)
        if not self.joint:
            decontaminated = decontaminated.detach()
        reconstruction, graph_loss = self.dependencies(decontaminated)
        return {
            "noise": noise_loss,
            "graph": graph_loss,
            "reconstruction": masked_mean((decontaminated - reconstruction).square(), measured),
        }

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))
