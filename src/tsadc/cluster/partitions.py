"""Files -> groups of files that hold whole entities, the units of work of a cluster.

An entity may lie in several files, as in `entity=7/date=2024-01-01/` and `entity=7/date=2024-01-02/`: they form one
group. Where a column names the entity, files that share an entity form one group, with all the entities in them."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from tsadc.cluster.engine import Cluster
from tsadc.cluster.storage import StoredFile, address_of, fetch, is_remote, local_file, remote_files
from tsadc.errors import ConfigError, DataError, TooShortError, listed, notice
from tsadc.io.columnar import guarded
from tsadc.io.columns import entities_of
from tsadc.io.files import ending, entity_names, expand, partition_keys, partitions
from tsadc.io.read import partition_reading, read
from tsadc.io.reading import Reading, no_column
from tsadc.series import Series

ENDING = ".parquet"
PARQUET_ONLY = "a cluster reads Parquet files only: convert them, or leave out --engine ray"
Counts = Mapping[str, int]  # rows by entity


@dataclass(frozen=True)
class FileGroup:
    """Files that hold whole entities, and how to read them.

    `entities` are their names, and `reading` names the column that distinguishes them if there are several."""

    entities: tuple[str, ...]
    files: tuple[StoredFile, ...]
    reading: Reading

    @property
    def inputs(self) -> str:
        """A digest of names, sizes and times of the files, which changes with their content."""
        text = "\n".join(f"{file.address}\t{file.size}\t{file.modified}" for file in self.files)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def check_options(reading: Reading) -> None:
    """Raise if an option does not apply to Parquet files that are read entity by entity."""
    for name in ("sql", "stream", "long", "rate", "sheet"):
        if getattr(reading, name):
            raise ConfigError(
                f"--{name} cannot be combined with --engine ray, which reads Parquet files entity by entity."
            )


@dataclass(frozen=True)
class NamedFile:
    """A file that an argument names: its path or address, the keys of the folders between, and the folder's name."""

    file: StoredFile
    path: Path
    keys: Mapping[str, str]
    folder: str


def named_files(data: Sequence[Path]) -> list[NamedFile]:
    """Return the Parquet files that the arguments name; raise if one names none. This needs no cluster."""
    if not data:
        raise DataError(
            "No data was given; name a Parquet file, a folder of them, or an address such as s3://bucket/folder."
        )
    found = list[NamedFile]()
    for argument in data:
        address = address_of(argument)
        if is_remote(address):
            name = PurePosixPath(address.partition("?")[0]).name
            for file, between in remote_files(address, ENDING):
                path = Path(file.address.partition("?")[0])
                found.append(NamedFile(file, path, partition_keys(between), name))
        else:
            place = Path(address if str(argument).startswith("file:") else argument)
            for path in _local_paths(place):
                found.append(NamedFile(local_file(path), path, partitions(place, path), place.resolve().name))
    return found


def _local_paths(argument: Path) -> list[Path]:
    try:
        paths = expand(argument, (ENDING,))
    except DataError as error:
        raise DataError(f"{str(error).rstrip('.')}; {PARQUET_ONLY}.") from None
    for path in paths:
        if not path.exists():
            raise DataError(f"There is no file or folder {path}; check the name.")
        if ending(path) != ENDING:
            raise DataError(f"{path} should end in {ENDING}; {PARQUET_ONLY}.")
    return paths


def group_files(cluster: Cluster, named: Sequence[NamedFile], reading: Reading) -> list[FileGroup]:
    """Return the groups of the files, in the order of the entities' names. If a column names the entities, tasks on
    the cluster look into the files."""
    by_entity, by_column = dict[str, list[StoredFile]](), list[StoredFile]()
    for own, name in zip(named, entity_names([one.path for one in named]), strict=True):
        found, entity = partition_reading(own.file.address, own.keys, own.folder, reading)
        if entity is None and found.entity is not None:
            by_column.append(own.file)
        else:
            by_entity.setdefault(entity or name, []).append(own.file)
    alone = replace(reading, entity=None, entity_from=None)
    groups = [FileGroup((entity,), tuple(own), replace(alone, entity_name=entity)) for entity, own in by_entity.items()]
    if by_column and reading.entity is not None:
        column = reading.entity
        counts = _counts(cluster, [(file, column) for file in by_column])
        if empty := [file.address for file, own in counts.items() if not own]:
            notice(f"{listed(empty)} {'has' if len(empty) == 1 else 'have'} no rows and so no entity.")
        filled = [file for file in by_column if counts[file]]
        joined = _connected(filled, [counts[file] for file in filled])
        if len(joined) == 1 and len(filled) > 1:
            notice(
                f"All {len(filled)} files share entities, so that one task reads all of them; write the data "
                f"partitioned by entity, as in {column}=7/part.parquet, to use more of the cluster."
            )
        groups += [FileGroup(entities, own, reading) for entities, own in joined]
    names = [entity for group in groups for entity in group.entities]
    if not names:
        raise DataError(f"None of {len(named)} file(s) has a row; add rows of measurements.")
    if len(names) > len(set(names)):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(
            f"The entity {twice!r} is both the name of a file or folder and in a column; rename one of them."
        )
    return sorted(groups, key=lambda group: group.entities)


def entities_in(file: StoredFile, column: str, folder: Path) -> dict[str, int]:
    """Return how many rows of each entity a file has."""
    path = fetch(file.address, folder)

    def count() -> dict[str, int]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as source:
            present = next((name for name in source.schema_arrow.names if name.strip() == column), None)
            if present is None:
                raise no_column(column, source.schema_arrow.names, file.address)
            frame = source.read([present]).to_pandas()
        named = (frame if frame.shape[1] else frame.reset_index()).iloc[:, 0]
        return dict(Counter(entities_of({column: named}, column, file.address)))  # as `read` names them

    return guarded(path, "Parquet", count)


def rows_in(path: Path) -> int:
    """Return how many rows a Parquet file has."""

    def count() -> int:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as source:
            return int(source.metadata.num_rows)

    return guarded(path, "Parquet", count)


def _connected(
    files: Sequence[StoredFile], counts: Sequence[Counts]
) -> list[tuple[tuple[str, ...], tuple[StoredFile, ...]]]:
    """Join files that share an entity, directly or through others."""
    leader = list(range(len(files)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    first: dict[str, int] = {}
    for place, own in enumerate(counts):
        for entity in own:
            leader[find(place)] = find(first.setdefault(entity, place))
    members: dict[int, list[int]] = {}
    for place in range(len(files)):
        members.setdefault(find(place), []).append(place)
    return [
        (
            tuple(sorted({entity for place in places for entity in counts[place]})),
            tuple(files[place] for place in places),
        )
        for places in members.values()
    ]


def _counts(cluster: Cluster, files: Sequence[tuple[StoredFile, str]]) -> dict[StoredFile, Counts]:
    """Return the rows of each entity in each file, counted by tasks."""
    counted = dict[StoredFile, Counts]()
    for (file, _), outcome in cluster.map(count_entities, None, files):
        if outcome.value is None:
            raise DataError(str(outcome.error))
        counted[file] = outcome.value
    return counted


def count_entities(shared: None, item: tuple[StoredFile, str]) -> dict[str, int]:
    """Return how many rows of each entity a file has; the task of a worker."""
    file, column = item
    with tempfile.TemporaryDirectory(prefix="tsadc-") as folder:
        return entities_in(file, column, Path(folder))


def read_group(group: FileGroup, folder: Path) -> tuple[tuple[Series, ...], Counts]:
    """Return the series of a group and the rows of each entity in the files; messages name the files' addresses."""
    copies = {str(fetch(file.address, folder)): file for file in group.files}
    try:
        if len(group.entities) == 1 and group.reading.entity is None:
            rows = {group.entities[0]: sum(rows_in(Path(copy)) for copy in copies)}
        else:
            counts = [entities_in(StoredFile(copy, 0, ""), str(group.reading.entity), folder) for copy in copies]
            rows = {entity: sum(own.get(entity, 0) for own in counts) for entity in group.entities}
        series = read(list(copies), group.reading)
    except TooShortError as error:
        raise TooShortError(_with_addresses(str(error), copies)) from None
    except DataError as error:
        raise DataError(_with_addresses(str(error), copies)) from None
    _check_entities(group, {own.entity for own in series})
    return series, rows


def _check_entities(group: FileGroup, found: Set[str]) -> None:
    """Raise unless the files have the entities of the group: another task may read further rows of any other."""
    if missing := sorted(set(group.entities) - found):
        raise DataError(
            f"{listed(missing)} {'has' if len(missing) == 1 else 'have'} no row that could be read; add rows."
        )
    if added := sorted(found - set(group.entities)):
        raise DataError(
            f"{listed(added)} {'was' if len(added) == 1 else 'were'} not in the files when the command began; run it "
            "again, when they no longer change."
        )


def _with_addresses(text: str, copies: Mapping[str, StoredFile]) -> str:
    for copy, file in copies.items():
        text = text.replace(copy, file.address)
    return text
