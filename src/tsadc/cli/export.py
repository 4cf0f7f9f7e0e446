"""`tsadc export`: write a scorer that runs without this package."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tsadc.atomic import refuse_existing
from tsadc.config import require
from tsadc.export.bundle import write_python
from tsadc.export.folder import open_model
from tsadc.export.onnx_file import write_onnx

WRITERS: dict[str, Callable[[Any, Path], None]] = {"onnx": write_onnx, "python": write_python}


def export_model(model: Path, to: str, out: Path) -> str:
    """Write the scorer of a model to the new folder `out`; return what to say about it."""
    require(to in WRITERS, "--to", "'onnx' or 'python'", to)
    refuse_existing(out)  # before a minute of work and not after it
    detector = open_model(model, to)
    WRITERS[to](detector, out)
    size = sum(file.stat().st_size for file in out.iterdir())
    return (
        f"The scorer is in {out} ({size / 1e6:.1f} MB); it agrees with the model on its self-test. {out / 'README.md'} "
        "says how to call it."
    )
