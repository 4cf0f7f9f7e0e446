"""Rules that compare levels: between entities, and between new data and the history of a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tsadc.io.doctor.facts import MIN_ROWS, Column
from tsadc.io.doctor.finding import Finding, figure, names, verb
from tsadc.io.doctor.profile import Profile
from tsadc.series import Floats

Places = NDArray[np.int64]
NORMAL_IQR = 1.349  # interquartile range of the standard normal distribution
# Factor and offset between two units, and their names.
CONVERSIONS = (
    (1.8, 32.0, "°C and °F"),
    (1.0, 273.15, "°C and K"),
    (3.6, 0.0, "m/s and km/h, or l/s and m³/h"),
    (14.503774, 0.0, "bar and psi"),
    (60.0, 0.0, "per second and per minute"),
    (100.0, 0.0, "bar and kPa, or a share and per cent"),
    (1000.0, 0.0, "a unit and its thousandth"),
)
SAME_CENTER = 0.02  # relative tolerance of a converted level
SAME_SPREAD = 1.6  # factor
FAR = 5.0  # spreads between two levels that differ
OTHER = 0.5  # share of variables at another level beyond which it is another machine
ALIKE = 0.2  # the same below which it is the same machine
LARGE = 100.0  # factor that is recognised by the spread alone, where the level is near 0


class Level(Protocol):
    """Centre and scale of every variable, as the scaler of a model has them."""

    @property
    def center(self) -> Floats: ...
    @property
    def scale(self) -> Floats: ...


@dataclass(frozen=True)
class Levels:
    """Centre and scale of every variable in one entity; NaN if it has too few values."""

    center: Floats
    scale: Floats


def levels_of(own: Profile) -> Levels:
    """Return the median and the spread of every variable."""
    low, middle, high = own.quartiles
    few = own.known < MIN_ROWS
    return Levels(np.where(few, np.nan, middle), np.where(few, np.nan, (high - low) / NORMAL_IQR))


def mixed_units(profiles: Sequence[Profile], columns: Sequence[Column]) -> Iterator[Finding]:
    """Find a variable that one entity has in another unit than the others."""
    if len(profiles) < 2:
        return
    levels = [levels_of(own) for own in profiles]
    with np.errstate(all="ignore"):
        center = np.array([level.center for level in levels])
        scale = np.array([level.scale for level in levels])
        for k, column in enumerate(columns):
            if column.facts.kind != "continuous" or not np.isfinite(center[:, k]).sum() > 1:
                continue
            # The entity whose level most entities share; of two, the first.
            near = np.abs(center[:, k, None] - center[None, :, k]) <= FAR * np.fmax(
                scale[:, k, None], scale[None, :, k]
            )
            usual = int(near.sum(axis=1).argmax())
            if len(profiles) > 2 and near[usual].sum() < len(profiles) / 2:
                continue
            for i, own in enumerate(profiles):
                pair = (center[usual, k], scale[usual, k]), (center[i, k], scale[i, k])
                if not near[usual, i] and (change := _conversion(*pair)):
                    yield _mixed(column.facts.name, own.series.entity, profiles[usual].series.entity, pair, change)
                    break


def _mixed(
    name: str, entity: str, other: str, pair: tuple[tuple[float, float], tuple[float, float]], change: _Change
) -> Finding:
    return Finding(
        "mixed-units",
        "warn",
        (name,),
        (entity,),
        f"{name} of {entity} is around {figure(pair[1][0])}, but that of {other} around {figure(pair[0][0])}: "
        f"different units, such as {change.units}?",
        "The same number must mean the same thing in all data of a model.",
        f"If so, convert {name} of {entity} to the unit of {other}: {change.formula(name)}.",
    )


@dataclass(frozen=True)
class _Change:
    """A change of units. `forward`: the second level has the larger numbers, so the way back divides by the factor."""

    factor: float
    offset: float
    units: str
    forward: bool

    def formula(self, name: str) -> str:
        """Write how values of the second level become values of the first."""
        if self.offset == 0:
            return f"{name} {'/' if self.forward else '*'} {self.factor:g}"
        if self.factor == 1:
            return f"{name} {'-' if self.forward else '+'} {self.offset:g}"
        if self.forward:
            return f"({name} - {self.offset:g}) / {self.factor:g}"
        return f"{name} * {self.factor:g} + {self.offset:g}"


def _conversion(one: tuple[float, float], other: tuple[float, float]) -> _Change | None:
    """Return the change of units that leads from the first level (centre and scale) to the second, or None."""
    for factor, offset, units in CONVERSIONS:
        for forward in (True, False):
            (center, scale), (new_center, new_scale) = (one, other) if forward else (other, one)
            expected, spread = factor * center + offset, factor * scale
            if not (scale > 0 and new_scale > 0 and 1 / SAME_SPREAD <= new_scale / spread <= SAME_SPREAD):
                continue
            if offset == 0 and abs(center) < 2 * scale and factor < LARGE:
                continue
            close = max(SAME_CENTER * abs(expected - offset), 0.3 * spread)
            if abs(new_center - expected) <= close and abs(new_center - center) > 2 * close:
                return _Change(factor, offset, units, forward)
    return None


def other_machine(
    profiles: Sequence[Profile], columns: Sequence[Column], model: Mapping[str, Level], positions: Sequence[int]
) -> Iterator[Finding]:
    """Compare entities with those of the same name in a model, or the units of others with all of its entities.
    `positions` are the model's places of the variables."""
    judged = [k for k, column in enumerate(columns) if column.facts.kind in ("continuous", "counter", "constant")]
    places = [positions[k] for k in judged]
    for own in profiles:
        entity = own.series.entity
        if own.rows < MIN_ROWS:
            continue
        new = levels_of(own)
        if entity not in model:
            yield from _unknown_in_other_units(entity, new, columns, model, positions)
            continue
        converted = []
        for k, place in zip(judged, places, strict=True):
            known = float(model[entity].center[place]), float(model[entity].scale[place])
            pair = known, (float(new.center[k]), float(new.scale[k]))
            far = abs(pair[1][0] - known[0]) > FAR * known[1]
            if columns[k].facts.kind == "continuous" and far and (change := _conversion(*pair)):
                converted.append(k)
                yield _mixed(columns[k].facts.name, entity, "the model's history", pair, change)
        kept = [i for i, k in enumerate(judged) if k not in converted]
        used = np.array([judged[i] for i in kept], dtype=np.int64)
        distance = _distances(new, model[entity], used, np.array([places[i] for i in kept], dtype=np.int64))
        known_there = np.isfinite(distance)
        far_off = known_there & (distance > FAR)
        if far_off.sum() < 2 or far_off.sum() < OTHER * known_there.sum():
            continue
        worst = int(np.nanargmax(distance))
        like = _alike(new, model, used, np.array([places[i] for i in kept], dtype=np.int64), entity)
        name = columns[used[worst]].facts.name
        own_level = float(new.center[used[worst]])
        usual = float(model[entity].center[places[kept[worst]]])
        found = [columns[k].facts.name for k in used[far_off]]
        yield Finding(
            "other-machine",
            "warn",
            tuple(found),
            (entity,),
            f"{entity} does not look like entity {entity!r} of the model: {names(found)} {verb(found, 'lies', 'lie')} "
            f"far from its history ({len(found)} of {known_there.sum()} variables; {name} is around "
            f"{figure(own_level)}, there {figure(usual)}){f'; it looks like entity {like!r}' if like else ''}.",
            "Everything looks unusual if a machine is compared with another one, or after a change of the machine.",
            f"--entity-name {like}"
            if like and len(profiles) == 1
            else "Name the file after its machine, or learn this one's levels with tsadc adapt.",
        )


def _unknown_in_other_units(
    entity: str, new: Levels, columns: Sequence[Column], model: Mapping[str, Level], positions: Sequence[int]
) -> Iterator[Finding]:
    """Find variables of an entity that the model does not know whose level no entity of the model has, but which one
    change of units makes that of at least half of them."""
    for k, place in enumerate(positions):
        if columns[k].facts.kind != "continuous":
            continue
        known = [(float(level.center[place]), float(level.scale[place])) for level in model.values()]
        own = float(new.center[k]), float(new.scale[k])
        if any(abs(own[0] - center) <= FAR * scale for center, scale in known):
            continue
        changes = Counter(change for level in known if (change := _conversion(level, own)))
        change, count = changes.most_common(1)[0] if changes else (None, 0)
        if change is not None and 2 * count >= len(known):
            usual = next(level for level in known if _conversion(level, own) == change)
            yield _mixed(columns[k].facts.name, entity, "the model's history", (usual, own), change)


def _distances(new: Levels, known: Level, used: Places, places: Places) -> Floats:
    with np.errstate(all="ignore"):
        return np.asarray(np.abs(new.center[used] - known.center[places]) / known.scale[places])


def _alike(new: Levels, model: Mapping[str, Level], used: Places, places: Places, entity: str) -> str | None:
    """Return the other entity of the model whose levels the data has, if there is one."""
    best: tuple[float, str] | None = None
    for name, level in model.items():
        distance = _distances(new, level, used, places)
        distance = distance[np.isfinite(distance)]
        if name != entity and len(distance) and (distance > FAR).mean() <= ALIKE:
            best = min(best or (np.inf, ""), (float(np.median(distance)), name))
    return best[1] if best else None
