"""The catalogue: every data set by name, to prepare from its files (`prepare`) or to benchmark (`draw`)."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, get_origin, get_type_hints, overload

import numpy as np

from tsadc.atomic import new_folder
from tsadc.config import build, nearest, to_mapping
from tsadc.data import protocols
from tsadc.data.cinc import PACK as CINC
from tsadc.data.cinc import CinC
from tsadc.data.contaminate import MOST_ETA
from tsadc.data.dataset import DataSet, Record, unique
from tsadc.data.dodh import DODH
from tsadc.data.ecg import ABNORMAL_TYPES
from tsadc.data.faults import KINDS
from tsadc.data.icbeb import ICBEB
from tsadc.data.ludb import LUDB
from tsadc.data.ludb import PACK as LUDB_PACK
from tsadc.data.packs import open_pack
from tsadc.data.plant import Plant
from tsadc.data.prepared import Prepared, Writer, load
from tsadc.data.protocols import SMD19, Protocol
from tsadc.data.row_labels import BATADAL, GECCO, SKAB, TSB_DEV
from tsadc.data.sleep import KINDS as STAGES
from tsadc.data.sleepedf import PACK as SLEEP
from tsadc.data.sleepedf import SleepEDF
from tsadc.data.smd import SMD
from tsadc.data.task import RowTasks, Task
from tsadc.data.tusz import TUSZ
from tsadc.errors import ConfigError, DataError, TsadcNotice

Purpose = Literal["prepare", "benchmark"]
TEN = tuple(range(10))
ONE_DRAW = (0, 1, 2), (100,)  # seeds for reporting and for choosing, of the detector alone
ETA = {"eta": MOST_ETA}
ECG = {"eta": MOST_ETA, "kappa": len(ABNORMAL_TYPES)}
PLANT = {"eta": MOST_ETA, "kappa": len(KINDS)}

# To prepare from the files of their archives.
CATALOGUE: dict[str, type[DataSet]] = {cls.card.name: cls for cls in (SMD, ICBEB, DODH, TUSZ, LUDB, CinC, SleepEDF)}

# To benchmark, as plans name them.
PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Protocol("smd-causal", SMD19, 600, protocols.smd_causal, family="smd"),
        Protocol("smd-audit", SMD19, 600, protocols.smd_audit, trains_as="smd-causal", family="smd"),
        Protocol("smd-audit-all", SMD19, 600, protocols.smd_audit_all, family="smd"),
        Protocol("smd-unseen", SMD19, 600, protocols.smd_unseen, (0, 1, 2, 3), (100, 101), options=ETA, family="smd"),
        Protocol("sleep", SLEEP, 3000, protocols.sleep, options={"eta": MOST_ETA, "kappa": len(STAGES)}),
        Protocol("ludb", LUDB_PACK, 1000, protocols.ludb_ecg, TEN, options=ECG, family="ecg"),
        Protocol("cinc", CINC, 1000, protocols.cinc_ecg, TEN, options=ECG, family="ecg"),
        Protocol("plant", "", Plant.Config().length, protocols.plant, options=PLANT),
        Protocol("skab", SKAB, protocols.LENGTH_SKAB, protocols.skab, *ONE_DRAW),
        Protocol("gecco", GECCO, protocols.LENGTH_GECCO, protocols.gecco, *ONE_DRAW),
        Protocol("batadal", BATADAL, protocols.LENGTH_BATADAL, protocols.batadal, *ONE_DRAW),
        *(
            Protocol(
                f"plant-{kind}",
                "",
                Plant.Config().length,
                partial(protocols.plant, kind=kind),
                options=PLANT,
                family="plant",
            )
            for kind in ("process", "telemetry")
        ),
        Protocol("tsb-dev", TSB_DEV, protocols.LENGTH_TSB, protocols.tsb_dev, *ONE_DRAW),
    )
}


@overload
def find(name: str, purpose: Literal["prepare"]) -> type[DataSet]: ...
@overload
def find(name: str, purpose: Literal["benchmark"]) -> Protocol: ...
def find(name: str, purpose: Purpose) -> type[DataSet] | Protocol:
    """Return the data set of that name to prepare, or its protocol to benchmark.

    Raises
    ------
    ConfigError
        If there is none, with the names that would do.
    """
    known: Mapping[str, type[DataSet] | Protocol] = CATALOGUE if purpose == "prepare" else PROTOCOLS
    if name in known:
        return known[name]
    names = ", ".join(f"`{other}`" for other in known)
    if purpose == "prepare" and name in PROTOCOLS:
        raise ConfigError(f"The data set {name!r} is for benchmarks only and is not prepared; choose from {names}.")
    if purpose == "benchmark" and name in CATALOGUE:
        raise ConfigError(
            f"The data set {name!r} is not a benchmark; choose from {names}, or prepare it and "
            "give its `folder` and `manifest`."
        )
    # If several names begin alike, as those of SMD, the nearest is no better a guess than the others.
    several = sum(other.startswith(name.casefold()) for other in known) > 1
    hint = f"; there are {names}." if several else nearest(name.casefold(), list(known))
    raise ConfigError(f"There is no data set {name!r} to {purpose}{hint}")


@lru_cache(maxsize=2)
def draw(name: str, raw: Path, seed: int, split: tuple[tuple[str, float], ...] = ()) -> Task | RowTasks:
    """Return the task of a benchmark protocol; the latest are kept, as several detectors need the same one."""
    return find(name, "benchmark").build(raw, seed, **dict(split))


def families() -> dict[str, str]:
    """Return the family of every protocol.

    Data of one family have one origin: a study that leaves one out leaves all of its protocols out. If it leaves out
    `smd`, it also leaves out the series of `tsb-dev` that are machines of SMD."""
    return {protocol.name: protocol.family for protocol in PROTOCOLS.values()}


def present(protocol: Protocol, raw: Path) -> bool:
    """Return whether the data of a benchmark protocol is in the folder `raw`."""
    return not protocol.source or open_pack(raw, protocol.source) is not None


def prepare(name: str, raw: str | Path, out: str | Path, *, skip_bad: bool = False, **options: Any) -> Prepared:
    """Read the files of a data set and write its labelled observations to a new folder.

    Parameters
    ----------
    name
        Name of the data set, in upper or lower case; `tsadc.data.CATALOGUE` lists them.
    raw
        Folder with the files of the archive.
    out
        Folder to write, which must not exist.
    skip_bad
        Leave out files that cannot be used instead of raising; a warning and `about.json` name them.
    **options
        Settings of the data set, for instance `length` or `leave_out`.

    Returns
    -------
    Prepared
        The data set in `out`.

    Raises
    ------
    ConfigError
        If the name or an option is unknown.
    DataError
        If a file cannot be used, or no observation remains.
    OutputError
        If `out` exists or cannot be written.

    Examples
    --------
    >>> from tsadc.data import prepare
    >>> prepare("smd", "OmniAnomaly", "prepared/smd", leave_out=["machine-2-8"])  # doctest: +SKIP
    """
    reader, raw, out = find(name.lower(), "prepare"), Path(raw), Path(out)
    dataset = build(reader, _listed(reader, options))
    records = unique(dataset.records(raw))
    if not records:
        raise DataError(f"{raw} has no files of {dataset.card.title}; expected {dataset.card.layout}.")
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
            raise _nothing_usable(dataset, raw, len(records), left_out, skipped)
        writer.finish(_about(dataset, used, left_out, skipped))
    if skipped:
        warnings.warn(
            f"{len(skipped)} of {len(records)} records were left out: {' '.join(skipped.values())}",
            TsadcNotice,
            stacklevel=2,
        )
    return load(out)


def _add(writer: Writer, dataset: DataSet, record: Record) -> Counter[str]:
    extract = dataset.read(record)
    left_out = Counter(extract.left_out)
    # Read all pieces before writing any, so that a record that breaks off is left out whole.
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


def _nothing_usable(
    dataset: DataSet, raw: Path, records: int, left_out: Counter[str], skipped: dict[str, str]
) -> DataError:
    """Return an error that says why no record gave an observation."""
    why = [f"the first bad record: {next(iter(skipped.values())).rstrip('.?')}"] if skipped else []
    if left_out:
        why.append(f"left out: {', '.join(f'{count} x {reason}' for reason, count in left_out.most_common())}")
    return DataError(
        f"{raw} has no usable observation of {dataset.card.title} in {records} record{'s' if records > 1 else ''}"
        f"{'; ' if why else ''}{'; '.join(why)}."
    )


def _listed(dataset: type[DataSet], options: dict[str, Any]) -> dict[str, Any]:
    """Turn a single name into a list where a list of names is expected."""
    hints = get_type_hints(dataset)
    return {
        name: [value] if isinstance(value, str) and get_origin(hints.get(name)) is tuple else value
        for name, value in options.items()
    }
