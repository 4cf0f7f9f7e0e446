"""The optional package torch, which detectors with a network need and all others do without."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

# Without the constraints, pip downloads gigabytes of CUDA libraries.
INSTALL_TORCH = "pip install -c constraints.txt 'tsadc[network]', with constraints.txt of the repository"
NEEDS_TORCH = f"has a network and needs the package torch: {INSTALL_TORCH}."


def has_torch() -> bool:
    """Return whether torch is installed, without importing it."""
    return find_spec("torch") is not None


def lacks_torch(error: BaseException) -> bool:
    """Return whether an import failed because torch is not installed."""
    return isinstance(error, ModuleNotFoundError) and error.name == "torch"


def imported(module: str, name: str) -> Any:
    """Return what is called `name` in a module of the package, which is imported now."""
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if lacks_torch(error):
            raise ImportError(f"{name} {NEEDS_TORCH}", name="torch") from None
        raise


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
