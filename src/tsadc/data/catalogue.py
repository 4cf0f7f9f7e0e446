"""The data sets by name, and the one way to prepare them."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import numpy as np

from tsadc.atomic import new_folder
from tsadc.config import build, nearest, to_mapping
from tsadc.data.cinc import CinC
from tsadc.data.dataset import DataSet, Record, unique
from tsadc.data.dodh import DODH
from tsadc.data.icbeb import ICBEB
from tsadc.data.ludb import LUDB
from tsadc.data.prepared import Prepared, load
from tsadc.data.sleepedf import SleepEDF
from tsadc.data.smd import SMD
from tsadc.data.tusz import TUSZ
from tsadc.data.writer import Writer
from tsadc.errors import ConfigError, DataError, TsadcNotice

CATALOGUE: dict[str, type[DataSet]] = {cls.card.name: cls for cls in (SMD, ICBEB, DODH, TUSZ, LUDB, CinC, SleepEDF)}


def find(name: str) -> type[DataSet]:
    """The data set of that name."""
    if name.lower() not in CATALOGUE:
        raise ConfigError(f"There is no data set `{name}`{nearest(name.lower(), list(CATALOGUE))}")
    return CATALOGUE[name.lower()]


def prepare(name: str, raw: str | Path, out: str | Path, *, skip_bad: bool = False, **options: Any) -> Prepared:
    """Read the files of a data set under `raw` and write its labelled observations to the new folder `out`. A file that
    cannot be used is an error, or with `skip_bad` left out, named in `about.json` and told in a notice."""
    kind, raw, out = find(name), Path(raw), Path(out)
    dataset = build(kind, _listed(kind, options))
    records = unique(dataset.records(raw))
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
            raise _nothing(dataset, raw, len(records), left_out, skipped)
        writer.finish(_about(dataset, used, left_out, skipped))
    if skipped:
        warnings.warn(
            f"{len(skipped)} of {len(records)} records were left out: {' '.join(skipped.values())}",
            TsadcNotice,
            stacklevel=2,
        )
    return load(out)


def _add(writer: Writer, dataset: DataSet, record: Record) -> Counter[str]:
    # All of a record before any of it: a record that breaks off is left out whole.
    extract = dataset.read(record)
    left_out = Counter(extract.left_out)
    for piece in list(extract.pieces):
        if np.isnan(piece.values).all():
            left_out["nothing measured"] += 1
            continue
        writer.add(record.entity, record.name, piece)
    return left_out


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


def _nothing(dataset: DataSet, raw: Path, records: int, left_out: Counter[str], skipped: dict[str, str]) -> DataError:
    """Why no observation came out of any record."""
    why = [f"of the first bad one: {next(iter(skipped.values())).rstrip('.?')}"] if skipped else []
    if left_out:
        why.append(f"left out were {', '.join(f'{count} x {reason}' for reason, count in left_out.most_common())}")
    return DataError(
        f"{raw} has no usable observation of {dataset.card.title} in {records} record{'s' if records > 1 else ''}"
        f"{'; ' if why else ''}{'; '.join(why)}."
    )


def _listed(dataset: type[DataSet], options: dict[str, Any]) -> dict[str, Any]:
    """One name where a list of names is expected is a list of one."""
    hints = get_type_hints(dataset)
    return {
        name: [value] if isinstance(value, str) and get_origin(hints.get(name)) is tuple else value
        for name, value in options.items()
    }
