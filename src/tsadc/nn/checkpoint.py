"""The state of a training run on disk: one safetensors file, the tensors by name and everything else as JSON in its
header. It is written beside its place and then renamed, so that a kill at any moment leaves a whole state. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tsadc.atomic import write_file
from tsadc.errors import ConfigError, ModelFileError

FORMAT = "tsadc training 1"

Tensors = dict[str, dict[str, Tensor]]
"""Tensors by kind (weights, best, ...) and then by their name in the network."""


def prepare(path: Path) -> None:
    """Find out before an hour of training that the place of a checkpoint is of no use."""
    if path.is_dir():
        raise ModelFileError(
            f"A checkpoint is a file, but {path} is a folder; name a file, like {path / 'run.safetensors'}."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(
            f"No folder can be made for the checkpoint {path} ({error}); name another place."
        ) from error


def write(path: Path, tensors: Mapping[str, Mapping[str, Tensor]], record: Mapping[str, Any]) -> None:
    """Replace the checkpoint at `path`; its former content stays readable until the new one is complete."""
    # Clones, because safetensors refuses tensors that share memory, as tied weights do.
    flat = {
        f"{kind}/{name}": tensor.detach().cpu().clone().contiguous()
        for kind, named in tensors.items()
        for name, tensor in named.items()
    }
    write_file(path, save(flat, metadata={"format": FORMAT, "record": json.dumps(record, allow_nan=False)}))


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """The tensors and the record of a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            flat = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a handle, not a mapping)
    except (OSError, SafetensorError) as error:
        raise ModelFileError(
            f"The checkpoint {path} is damaged or none at all ({error}); delete it and train from the beginning."
        ) from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"Expected a checkpoint of the kind '{FORMAT}', but {path} is marked {metadata.get('format')!r}; "
            "resume with the version of tsadc that wrote it, or train from the beginning."
        )
    tensors: Tensors = {}
    for key, tensor in flat.items():
        kind, _, name = key.partition("/")
        tensors.setdefault(kind, {})[name] = tensor
    return tensors, json.loads(metadata["record"])


def require_same(was: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Refuse to continue another run: `was` is the identity in the checkpoint, `now` that of the run to resume."""
    old, new = dict(_leaves(was)), dict(_leaves(json.loads(json.dumps(now))))
    differing = [key for key in [*new, *(old.keys() - new.keys())] if old.get(key) != new.get(key)]
    if differing:
        named = "; ".join(f"{key} was {old.get(key)!r} and is now {new.get(key)!r}" for key in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ConfigError(
            f"The checkpoint {path} belongs to another run ({named}{more}): "
            "restore what differs, or train from the beginning."
        )


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
