"""Review files: what a person decided about each suspected interval."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors.interval_id import interval_id
from tsadc.detectors.review import names_text, read_review
from tsadc.errors import DataError
from tsadc.series import Clock, Series

NAMES = ("flow", "level; raw", "power")
MINUTES = Clock(start=pd.Timestamp("2026-03-01 12:00").value, interval=60 * 10**9, dated=True)
BERLIN = Clock(start=pd.Timestamp("2026-03-29 00:30", tz="UTC").value, interval=60 * 10**9, dated=True,
               timezone="Europe/Berlin")  # fmt: skip


def series(clock: Clock = MINUTES, entity: str = "pump") -> Series:
    return Series(np.arange(300.0).reshape(100, 3), NAMES, clock, entity)


def line(start: int, stop: int, decision: str, variables: str = "flow", of: Series | None = None) -> dict[str, object]:
    own = of or series()
    first, last = own.clock.at([start, stop])
    key = interval_id(own.entity, *map(own.clock.tick, (start, stop)))
    return {
        "id": key, "entity": own.entity, "start": first, "end": last, "variables": variables, "decision": decision,
        "comment": "",
    }  # fmt: skip


def write(folder: Path, *lines: dict[str, object], **options: object) -> Path:
    file = folder / "review.csv"
    columns = ["id", "entity", "start", "end", "variables", "decision", "comment"]
    pd.DataFrame(list(lines), columns=columns).to_csv(file, index=False, **options)
    return file


def test_a_dropped_interval_loses_all_values_and_a_fixed_one_those_to_blame(
    tmp_path: Path,
) -> None:
    lines = line(10, 14, "drop"), line(20, 25, "Fix ", "power"), line(30, 90, "keep")
    review = read_review(write(tmp_path, *lines), [series()])
    assert review.counts == {"keep": 1, "drop": 1, "fix": 1}
    (cells,) = review.cells([series()])
    assert np.argwhere(cells.all(axis=1)).ravel().tolist() == [10, 11, 12, 13]
    assert np.argwhere(cells.any(axis=1) & ~cells.all(axis=1)).ravel().tolist() == [20, 21, 22, 23, 24]
    assert cells.sum(axis=0).tolist() == [4, 4, 9]
    (applied,) = review.apply([series()])
    assert np.array_equal(np.isnan(applied.values), cells)
    assert np.array_equal(applied.values[~cells], series().values[~cells])
    assert review.provenance([series()]) == {
        "digest": review.digest, "keep": 1, "drop": 1, "fix": 1, "rows": 4, "cells": 17,
    }  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_file_that_a_spreadsheet_has_saved_is_read(tmp_path: Path, separator: str, encoding: str) -> None:
    own = series(entity="Förderband, links")
    text = names_text(NAMES[:2])
    file = write(tmp_path, line(3, 9, "fix", text, own), sep=separator, encoding=encoding)
    (decision,) = read_review(file, [own]).decisions
    assert (decision.start, decision.stop, decision.variables) == (3, 9, NAMES[:2])


def test_names_of_entities_may_look_like_formulas_and_clocks_may_change(tmp_path: Path) -> None:
    own = series(BERLIN, "=1+1")
    edited = line(20, 40, "drop", of=own) | {"entity": "'=1+1"}  # the offset changes in between
    (decision,) = read_review(write(tmp_path, edited), [series(), own]).decisions
    assert (decision.number, decision.start, decision.stop) == (1, 20, 40)
    counted = series(Clock())
    assert read_review(write(tmp_path, line(5, 8, "drop", of=counted)), [counted]).decisions[0].start == 5


def test_a_review_without_intervals_changes_nothing_and_a_repeated_line_counts_once(tmp_path: Path) -> None:
    own = series()
    empty = read_review(write(tmp_path), [own])
    assert empty.decisions == ()
    assert empty.apply([own])[0] is own
    assert len(read_review(write(tmp_path, line(1, 2, "drop"), line(1, 2, "drop")), [own]).decisions) == 1


FAULTS = {
    "missing column": (lambda text: text.replace("decision", "verdict"), "lacks decision"),
    "unknown decision": (lambda text: text.replace("drop", "delete"), "Line 2 .* keep, drop or fix, but got 'delete'"),
    "no decision": (lambda text: text.replace("drop", ""), "Line 2 .* but it is empty"),
    "edited time": (lambda text: text.replace("12:10:00", "12:11:00"), "Line 2 .* does not belong to its entity"),
    "edited entity": (lambda text: text.replace("pump", "pumpe"), "the entity 'pumpe', but the data has only pump"),
    "off the clock": (lambda text: text.replace("12:10:00", "12:10:30"), "at which 'pump' has no row"),
    "no time": (lambda text: text.replace("2026-03-01 12:10:00", "1.3.2026 12:10"), "needs a time such as"),
    "unknown variable": (lambda text: text.replace("flow,drop", "flux,fix"), "names flux, which the data does not"),
    "no variable": (lambda text: text.replace("flow,drop", ",fix"), "but names none"),
    "empty": (lambda text: "", "is empty"),
    "two repairs": (
        lambda text: text.replace("flow,drop", "flow,fix") + text.splitlines()[1].replace("flow,drop", "power,fix"),
        "Lines 2 and 3 .* name different variables",
    ),
    "contradiction": (lambda text: text + text.splitlines()[1].replace("drop", "keep"), "Lines 2 and 3 .* contradict"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_file_is_one_sentence(tmp_path: Path, fault: str) -> None:
    edit, message = FAULTS[fault]
    file = write(tmp_path, line(10, 14, "drop"))
    file.write_text(edit(file.read_text()))
    with pytest.raises(DataError, match=message) as raised:
        read_review(file, [series()])
    assert len(re.findall(r"[.!?](\s|$)", str(raised.value))) == 1


def test_intervals_that_overlap_must_agree_and_lie_in_the_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Lines 2 and 3 .* contradict each other about the same rows, drop and keep"):
        read_review(write(tmp_path, line(10, 20, "drop"), line(15, 30, "keep")), [series()])
    with pytest.raises(DataError, match="but the data has 2026-03-01 12:00:00 to 2026-03-01 13:40:00"):
        read_review(write(tmp_path, line(90, 120, "drop")), [series()])
    with pytest.raises(DataError, match="There is no review file"):
        read_review(tmp_path / "other.csv", [series()])
