"""Keep the names of weights in model folders when a layer gets a better name in the code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from torch import Tensor, nn


class StoredNames(nn.Module):
    """A network whose layers and parameters have other names in stored models than in the code.

    Attributes
    ----------
    stored_names
        Maps the name of an attribute, at any depth of the network, to its name in `state_dict()`. Model folders and
        checkpoints written before a renaming load, and new ones are written in the same way.
    """

    stored_names: ClassVar[Mapping[str, str]] = {}

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]
        state: dict[str, Tensor] = super().state_dict(*args, **kwargs)
        return _renamed(state, self.stored_names.items())

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        in_code = _renamed(state_dict, ((stored, name) for name, stored in self.stored_names.items()))
        return super().load_state_dict(in_code, strict, assign)


def _renamed(state: Mapping[str, Tensor], names: Iterable[tuple[str, str]]) -> dict[str, Tensor]:
    new = dict(names)
    return {".".join(new.get(part, part) for part in key.split(".")): tensor for key, tensor in state.items()}
