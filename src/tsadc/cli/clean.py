"""`tsadc clean`: write data again without what an audit suspects, or with what was to be expected instead."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import new_folder, refuse_existing
from tsadc.config import parse_json
from tsadc.detectors.audit import LEVEL
from tsadc.detectors.cleaning import Correction, Fill, bands, cells_of, corrected, imputed, report
from tsadc.detectors.imputation import Imputed, Imputer
from tsadc.detectors.provenance import digest
from tsadc.detectors.review import cleared, marked, read_review
from tsadc.errors import ConfigError, DataError, OutputError
from tsadc.io.delimited import read_texts
from tsadc.io.reading import Reading
from tsadc.io.rewrite import Source, rewrite, sources
from tsadc.scale import Scaler
from tsadc.series import Series
from tsadc.show.audit_files import FACTS, INTERVALS, REVIEW, digest_of, notice_undecided, write_table
from tsadc.show.words import count, precision

CHANGES, BANDS = "changes.csv", "bands.csv"


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
            kept = {"data": facts["data"]["digest"], "length": length, "review": facts["review"]}
            kept["suspects"] = int(facts["suspects"])
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{folder} is no folder that `tsadc audit` has written, or is damaged; make one with `tsadc audit`."
            ) from None
        return cls(folder, kept)

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
                f"{self.folder} is an audit of other data, or of the same read with other options; give the files, "
                "options and calendars of that audit, or make a new one with `tsadc audit`."
            )

    def probabilities(self) -> dict[str, float]:
        """Return the probability of each interval by its id."""
        file = self.folder / INTERVALS
        try:
            _, lines = read_texts(file)
            # A spreadsheet may have saved the table with decimal commas.
            probabilities = {line["id"]: float(line["probability"].replace(",", ".")) for line in lines}
        except (OSError, KeyError, ValueError):
            probabilities = {}
        if len(probabilities) != self.facts["suspects"]:
            raise DataError(
                f"{file} must give the probability of each of the {self.facts['suspects']} intervals of the audit, but "
                f"gives {len(probabilities)}; restore it, or make a new audit."
            )
        return probabilities


def check_request(audited: AuditFolder, out: Path, fill: str, level: float | None, samples: int) -> None:
    """Raise if the output exists or an option has no meaning, before the data is read."""
    if samples and fill != "expected":
        raise ConfigError(
            f"--samples draws what was expected, which --fill {fill} does not use; leave one of them out."
        )
    refuse_existing(out)
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
    samples: int,
    reading: Reading,
) -> str:
    """Write the files of `data` to the folder `out`, all or nothing, and return a summary.

    If the review file was edited, its decisions count: "keep" changes nothing, "drop" leaves the rows out, and "fix"
    changes the variables to blame. Otherwise the variables to blame are changed in the intervals with at least the
    probability `level`. With `samples`, bands and draws of the imputed cells are written, too. Planned work is missing
    in `series`, and no cell of it is changed."""
    audited.check(series)
    decisions, probabilities = read_review(audited.folder / REVIEW, series).decisions, audited.probabilities()
    if audited.edited:
        notice_undecided(audited.folder / REVIEW, decisions, "nothing in them is changed")
        chosen = [decision for decision in decisions if decision.decision != "keep"]
    else:
        least = LEVEL if level is None else level
        likely = [decision for decision in decisions if probabilities.get(decision.id, 0.0) >= least]
        chosen = [replace(decision, decision="fix") for decision in likely]
    if fill == "drop":
        chosen = [replace(decision, decision="drop") for decision in chosen]
    corrections = [
        Correction(decision.part(series), probabilities.get(decision.id, float("nan"))) for decision in chosen
    ]
    cells = cells_of(series, corrections)
    fixed = marked(series, [decision.part(series) for decision in chosen if decision.decision == "fix"])
    imputations: list[Imputed] | None = None
    if fill == "expected" and any(marks.any() for marks in fixed):
        known = cleared(series, cells)
        imputer = Imputer.fit(known, Scaler.fit(known, Scaler.Config()))
        imputations = imputed(known, fixed, imputer, samples)
    changes = corrected(series, cells, imputations, fill)
    for decision in chosen:
        if decision.decision == "drop":
            changes[decision.number].dropped[decision.start : decision.stop] = True
    written = list(sources(data, reading, {change.series.entity: change for change in changes}))
    root = Path(os.path.commonpath([source.file.absolute().parent for source in written]))
    unit = precision(item.clock for item in series)
    with new_folder(out) as folder:
        for source in written:
            place = folder / source.file.absolute().relative_to(root)
            if place in (folder / CHANGES, folder / BANDS):
                raise OutputError(f"{source.file} has the name of a table that is written beside it; rename it.")
            place.parent.mkdir(parents=True, exist_ok=True)
            rewrite(source, place, reading)
        table = report(series, corrections)
        table.insert(6, "change", ["drop" if decision.decision == "drop" else fill for decision in chosen])
        write_table(table, folder / CHANGES, unit)
        if samples:
            write_table(bands(series, fixed, imputations or []), folder / BANDS, unit)
    return _summary(written, len(chosen), out, with_bands=bool(samples))


def _summary(written: Sequence[Source], intervals: int, out: Path, *, with_bands: bool) -> str:
    cells, rows = sum(source.count for source in written), sum(int(source.dropped.sum()) for source in written)
    measured = sum(np.prod(source.cells.shape) for source in written)
    done = [f"{count(cells, 'cell', 'cells')} changed"] if cells or not rows else []
    done += [f"{count(rows, 'row', 'rows')} left out"] if rows else []
    return (
        f"{' and '.join(done)} in {count(intervals, 'suspect interval', 'suspect intervals')}, of {measured:,} cells "
        f"in {count(len(written), 'file', 'files')}; all others are as they were.\n"
        f"The cleaned data is in {out}, and what was changed in {out / CHANGES}"
        f"{f', with the bands of each value in {out / BANDS}' if with_bands else ''}."
    )
