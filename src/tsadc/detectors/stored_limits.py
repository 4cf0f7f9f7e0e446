"""Check what a model folder declares before anything is built from it: a few edited bytes must not build a giant."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.errors import ConfigError

RESTORE = "restore it from a backup or fit it again"  # how to fix a damaged model, for error messages
LARGEST_COUNT = 10**7  # of any whole number among the settings but the seed
MODULES_PER_TENSOR = 50  # far above the share of layers without weights in any network here
FEWEST_MODULES = 1000
SCORES = ("decision_scores", "validation_scores")
FINITE = ("network.", *SCORES)  # names of arrays without NaN; others may have some for what was never measured

Arrays = Mapping[str, NDArray[Any]]


def check_counts(settings: Mapping[str, Any], path: str = "") -> None:
    """Raise a ConfigError if a setting is a number that no model was ever fitted with."""
    for name, value in settings.items():
        where = f"{path}{name}"
        if isinstance(value, Mapping):
            check_counts(value, f"{where}.")
        elif isinstance(value, list):
            check_counts({str(i): item for i, item in enumerate(value)}, f"{where}.")
        elif isinstance(value, int) and abs(value) > LARGEST_COUNT and name != "seed":
            raise ConfigError(f"`{where}` is {value}, but at most {LARGEST_COUNT} is possible; {RESTORE}.")


def check_arrays(arrays: Arrays) -> None:
    """Raise a ConfigError if an array holds numbers that would make every score NaN."""
    for name in SCORES:
        if arrays[name].ndim != 1 or arrays[name].dtype.kind != "f":
            raise ConfigError(f"`{name}` has no number for each observation; {RESTORE}.")
    for name, array in arrays.items():
        if array.dtype.kind == "f" and (np.isinf(array).any() or (name.startswith(FINITE) and np.isnan(array).any())):
            raise ConfigError(f"`{name}` holds numbers that are not finite; {RESTORE}.")


@contextlib.contextmanager
def building_within(arrays: Arrays) -> Iterator[None]:
    """Stop a network that is being built in the block as soon as it has a weight that the file does not have.

    Without torch, which detectors without a network do not import, nothing is watched."""
    if "torch" not in sys.modules:
        yield
        return
    from torch.nn.modules import module as torch_module

    stored = {tuple(array.shape) for array in arrays.values()}
    most_modules = FEWEST_MODULES + MODULES_PER_TENSOR * len(arrays)
    weights = modules = 0

    def on_weight(owner: object, name: str, weight: Any) -> None:
        nonlocal weights
        weights += weight is not None
        if weight is not None and tuple(weight.shape) not in stored:
            what = f"`{name}` of shape {tuple(weight.shape)}"
            raise ConfigError(f"its settings describe a weight {what}, which is not stored; {RESTORE}.")
        if weights > 2 * len(arrays):  # a layer may be made and thrown away
            raise ConfigError(f"its settings describe a network with more weights than are stored; {RESTORE}.")

    def on_module(owner: object, name: str, module: Any) -> None:
        nonlocal modules
        modules += 1
        if modules > most_modules:
            raise ConfigError(f"its settings describe a network with more layers than are stored; {RESTORE}.")

    hooks = (
        torch_module.register_module_parameter_registration_hook(on_weight),
        torch_module.register_module_module_registration_hook(on_module),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
