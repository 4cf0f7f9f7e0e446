"""Windows squeezed along time by convolutions, and drawn out again."""

from __future__ import annotations

from torch import Tensor, nn

from tsadc.nn.gaussian import Gaussian, begin_narrow

KERNEL = 5


class Squeezer(nn.Module):
    """Convolutions, of which every second one halves time, to a latent that is short in time, and back."""

    def __init__(self, variables: int, squeeze: int) -> None:
        super().__init__()
        self.strides = ([2, 1] * squeeze)[:-1]
        self.down = nn.ModuleList(nn.Conv1d(variables, variables, KERNEL, s, KERNEL // 2) for s in self.strides)
        self.latent = nn.Conv1d(variables, 2 * variables, 1)
        self.up = nn.ModuleList(
            nn.ConvTranspose1d(variables, variables, KERNEL, s, KERNEL // 2) for s in self.strides[::-1]
        )
        for layer in (*self.down, *self.up):  # or ten layers would let nothing through
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        begin_narrow(self.latent)

    def lengths(self, time: int) -> list[int]:
        """Of time before each convolution and after the last."""
        out = [time]
        for stride in self.strides:
            out.append(-(-out[-1] // stride))
        return out

    def encode(self, x: Tensor) -> Gaussian:
        """A latent for each few steps: x (window, variable, time) -> (window, variable, few)."""
        for layer in self.down:
            x = layer(x).relu()
        return Gaussian.of(self.latent(x), dim=1)

    def decode(self, temporal: Tensor, time: int) -> Tensor:
        """What a latent makes of the whole window (window, variable, time)."""
        view = temporal
        for layer, length in zip(self.up, self.lengths(time)[-2::-1], strict=True):
            view = layer(view, output_size=[length]).relu()
        return view
