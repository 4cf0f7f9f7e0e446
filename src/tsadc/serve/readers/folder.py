"""A folder of tables that grows -> rows: new files, and lines that are appended to text files.

Of a text file, only what was appended is read, together with its first lines, which show its form. A file that was
replaced under the same name, which a digest of the bytes before the position shows, is read from its beginning. The
position is stored after the rows, so a crash can only repeat rows, which the store ignores. A line counts once its line
break has been written. Positions of files that are gone are forgotten."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO

from tsadc.config import require
from tsadc.errors import ConfigError, DataError, TooShortError
from tsadc.io.delimited import CHUNK
from tsadc.io.files import ending, entity_names
from tsadc.io.read import TABLES, own_reading, read_frame
from tsadc.serve.readers import Positions, Submit, hand_over
from tsadc.serve.readers.tables import TableSettings, pace, to_batches
from tsadc.serve.rows import RowBatch
from tsadc.serve.store import StoreError
from tsadc.wording import count

TEXT = (".csv", ".tsv", ".txt", ".dat")  # files that may be appended to
PART = 2**25  # bytes of a text file that are read at once
MARKED = 4096  # bytes at the beginning of a file, and before the position, by which it is known again
MOST_NAMED = 5  # damaged files in one message


@dataclass(frozen=True)
class Settings(TableSettings):
    """The folder; for the other parameters see `TableSettings`.

    Parameters
    ----------
    path : str
        The folder. Folders in it are read too.
    pattern : str, default "*"
        Names of the files, such as "pump-*.csv".
    every : float, default 5
        Seconds between looks into the folder.
    entity_from : str, optional
        Regular expression whose first group, in a file's name, is the entity. Default: the name without its ending.
    """

    path: str = ""
    pattern: str = "*"
    every: float = 5.0
    entity_from: str | None = None

    def __post_init__(self) -> None:
        require(self.every > 0, "every", "above 0 seconds", self.every)
        require(bool(self.pattern), "pattern", "a pattern such as *.csv", self.pattern)


class Folder:
    """Reads what is new in a folder."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self.path = Path(settings.path)
        reading = settings.reading()
        self._reading = (
            reading
            if settings.entity_from is None
            else type(reading)(**{**vars(reading), "entity_from": settings.entity_from})
        )
        self._seen: dict[Path, tuple[int, int]] = {}  # size and time of change of files that have nothing new

    def run(self, submit: Submit, positions: Positions, stop: Event) -> None:
        """Read until `stop` is set. A file that cannot be read is skipped until it changes."""
        before: set[str] | None = None  # names of the files of the last look
        for _ in pace(stop, self.settings.every):
            if self.path.is_file():
                raise DataError(
                    f"`path` of the reader {self.name!r} must be a folder, but {self.path} is a file; give the folder "
                    f'that it is in, and pattern = "{self.path.name}".'
                )
            if not self.path.is_dir():
                raise DataError(f"The folder {self.path} of the reader {self.name!r} does not exist; create it.")
            files = [file for file in sorted(self.path.rglob(self.settings.pattern)) if _is_table(file)]
            if names := {self._key(file) for file in files}:  # an empty folder may be one that is not mounted
                if before is None or before - names:
                    positions.keep_only(names)
                    self._seen = {file: self._seen[file] for file in files if file in self._seen}
                before = names
            failures = []
            for file in files:
                if stop.is_set():
                    return
                try:
                    self._read(file, lambda batch: hand_over(batch, submit, stop, self.name), positions)
                except FileNotFoundError:  # moved away meanwhile
                    continue
                except TooShortError:  # a header without rows: they may follow
                    continue
                except DataError as error:
                    if stop.is_set():
                        raise
                    failures.append(error)
            if failures:
                more = len(failures) - MOST_NAMED
                sentences = [str(error) for error in failures[:MOST_NAMED]]
                raise DataError(
                    " ".join(
                        sentences + [f"{count(more, 'more file', 'more files')} cannot be read either."] * (more > 0)
                    )
                )

    def _read(self, file: Path, submit: Submit, positions: Positions) -> None:
        stat = file.stat()
        state = (stat.st_size, stat.st_mtime_ns)
        if self._seen.get(file) == state:
            return
        self._seen[file] = state  # also of a damaged file, which is looked at again when it changes
        try:
            self._read_new(file, state, submit, positions)
        except StoreError:  # which the file did not cause
            del self._seen[file]
            raise

    def _read_new(self, file: Path, state: tuple[int, int], submit: Submit, positions: Positions) -> None:
        size, changed = state
        key = self._key(file)
        stored = json.loads(positions.get(key) or "{}")
        if ending(file) in TEXT:
            while (part := self._appended(file, stored)) is not None:
                batches, stored = part
                for batch in batches:
                    submit(batch)
                positions.set(key, json.dumps(stored))
                if stored["bytes"] >= size:
                    break
        elif stored != {"size": size, "changed": changed}:
            for batch in self._batches(file, file, 0):
                submit(batch)
            positions.set(key, json.dumps({"size": size, "changed": changed}))

    def _key(self, file: Path) -> str:
        return file.relative_to(self.path).as_posix()

    def _appended(self, file: Path, stored: dict[str, Any]) -> tuple[list[RowBatch], dict[str, Any]] | None:
        """Return the rows after a position, as far as their lines are complete, and the next position; None if there
        are none."""
        done = int(stored.get("bytes", 0))
        with file.open("rb") as source:
            # Positions that earlier versions stored have no mark.
            if done > os.fstat(source.fileno()).st_size or stored.get("mark") not in (None, _mark(source, done)):
                done = 0
            source.seek(0)
            head = source.read(min(done, CHUNK))
            if done > CHUNK:
                head = head[: head.rfind(b"\n") + 1]
            source.seek(done)
            new = source.read(PART)
            new = new[: new.rfind(b"\n") + 1]
            if not new:
                return None
            end = done + len(new)
            position = {"bytes": end, "mark": _mark(source, end)}
        with tempfile.TemporaryDirectory() as folder:
            known = 0
            copy = Path(folder) / file.name
            if head:
                copy.write_bytes(head)
                try:
                    known = len(read_frame(copy, self._reading))
                except TooShortError:
                    known = 0
            copy.write_bytes(head + new)
            try:
                return list(self._batches(copy, file, known)), position
            except DataError as error:
                raise type(error)(str(error).replace(str(copy), str(file))) from None

    def _batches(self, copy: Path, file: Path, known: int) -> Iterator[RowBatch]:
        reading, entity = own_reading(file, self.path, self._reading)
        [name] = entity_names([file])
        frame = read_frame(copy, reading)
        if len(frame) > known:
            yield from to_batches(frame, known, self.name, entity or name, str(file), reading)


def _is_table(file: Path) -> bool:
    return not file.name.startswith(".") and ending(file) in TABLES and file.is_file()


def _mark(file: BinaryIO, end: int) -> str:
    """Return a digest of the first and the last bytes before `end`."""
    digest = hashlib.blake2b(digest_size=8)
    for start in (0, max(0, end - MARKED)):
        file.seek(start)
        digest.update(file.read(min(end, MARKED)))
    return digest.hexdigest()


def create(name: str, settings: Settings) -> Folder:
    """Return the reader."""
    if not settings.path:
        raise ConfigError(f"The reader {name!r} needs `path`, the folder that it reads.")
    return Folder(name, settings)
