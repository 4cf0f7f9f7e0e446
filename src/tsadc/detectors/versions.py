"""Replace a model by a newer one, and bring the former one back."""

from __future__ import annotations

import shutil
from pathlib import Path

from tsadc.atomic import exchange, locked_folder, replaced_folder
from tsadc.detectors.base import Detector
from tsadc.detectors.store import load, read_settings
from tsadc.errors import ModelFileError


def previous(model: Path) -> Path:
    """Return where the model before the last refit is kept."""
    return model.with_name(f"{model.name}.previous")


def replace_model(model: Path, new: Detector | Path) -> None:
    """Put a detector, or a copy of a model folder, in place of `model`, which is kept as MODEL.previous. A kill leaves
    one of the two models."""
    model = model.resolve()
    with locked_folder(model):
        with replaced_folder(previous(model)) as folder:
            shutil.copytree(model, folder, dirs_exist_ok=True)
        with replaced_folder(model) as folder:
            if isinstance(new, Path):
                shutil.copytree(new, folder / "new")
            else:
                new.save(folder / "new")
            for file in (folder / "new").iterdir():
                file.rename(folder / file.name)
            (folder / "new").rmdir()


def roll_back(model: Path, own: str | None = None) -> str:
    """Swap MODEL and MODEL.previous and return what was done; the same again undoes it."""
    before = previous(model.resolve())
    read_settings(model)
    if not before.exists():
        raise ModelFileError(f"There is no {before}; only a model that `tsadc refit` has replaced can be brought back.")
    load(before, detector=own)
    with locked_folder(model.resolve()):
        exchange(before, model.resolve())
    return f"{model} is the model before the last refit again; the refitted one is in {before}."
