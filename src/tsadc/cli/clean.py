"""`tsadc clean`: write data again without what an audit suspects, or with what was to be expected instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import new_folder
from tsadc.config import parse_json
from tsadc.detectors.audit import LEVEL
from tsadc.detectors.cleaning import Correction, Fill, cells_of, cleared, corrected, report
from tsadc.detectors.imputation import Imputer
from tsadc.detectors.provenance import digest
from tsadc.detectors.review import Decision, read_review
from tsadc.errors import ConfigError, DataError, OutputError
from tsadc.io.delimited import read_texts
from tsadc.io.reading import Reading
from tsadc.io.rewrite import Source, rewrite, sources
from tsadc.scale import Scaler
from tsadc.series import Series
from tsadc.show.audit_files import FACTS, INTERVALS, REVIEW, digest_of
from tsadc.show.result_files import guarded, with_iso_times
from tsadc.show.words import count, precision

CHANGES = "changes.csv"


@dataclass(frozen=True)
class AuditFolder:
    """What `tsadc audit` has written: its folder and its facts."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> AuditFolder:
        """Read the facts; raise if the folder is no audit."""
        try:
            facts = parse_json((folder / FACTS).read_bytes())
            length = int(facts["settings"]["length"])
            found = {"data": facts["data"]["digest"], "length": length, "review": facts["review"]}
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{folder} is no folder that `tsadc audit` has written, or is damaged; make one with `tsadc audit`."
            ) from None
        return cls(folder, found)

    @property
    def length(self) -> int:
        """Rows of an observation."""
        length: int = self.facts["length"]
        return length

    @property
    def edited(self) -> bool:
        """Whether a person has changed the review file."""
        file = self.folder / REVIEW
        return not file.is_file() or digest_of(file) != self.facts["review"]

    def check(self, series: tuple[Series, ...]) -> None:
        """Raise unless the audit is about these series."""
        if digest(series) != self.facts["data"]:
            raise DataError(
                f"{self.folder} is an audit of other data, or of the same read with other options; give the files and "
                "options of that audit, or make a new one with `tsadc audit`."
            )

    def probabilities(self) -> dict[str, float]:
        """Return the probability of each interval by its id."""
        file = self.folder / INTERVALS
        try:
            _, lines = read_texts(file)
            # A spreadsheet may have saved the table with decimal commas.
            return {line["id"]: float(line["probability"].replace(",", ".")) for line in lines}
        except (OSError, KeyError, ValueError):
            raise DataError(
                f"{file} does not give the probability of each interval any more; restore it, or make a new audit."
            ) from None


def check_request(audited: AuditFolder, out: Path, level: float | None) -> None:
    """Raise if the output exists or an option has no meaning, before the data is read."""
    if out.exists():
        raise OutputError(f"{out} exists already; choose another name or remove it.")
    if audited.edited and level is not None:
        raise ConfigError(
            f"{audited.folder / REVIEW} was edited, so its decisions count and --level has no meaning; leave it out."
        )


def clean_to(
    data: Sequence[Path],
    series: tuple[Series, ...],
    audited: AuditFolder,
    out: Path,
    *,
    fill: Fill,
    level: float | None,
    reading: Reading,
) -> str:
    """Write the files of `data` to the folder `out`, all or nothing, and return a summary.

    If the review file was edited, its decisions count: "keep" changes nothing, "drop" leaves the rows out, and "fix"
    changes the variables to blame. Otherwise the variables to blame are changed in the intervals with at least the
    probability `level`."""
    audited.check(series)
    decisions, probabilities = read_review(audited.folder / REVIEW, series).decisions, audited.probabilities()
    if audited.edited:
        chosen = [each for each in decisions if each.decision != "keep"]
    else:
        least = LEVEL if level is None else level
        chosen = [replace(each, decision="fix") for each in decisions if probabilities.get(each.id, 0.0) >= least]
    corrections = [_correction(each, series, probabilities.get(each.id, float("nan"))) for each in chosen]
    cells = cells_of(series, corrections)
    fixed = [each for each, one in zip(corrections, chosen, strict=True) if one.decision == "fix"]
    imputer = None
    if fill == "expected" and fixed:
        known = cleared(series, cells)
        imputer = Imputer.fit(known, Scaler.fit(known, Scaler.Config()))
    changes = corrected(series, cells, imputer, fill)
    for each in chosen:
        if each.decision == "drop":
            changes[each.number].dropped[each.start : each.stop] = True
    written = list(sources(data, reading, {own.series.entity: own for own in changes}))
    root = Path(os.path.commonpath([source.file.absolute().parent for source in written]))
    with new_folder(out) as folder:
        for source in written:
            place = folder / source.file.absolute().relative_to(root)
            if place == folder / CHANGES:
                raise OutputError(f"{source.file} has the name of the list of changes; rename it.")
            place.parent.mkdir(parents=True, exist_ok=True)
            rewrite(source, place, reading)
        table = report(series, corrections)
        table.insert(6, "change", ["drop" if each.decision == "drop" else fill for each in chosen])
        unit = precision(own.clock for own in series)
        guarded(with_iso_times(table, unit)).to_csv(folder / CHANGES, index=False)
    return _summary(written, len(chosen), out)


def _correction(decision: Decision, series: Sequence[Series], probability: float) -> Correction:
    names = series[decision.number].names
    blamed = names if decision.decision == "drop" else decision.variables
    places = tuple(names.index(name) for name in blamed)
    return Correction(decision.number, decision.start, decision.stop, places, probability)


def _summary(written: Sequence[Source], intervals: int, out: Path) -> str:
    cells, rows = sum(source.count for source in written), sum(int(source.dropped.sum()) for source in written)
    measured = sum(np.prod(source.cells.shape) for source in written)
    done = [f"{count(cells, 'cell', 'cells')} changed"] if cells or not rows else []
    done += [f"{count(rows, 'row', 'rows')} left out"] if rows else []
    return (
        f"{' and '.join(done)} in {count(intervals, 'suspect interval', 'suspect intervals')}, of {measured:,} cells "
        f"in {count(len(written), 'file', 'files')}; all others are as they were.\n"
        f"The cleaned data is in {out}, and what was changed in {out / CHANGES}."
    )
