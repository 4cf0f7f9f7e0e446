"""Count what a computation does instead of timing it: FLOPs, Fourier transforms, operations, bytes written.

Counts are the same on every machine, however busy it is. Benchmarks record them, and tests bound them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

# Operations that move no data.
FREE = {"view", "_unsafe_view", "expand", "slice", "select", "t", "transpose", "permute", "unsqueeze", "squeeze"}
FREE |= {"detach", "alias", "split", "split_with_sizes", "unbind", "as_strided", "view_as_real", "view_as_complex"}
FREE |= {"empty", "empty_like", "_reshape_alias", "lift_fresh", "_conj"}
# FLOPs of a transform of n numbers, in units of n log2 n.
TRANSFORMS = {"_fft_r2c": 2.5, "_fft_c2r": 2.5, "_fft_c2c": 5.0}


class OperationCounter(TorchDispatchMode):
    """A context that counts the torch operations of this thread.

    Attributes:
        calls: Number of calls per operation, without views.
        products: FLOPs of matrix products and convolutions.
        transforms: FLOPs of Fourier transforms, 2.5 n log2 n for a real one.
        written: Bytes of results per operation, without in-place ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.products = 0
        self.transforms = 0.0
        self.written: Counter[str] = Counter()

    @property
    def flops(self) -> float:
        """Return the FLOPs of products and transforms together."""
        return self.products + self.transforms

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket  # type: ignore[attr-defined]
        name = packet.__name__
        if name in FREE:
            return out
        self.calls[name] += 1
        if packet in flop_registry:
            self.products += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        if name in TRANSFORMS:
            size = args[3] if name == "_fft_c2r" else args[0].shape[args[1][0]]
            count = max(args[0].numel() // args[0].shape[args[1][0]], 1)
            self.transforms += TRANSFORMS[name] * count * size * math.log2(max(size, 2))
        results = out if isinstance(out, tuple | list) else (out,)
        if not name.endswith("_"):
            self.written[name] += sum(
                result.numel() * result.element_size() for result in results if isinstance(result, Tensor)
            )
        return out
