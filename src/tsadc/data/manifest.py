"""Manifests: a draw written down as a file, so that others get exactly the same parts.

A manifest lists the observations of every part, how they were drawn, and hashes of the data they were drawn from.
With the same prepared data it gives the same parts, whatever the versions; with other data it is refused."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from tsadc.atomic import write_file
from tsadc.config import build, parse_json, to_mapping
from tsadc.data.contaminate import PARTS, ContaminationSpec, Draw
from tsadc.data.prepared import Prepared
from tsadc.errors import ConfigError, DataError

FORMAT = 1


def describe(draw: Draw) -> dict[str, Any]:
    """Return the manifest of a draw as plain data."""
    prepared = draw.prepared
    entities = sorted({entity for part in draw.parts.values() for entity in part})
    content: dict[str, Any] = {
        "format": FORMAT,
        "data_set": prepared.name,
        "length": prepared.length,
        "variables": list(prepared.variables),
        "plan": to_mapping(draw.spec),
        "kinds": list(draw.kinds),
        "parts": {part: _part(draw, part) for part in PARTS},
        "content": {entity: prepared.fingerprint(entity) for entity in entities},
        "sources": prepared.about.get("sources", {}),
    }
    return content | {"hash": _hash(content)}


def save(draw: Draw, path: str | Path) -> None:
    """Write the manifest of a draw to a file, which appears whole or not at all."""
    write_file(Path(path), (json.dumps(describe(draw), indent=1, ensure_ascii=False) + "\n").encode())


def rebuild(path: str | Path, prepared: Prepared) -> Draw:
    """Return the parts that a manifest lists, from data that is identical to the bit.

    Raises
    ------
    DataError
        If the file is not a manifest, was edited, or `prepared` holds other data.
    """
    path = Path(path)
    content = _read(path)
    if content["data_set"] != prepared.name:
        raise DataError(
            f"{path} is about the data set {content['data_set']}, but {prepared.folder} is {prepared.name}."
        )
    if content["length"] != prepared.length or tuple(content["variables"]) != prepared.variables:
        raise DataError(
            f"{path} is about observations of {content['length']} rows and {len(content['variables'])} variables, but "
            f"{prepared.folder} has {prepared.length} and {len(prepared.variables)} or others."
        )
    for entity, expected in content["content"].items():
        _check_entity(path, prepared, entity, expected, content["sources"])
    parts = {name: part["observations"] for name, part in content["parts"].items()}
    return Draw(prepared, _spec(path, content["plan"]), tuple(content["kinds"]), parts)


def _check_entity(path: Path, prepared: Prepared, entity: str, expected: str, sources: dict[str, str]) -> None:
    if entity not in prepared.labels:
        raise DataError(f"{path} needs the entity {entity}, but {prepared.folder} does not have it.")
    if prepared.fingerprint(entity) == expected:
        return
    own = prepared.about.get("sources", {})
    other = [file for file in sources if file in own and own[file] != sources[file]]
    why = f"its source {other[0]} is another file" if other else "it was prepared differently or changed since"
    raise DataError(f"{prepared.folder} does not hold the data that {path} was drawn from: {entity} differs, as {why}.")


def _part(draw: Draw, part: str) -> dict[str, Any]:
    count, anomalous = draw.count(part)
    labels = [draw.prepared.labels[entity][i] for entity, indices in draw.parts[part].items() for i in indices]
    return {
        "count": count,
        "anomalous": anomalous,
        "kinds": dict(sorted(Counter(kind for label in labels for kind in label.kinds).items())),
        "observations": {entity: list(indices) for entity, indices in draw.parts[part].items()},
    }


def _read(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"There is no manifest {path}.") from None
    except (OSError, ValueError):
        raise DataError(f"{path} is truncated or not JSON.") from None
    if not isinstance(content, dict) or not isinstance(content.get("format"), int) or "hash" not in content:
        raise DataError(f"{path} is not a manifest of tsadc.")
    if content["format"] > FORMAT:
        raise DataError(f"{path} has format {content['format']}, but this version reads up to {FORMAT}; upgrade tsadc.")
    if content.pop("hash") != _hash(content):
        raise DataError(f"{path} was changed after it was written: its hash does not match its content.")
    return content


def _spec(path: Path, settings: dict[str, Any]) -> ContaminationSpec:
    try:
        return build(ContaminationSpec, settings)
    except ConfigError as error:
        raise DataError(f"{path} has settings that this version cannot read: {error}") from None


def _hash(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
