"""Reader of SMD, the Server Machine Dataset, and the shift between the train and test parts of its machines.

There are text folders `train`, `test`, `test_label` and `interpretation_label` with a file per machine. Both parts of a
machine are cut into observations; an observation is anomalous if any of its points is labelled. The train part carries
no labels. `interpretation_label` names the variables to blame, counted from 1, as `start-stop:1,2,5`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from tsadc.config import require
from tsadc.data.dataset import Card, DataSet, Extract, PaperCounts, Piece, Record, Share, Span, cut
from tsadc.data.prepared import Prepared
from tsadc.errors import DataError
from tsadc.io.delimited import EXACT
from tsadc.series import Booleans, Floats
from tsadc.windows import runs

KIND = "incident"
PARTS = ("train", "test", "test_label", "interpretation_label")
VARIABLES = 38
FLOOR = 0.01  # least standard deviation: 0.01 of the range, which is 1
FAR = 2.0  # train standard deviations, or factors of them
Blamed = list[tuple[int, int, set[int]]]  # rows [start, stop) and the variables to blame in them, counted from 0


@dataclass(frozen=True)
class SMD(DataSet):
    """`leave_out` names machines to skip, for instance those with a large shift (see `shifts`)."""

    leave_out: tuple[str, ...] = ()
    length: int = 600

    card: ClassVar[Card] = Card(
        name="smd",
        title="SMD: Server Machine Dataset",
        licence="MIT",
        obtain="the folder ServerMachineDataset of github.com/NetManAIOps/OmniAnomaly",
        size="28 machines, 5 weeks each, about 460 MB of text",
        layout="ServerMachineDataset/{train,test,test_label,interpretation_label}/machine-X-Y.txt",
        variables=tuple(f"v{i:02d}" for i in range(1, VARIABLES + 1)),
        rate=1 / 60,
        length=600,
        entity="machine",
        normal="no labelled point",
        kinds=(KIND,),
        entities=28,
        paper=PaperCounts(Share(1624, 0.103), Share(276, 0.0797), Share(416, 0.338)),
        differs="28 machines give 2,328 observations of 600 minutes, the paper has 2,316. As each machine has at least "
        "78, the paper left none out; it does not say where the other 12 went, nor how its parts get 10 % and 34 %.",
    )

    def __post_init__(self) -> None:
        require(self.length > 0, "length", "positive", self.length)

    def records(self, raw: Path) -> Sequence[Record]:
        folder = raw / "ServerMachineDataset" if (raw / "ServerMachineDataset").is_dir() else raw
        if not (folder / "train").is_dir():
            raise DataError(f"{raw} should hold {self.card.layout}, but has no folder train.")
        machines = sorted((file.stem for file in (folder / "train").glob("machine-*.txt")), key=_number)
        unknown = [name for name in self.leave_out if name not in machines]
        if unknown:
            raise DataError(f"{folder / 'train'} has no {unknown[0]}.txt to leave out.")
        return [
            Record(name, name, tuple(folder / part / f"{name}.txt" for part in PARTS))
            for name in machines
            if name not in self.leave_out
        ]

    def read(self, record: Record) -> Extract:
        train, test, labels, blamed = record.files
        history, future = read_values(train), read_values(test)
        flags = _read_labels(labels, len(future))
        spans = spans_of(flags, _read_blamed(blamed, len(future)), self.variables)
        pieces = [Piece(values, start, part="train") for start, values in cut(history, self.length)]
        for start, values in cut(future, self.length):
            pieces.append(Piece(values, start, _within(spans, start, self.length), "test"))
        short = len(history) % self.length + len(future) % self.length
        return Extract(pieces, Counter({"rows after the last whole observation": short}))


def read_values(file: Path) -> Floats:
    """Read the table of one machine (time, variable)."""
    values = _numbers(file)
    if values.shape[1] != VARIABLES:
        raise DataError(f"{file} should have {VARIABLES} columns, but has {values.shape[1]}.")
    return values


def _read_labels(file: Path, rows: int) -> Booleans:
    values = _numbers(file)
    if values.shape != (rows, 1) or not np.isin(values, (0, 1)).all():
        raise DataError(f"{file} should hold {rows} lines of 0 or 1, one for each row of its test part.")
    return np.equal(values[:, 0], 1)


def _numbers(file: Path) -> Floats:
    try:
        frame = pd.read_csv(file, header=None, dtype=np.float64, encoding="utf-8-sig", **EXACT)
    except FileNotFoundError:
        raise DataError(f"There is no file {file}.") from None
    except (ValueError, OSError):
        raise DataError(
            f"{file} should hold only numbers separated by commas, the same number in every line."
        ) from None
    values: Floats = frame.to_numpy()
    if not np.isfinite(values).all():
        raise DataError(
            f"{file} breaks off or has empty fields in line {int((~np.isfinite(values)).any(1).argmax()) + 1}."
        )
    return values


def _read_blamed(file: Path, rows: int) -> Blamed:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise DataError(f"There is no file {file}.") from None
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{file} cannot be read as text.") from None
    return parse_blamed(text, rows, str(file))


def parse_blamed(text: str, rows: int, file: str) -> Blamed:
    """Parse the text of `interpretation_label` for a test part with `rows` rows."""
    out = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            span, _, names = line.partition(":")
            start, stop = (int(part) for part in span.split("-"))
            variables = {int(name) - 1 for name in names.split(",")}
        except ValueError:
            raise DataError(f"{file} should read like 392-416:12,15, but line {number} is {line[:40]!r}.") from None
        if not 0 <= start <= stop <= rows or not variables <= set(range(VARIABLES)):
            raise DataError(f"{file} names rows or variables in line {number} that its test part does not have.")
        out.append((start, stop, variables))
    return out


def spans_of(flags: Booleans, blamed: Blamed, names: Sequence[str]) -> list[Span]:
    """Return one span for each run of labelled points. The two label files differ in a few lines, so a run blames the
    variables of every interval that touches it."""
    spans = []
    for start, stop in runs(flags):
        hit = set().union(*(variables for first, last, variables in blamed if first < stop and last > start))
        spans.append(Span(start, stop, KIND, tuple(names[i] for i in sorted(hit))))
    return spans


def _within(spans: Sequence[Span], start: int, length: int) -> tuple[Span, ...]:
    return tuple(
        Span(max(span.start - start, 0), min(span.stop - start, length), span.kind, span.variables)
        for span in spans
        if span.start < start + length and span.stop > start
    )


def _number(name: str) -> tuple[int, ...]:
    """Return the numbers of a name, so that machine-3-10 sorts after machine-3-9."""
    return tuple(int(part) for part in name.split("-")[1:] if part.isdigit())


@dataclass(frozen=True, slots=True)
class Shift:
    """The shift of one machine between its train and test part.

    `median_mean` and `largest_mean` are the median and the largest shift of the mean over its variables, in standard
    deviations of the train part; `largest_spread` is the largest ratio of the standard deviations, either way;
    `shifted` is the share of variables in which one of them exceeds `FAR`."""

    machine: str
    median_mean: float
    largest_mean: float
    largest_spread: float
    shifted: float


def shift(machine: str, train: Floats, test: Floats) -> Shift:
    """Measure the shift between two tables (time, variable) of a machine. Standard deviations are at least `FLOOR`:
    half of the variables hardly vary, and dividing by their spread would make up a shift."""
    before, after = np.maximum(train.std(0), FLOOR), np.maximum(test.std(0), FLOOR)
    mean = np.abs(test.mean(0) - train.mean(0)) / before
    ratio = np.exp(np.abs(np.log(after / before)))
    share = float(((mean > FAR) | (ratio > FAR)).mean())
    return Shift(machine, float(np.median(mean)), float(mean.max()), float(ratio.max()), share)


def shifts(prepared: Prepared) -> list[Shift]:
    """Measure the shift of every prepared machine with observations of both parts, the most shifted first.

    Wagner et al. (TimeSeAD, 2023) leave out machines whose mean and standard deviation change."""
    every = []
    for machine, labels in prepared.labels.items():
        values, part = prepared.values(machine), np.array([label.part for label in labels])
        train, test = (
            values[part == name].reshape(-1, len(prepared.variables)).astype(np.float64) for name in ("train", "test")
        )
        every += [shift(machine, train, test)] if len(train) and len(test) else []
    return sorted(every, key=lambda moved: (-moved.shifted, -moved.largest_mean, moved.machine))


def shift_table(every: list[Shift]) -> pd.DataFrame:
    """Return a table for printing, one line per machine."""
    return pd.DataFrame(
        {
            "machine": [moved.machine for moved in every],
            "variables shifted": [f"{moved.shifted:.0%}" for moved in every],
            "mean, median": [round(moved.median_mean, 2) for moved in every],
            "mean, largest": [round(moved.largest_mean, 2) for moved in every],
            "spread, largest": [round(moved.largest_spread, 2) for moved in every],
        }
    )
