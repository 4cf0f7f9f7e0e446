"""What a fit needs of a history: statistics and a sample of each entity, which can be computed in parts and merged.

    name          meaning
    cell          a place of the grid on which series are cut into observations, measured or not
    most          cells that the sample may have: as many observations as the ensemble learns from
    priority      (cell,) a random number that follows from seed, entity and time alone
    quota         cells that an entity may have in the sample: the largest for which all entities together have at most
                  `most`, but at least `MIN_QUOTA`
    sample        of each entity all cells, if they are no more than the quota; otherwise the observations with the
                  lowest priorities, as many as the quota
    shared        entities whose sample the views are fitted to: all, or the first ones in the order of a random number
                  that follows from seed and name, as many as have at most `most` cells together
    rest          the other entities. Their baselines are adapted, from their sample or from the data

With more entities, the quota can only sink, and fewer entities of a part are among the first. So the sample of the
whole is contained in the samples of its parts, and merging them gives it exactly, in any order. A history of at most
`most` cells is its own sample.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from tsadc.config import shown
from tsadc.detectors.ensemble.scorer import MAX_STATES, different_values
from tsadc.detectors.provenance import digest
from tsadc.detectors.usual import gaps_of
from tsadc.errors import ConfigError, DataError, listed
from tsadc.io.reading import spell
from tsadc.io.rows import Rows
from tsadc.scale import LEVELS, Distribution, Extent, Scaler, check_extent, joined_extent
from tsadc.series import Booleans, Clock, Floats, Observations, Place, Series
from tsadc.windows import cut, first_start

MIN_QUOTA = 40  # observations from which the baselines of an entity come, if it has as many
HASHED = 8  # bytes of a hash that make a random number
NUMBERS = ("rows", "cells", "observations", "gap", "leading", "trailing")  # of an entity, as they are stored


@dataclass(frozen=True)
class Rule:
    """What the sample depends on, apart from the history; summaries with the same rule can be merged.

    Attributes
    ----------
    names : tuple of str
        The variables.
    length, coverage, seed
        Settings of the detector.
    most : int
        Cells that the sample may have.
    """

    names: tuple[str, ...]
    length: int
    coverage: float
    seed: int
    most: int

    def cells(self, series: Series) -> int:
        """Return the number of places of a series on the grid."""
        return len(range(first_start(series.clock, self.length), len(series), self.length))

    def number(self, entity: str) -> int:
        """Return the random number of an entity."""
        return _number(f"{self.seed} {entity}")

    def priorities(self, entity: str, ticks: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the random number of the observations of an entity that begin at `ticks` (splitmix64)."""
        mixed = ticks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(self.number(entity))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))

    def quota(self, cells: Iterable[int]) -> int:
        """Return the quota of entities that have so many cells each."""
        ordered = np.sort(np.fromiter(cells, dtype=np.int64))
        # With a quota of the size of the i-th entity, the smaller ones have all of theirs, and the larger ones as many.
        before = np.concatenate([[0], np.cumsum(ordered)[:-1]])
        largest = (self.most - before) // np.arange(len(ordered), 0, -1)
        within = np.flatnonzero(largest < ordered)
        return max(int(largest[within[0]]), MIN_QUOTA) if len(within) else int(max(self.most, ordered[-1]))


@dataclass(frozen=True)
class Entity:
    """What is known of the history of an entity.

    Attributes
    ----------
    pieces : tuple of Series
        Its sample, in order of time: the whole series if it is `complete`; empty if it has none.
    complete : bool
        Whether the sample is the whole history.
    clock : Clock
        That of the history; its row 0 is the first one.
    separate : bool
        Whether the history consists of separate observations.
    rows, cells, observations : int
        Of the whole history.
    values : Distribution
        Of all values.
    different : (variable, 11)
        Different values of each variable, as many as there are up to 11, then NaN.
    gap : int
        Most consecutive rows without any value.
    leading, trailing : int
        Rows without any value at the beginning and at the end, with which a gap goes on across two parts.
    digest : str
        Of the whole history.
    """

    pieces: tuple[Series, ...]
    complete: bool
    clock: Clock
    separate: bool
    rows: int
    cells: int
    observations: int
    values: Distribution
    different: Floats
    gap: int
    leading: int
    trailing: int
    digest: str

    @classmethod
    def of(cls, series: Series, rule: Rule) -> Self:
        """Describe a series. Its values stay where they are."""
        return cls(
            (series,),
            True,
            series.clock,
            series.observation is not None,
            len(series),
            rule.cells(series),
            len(cut([series], rule.length, rule.coverage).observations),
            Distribution.of([series], levels=LEVELS),
            different_values([series]),
            *gaps_of(series),
            digest((series,)),
        )

    def cut(self, quota: int, rule: Rule) -> Entity:
        """Return the entity with a sample of `quota` cells."""
        if self.complete and self.cells <= quota:
            return self
        if not self.complete and sum(map(rule.cells, self.pieces)) <= quota:
            return self
        return replace(self, pieces=sample(self.pieces, quota, rule), complete=False)

    def loaded(self) -> Entity:
        """Return the entity with its sample in memory, and no more than that."""
        return replace(self, pieces=tuple(_loaded(piece) for piece in self.pieces))

    def without_sample(self) -> Entity:
        """Return only the statistics of the entity."""
        return replace(self, pieces=(), complete=False, values=self.values.coarse())

    def followed_by(self, later: Entity, rule: Rule) -> Entity:
        """Return what is known of the history of this entity and of later rows of it together."""
        name, clock = later.pieces[0].entity, self.clock
        if later.clock.dated and not clock.dated:
            raise DataError(
                f"{name!r} has no dates in the model, so that it is not known where its new rows belong; fit a new "
                "model to all of its history, with dates."
            )
        if not later.clock.dated:
            raise DataError(
                f"{name!r} has no dates, so that it is not known where its new rows belong; name their time column "
                "with --time, or give only entities that the model does not know."
            )
        if later.clock.interval != clock.interval:
            raise DataError(
                f"{name!r} is sampled every {spell(later.clock.interval)}, but every {spell(clock.interval)} in the "
                "model; resample the new rows with --every."
            )
        first = round((later.clock.start - clock.start) / clock.interval)
        if first < self.rows:
            raise DataError(
                f"The model knows the history of {name!r} before {clock.at([self.rows])[0]}, but the new rows begin at "
                f"{later.clock.at([0])[0]}; give later rows only."
            )
        rows = first + later.rows
        cells = len(range(first_start(clock, rule.length), rows, rule.length))
        if self.complete and later.complete and cells <= rule.most:
            (old,), (new,) = self.pieces, later.pieces
            values = np.full((rows, len(rule.names)), np.nan, np.result_type(old.values.dtype, new.values.dtype))
            values[: len(old)], values[first:] = old.values[0 : len(old)], new.values[0 : len(new)]
            return Entity.of(replace(old, values=values), rule)
        between = first - self.rows
        across = 0 if self.separate else self.trailing + between + later.leading
        joined = hashlib.sha256(f"{self.digest} {later.digest}".encode()).hexdigest()[: len(self.digest)]
        return replace(
            self,
            pieces=(*self.pieces, *later.pieces),
            complete=False,
            rows=rows,
            cells=cells,
            observations=self.observations + later.observations,
            values=self.values.joined(later.values),
            different=_smallest(np.concatenate([self.different, later.different], axis=1)),
            gap=max(self.gap, later.gap, across),
            leading=self.rows + between + later.leading if self.leading == self.rows else self.leading,
            trailing=self.trailing + between + later.rows if later.trailing == later.rows else later.trailing,
            digest=joined,
        )


@dataclass(frozen=True)
class Summary:
    """What a fit needs of a history.

    Attributes
    ----------
    rule : Rule
    kept : bool
        Whether the entities of the rest have a sample, too.
    entities : dict of str to Entity
        In the order of their names.
    """

    rule: Rule
    kept: bool
    entities: dict[str, Entity]

    @classmethod
    def of(cls, rule: Rule, kept: bool, entities: Mapping[str, Entity]) -> Self:
        """Return the summary of entities that have as much of a sample as it needs, or more."""
        whole = cls(rule, kept, {name: entities[name] for name in sorted(entities)})
        quota, shared = whole.quota, set(whole.shared)
        cut_down = {
            name: own.cut(quota, rule) if kept or name in shared else own.without_sample()
            for name, own in whole.entities.items()
        }
        return cls(rule, kept, cut_down)

    @property
    def quota(self) -> int:
        """Cells that an entity may have in the sample."""
        return self.rule.quota(own.cells for own in self.entities.values())

    @property
    def shared(self) -> tuple[str, ...]:
        """Names of the entities that the views are fitted to."""
        quota = self.quota
        order = sorted(self.entities, key=lambda name: (self.rule.number(name), name))
        total = np.cumsum([min(self.entities[name].cells, quota) for name in order])
        return tuple(sorted(order[: max(1, int(np.searchsorted(total, self.rule.most, side="right")))]))

    @property
    def rest(self) -> tuple[str, ...]:
        """Names of the entities that the views are not fitted to."""
        shared = set(self.shared)
        return tuple(name for name in self.entities if name not in shared)

    @property
    def whole(self) -> bool:
        """Whether the sample is the whole history, and the views are fitted to all of it."""
        every = self.entities.values()
        return all(own.complete for own in every) and sum(own.cells for own in every) <= self.rule.most

    @property
    def rows(self) -> int:
        return sum(own.rows for own in self.entities.values())

    @property
    def observations(self) -> int:
        return sum(own.observations for own in self.entities.values())

    @property
    def clock(self) -> Clock:
        """The clock of the first entity whose sampling interval is known."""
        clocks = [own.clock for own in self.entities.values()]
        return next((clock for clock in clocks if clock.every), clocks[0])

    @property
    def judged(self) -> Booleans:
        """Which variables have more than `MAX_STATES` different values; all if none has."""
        every = _smallest(np.concatenate([own.different for own in self.entities.values()], axis=1))
        judged = np.isfinite(every[:, MAX_STATES])
        return np.asarray(judged if judged.any() else ~judged)

    def series(self, names: Iterable[str]) -> tuple[Series, ...]:
        """Return the sample of some entities."""
        return tuple(piece for name in names for piece in self.entities[name].pieces)

    def scaler(self, config: Scaler.Config) -> Scaler:
        """Return the scaler: statistics of each entity from all of its values, and pooled ones from the sample."""
        own = {name: entity.values for name, entity in self.entities.items()}
        extent = joined_extent([values.extent for values in own.values()])
        check_extent(extent, self.rule.names)
        pooled = replace(Distribution.of(self.series(self.shared)), extent=extent)
        return Scaler.of(own if config.scope == "entity" else {}, pooled.completed(own.values()), config)

    def describe(self) -> dict[str, Any]:
        """Return the size of the data and a digest of its values, as `provenance.describe` does."""
        every = " ".join(f"{name} {own.digest}" for name, own in self.entities.items())
        return {
            "entities": len(self.entities),
            "rows": self.rows,
            "variables": len(self.rule.names),
            "observations": self.observations,
            "length": self.rule.length,
            "digest": hashlib.sha256(every.encode()).hexdigest()[:16],
        }

    def loaded(self) -> Summary:
        """Return the summary with its sample in memory, and no more than that."""
        return replace(self, entities={name: own.loaded() for name, own in self.entities.items()})

    def to_bytes(self) -> bytes:
        """Return the summary as a safetensors file."""
        every = list(self.entities.items())
        about = {
            "rule": asdict(self.rule),
            "kept": self.kept,
            "entities": [
                {
                    "name": name,
                    "complete": own.complete,
                    "separate": own.separate,
                    "digest": own.digest,
                    **{number: getattr(own, number) for number in NUMBERS},
                    "clock": asdict(own.clock),
                    "starts": [piece.clock.start for piece in own.pieces],
                    "units": dict(own.pieces[0].units) if own.pieces else {},
                }
                for name, own in every
            ],
        }
        arrays: dict[str, NDArray[Any]] = {"about": np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)}
        for i, (_, own) in enumerate(every):
            extent, values = own.values.extent, own.values
            arrays[f"{i}.extent"] = np.stack([extent.low, extent.high, values.mean, values.deviation])
            arrays[f"{i}.count"] = extent.count
            arrays[f"{i}.quantiles"] = values.quantiles
            arrays[f"{i}.different"] = own.different
            for number, piece in enumerate(own.pieces):
                arrays[f"{i}.piece.{number}"] = np.asarray(piece.values[0 : len(piece)])
        return bytes(save_arrays({name: np.ascontiguousarray(array) for name, array in arrays.items()}))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Restore what `to_bytes` returned."""
        arrays = load_arrays(data)
        about = json.loads(arrays["about"].tobytes())
        rule = Rule(**{**about["rule"], "names": tuple(about["rule"]["names"])})
        entities = {}
        for i, own in enumerate(about["entities"]):
            low, high, mean, deviation = arrays[f"{i}.extent"]
            extent = Extent(low, high, arrays[f"{i}.count"])
            clock = Clock(**own["clock"])
            separate = rule.length if own["separate"] else None
            pieces = tuple(
                Series(
                    arrays[f"{i}.piece.{number}"],
                    rule.names,
                    replace(clock, start=start),
                    own["name"],
                    separate,
                    own["units"],
                )
                for number, start in enumerate(own["starts"])
            )
            # Summaries of earlier versions lack both ends; the ends of a whole history can be measured.
            _, leading, trailing = gaps_of(pieces[0]) if own["complete"] else (0, 0, 0)
            entities[own["name"]] = Entity(
                pieces,
                own["complete"],
                clock,
                own["separate"],
                own["rows"],
                own["cells"],
                own["observations"],
                Distribution(extent, mean, deviation, arrays[f"{i}.quantiles"]),
                arrays[f"{i}.different"],
                own["gap"],
                own.get("leading", leading),
                own.get("trailing", trailing),
                own["digest"],
            )
        return cls(rule, about["kept"], entities)


@dataclass(frozen=True)
class Baselines:
    """What was learnt of entities of the rest: names of what is learnt to entities to values."""

    learnt: dict[str, dict[str, Any]]


def summarised(series: Iterable[Series], rule: Rule, *, kept: bool, copied: bool) -> Summary:
    """Return the summary of whole entities. If the sample is `copied`, memory is bounded by it, and not by the series,
    provided that they are made one by one."""
    entities: dict[str, Entity] = {}
    cells = 0
    for item in series:
        if item.entity in entities:
            raise _twice([item.entity])
        own = Entity.of(item, rule)
        entities[item.entity] = own.cut(rule.most, rule).loaded() if copied else own
        cells += min(own.cells, rule.most)
        if cells > 2 * rule.most:  # more than the sample of the entities so far
            entities = _bounded(rule, kept, entities, copied).entities
            cells = 0
    return _bounded(rule, kept, entities, copied)


def _bounded(rule: Rule, kept: bool, entities: Mapping[str, Entity], copied: bool) -> Summary:
    summary = Summary.of(rule, kept, entities)
    return summary.loaded() if copied else summary


def merge(summaries: Iterable[Summary]) -> Summary:
    """Merge summaries of disjoint entities, in any order."""
    every = list(summaries) if isinstance(summaries, Iterable) else [None]
    if wrong := [own for own in every if not isinstance(own, Summary)]:
        came = wrong[0] if isinstance(summaries, Iterable) else summaries
        raise DataError(f"`summaries` must be a list of what `summarise` returns, but got {shown(came)}.")
    _check_alike(every)
    entities: dict[str, Entity] = {}
    for summary in every:
        if twice := sorted(set(entities) & set(summary.entities)):
            raise _twice(twice)
        entities |= summary.entities
    return Summary.of(every[0].rule, every[0].kept, entities).loaded()


def continued(summary: Summary, later: Summary) -> Summary:
    """Add history to a summary: of new entities, and later rows of known ones."""
    _check_alike([summary, later])
    entities = dict(summary.entities)
    for name, own in later.entities.items():
        entities[name] = entities[name].followed_by(own, summary.rule) if name in entities else own
    return Summary.of(summary.rule, summary.kept, entities).loaded()


def sample(pieces: Sequence[Series], quota: int, rule: Rule) -> tuple[Series, ...]:
    """Return the observations of an entity with the lowest priorities, at most `quota`, as pieces in order of time."""
    observations = cut(pieces, rule.length, rule.coverage).observations
    ticks = np.array([_tick(observations, place) for place in observations.places], dtype=np.int64)
    order = np.lexsort([ticks, rule.priorities(pieces[0].entity, ticks)])[:quota]
    chosen = np.sort(order)
    found: list[Series] = []
    run: list[Place] = []
    for i in chosen.tolist():
        place = observations.places[i]
        if run and place != Place(run[-1].series, run[-1].start + rule.length):
            found.append(_piece(observations, run))
            run = []
        run.append(place)
    return (*found, _piece(observations, run)) if run else tuple(found)


@cache
def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:HASHED])


def _tick(observations: Observations, place: Place) -> int:
    return observations.series[place.series].clock.tick(place.start)


def _piece(observations: Observations, run: Sequence[Place]) -> Series:
    """Return the rows of consecutive observations. Rows of a file stay there."""
    series = observations.series[run[0].series]
    first, stop = max(run[0].start, 0), min(run[-1].start + observations.length, len(series))
    values: Any = series.values
    values = values.part(first, stop) if isinstance(values, Rows) else values[first:stop]
    return replace(series, values=values, clock=replace(series.clock, start=series.clock.tick(first)))


def _loaded(piece: Series) -> Series:
    """Return the piece with an array of its own: a slice of another one would keep all of that in memory."""
    if isinstance(piece.values, np.ndarray) and piece.values.base is None:
        return piece
    return replace(piece, values=np.array(piece.values[0 : len(piece)]))


def _smallest(values: Floats) -> Floats:
    """Return the smallest of the different values of each row, at most 11, then NaN."""
    out = np.full((len(values), MAX_STATES + 1), np.nan)
    for own, found in zip(out, values, strict=True):
        known = np.unique(found[np.isfinite(found)])[: len(own)]
        own[: len(known)] = known
    return out


def _check_alike(summaries: Sequence[Summary]) -> None:
    """Raise unless all summaries have the same rule and sampling interval."""
    if not summaries:
        raise ConfigError("Merging needs at least one summary; give some.")
    first = summaries[0]
    for other in summaries[1:]:
        for name, own in asdict(first.rule).items():
            came = getattr(other.rule, name)
            if came == own:
                continue
            if name == "names":
                different = sorted(set(own) ^ set(came))
                what = f"the variables differ: {listed(different)}" if different else "the variables have another order"
                raise DataError(f"Only parts with the same variables can be merged, but {what}.")
            raise ConfigError(f"Only parts with the same settings can be merged, but `{name}` is {own} and {came}.")
        if other.kept != first.kept:
            raise ConfigError("Only summaries that all keep a sample of every entity, or none, can be merged.")
        every, came = first.clock.every, other.clock.every
        if every and came and every != came:
            raise DataError(
                f"Only parts with the same sampling interval can be merged, but it is {spell(every)} and "
                f"{spell(came)}; resample one of them with --every."
            )


def _twice(names: Sequence[str]) -> DataError:
    have, its = ("have", "their") if len(names) > 1 else ("has", "its")
    return DataError(
        f"{listed(names)} {have} rows in two parts, but an entity must lie in one; put {its} rows into one part, or "
        "add later rows with `tsadc fit --continue`."
    )
