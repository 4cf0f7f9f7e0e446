"""Records as Markdown: detectors down, data sets across. Nothing but the records is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tsadc.bench.cell import Record
from tsadc.bench.markdown import table as as_table
from tsadc.bench.metrics import by_chance, flagging_all, told, value_of
from tsadc.bench.paired import against_best
from tsadc.bench.points import MISLEADING
from tsadc.bench.protocols import PROTOCOLS, Protocol
from tsadc.bench.records import write
from tsadc.bench.summary import Summary, summarise
from tsadc.errors import DataError
from tsadc.evaluate.adjusted import WHY_NOT

Grid = Mapping[tuple[str, str], Sequence[Record]]  # (row, column) -> its records by seed
ALWAYS = ("auroc", "ap", "f1")


def markdown(
    records: Sequence[Record],
    choosing: bool = False,
    metrics: Sequence[str] = (),
    brief: bool = False,
    goals: bool = False,
) -> str:
    """The tables of the seeds for reporting, or of those for choosing; `metrics` are shown beside AUROC, AP and F1.
    `brief` leaves out kinds, parts and details; `goals` adds what was known before, and what this project aims at."""
    summaries = summarise(records, choosing)
    grid = {(one.row, one.column): one.records for one in summaries}
    parts = [
        _preface([one for some in grid.values() for one in some]),
        _ranked("AUROC", "auroc", 0, grid, goals),
        _ranked("AP (average precision)", "ap", 1, grid, goals),
        _thresholds(grid),
        *(_plain(metric, grid) for metric in metrics if metric not in ALWAYS),
        *([_seeds(grid)] if brief else [_paired(summaries), _halves(grid), _kinds(grid), _details(grid)]),
    ]
    return "\n\n".join(part for part in parts if part)


def insert(document: Path, text: str, name: str = "quality") -> None:
    """Put `text` between the markers that bear this name in a document; without them, at its end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if document.is_dir():
        raise DataError(f"{document} is a folder, but the file that the table goes into was expected; name the file.")
    if not document.exists():
        raise DataError(f"There is no file {document} to put the table into; correct the name, or make the file first.")
    try:
        old = document.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{document} cannot be read as text.") from None
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = old.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise DataError(f"{document} has {begin} without {end} after it; add the line where the tables should end.")
    write(document, f"{before}{begin}\n\n{text}\n\n{end}{after}".encode())


def _preface(records: Sequence[Record]) -> str:
    """How to read the tables, and what made the numbers."""
    made = sorted({f"tsadc {one['tsadc']} at commit {one['commit'] or 'unknown'}" for one in records})
    return (
        "Means over seeds, with the mean of their 90 % bootstrap intervals: drawn were whole entities where there are "
        "several, otherwise observations. Bold in the first two tables is the best without a network, among F1 what "
        "beats flagging everything; the oracle F1 needs labels and is a bound, not a result. A plus sign: with changes "
        f"that were not committed. Made with {', '.join(made)}."
    )


def columns(grid: Grid) -> list[str]:
    return list(dict.fromkeys(column for _, column in grid))


def rows(grid: Grid) -> list[str]:
    """Those with a network first, then by the mean AUROC over data sets, best first."""
    found = {row: [column for own, column in grid if own == row] for row, _ in grid}
    values = {row: [_mean([one["auroc"] for one in _fine(grid[row, data])]) for data in found[row]] for row in found}
    means = {row: _mean([mean for mean in some if mean is not None]) or 0.0 for row, some in values.items()}
    return sorted(means, key=lambda row: (not network(grid, row), -means[row], row))


def _protocol(column: str) -> Protocol | None:
    """None of data of one's own."""
    return PROTOCOLS.get(column.partition(" ")[0])


def network(grid: Grid, row: str) -> bool:
    """Whether what the row names is trained by gradients."""
    return any("training" in one["settings"] for (own, _), some in grid.items() if own == row for one in some)


def _ranked(title: str, key: str, place: int, grid: Grid, goals: bool) -> str:
    have = columns(grid)
    best = {data: _best(grid, data, key) for data in have}
    body = []
    for row in rows(grid):
        cells = {data: _ranking(grid.get((row, data), ()), key) for data in have}
        body.append([row, *(f"**{cell}**" if best[data] == row else cell for data, cell in cells.items())])
    found = [None if " " in data else _protocol(data) for data in have]
    prevalence = [_of_all(grid, data, "prevalence") for data in have]
    body.append(["prevalence, also by chance" if key == "ap" else "prevalence", *map(_number, prevalence)])
    if goals and any(found):
        body.append(["*known before, without a network*", *((one and one.known[place]) or "-" for one in found)])
        body.append(["*goal*", *(_number(one.goal[place] if one else None) for one in found)])
    return as_table([title, *have], body)


def _best(grid: Grid, data: str, key: str) -> str:
    """The row without a network that is best on a data set."""
    cheap = {row: some for (row, own), some in grid.items() if own == data and not network(grid, row)}
    means = {row: _mean([one[key] for one in _fine(some)]) for row, some in cheap.items()}
    measured = {row: mean for row, mean in means.items() if mean is not None}
    return max(measured, key=lambda row: measured[row]) if measured else ""


def _ranking(some: Sequence[Record], key: str) -> str:
    """Mean over seeds, and the mean of the ends of the seeds' intervals."""
    fine = _fine(some)
    ends = [one[f"{key}_interval"] for one in fine if one[f"{key}_interval"]]
    within = f" ({_number(_mean([low for low, _ in ends]))} to {_number(_mean([high for _, high in ends]))})"
    return _number(_mean([one[key] for one in fine])) + (within if ends else "") + _failures(some)


def _plain(metric: str, grid: Grid) -> str:
    """In brackets what random scores, or as many flags thrown at random, would get."""
    have, body = columns(grid), []
    for row in rows(grid):
        some = [_fine(grid.get((row, data), ())) for data in have]
        values = [(_known(fine, metric, value_of), _known(fine, metric, by_chance)) for fine in some]
        body.append([row, *(_beside(metric, *pair) for pair in values)])
    every = [[one for (_, own), some in grid.items() if own == data for one in _fine(some)] for data in have]
    flagged = [_known(fine, metric, flagging_all) for fine in every]
    body += [["flag everything", *(told(metric, value) for value in flagged)]] if set(flagged) != {None} else []
    if all(_known(fine, metric, value_of) is None for fine in every):
        return f"{metric}: none of these rows has it."
    chance = any(_known(fine, metric, by_chance) is not None for fine in every)
    table = as_table([f"{metric} (by chance)" if chance else metric, *have], body)
    return f"{table}\n\n{WHY_NOT}" if metric == MISLEADING else table


def _known(fine: Sequence[Record], metric: str, read: Callable[[Record, str], float | None]) -> float | None:
    return _mean([value for one in fine if (value := read(one, metric)) is not None])


def _beside(metric: str, value: float | None, chance: float | None) -> str:
    return told(metric, value) + ("" if value is None or chance is None else f" ({told(metric, chance)})")


def _thresholds(grid: Grid) -> str:
    have = columns(grid)
    flagging = [_of_all(grid, data, "all_positive_f1") for data in have]
    body = [[row, *(_f1(grid.get((row, data), ())) for data in have)] for row in rows(grid)]
    return as_table(
        ["F1 at its own threshold (by chance)", *have], [*body, ["flag everything", *map(_number, flagging)]]
    )


def _f1(some: Sequence[Record]) -> str:
    fine = _fine(some)
    f1, everything = _mean([one["f1"] for one in fine]), _mean([one["all_positive_f1"] for one in fine])
    better = f1 is not None and everything is not None and f1 > everything
    text = f"**{_number(f1)}**" if better else _number(f1)
    chance = _known(fine, "f1", by_chance)
    return text + ("" if chance is None else f" ({_number(chance)})") + _failures(some)


def _seeds(grid: Grid) -> str:
    """Which seeds are behind each column; several where rows differ."""
    found: dict[str, list[str]] = {}
    for column in columns(grid):
        rows_of = [some for (_, own), some in grid.items() if own == column]
        found[column] = sorted({" ".join(str(one["seed"]) for one in some) for some in rows_of})
    return "Seeds: " + "; ".join(f"{column}: {' or '.join(seeds)}" for column, seeds in found.items()) + "."


def _paired(summaries: Sequence[Summary]) -> str:
    """The best against the others, over the data sets that all of them were run on."""
    found = against_best(summaries, "auroc")
    if found is None:
        return ""
    best, cases, others = found
    body = [
        [one.row, f"{one.difference:+.3f} ({one.interval[0]:+.3f} to {one.interval[1]:+.3f})", f"{one.p:.3f}"]
        for one in others
    ]
    head = [f"AUROC of {best} less that of", f"mean over {cases} data sets, 90 % interval", "p (Wilcoxon, Holm)"]
    return as_table(head, body) + (
        "\n\nRows that were not run on all of them are left out. Data sets made of the same recordings are no "
        "independent cases, so that intervals and p are too sure of themselves."
    )


def _halves(grid: Grid) -> str:
    """The parts that choosing settings has not seen."""
    named = {(data, part) for (_, data), some in grid.items() for one in _fine(some) for part in one["parts"]}
    have = columns(grid)
    order = sorted(named, key=lambda pair: have.index(pair[0]))
    if not order:
        return ""
    body = []
    for row in rows(grid):
        cells = []
        for data, part in order:
            inside = [one["parts"][part] for one in _fine(grid.get((row, data), ()))]
            cells.append(" / ".join(_number(_mean([one[key] for one in inside])) for key in ("auroc", "ap")))
        body.append([row, *cells])
    return as_table(["AUROC / AP", *(f"{data}: {part}" for data, part in order)], body)


def _kinds(grid: Grid) -> str:
    """Each kind on its own: its observations against the normal ones."""
    named = {(data, kind) for (_, data), some in grid.items() for one in _fine(some) for kind in one["kinds"]}
    have = columns(grid)
    pairs = sorted(named, key=lambda pair: (have.index(pair[0]), pair[1]))
    several = [(data, kind) for data, kind in pairs if sum(other == data for other, _ in pairs) > 1]
    body = []
    order = rows(grid)
    for data, kind in several:
        found = [[one["kinds"].get(kind) for one in _fine(grid.get((row, data), ()))] for row in order]
        body.append([data, kind, *(_number(_mean([one["auroc"] for one in some if one])) for some in found)])
    return as_table(["data", "AUROC of the kind", *order], body) if body else ""


def _details(grid: Grid) -> str:
    body = []
    for data in columns(grid):
        for row in rows(grid):
            some = grid.get((row, data), ())
            fine = _fine(some)
            if not some:
                continue
            spread = _number(float(np.std([one["auroc"] for one in fine], ddof=1)) if len(fine) > 1 else None)
            numbers = [_number(_mean([one[key] for one in fine])) for key in ("precision", "recall", "oracle_f1")]
            times = [_time(fine, "fit_seconds", 1), _time(fine, "score_seconds", 1000)]
            seeds = " ".join(str(one["seed"]) for one in some)
            body.append([data, row, seeds + _failures(some), spread, *numbers, *times])
    head = ["data", "detector", "seeds", "sd of AUROC over seeds", "precision", "recall", "oracle F1"]
    return as_table([*head, "fit, s", "score, ms per observation"], body)


def _time(fine: Sequence[Record], key: str, unit: float) -> str:
    mean = _mean([one[key] for one in fine])
    return "-" if mean is None else f"{unit * mean:.1f}"


def _failures(some: Sequence[Record]) -> str:
    failed = len(some) - len(_fine(some))
    return f" ({failed} of {len(some)} failed)" if failed else ""


def _fine(some: Sequence[Record]) -> list[Record]:
    return [one for one in some if "error" not in one]


def _of_all(grid: Grid, data: str, key: str) -> float | None:
    """A property of the data set, whoever scored it."""
    return _mean([one[key] for (_, own), some in grid.items() if own == data for one in _fine(some)])


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
