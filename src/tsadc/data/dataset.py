"""The interface of a data set: a card that describes it, and a reader that turns the files of its official layout into
labelled observations of equal length."""

from __future__ import annotations

import abc
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tsadc.errors import DataError
from tsadc.series import Floats


@dataclass(frozen=True, slots=True)
class Share:
    """A number of observations, and the share `ratio` of anomalous ones."""

    observations: int
    ratio: float


@dataclass(frozen=True, slots=True)
class PaperCounts:
    """The counts of a data set in the paper's Table 1."""

    train: Share
    validation: Share
    test: Share

    @property
    def parts(self) -> dict[str, Share]:
        return {"train": self.train, "validation": self.validation, "test": self.test}

    @property
    def total(self) -> Share:
        count = sum(part.observations for part in self.parts.values())
        anomalous = sum(part.observations * part.ratio for part in self.parts.values())
        return Share(count, anomalous / count)


@dataclass(frozen=True, slots=True)
class Card:
    """The description of a data set. `entities` is the number in the whole archive, None if versions differ; `differs`
    says why counts may differ from the paper's."""

    name: str
    title: str
    licence: str
    obtain: str
    size: str
    layout: str
    variables: tuple[str, ...]
    rate: float
    length: int
    entity: str
    normal: str
    kinds: tuple[str, ...]
    entities: int | None = None
    paper: PaperCounts | None = None
    differs: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One recording of an entity, and the files that hold it."""

    entity: str
    name: str
    files: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """Anomalous rows [start, stop) of an observation; `variables` are those to blame, empty if unknown."""

    start: int
    stop: int
    kind: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One observation: `values` (time, variable), NaN where not observed, beginning at row `start` of its record.
    Without spans it is normal, or at least not labelled anomalous. `part` is the part of the archive, if it has any."""

    values: Floats
    start: int = 0
    spans: tuple[Span, ...] = ()
    part: str = ""


@dataclass(frozen=True, slots=True)
class Extract:
    """The observations of one record, and how many were left out for each reason."""

    pieces: Iterable[Piece]
    left_out: Counter[str] = field(default_factory=Counter)


class DataSet(abc.ABC):
    """A data set that can be prepared; its settings are the fields of the dataclass that implements it."""

    card: ClassVar[Card]

    @abc.abstractmethod
    def records(self, raw: Path) -> Sequence[Record]:
        """Return every record under `raw`; those of one entity follow each other."""

    @abc.abstractmethod
    def read(self, record: Record) -> Extract:
        """Return the observations of one record in the order of time."""

    @property
    def observation_length(self) -> int:
        """Rows of an observation: the setting `length` if there is one, else that of the card."""
        return int(getattr(self, "length", self.card.length))

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return self.card.variables


def files_under(raw: Path, *patterns: str) -> list[Path]:
    """Return the files below `raw` that match a pattern, sorted, without hidden ones."""
    if raw.is_file():
        raise DataError(f"{raw} is a file, but the folder that holds it was expected.")
    if not raw.is_dir():
        raise DataError(f"There is no folder {raw}.")
    matches = {file for pattern in patterns for file in raw.rglob(pattern) if file.is_file()}
    return sorted(file for file in matches if not file.name.startswith("."))


def unique(records: Sequence[Record]) -> Sequence[Record]:
    """Return the records; raise if two have the same name, as copies of one recording would count twice."""
    seen: dict[str, Record] = {}
    for record in records:
        if record.name in seen:
            raise DataError(
                f"{record.files[0]} and {seen[record.name].files[0]} are records of the same name; keep one of them."
            )
        seen[record.name] = record
    return records


def cut(values: Floats, length: int) -> list[tuple[int, Floats]]:
    """Return the whole pieces of `length` rows, each with its first row number; the rest at the end is dropped."""
    return [(start, values[start : start + length]) for start in range(0, len(values) - length + 1, length)]
