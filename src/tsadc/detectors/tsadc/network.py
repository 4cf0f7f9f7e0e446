"""Both modules of TSAD-C as one network that `tsadc.nn.train` can train."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.nn import masks
from tsadc.nn.inputs import masked_mean, squash, unsquash
from tsadc.nn.s4 import ssm_parameters
from tsadc.nn.stored_names import StoredNames
from tsadc.nn.train import Training, parameter_groups
from tsadc.nn.trainable import Batch


@dataclass(frozen=True)
class TSADCBatch(Batch):
    """What `Network.draw` draws; `step` is (batch,), all others are (batch, variable, time).

    `observed` is False where a value was not measured or is hidden by the mask. `step` and `last_noise` are None if the
    Decontaminator trains at the last diffusion step only.
    """

    x: Tensor
    measured: Tensor
    observed: Tensor
    noise: Tensor
    step: Tensor | None = None
    last_noise: Tensor | None = None


class Network(StoredNames):
    """Decontaminator (module 1) and Dependencies (module 2).

    Args:
        decontaminator: Settings of module 1.
        dependencies: Settings of module 2.
        variables: Number of variables.
        masked_length: Time steps that a training mask hides per variable.
        squash: Feed the modules asinh(z), so that an extreme value is large but not huge.
        joint: Let the reconstruction loss train the Decontaminator too, as the paper's total loss does.
        decontaminate: Train Dependencies on the decontaminated observation; if False, on what was measured.
    """

    stored_names: ClassVar[Mapping[str, str]] = {
        "input_proj": "enter", "step_embedding": "step", "skip_proj": "mix", "output_proj": "leave",
        "step_proj": "at_step", "widen_conv": "widen", "first_s4": "first", "condition_proj": "know",
        "second_s4": "second", "gate_proj": "narrow",
        "value_proj": "lift", "variable_embedding": "identity",
        "output_weight": "leave_weight", "output_bias": "leave_bias",
    }  # fmt: skip

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

    def to_input(self, z: Tensor) -> Tensor:
        """Convert z units to the input of the modules."""
        return squash(z) if self.squash else z

    def to_z(self, x: Tensor) -> Tensor:
        """Invert `to_input`."""
        return unsquash(x) if self.squash else x

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> TSADCBatch:
        """Draw the mask, the noise and, unless training is at the last step only, a diffusion step per observation."""
        config = self.decontaminator.config
        batch, variables, time = x.shape
        shown = masks.draw(config.masking, (batch, variables, time), self.masked_length, generator)
        noise = torch.randn(x.shape, generator=generator)
        step = last_noise = None
        if config.at == "uniform":
            step = torch.randint(1, self.decontaminator.last + 1, (batch,), generator=generator)
            last_noise = torch.randn(x.shape, generator=generator)
        return TSADCBatch(self.to_input(x), observed, shown & observed, noise, step, last_noise)

    def losses(self, batch: TSADCBatch) -> dict[str, Tensor]:
        """Return the terms of L = L_noise + L_graph + L_recon (Eq. 10), each (batch,)."""
        measured, observed, noise = batch.measured, batch.observed, batch.noise
        # Values stored at unmeasured cells must not reach a loss, not even through a network's input.
        x = torch.where(measured, batch.x, 0.0)
        model = self.decontaminator
        # 1. Noise loss (Eq. 6), and the decontaminated observation estimated from the last step (Eq. 7).
        if batch.step is not None and batch.last_noise is not None:
            noise_loss, _ = model.loss(x, measured, observed, batch.step, noise)
            with torch.set_grad_enabled(self.joint and torch.is_grad_enabled()):
                decontaminated = model.estimate(x, observed, batch.last_noise)
        else:
            last = torch.full((len(x),), model.last)
            noise_loss, prediction = model.loss(x, measured, observed, last, noise)
            decontaminated = model.estimate(x, observed, noise, prediction)
        # 2. The input of module 2.
        if not self.decontaminate:
            decontaminated = torch.where(measured, x, decontaminated)
        if not self.joint:
            decontaminated = decontaminated.detach()
        # 3. Graph loss (Eq. 8) and reconstruction loss (Eq. 9).
        reconstruction, graph_loss = self.dependencies(decontaminated)
        return {
            "noise": noise_loss,
            "graph": graph_loss,
            "reconstruction": masked_mean((decontaminated - reconstruction).square(), measured),
        }

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))
