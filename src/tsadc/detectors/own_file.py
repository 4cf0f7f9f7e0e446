"""Detectors in a file of the user: `my_file.py:Mine`.

Importing a file runs it. Therefore a model only remembers the name of the file, and whoever loads the model must name
the file again: no code is run because a model folder says so."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.errors import ConfigError


def choose(name: str) -> type[Detector]:
    """Return the detector class of that name, or the class in a file if `name` is like `my_file.py:Mine`."""
    return from_file(name) if ".py:" in name or name.endswith(".py") else find(name)


def from_file(place: str) -> type[Detector]:
    """Import a file of the user, as in `my_file.py:Mine`, and return the class; this runs the file."""
    path, _, name = place.rpartition(":")
    file = Path(path)
    if not path or not name:
        raise ConfigError(f"A detector of your own is written as my_file.py:Class, but got {place!r}; add the class.")
    if not file.is_file():
        raise ConfigError(f"There is no file {file}, in which the detector {name} was expected; check the name.")
    spec = importlib.util.spec_from_file_location(f"tsadc_own_file_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where a dataclass looks up the types of its fields
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the file may raise anything
        why = next(iter(str(error).splitlines()), "").rstrip(".") or type(error).__name__
        raise ConfigError(f"{file} cannot be imported: {type(error).__name__}: {why}.") from error
    cls = getattr(module, name, None)
    if not (isinstance(cls, type) and issubclass(cls, Detector)) or getattr(cls, "__abstractmethods__", None):
        raise ConfigError(f"{name} in {file} must be a complete Detector class; see docs/guides/add-a-detector.md.")
    if not isinstance(getattr(cls, "name", None), str):
        cls.name = name
    cls.source = f"{file.name}:{name}"
    return cls
