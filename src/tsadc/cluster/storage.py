"""Addresses -> files and back: paths of this machine, `s3://`, `gs://` and all else that pyarrow or fsspec can open.

Object stores show a file when it is complete. Elsewhere, it is written under another name and renamed."""

from __future__ import annotations

import contextlib
import importlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from tsadc.atomic import ADDRESS, write_file
from tsadc.errors import ConfigError, DataError, OutputError, TsadcError
from tsadc.io.files import PARTITION

KEYS = re.compile("ACCESS|KEY|TOKEN|SIGNATURE|CREDENTIAL|UNAUTHORIZED|FORBIDDEN")  # in errors about who may do it
WHOLE = ("s3", "gcs", "abfs")  # pyarrow's names of storages that show no unfinished file


@dataclass(frozen=True)
class StoredFile:
    """A file at an address, with the size and time by which a change is noticed."""

    address: str
    size: int
    modified: str


def address_of(path: str | Path) -> str:
    """Return the address that an argument stands for: `Path` turns `s3://bucket` into `s3:/bucket`, and a path of this
    machine becomes absolute."""
    text = str(path)
    found = ADDRESS.match(text)
    if found is None:
        return str(Path(text).absolute())
    rest = text[found.end() :]
    if re.match(r"[^/@]*:[^/]*@", rest):
        raise ConfigError(
            "An address must not contain a password, because it is stored with the results; set it in the environment "
            "of all nodes."
        )
    return f"/{rest}" if found[1] == "file" else f"{found[1]}://{rest}"


def is_remote(address: str) -> bool:
    """Return whether the address is something other than a path of this machine."""
    return ADDRESS.match(address) is not None


def is_inside(address: str, folder: str) -> bool:
    """Return whether an address is that of a folder, or of something in it."""
    if is_remote(address) or is_remote(folder):
        own, whole = (PurePosixPath(text.partition("?")[0]) for text in (address, folder))
        return own.is_relative_to(whole)
    return Path(address).resolve().is_relative_to(Path(folder).resolve())


def join(address: str, *names: str) -> str:
    """Return the address of something in a folder."""
    base, mark, query = address.partition("?")
    return "/".join([base.rstrip("/"), *names]) + mark + query


def remote_files(address: str, ending: str) -> list[tuple[StoredFile, tuple[str, ...]]]:
    """Return the file at an address, or the visible files with the ending in the folder there, each with the names of
    the folders between. As with paths, subfolders count only if they are partitions, such as `entity=7`."""
    with _storage(address, DataError, "read") as (storage, root):
        from pyarrow.fs import FileSelector, FileType

        base, mark, query = address.partition("?")
        top = storage.get_file_info(root)
        if top.type == FileType.File:
            return [(_stored(top, address), ())]
        if top.type == FileType.NotFound:
            raise DataError(f"There is nothing at {address}; check the address, and who may read it.")
        found = []
        for info in storage.get_file_info(FileSelector(root, recursive=True)):
            within = PurePosixPath(info.path).relative_to(PurePosixPath(root.rstrip("/")))
            folders = within.parts[:-1]
            inside = not folders or any(PARTITION.fullmatch(folder) for folder in folders)
            if info.type == FileType.File and info.path.endswith(ending) and within.name[0] != "." and inside:
                found.append((_stored(info, f"{base.rstrip('/')}/{within}{mark}{query}"), folders))
    if not found:
        raise DataError(
            f"The folder {address} has no file that can be read (with the ending {ending}); convert others."
        )
    return sorted(found, key=lambda file: file[0].address)


def local_file(path: Path) -> StoredFile:
    """Return a file of this machine; what is wrong with it is found when it is read."""
    try:
        status = path.stat()
    except OSError:
        return StoredFile(str(path.absolute()), 0, "")
    return StoredFile(str(path.absolute()), status.st_size, str(status.st_mtime_ns))


def fetch(address: str, folder: Path) -> Path:
    """Return a path of this machine with the content of the file: its own path, or a copy in the folder."""
    if not is_remote(address):
        return Path(address)
    copy = folder / secrets.token_hex(8) / PurePosixPath(address.partition("?")[0]).name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(read(address) or b"")
    return copy


def read(address: str) -> bytes | None:
    """Return the content of a file, or None if there is none."""
    with _storage(address, DataError, "read") as (storage, path):
        try:
            with storage.open_input_stream(path) as stream:
                content: bytes = stream.read()
                return content
        except FileNotFoundError:
            return None


def write(address: str, data: bytes) -> None:
    """Write a file, or replace it: a reader sees the old content or the new one, never a part."""
    if not is_remote(address):
        write_file(Path(address), data)
        return
    with _storage(address, OutputError, "written") as (storage, path):
        place = path if storage.type_name in WHOLE else f"{path}.{secrets.token_hex(4)}.partial"
        if place != path:
            storage.create_dir(str(PurePosixPath(path).parent), recursive=True)
        with storage.open_output_stream(place) as stream:
            stream.write(data)
        if place != path:
            storage.move(place, path)


def names_in(address: str) -> list[str]:
    """Return the names of what is in a folder, sorted; none if there is no such folder."""
    with _storage(address, OutputError, "read") as (storage, path):
        from pyarrow.fs import FileSelector

        inside = storage.get_file_info(FileSelector(path, allow_not_found=True))
        return sorted(PurePosixPath(info.path).name for info in inside)


def sizes_in(address: str) -> dict[PurePosixPath, int]:
    """Return the bytes of all files in a folder and its subfolders, by their path; none if there is no such folder."""
    with _storage(address, OutputError, "read") as (storage, path):
        from pyarrow.fs import FileSelector, FileType

        inside = storage.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
        return {PurePosixPath(info.path): info.size or 0 for info in inside if info.type == FileType.File}


def remove_folder(address: str) -> None:
    """Remove a folder with all that is in it."""
    with _storage(address, OutputError, "removed") as (storage, path):
        storage.delete_dir(path)


def _stored(info: Any, address: str) -> StoredFile:
    return StoredFile(address, info.size or 0, str(info.mtime_ns or ""))


@contextlib.contextmanager
def _storage(address: str, error: type[DataError] | type[OutputError], verb: str) -> Iterator[tuple[Any, str]]:
    """Yield the file system of an address and the path in it; what goes wrong in the block is one sentence."""
    try:
        yield _opened(address)
    except (TsadcError, FileNotFoundError):
        raise
    except Exception as cause:  # each file system has errors of its own
        raise error(f"{address} cannot be {verb}: {_why(cause)}.") from None


def _why(cause: Exception) -> str:
    """Return why a storage failed, and for S3 what to do, whose own words are for its programmers."""
    first = (str(cause).strip().splitlines() or [type(cause).__name__])[0][:300].rstrip(".")
    code = re.search(r"AWS Error (\w+)", first)
    if code is None:
        return first
    if code[1] == "NETWORK_CONNECTION":
        return "the server does not answer; check the address, `endpoint_override` in it and the network"
    keys = ", and the keys in the environment of all nodes" if KEYS.search(code[1]) else " and the server"
    return f"the server answers {code[1]}; check the address{keys}"


def _opened(address: str) -> tuple[Any, str]:
    try:
        fs = importlib.import_module("pyarrow.fs")
    except ImportError:
        raise DataError(
            "A cluster reads and writes Parquet, which requires pyarrow: pip install 'tsadc[ray]'."
        ) from None
    if not is_remote(address):
        return fs.LocalFileSystem(), address
    try:
        # Not with the rest of the path, in which pyarrow would read %2F as a slash.
        base, mark, query = address.partition("?")
        scheme, _, whole = base.partition("://")
        host, _, rest = whole.partition("/")
        storage, root = fs.FileSystem.from_uri(f"{scheme}://{host}/{mark}{query}")
        return storage, f"{root.rstrip('/')}/{rest}".rstrip("/")
    except importlib.import_module("pyarrow").ArrowInvalid as cause:
        if "nrecognized filesystem" not in str(cause):
            raise
    try:
        other, path = importlib.import_module("fsspec.core").url_to_fs(address)
    except ImportError as missing:
        raise DataError(f"{address} needs one more package: {missing}.") from None
    return fs.PyFileSystem(fs.FSSpecHandler(other)), path
