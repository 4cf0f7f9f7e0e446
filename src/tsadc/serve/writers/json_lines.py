"""Events of episodes -> lines of JSON at the end of a file."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tsadc.errors import ConfigError
from tsadc.serve.writers import DeliveryError, EpisodeEvent
from tsadc.serve.writers.event_text import as_json

BEGINNING = b'{"episode"'  # of a line
TAIL = 2**20  # bytes at the end of the file in which events are looked for that were written before


@dataclass(frozen=True)
class Settings:
    """The file.

    Parameters
    ----------
    path : str
        It is appended to, and created if it is absent; its folder must exist. It may be moved away at any
        time, as logrotate does.
    """

    path: str = ""


class JsonLines:
    """Appends events, also those of muted episodes, and flushes them to the disk.

    After a crash, a line that was cut off is removed, unless another program wrote it, and an event that was written
    but not yet marked as delivered is not written again."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.path = name, Path(settings.path)

    def send(self, events: Sequence[EpisodeEvent]) -> None:
        lines = [json.dumps(as_json(event), ensure_ascii=False).encode() + b"\n" for event in events]
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            with os.fdopen(descriptor, "r+b", buffering=0) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - TAIL))
                tail = file.read(TAIL)
                whole = tail.rfind(b"\n") + 1
                rest = tail[whole:]
                is_line = whole > 0 or size <= TAIL
                is_own = is_line and (rest.startswith(BEGINNING) or BEGINNING.startswith(rest))
                if rest and is_own:
                    file.truncate(size - len(rest))
                written = set(tail[:whole].splitlines(keepends=True))
                content = b"".join(line for line in lines if line not in written)
                if content and not is_own:
                    content = b"\n" + content
                while content:  # a raw file may take a part of it
                    content = content[file.write(content) :]
                os.fsync(file.fileno())
        except OSError as error:
            raise DeliveryError(f"{self.path} cannot be written: {error.strerror or error}") from None


def create(name: str, settings: Settings) -> JsonLines:
    """Return the writer."""
    if not settings.path:
        raise ConfigError(f"The writer {name!r} needs `path`, the file that it appends to.")
    path = Path(settings.path)
    if path.is_dir():
        raise ConfigError(f"The `path` of the writer {name!r}, {path}, is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise ConfigError(f"The folder {path.parent} of the writer {name!r} does not exist; create it.")
    return JsonLines(name, settings)
