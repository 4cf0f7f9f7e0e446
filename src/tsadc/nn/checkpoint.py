"""Checkpoints of a training run: one safetensors file, the tensors by name and everything else as JSON in its header.

It appears whole or not at all (`tsadc.atomic`), so a kill at any moment leaves a usable state. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from tsadc.atomic import explain, write_file
from tsadc.config import parse_json
from tsadc.errors import ConfigError, ModelFileError

FORMAT = "tsadc training 1"

Tensors = dict[str, dict[str, Tensor]]
"""Tensors by kind (weights, best, ...) and then by their name in the network."""


def prepare(path: Path) -> None:
    """Create the checkpoint's folder, so that a path that cannot be used fails before training."""
    if path.is_dir():
        raise ModelFileError(
            f"The checkpoint must be a file, but {path} is a folder; name a file, like {path / 'run.safetensors'}."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModelFileError(
            f"The folder of the checkpoint {path} cannot be created: {explain(path, error)}; name another place."
        ) from error


def write(path: Path, tensors: Mapping[str, Mapping[str, Tensor]], record: Mapping[str, Any]) -> None:
    """Write or replace the checkpoint at `path`; `record` must be ready for JSON."""
    # Clones, because safetensors refuses tensors that share memory, as tied weights do.
    flat = {
        f"{kind}/{name}": tensor.detach().clone().contiguous()
        for kind, named in tensors.items()
        for name, tensor in named.items()
    }
    write_file(path, save(flat, metadata={"format": FORMAT, "record": json.dumps(record, allow_nan=False)}))


def read(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Return the tensors and the record of a checkpoint."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            flat = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (a handle, not a mapping)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise ModelFileError(
            f"{path} is damaged or not a checkpoint ({why}); delete it and train from the beginning."
        ) from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(
            f"Expected a checkpoint with format '{FORMAT}', but {path} has format {metadata.get('format')!r}; "
            "resume with the version of tsadc that wrote it, or train from the beginning."
        )
    tensors: Tensors = {}
    for key, tensor in flat.items():
        kind, _, name = key.partition("/")
        tensors.setdefault(kind, {})[name] = tensor
    try:
        record = parse_json(metadata["record"])
    except (KeyError, ValueError):
        raise ModelFileError(f"{path} is damaged; delete it and train from the beginning.") from None
    return tensors, record


def require_same(was: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> None:
    """Raise unless the identity in the checkpoint (`was`) equals that of the run to resume (`now`)."""
    old, new = dict(_leaves(was)), dict(_leaves(json.loads(json.dumps(now))))
    differing = [key for key in [*new, *(old.keys() - new.keys())] if old.get(key) != new.get(key)]
    if differing:
        named = "; ".join(f"{key} was {old.get(key)!r} and is now {new.get(key)!r}" for key in differing[:3])
        more = f"; and {len(differing) - 3} more" if len(differing) > 3 else ""
        raise ConfigError(
            f"The checkpoint {path} belongs to another run ({named}{more}): "
            "restore these settings, or train from the beginning."
        )


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
