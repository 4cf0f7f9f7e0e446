"""Both modules as one network that `nn.train` can train: draw masks, steps and noise; return the losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.nn import masks
from tsadc.nn.cells import cell_mean, squash, unsquash
from tsadc.nn.s4 import ssm_parameters
from tsadc.nn.train import Training, parameter_groups


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

    def draw(self, x: Tensor, observed: Tensor, generator: torch.Generator) -> dict[str, Tensor]:
        """`observed` is what was measured; of that a mask hides some."""
        config = self.decontaminator.config
        batch, channel, time = x.shape
        shown = masks.draw(config.masking, (batch, channel, time), self.masked_length, generator)
        drawn = {
            "x": self.enter(x),
            "measured": observed,
            "observed": shown & observed,
            "noise": torch.randn(x.shape, generator=generator, device=x.device),
        }
        if config.at == "uniform":
            drawn["step"] = torch.randint(
                1, self.decontaminator.last + 1, (batch,), generator=generator, device=x.device
            )
            drawn["last_noise"] = torch.randn(x.shape, generator=generator, device=x.device)
        return drawn

    def losses(self, drawn: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """L = L_noise + L_graph + L_recon, each (batch,)."""
        measured, observed, noise = (drawn[name] for name in ("measured", "observed", "noise"))
        # Whatever is stored where nothing was measured must not reach a loss, not even through what a network sees.
        x = torch.where(measured, drawn["x"], 0.0)
        model = self.decontaminator
        last = torch.full((len(x),), model.last, device=x.device)
        if "step" in drawn:
            noise_loss, _ = model.loss(x, measured, observed, drawn["step"], noise)
            with torch.set_grad_enabled(self.joint and torch.is_grad_enabled()):
                decontaminated = model.estimate(x, observed, drawn["last_noise"])
        else:
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
            "reconstruction": cell_mean((decontaminated - reconstruction).square(), measured),
        }

    def parameter_groups(self, config: Training) -> list[dict[str, Any]]:
        return parameter_groups(self, config, ssm_parameters(self))
