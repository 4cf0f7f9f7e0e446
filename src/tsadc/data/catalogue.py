"""The data sets by name, and the one way to prepare them."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tsadc.config import build, nearest, to_mapping
from tsadc.data.cinc import CinC
from tsadc.data.dataset import DataSet, Record
from tsadc.data.dodh import DODH
from tsadc.data.icbeb import ICBEB
from tsadc.data.ludb import LUDB
from tsadc.data.prepared import Prepared, load
from tsadc.data.sleepedf import SleepEDF
from tsadc.data.smd import SMD
from tsadc.data.tusz import TUSZ
from tsadc.data.writer import Writer
from tsadc.errors import ConfigError, DataError, TsadcNotice
from tsadc.io.folders import new_folder

CATALOGUE: dict[str, type[DataSet]] = {cls.card.name: cls for cls in (SMD, ICBEB, DODH, TUSZ, LUDB, CinC, SleepEDF)}


def find(name: str) -> type[DataSet]:
    """The data set of that name."""
    if name.lower() not in CATALOGUE:
        raise ConfigError(f"There is no data set `{name}`{nearest(name.lower(), list(CATALOGUE))}.")
    return CATALOGUE[name.lower()]


def prepare(name: str, raw: str | Path, out: str | Path, *, skip_bad: bool = False, **options: Any) -> Prepared:
    """Read the files of a data set under `raw` and write its labelled observations to the new folder `out`. A file that
    cannot be used is an error, or with `skip_bad` left out, named in `about.json` and told in a notice."""
    dataset, raw, out = build(find(name), options), Path(raw), Path(out)
    records = dataset.records(raw)
    if not records:
        raise DataError(f"{raw} holds nothing of {dataset.card.title}; expected was {dataset.card.layout}.")
    skipped: dict[str, str] = {}
    with new_folder(out) as folder:
        writer = Writer(folder, dataset.observation_length, dataset.variables)
        left_out = Counter[str]()
        used: dict[str, str] = {}
        for record in records:
            try:
                left_out += _add(writer, dataset, record)
            except DataError as error:
                if not skip_bad:
                    raise
                skipped[record.name] = str(error)
                continue
            used |= {_relative(file, raw): _digest(file) for file in record.files}
        if not writer.labels:
            raise DataError(f"{raw} has no usable observation of {dataset.card.title} in {len(records)} record(s).")
        writer.finish(_about(dataset, used, left_out, skipped))
    if skipped:
        warnings.warn(
            f"{len(skipped)} of {len(records)} records were left out: {_first(skipped)}", TsadcNotice, stacklevel=2
        )
    return load(out)


def _add(writer: Writer, dataset: DataSet, record: Record) -> Counter[str]:
    # All of a record before any of it: a record that breaks off is left out whole.
    reading = dataset.read(record)
    for piece in list(reading.pieces):
        writer.add(record.entity, record.name, piece)
    return reading.left_out


def _about(dataset: DataSet, used: dict[str, str], left_out: Counter[str], skipped: dict[str, str]) -> dict[str, Any]:
    card = dataset.card
    return {
        "name": card.name,
        "title": card.title,
        "licence": card.licence,
        "variables": list(dataset.variables),
        "rate": card.rate,
        "length": dataset.observation_length,
        "normal": card.normal,
        "settings": to_mapping(dataset),
        "left_out": dict(sorted(left_out.items())),
        "skipped": skipped,
        "sources": dict(sorted(used.items())),
        "tsadc": version("tsadc"),
    }


def _relative(file: Path, raw: Path) -> str:
    return file.relative_to(raw).as_posix() if file != raw and file.is_relative_to(raw) else file.name


def _digest(file: Path) -> str:
    return _digest_of(file, file.stat().st_mtime_ns, file.stat().st_size)


@lru_cache(maxsize=8)
def _digest_of(file: Path, changed: int, size: int) -> str:
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _first(skipped: dict[str, str]) -> str:
    more = " (and so on)" if len(skipped) > 1 else ""
    return next(iter(skipped.values())) + more
