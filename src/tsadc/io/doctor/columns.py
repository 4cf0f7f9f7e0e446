"""Rules about single variables: markers of missing values, labels, counters, states, sensors that fail."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tsadc.io.doctor.facts import MAX_STATES, MIN_ROWS, Column, Kind
from tsadc.io.doctor.finding import Finding, Severity, duration, figure, moment, names, option, percent, verb
from tsadc.io.doctor.profile import Profile
from tsadc.series import MAX_ABS_VALUE, Floats

# What loggers, protocols and data formats write where nothing was measured.
MARKERS = frozenset(
    sign * value
    for value in (*(10**digits - 1 for digits in range(2, 11)),  # 99, 999, ... 9999999999
                  99.9, 99.99, 200, 250, 273.15, 300, 327.67, 327.68, 555, 655.35, 777, 850, 888, 900, 999.25, 999.9,
                  999.99, 3276.7, 3276.8, 6553.5, 6999, 7999, 8888, 9999.9, 9999.99, 32767, 32768, 65535, 2147483647,
                  2147483648, 4294967295, 1e20, 1e30, 1e35, 1e36, 1e37)
    for sign in (-1, 1)
)  # fmt: skip
MIN_MARKED = 3  # cells with a known marker; other values must be repeated more often
MIN_REPEATED = 5
MIN_GAP = 0.05  # between a known marker and the other values, of their range
FAR = 2.0  # the same for other round values
MAX_MARKERS = 4  # of a variable
MAX_MARKED = 0.5  # share of the cells: a value that is no known marker and more frequent is where the variable rests
MIN_DIFFERENT = 8  # values of a variable that is measured
MAX_DROPOUT = 5  # consecutive rows with 0: longer ones are a machine that is off
MAX_DROPOUTS = 0.2  # share of the rows
LATE = 0.05  # of the rows of an entity, that a sensor starts late or ends early
STUCK = 0.05  # of the rows of an entity, without any change
MIN_STUCK = 100  # rows
MAX_FLAT = 0.1  # of the other blocks that may stand still, too: beyond, standing still is usual
SPARSE = 0.5  # share of missing cells


def _of_kind(columns: Sequence[Column], kind: Kind) -> list[str]:
    """Return the names of the variables of one kind."""
    return [column.facts.name for column in columns if column.facts.kind == kind]


def labels(columns: Sequence[Column]) -> Iterator[Finding]:
    """Find columns of labels."""
    found = _of_kind(columns, "label")
    if found:
        yield Finding(
            "label",
            "warn",
            tuple(found),
            (),
            f"{names(found)} {verb(found, 'looks like a label and not a sensor', 'look like labels and not sensors')}: "
            f"{verb(found, 'it is', 'they are')} named so and {verb(found, 'holds', 'hold')} only whole numbers "
            "such as 0 and 1.",
            "A model must not learn from labels, which new data does not have.",
            option("exclude", found),
        )


def counters(columns: Sequence[Column], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find columns that only rise or fall."""
    rows = _of_kind(columns, "row number")
    if rows:
        yield Finding(
            "row-number",
            "warn",
            tuple(rows),
            (),
            f"{names(rows)} {verb(rows, 'rises', 'rise')} by the same amount from row to row, like a row number or a "
            "clock.",
            f"{verb(rows, 'It says', 'They say')} nothing about the machine, and new values lie outside the range "
            "of the history.",
            option("exclude", rows),
        )
    counting = [k for k, column in enumerate(columns) if column.facts.kind == "counter"]
    resets = [k for k in counting if any(own.rising[k] and own.falling[k] for own in profiles)]
    found = [columns[k].facts for k in counting if k not in resets]
    if resets:
        again = [columns[k].facts.name for k in resets]
        yield Finding(
            "resetting-counter",
            "note",
            tuple(again),
            (),
            f"{names(again)} {verb(again, 'rises and starts', 'rise and start')} again, like a counter that is reset.",
            "Its value depends on the time since the last reset and not on the state of the machine.",
            option("difference", again),
        )
    if found:
        first, counted = found[0], [facts.name for facts in found]
        yield Finding(
            "counter",
            "warn",
            tuple(counted),
            (),
            f"{names(counted)} {verb(counted, 'only rises or falls', 'only rise or fall')}, like a counter or a meter: "
            f"{first.name} runs between {figure(first.minimum)} and {figure(first.maximum)}.",
            "New values lie outside the range of the history, so they look more and more unusual.",
            option("difference", counted),
        )


def states(columns: Sequence[Column]) -> Iterator[Finding]:
    """Find columns of few values."""
    found = _of_kind(columns, "state")
    if found:
        yield Finding(
            "state",
            "note",
            tuple(found),
            (),
            f"{names(found)} {verb(found, 'has', 'have')} at most {MAX_STATES} different values, like a state, a "
            "command or a setpoint.",
            f"{verb(found, 'It is', 'They are')} kept, but the ensemble does not judge {verb(found, 'it', 'them')}.",
            f"Nothing needs to be done; --exclude leaves {verb(found, 'it', 'them')} out.",
        )


def constants(columns: Sequence[Column], *, fitting: bool) -> Iterator[Finding]:
    """Find columns without any value or change."""
    empty = _of_kind(columns, "empty")
    if empty:
        yield Finding(
            "empty",
            "refuse" if fitting else "warn",
            tuple(empty),
            (),
            f"{names(empty)} {verb(empty, 'has', 'have')} no values{' in the history' if fitting else ''}.",
            f"Nothing can be learnt about {verb(empty, 'it', 'them')}."
            if fitting
            else f"{verb(empty, 'It', 'They')} cannot be judged.",
            option("exclude", empty),
        )
    found = _of_kind(columns, "constant")
    if found and fitting:
        yield Finding(
            "constant",
            "note",
            tuple(found),
            (),
            f"{names(found)} never {verb(found, 'changes', 'change')}.",
            f"{verb(found, 'It is', 'They are')} kept; any change counts as unusual, if the detector judges "
            f"{verb(found, 'it', 'them')}.",
            f"Nothing needs to be done; --exclude leaves {verb(found, 'it', 'them')} out.",
        )


def impossible(columns: Sequence[Column], *, fitting: bool) -> Iterator[Finding]:
    """Find values beyond the range of any sensor."""
    wrong = {}
    for column in columns:
        for extreme in (column.facts.minimum, column.facts.maximum):
            if abs(extreme) > MAX_ABS_VALUE:
                wrong[column.facts.name] = extreme
    if wrong:
        name, value = next(iter(wrong.items()))
        yield Finding(
            "impossible",
            "refuse" if fitting else "warn",
            tuple(wrong),
            (),
            f"{names(list(wrong))} {verb(list(wrong), 'holds', 'hold')} values that no sensor measures, such as "
            f"{_exact(value)} in {name}.",
            "A single such cell decides the level and the spread of its variable.",
            option("missing", sorted({_exact(value) for value in wrong.values()})),
        )


def markers(columns: Sequence[Column], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find values that mean "not measured": repeated, at an end of the range, far from all others."""
    places: dict[float, list[int]] = {}
    counts: dict[tuple[float, int], int] = {}
    for k, column in enumerate(columns):
        if (
            column.facts.kind in ("continuous", "state")
            and max(abs(column.facts.minimum), abs(column.facts.maximum)) < 1e300
        ):
            for value, number in _marked(column, profiles, k):
                places.setdefault(value, []).append(k)
                counts[value, k] = number
    # A known marker of one variable is also a marker of others in which it is the least or the greatest value, even if
    # it is closer to their other values, or their only value.
    for value, found in places.items():
        for k, column in enumerate(columns):
            ends = (column.facts.minimum, column.facts.maximum)
            if (
                value in MARKERS
                and k not in found
                and value in ends
                and column.facts.kind in ("continuous", "constant")
            ):
                counts[value, k] = _count(profiles, k, value)[0]
                found.append(k)
    for value, found in places.items():
        found.sort()
        others = [
            column.facts.name for k, column in enumerate(columns) if k not in found and (column.values == value).any()
        ]
        if value != 0 or not others:  # where 0 is a value elsewhere, it is one here, too: a machine that is off
            yield _marker(value, found, columns, {k: counts[value, k] for k in found}, others, profiles)


def _marker(
    value: float,
    found: list[int],
    columns: Sequence[Column],
    counts: dict[int, int],
    others: list[str],
    profiles: Sequence[Profile],
) -> Finding:
    worst = max((k for k in found if columns[k].facts.kind != "constant"), key=lambda k: counts[k])
    marked = [columns[k].facts.name for k in found]
    facts = columns[worst].facts
    rest = columns[worst].values[columns[worst].values != value]
    # The end without the marker is known exactly, the other one from the sample.
    low = rest[0] if value == facts.minimum else facts.minimum
    high = rest[-1] if value == facts.maximum else facts.maximum
    rows = sum(own.rows for own in profiles)
    text = _exact(value)
    also = f" in {names(marked)}, most often in {marked[found.index(worst)]}" if len(found) > 1 else f" in {marked[0]}"
    remedy = f"--missing {text}"
    if others:
        hold = f"{names(others)} {verb(others, 'holds', 'hold')}"
        remedy = f"Leave the cell empty where it means not measured; {hold} it as a value."
    return Finding(
        "marker",
        "warn",
        tuple(marked),
        (),
        f"The value {text} appears {counts[worst]:,} times ({percent(counts[worst] / rows)} of the rows){also}, far "
        f"from all others there ({figure(low)} to {figure(high)}).",
        "It looks like a marker of missing values; as a measurement it would distort levels, spreads and alarms.",
        remedy,
    )


def _exact(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _marked(column: Column, profiles: Sequence[Profile], k: int) -> Iterator[tuple[float, int]]:
    """Yield the markers of one variable, each with the number of its cells."""
    values = column.values
    # The extremes are exact; the sample of a long history may miss them.
    values = np.unique(np.append(values, [column.facts.minimum, column.facts.maximum]))
    for _ in range(MAX_MARKERS):
        if len(values) < 3:
            return
        ends = ((values[0], values[1] - values[0], values[1:]), (values[-1], values[-1] - values[-2], values[:-1]))
        value, gap, rest = max(ends, key=lambda end: float(end[1]))
        known = float(value) in MARKERS
        if not _is_far(float(value), float(gap), rest, known=known):
            return
        number, runs = _count(profiles, k, float(value))
        cells = sum(int(own.known[k]) for own in profiles)
        off = value == 0 and (number > MAX_DROPOUT * runs or number > MAX_DROPOUTS * cells)
        if off or (not known and number > MAX_MARKED * cells) or number < (MIN_MARKED if known else MIN_REPEATED):
            return
        yield float(value), number
        values = rest


def _is_far(value: float, gap: float, rest: Floats, *, known: bool) -> bool:
    width = float(rest[-1] - rest[0])
    if known:
        near = np.quantile(rest, [0.01, 0.99])
        edge = max(abs(near[0] - rest[0]), abs(near[1] - rest[-1]))
        return gap > max(MIN_GAP * width, 2 * edge) and (len(rest) >= MIN_DIFFERENT or gap > 10 * max(width, 1.0))
    if len(rest) < 2 * MIN_DIFFERENT or not _is_round(value):
        return False
    return gap > FAR * width


def _is_round(value: float) -> bool:
    """Return whether a person or a program could have chosen the value; 1 and 100 are ends of scales."""
    return float(f"{value:.2g}") == value and abs(value) not in (1.0, 100.0)


def _count(profiles: Sequence[Profile], k: int, value: float) -> tuple[int, int]:
    """Return how many cells hold the value, and in how many runs."""
    number = runs = 0
    for own in profiles:
        for i in np.flatnonzero((own.low[:, k] <= value) & (value <= own.high[:, k])):
            equal = np.asarray(own.series.values[i * own.block : (i + 1) * own.block])[:, k] == value
            number += int(equal.sum())
            runs += int((equal[1:] & ~equal[:-1]).sum() + equal[0])
    return number, runs


def failing(columns: Sequence[Column], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find sensors that have no values in some entities, start late, end early, or stand still."""
    absent: dict[int, list[str]] = {}
    late, early, stuck = list[_Case](), list[_Case](), list[_Case]()
    for own in profiles:
        filled = np.flatnonzero(own.filled)
        if own.rows < MIN_ROWS or not len(filled):
            continue
        start, stop = int(filled[0]) * own.block, min((int(filled[-1]) + 1) * own.block, own.rows)
        least = max(MIN_ROWS, int(LATE * own.rows), own.block)
        for k, column in enumerate(columns):
            if column.facts.kind == "empty":
                continue
            span = own.span(k)
            if span is None:
                absent.setdefault(k, []).append(own.series.entity)
                continue
            if span[0] - start >= least:
                late.append(_Case(span[0] - start, k, own, span[0]))
            if stop - 1 - span[1] >= least:
                early.append(_Case(stop - 1 - span[1], k, own, span[1]))
            if column.facts.kind == "continuous" and (run := _stuck(own, k)):
                stuck.append(_Case(run[1], k, own, run[0]))
    if absent:
        found = [columns[k].facts.name for k in absent]
        where = list(dict.fromkeys(entity for entities in absent.values() for entity in entities))
        yield Finding(
            "absent",
            "warn",
            tuple(found),
            tuple(where),
            f"{names(found)} {verb(found, 'has', 'have')} no value in {names(where)} ({len(where)} of {len(profiles)} "
            "entities).",
            f"There {verb(found, 'it', 'they')} cannot be judged, and the level is taken from the other entities.",
            option("exclude", found),
        )
    if late:
        yield _longest(
            "late",
            "warn",
            late,
            columns,
            "{sensor} has its first value at {time}, {length} after the start{more}.",
            "Before that it cannot be judged, and the model learns little about it.",
        )
    if early:
        yield _longest(
            "dead",
            "warn",
            early,
            columns,
            "{sensor} has no value after {time}, {length} before the end{more}.",
            "After that it cannot be judged.",
        )
    if stuck:
        longest = max(stuck)
        lasts = longest.row + longest.rows >= longest.own.rows
        yield _longest(
            "stuck",
            "warn" if lasts else "note",
            stuck,
            columns,
            f"{{sensor}} does not change for {{length}} from {{time}} on{', to the end' if lasts else ''}{{more}}.",
            "A sensor that does not change looks normal, and the model learns that this is normal.",
            "Check the sensor; if it failed, leave its cells empty from then on.",
        )


@dataclass(frozen=True, order=True)
class _Case:
    """A stretch of rows in which a variable of a series fails; the longest is described."""

    rows: int
    variable: int = field(compare=False)
    own: Profile = field(compare=False)
    row: int = field(compare=False)  # that is named


def _longest(
    code: str,
    severity: Severity,
    cases: Sequence[_Case],
    columns: Sequence[Column],
    evidence: str,
    consequence: str,
    remedy: str | None = None,
) -> Finding:
    """Return one finding for all cases. `evidence` describes the longest, with fields for its figures. Without another
    `remedy`, the variables are to be left out."""
    case = max(cases)
    variables = tuple(dict.fromkeys(columns[other.variable].facts.name for other in cases))
    text = evidence.format(
        sensor=f"{columns[case.variable].facts.name} of {case.own.series.entity}",
        time=moment(case.own.series, case.row),
        length=duration(case.own.series, case.rows),
        more=f"; {len(cases) - 1} more like it" if len(cases) > 1 else "",
    )
    entities = tuple(dict.fromkeys(other.own.series.entity for other in cases))
    return Finding(code, severity, variables, entities, text, consequence, remedy or option("exclude", variables))


def sparse(columns: Sequence[Column], profiles: Sequence[Profile], without: Collection[str]) -> Iterator[Finding]:
    """Find variables that are mostly missing although the rows have values. Those in `without` have another finding."""
    found, share = [], 0.0
    filled = sum(int(own.filled.sum()) for own in profiles)
    for k, column in enumerate(columns):
        missing = 1 - sum(int(own.known[k]) for own in profiles) / max(1, filled)
        if SPARSE < missing < 1 and column.facts.name not in without:
            found.append(column.facts.name)
            share = max(share, missing)
    if found:
        yield Finding(
            "sparse",
            "note",
            tuple(found),
            (),
            f"{names(found)} {verb(found, 'is', 'are')} missing in most rows, {percent(share)} at worst.",
            f"{verb(found, 'It is', 'They are')} judged only in rows with a value, rarely together with others.",
            option("exclude", found),
        )


def identical(columns: Sequence[Column], profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find variables that are copies of others."""
    copies: dict[bytes, list[int]] = {}
    for k, column in enumerate(columns):
        if column.facts.kind in ("continuous", "counter", "state"):
            copies.setdefault(
                b"".join(np.ascontiguousarray(own.sample[:, k]).tobytes() for own in profiles), []
            ).append(k)
    for group in copies.values():
        if len(group) > 1:
            same = [columns[k].facts.name for k in group]
            yield Finding(
                "identical",
                "note",
                tuple(same),
                (),
                f"{names(same)} hold the same values.",
                "An event in one of them is counted once for each copy.",
                option("exclude", same[1:]),
            )


def _stuck(own: Profile, k: int) -> tuple[int, int] | None:
    """Return the first row and the length of the longest run of blocks without any change, if it is unusual."""
    sizes = np.minimum(own.block, own.rows - own.block * np.arange(len(own.measured)))
    still = (own.measured[:, k] == sizes) & (own.low[:, k] == own.high[:, k])
    flat = still & ~np.isin(own.low[:, k], [0, *MARKERS])  # at 0 a machine is off; a marker has a finding of its own
    # A run goes on while the value stays the same, from block to block.
    starts = flat & ~np.append(False, flat[:-1] & (own.low[1:, k] == own.low[:-1, k]))
    run = np.where(flat, np.cumsum(starts), 0)
    if not flat.any():
        return None
    lengths = np.bincount(run, weights=sizes)[1:]
    longest = int(lengths.argmax()) + 1
    rows, inside = int(lengths[longest - 1]), run == longest
    others = ~inside & (own.measured[:, k] > 0)
    if rows < max(MIN_STUCK, STUCK * own.rows) or not others.any() or still[others].mean() > MAX_FLAT:
        return None
    return int(np.flatnonzero(inside)[0]) * own.block, rows
