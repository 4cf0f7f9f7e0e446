"""Rules about rows and times: gaps, a changing pace, daylight saving time, one machine in several files."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tsadc.io.doctor.facts import MIN_ROWS, Column
from tsadc.io.doctor.finding import Finding, duration, moment, names, option, percent
from tsadc.io.doctor.profile import Profile
from tsadc.io.reading import spell
from tsadc.series import Series

HOUR = 3600 * 10**9
MIN_GAP_ROWS = 10
MIN_GAP_SHARE = 0.01  # of the rows
WIDE_GAPS = 0.3  # share of rows beyond which gaps are a warning
MIN_PACE_ROWS = 0.1  # of an entity, with each pace
PACE = 0.1  # tolerance of the share of rows that a slower pace fills
MAX_PACE = 60  # times slower
NEAR = 0.02  # of the length of a file: how long after it the next one may start
NEAR_ROWS = 10
MAX_JUMP = 4.0  # median over the variables of how far a file starts from where the last one ended, in its own spread
SEAM = 20  # rows on either side
# How files of one machine are named: the machine, and then a number, a date or both.
ENTITY_PATTERNS = (r"(.+)_[-\dTt.:]+", r"(.+?)_\d[-_\dTt.:]*", r"(.+?)[- .]\d[-_\dTt.:]*")


def paces(profiles: Sequence[Profile], *, fitting: bool) -> Iterator[Finding]:
    """Find entities that are sampled in different ways, or whose pace changes."""
    by_pace = {own.series.clock.every: own.series.entity for own in reversed(profiles) if own.series.clock.every}
    if len(by_pace) > 1 and fitting:
        (fast, first), *_, (slow, other) = sorted((every or 1, entity) for every, entity in by_pace.items())
        yield Finding(
            "mixed-sampling",
            "refuse",
            (),
            (first, other),
            f"{first} is sampled every {spell(fast)}, but {other} every {spell(slow)}.",
            "A model has one sampling interval.",
            f"--every {spell(slow)}",
        )
    for own in profiles:
        if found := _slower(own):
            row, factor = found
            step = spell(factor * own.series.clock.interval)
            yield Finding(
                "changing-sampling",
                "warn",
                (),
                (own.series.entity,),
                f"{own.series.entity} has a row every {spell(own.series.clock.interval)} in one part and only every "
                f"{step} in another; the first change is around {moment(own.series, row)}.",
                "The rows between count as not measured, and a changed pace looks like a changed machine.",
                f"--every {step}",
            )
            return


def _slower(own: Profile) -> tuple[int, int] | None:
    """Return a row where the pace changes, and how many times slower it is in one part."""
    sizes = np.minimum(own.block, own.rows - own.block * np.arange(len(own.filled)))
    share = own.filled / sizes
    if not own.series.clock.dated or own.rows < 10 * MIN_ROWS or not len(own.gaps):
        return None
    usual = share > 1 - PACE / 2
    gaps = np.diff(own.gaps, axis=1)[:, 0]
    factor = int(np.median(gaps)) + 1
    slow = np.abs(share * factor - 1) <= PACE * factor / 2 if 2 <= factor <= MAX_PACE else np.zeros_like(usual)
    slow &= ~usual & (share > 0)
    least = MIN_PACE_ROWS * len(share)
    if usual.sum() < least or slow.sum() < least or (gaps == factor - 1).mean() < 0.9:
        return None
    change = int(np.flatnonzero(slow[1:] != slow[:-1])[0]) + 1
    return change * own.block, factor


def gaps(profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find stretches without any row, and the hour that local clocks skip in spring."""
    worst: tuple[int, Profile, int] | None = None
    empty = rows = number = 0
    for own in profiles:
        lengths = np.diff(own.gaps, axis=1)[:, 0]
        rows, empty, number = rows + own.rows, empty + int(lengths.sum()), number + len(lengths)
        if len(lengths) and (worst is None or lengths.max() > worst[0]):
            worst = int(lengths.max()), own, int(own.gaps[lengths.argmax(), 0])
    if worst is not None and (worst[0] >= MIN_GAP_ROWS or empty > MIN_GAP_SHARE * rows):
        length, own, row = worst
        where = tuple(item.series.entity for item in profiles if len(item.gaps))
        yield Finding(
            "gap",
            "warn" if empty > WIDE_GAPS * rows else "note",
            (),
            where,
            f"{empty:,} of {rows:,} rows ({percent(empty / rows)}) have no value, in {number:,} "
            f"{'gap' if number == 1 else 'gaps'}; the longest, {duration(own.series, length)}, begins at "
            f"{moment(own.series, row)} in {own.series.entity}.",
            "Observations with too few rows are not judged.",
            "Nothing needs to be done, unless the rows are in another file.",
        )
    for own in profiles:
        skipped = _spring(own.series, own.gaps)
        if skipped is not None:
            yield Finding(
                "daylight-saving",
                "note",
                (),
                (own.series.entity,),
                f"{own.series.entity} skips the hour from {moment(own.series, skipped)} on, a Sunday night, as local "
                "clocks do when daylight saving time begins.",
                "From then on times are an hour ahead, and in autumn an hour comes twice, which is refused.",
                "Write times in UTC, or with their offset from it.",
            )
            return


def _spring(series: Series, found: NDArray[np.int64]) -> int | None:
    clock = series.clock
    if not clock.dated or clock.timezone is not None or clock.interval > HOUR:
        return None
    for start, stop in found:
        if abs((stop - start) * clock.interval - HOUR) <= clock.interval // 2:
            time = clock.at([start])[0]
            if time.weekday() == 6 and 0 <= time.hour <= 3 and time.month in (3, 4, 9, 10):
                return int(start)
    return None


def one_machine(
    profiles: Sequence[Profile], columns: Sequence[Column], known: Collection[str] = ()
) -> Iterator[Finding]:
    """Find files that look like consecutive parts of one machine's record. Those of entities that a model has `known`
    are what their names say."""
    profiles = [own for own in profiles if own.series.entity not in known]
    timed = [own for own in profiles if own.series.clock.dated]
    if len(timed) < 2 or len(timed) < len(profiles) or len({own.series.clock.interval for own in timed}) > 1:
        return
    whole = _is_chain(timed, columns)
    entities = [own.series.entity for own in timed]
    if whole:
        pattern = next((p for p in ENTITY_PATTERNS if len(_groups(entities, p)) == 1), None)
        name = next(iter(_groups(entities, pattern))) if pattern else entities[0]
        if len(known) == 1:
            [name] = known
        groups, remedy = {name: entities}, option("entity-name", [name])
    else:
        by_name = {own.series.entity: own for own in timed}
        groups, remedy = {}, ""
        for pattern in ENTITY_PATTERNS:
            groups = {
                name: parts
                for name, parts in _groups(entities, pattern).items()
                if len(parts) > 1 and _is_chain([by_name[part] for part in parts], columns)
            }
            if groups:
                remedy = f"--entity-from '{pattern}'"
                break
    if not groups:
        return
    several = [part for parts in groups.values() for part in parts]
    what = f"{'one machine' if len(groups) == 1 else f'{len(groups)} machines'} in {len(several)} files"
    first = min((own.series for own in timed if own.series.entity in several), key=lambda series: series.clock.start)
    yield Finding(
        "one-machine",
        "warn",
        (),
        tuple(several),
        f"{names(several)} look like {what}: the same columns, and each begins where another ends (the first at "
        f"{moment(first, 0)}).",
        "As separate entities, they are judged one by one, so an event that lasts from one file to the next is cut."
        if known
        else "As separate entities, each is normalised by its own short history, so differences between them are lost.",
        remedy,
    )


def _groups(entities: Sequence[str], pattern: str | None) -> dict[str, list[str]]:
    """Return the entities by the first group of the pattern; nothing if one does not match."""
    groups: dict[str, list[str]] = defaultdict(list)
    for entity in entities:
        match = re.fullmatch(pattern, entity) if pattern else None
        if match is None:
            return {}
        groups[match[1]].append(entity)
    return groups


def _is_chain(parts: Sequence[Profile], columns: Sequence[Column]) -> bool:
    """Return whether each part begins soon after another ends, at the values where that one ended."""
    order = sorted(parts, key=lambda own: own.series.clock.start)
    for before, after in itertools.pairwise(order):
        step = before.series.clock.interval
        gap = after.series.clock.start - (before.series.clock.start + before.rows * step)
        near = max(NEAR_ROWS, NEAR * max(before.rows, after.rows)) * step
        if not -step < gap <= near or _jump(before, after, columns) > MAX_JUMP:
            return False
    return True


def _jump(before: Profile, after: Profile, columns: Sequence[Column]) -> float:
    """Return the median over the variables of the distance between the end of one series and the start of the next."""
    end = np.asarray(before.series.values[max(0, before.rows - SEAM) :])
    start = np.asarray(after.series.values[:SEAM])
    distances = []
    for k, column in enumerate(columns):
        left, right = end[:, k][np.isfinite(end[:, k])], start[:, k][np.isfinite(start[:, k])]
        if column.facts.kind != "continuous" or not len(left) or not len(right):
            continue
        spread = max(own.quartiles[2, k] - own.quartiles[0, k] for own in (before, after))
        if spread > 0:
            distances.append(abs(np.median(left) - np.median(right)) / spread)
    return float(np.median(distances)) if distances else 0.0


def same_data(profiles: Sequence[Profile]) -> Iterator[Finding]:
    """Find entities that hold the same values."""
    copies: dict[tuple[int, bytes], list[str]] = {}
    for own in profiles:
        if own.rows >= MIN_ROWS and own.known.any():
            copies.setdefault((own.rows, own.sample.tobytes()), []).append(own.series.entity)
    for same in copies.values():
        if len(same) > 1:
            yield Finding(
                "same-data",
                "warn",
                (),
                tuple(same),
                f"{names(same)} hold the same values.",
                "Data that is counted twice looks more normal than it is.",
                "Leave out all but one of these files.",
            )
