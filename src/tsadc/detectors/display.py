"""Displays of results and detectors, which `tsadc.show` makes.

`show` lies above the detectors, which do not depend on it: its functions are looked up by name when a display is
requested."""

from __future__ import annotations

import importlib
from typing import Any


def shown(function: str, *given: Any, **options: Any) -> Any:
    """Call a function of `tsadc.show`, such as `notebook.result_html`."""
    module, _, name = function.rpartition(".")
    return getattr(importlib.import_module(f"tsadc.show.{module}"), name)(*given, **options)
