"""What a computation does, counted instead of timed: products, Fourier transforms, operations, bytes written.

Counts are the same on every machine, however busy it is: for records, for bounds and for guards against regressions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

FREE = {"view", "_unsafe_view", "expand", "slice", "select", "t", "transpose", "permute", "unsqueeze", "squeeze"}
FREE |= {"detach", "alias", "split", "split_with_sizes", "unbind", "as_strided", "view_as_real", "view_as_complex"}
FREE |= {"empty", "empty_like", "_reshape_alias", "lift_fresh", "_conj"}
TRANSFORMS = {"_fft_r2c": 2.5, "_fft_c2r": 2.5, "_fft_c2c": 5.0}


class Operations(TorchDispatchMode):
    """Counts what runs within it, in this thread.

    `calls`: by name, without views. `products`: floating-point operations of matrix products and convolutions.
    `transforms`: those of Fourier transforms, by the usual 2.5 n log2 n of a real one. `written`: bytes of results, by
    the name of the operation.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.products = 0
        self.transforms = 0.0
        self.written: Counter[str] = Counter()

    @property
    def flops(self) -> float:
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
            self.written[name] += sum(one.numel() * one.element_size() for one in results if isinstance(one, Tensor))
        return out
