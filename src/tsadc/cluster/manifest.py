"""What a job was, what became of each entity, and whether all of it is there.

    OUT/manifest.json                                    written first as unfinished, and at the end as complete
    OUT/entities/NAME.json                               written when the entity is done: its tables are there
    OUT/intervals/date=2024-01-01/entity=NAME/part.parquet, and so `timeline` and `observations`

A job that was interrupted continues with the entities that have no file yet, or whose tables are no longer whole. Each
task writes the same files again if it is repeated, so nothing is there twice."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tsadc.cluster import storage
from tsadc.config import parse_json, update
from tsadc.errors import ConfigError, OutputError, listed
from tsadc.show.result_files import MANIFEST, TABLES

ENTITIES = "entities"
PART = "part.parquet"
MAX_NAME = 200  # characters, of the 255 that file systems allow


@dataclass(frozen=True)
class Entity:
    """What became of an entity.

    `inputs` is a digest of its files. `rows_in` counts their rows, `rows_on_clock` those on its regular clock, with
    gaps, and `rows_out` those of its written timeline. `intervals` and `observations` count rows of these tables,
    `scored` the intervals that come from scores; `expected` is how many false alarms to expect. `worst` are the most
    severe intervals: severity, score and description. `drift` says how the entity drifted. `too_short` is why it could
    not be judged, if it has too few rows. Its tables are `parts` files of `size` bytes together."""

    entity: str
    files: tuple[str, ...]
    inputs: str
    rows_in: int
    rows_on_clock: int
    rows_out: int = 0
    observations: int = 0
    intervals: int = 0
    scored: int = 0
    expected: float = 0.0
    worst: tuple[tuple[float, float, str], ...] = ()
    drift: str | None = None
    notices: tuple[str, ...] = ()
    too_short: str | None = None
    parts: int = 0
    size: int = 0


@dataclass
class Manifest:
    """A job and the entities that are done."""

    tsadc: str
    model: str
    job: str
    data: tuple[str, ...]
    complete: bool = False
    entities: dict[str, Entity] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def write(self, out: str) -> None:
        """Write the manifest into the folder of results."""
        content = asdict(self)
        content["entities"] = {name: _without_name(entity) for name, entity in sorted(self.entities.items())}
        totals = {
            name: sum(getattr(entity, name) for entity in self.entities.values())
            for name in ("rows_in", "rows_on_clock", "rows_out", "observations", "intervals")
        }
        text = json.dumps({**content, "totals": totals}, indent=1, ensure_ascii=False)
        storage.write(storage.join(out, MANIFEST), f"{text}\n".encode())


def _without_name(entity: Entity) -> dict[str, Any]:
    return {name: value for name, value in asdict(entity).items() if name != "entity"}


def start(out: str, manifest: Manifest, *, force: bool) -> dict[str, Entity] | None:
    """Write the manifest of a job that begins, and return the entities that an interrupted run of it has finished; None
    if there was no such run."""
    stored = check_folder(out, force=force)
    if stored is not None and force:
        storage.remove_folder(out)
    elif stored is not None and stored["job"] != manifest.job:
        raise OutputError(
            f"{out} holds an unfinished job with another model, other data or other options; finish it with the same "
            "command, or replace it with --force."
        )
    manifest.write(out)
    return _finished(out, manifest.job) if stored is not None and not force else None


def check_folder(out: str, *, force: bool) -> dict[str, Any] | None:
    """Return the manifest that a folder of results has, None if there is none; raise if results must not be written
    there."""
    if not storage.is_remote(out):
        file = next((place for place in (Path(out), *Path(out).parents) if place.is_file()), None)
        if file is not None:
            raise OutputError(f"{file} is a file, so {out} cannot be a folder of results; choose another name.")
    stored, inside = _parsed(storage.read(storage.join(out, MANIFEST))), storage.names_in(out)
    if stored is not None and not {"job", "complete", "entities"} <= set(stored):
        stored = None
    other = [name for name in inside if name not in (MANIFEST, ENTITIES, *TABLES)]
    if (stored is None and inside) or (force and other):
        what = f"holds {listed(other)}, which --force would remove" if force and other else "is no folder of results"
        raise OutputError(f"{out} exists already and {what}; choose another name.")
    if stored is not None and stored["complete"] and not force:
        raise OutputError(f"{out} exists already; choose another name, or replace it with --force.")
    return stored


def finish(out: str, job: str, entity: Entity) -> None:
    """Say that the tables of an entity are written."""
    text = json.dumps({"job": job, **asdict(entity)}, indent=1, ensure_ascii=False)
    storage.write(_place(out, entity.entity), f"{text}\n".encode())


def _place(out: str, entity: str) -> str:
    return storage.join(out, ENTITIES, f"{folder_name(entity)}.json")


def folder_name(entity: str) -> str:
    """Return the name of an entity as part of a path; `urllib.parse.unquote` returns the entity."""
    return quote(entity, safe=" ").replace(".", "%2E") if entity.startswith(".") else quote(entity, safe=" ")


def fits_path(entity: str) -> bool:
    """Return whether a folder can have the name of an entity, and a file while it is written a longer one."""
    return len(folder_name(entity)) <= MAX_NAME


def check_name(entity: str) -> None:
    """Raise unless the name of an entity can be part of a path."""
    if not fits_path(entity):
        raise OutputError(
            f"Its name has {len(folder_name(entity))} characters as part of a path, but at most {MAX_NAME} fit; rename "
            "it."
        )


def _finished(out: str, job: str) -> dict[str, Entity]:
    """Return the entities of a job that are done and whose tables are still there."""
    found, written = dict[str, Entity](), _written(out)
    for name in storage.names_in(storage.join(out, ENTITIES)):
        stored = _parsed(storage.read(storage.join(out, ENTITIES, name)))
        if stored is not None and stored.pop("job", None) == job:
            entity = _entity(stored)
            if entity is not None and written[folder_name(entity.entity)] == (entity.parts, entity.size):
                found[entity.entity] = entity
    return found


def _written(out: str) -> Mapping[str, tuple[int, int]]:
    """Return how many files the tables of each entity have, and how many bytes, by the name of its folders."""
    sizes = defaultdict[str, tuple[int, int]](lambda: (0, 0))
    for table in TABLES:
        for place, size in storage.sizes_in(storage.join(out, table)).items():
            if place.name == PART:
                folder = place.parent.name.removeprefix("entity=")
                sizes[folder] = sizes[folder][0] + 1, sizes[folder][1] + size
    return sizes


def _entity(stored: Mapping[str, Any]) -> Entity | None:
    """Return what a file of `entities` says; None if it is not of this form."""
    if set(stored) != {own.name for own in fields(Entity)}:
        return None
    try:
        return update(Entity("", (), "", 0, 0), stored)
    except ConfigError:
        return None


def _parsed(content: bytes | None) -> dict[str, Any] | None:
    try:
        stored = None if content is None else parse_json(content)
    except ValueError:
        return None
    return dict(stored) if isinstance(stored, Mapping) else None
