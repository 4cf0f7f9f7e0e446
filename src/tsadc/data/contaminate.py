"""Training and validation parts with a chosen share of anomalies (the paper's eta) of a chosen number of kinds (kappa),
as in its resilience study; the test part has every kind. Parts share no entity.

For one seed, what is drawn for a smaller kappa is drawn from kinds that a larger one has too, and of two sizes the
smaller draw is part of the larger, so that results differ by what was varied and little else."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.config import require
from tsadc.data.prepared import Chosen, Prepared
from tsadc.data.splits import PARTS, SHARES, split_entities
from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Labelled, Series, Split

Pick = tuple[str, int]  # entity, observation


@dataclass(frozen=True)
class Plan:
    """How to draw. `kappa` None takes every kind that occurs alone in both the training and the validation entities.
    Sizes are numbers of observations, None as many as the share allows. `test_eta` None leaves the test part as it is;
    `test_part` takes only that part of the archive for it (SMD's `train` files carry no labels)."""

    eta: float = 0.2
    kappa: int | None = None
    train_size: int | None = None
    validation_size: int | None = None
    test_size: int | None = None
    test_eta: float | None = None
    test_part: str = ""
    shares: tuple[float, float, float] = SHARES
    seed: int = 0

    def __post_init__(self) -> None:
        require(0 <= self.eta <= 0.4, "eta", "from 0 to 0.4", self.eta)
        require(self.kappa is None or self.kappa >= 0, "kappa", "0 or more, or none for every kind", self.kappa)
        require(self.kappa != 0 or self.eta == 0, "eta", "0 where kappa is 0", self.eta)
        require(self.test_eta is None or 0 <= self.test_eta <= 1, "test_eta", "from 0 to 1", self.test_eta)
        require(self.test_size is None or self.test_eta is not None, "test_eta", "given with test_size", self.test_eta)
        for name in ("train_size", "validation_size", "test_size"):
            size = getattr(self, name)
            require(size is None or size > 0, name, "positive", size)


@dataclass(frozen=True)
class Draw:
    """What was drawn: for each part the observations of its entities, and the kinds that contaminate training."""

    prepared: Prepared
    plan: Plan
    kinds: tuple[str, ...]
    parts: dict[str, Chosen]

    def series(self, part: str) -> tuple[Series, ...]:
        """The observations of a part, without labels."""
        return self.prepared.series(self.parts[part])

    def labelled(self, part: str) -> Labelled:
        return self.prepared.labelled(self.parts[part])

    def split(self) -> Split:
        return Split(self.series("train"), self.labelled("test"))

    def count(self, part: str) -> tuple[int, int]:
        """How many observations, and how many of them are anomalous."""
        chosen = self.parts[part]
        anomalous = sum(bool(self.prepared.labels[entity][i].kinds) for entity in chosen for i in chosen[entity])
        return sum(map(len, chosen.values())), anomalous


def contaminate(prepared: Prepared, plan: Plan | None = None) -> Draw:
    """Split the entities, then draw the observations of each part."""
    plan = plan or Plan()
    members = split_entities(prepared, plan.shares, plan.seed)
    pools = {part: _pool(prepared, members[part], plan.test_part if part == "test" else "") for part in PARTS}
    # Each part is shuffled once, by a generator of its own: no choice for one changes what another gets.
    pools = {part: _shuffled(pool, [plan.seed, 1 + PARTS.index(part)]) for part, pool in pools.items()}
    kinds = _choose_kinds(prepared, pools, plan)
    parts = {}
    for part, size in (("train", plan.train_size), ("validation", plan.validation_size)):
        parts[part] = _draw(prepared, pools[part], plan.eta, kinds, size, part)
    if plan.test_eta is None:
        parts["test"] = _grouped(pools["test"])
    else:
        every = _kinds_in(prepared, pools["test"]) if plan.test_eta > 0 else ()
        parts["test"] = _draw(prepared, pools["test"], plan.test_eta, every, plan.test_size, "test")
    return Draw(prepared, plan, kinds, parts)


def _pool(prepared: Prepared, entities: Sequence[str], part: str) -> list[Pick]:
    pool = [
        (entity, i)
        for entity in entities
        for i, label in enumerate(prepared.labels[entity])
        if not part or label.part == part
    ]
    if not pool:
        raise DataError(f"{prepared.folder} has no observations of its part {part!r} to test on.")
    return pool


def _shuffled(pool: Sequence[Pick], seed: list[int]) -> list[Pick]:
    return [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))]


def _choose_kinds(prepared: Prepared, pools: dict[str, list[Pick]], plan: Plan) -> tuple[str, ...]:
    """Kinds that occur alone in both parts, so that any number of them can be drawn without the others."""
    both = [set(_kinds_in(prepared, pools[part], alone=True)) for part in ("train", "validation")]
    shared = sorted(both[0] & both[1])
    order = [shared[i] for i in np.random.default_rng([plan.seed, 0]).permutation(len(shared))]
    if plan.eta == 0:
        return ()
    dropped = [kind for kind in prepared.kinds if kind not in order]
    if plan.kappa is None and order and dropped:
        warnings.warn(
            f"{prepared.folder} does not have {', '.join(dropped)} alone in both its training and its validation "
            f"entities, so these kinds contaminate neither; those that do are {', '.join(sorted(order))}.",
            TsadcNotice,
            stacklevel=3,
        )
    kappa = len(order) if plan.kappa is None else plan.kappa
    if kappa > len(order) or kappa == 0:
        raise DataError(
            f"{prepared.folder} has {len(order)} kinds of anomaly in both its training and validation entities, but "
            f"{max(kappa, 1)} are wanted; choose a smaller kappa or another seed."
        )
    return tuple(order[:kappa])


def _kinds_in(prepared: Prepared, pool: Sequence[Pick], alone: bool = False) -> tuple[str, ...]:
    found = (
        {kind for entity, i in pool for kind in prepared.labels[entity][i].kinds}
        if not alone
        else {prepared.labels[entity][i].kinds[0] for entity, i in pool if len(prepared.labels[entity][i].kinds) == 1}
    )
    return tuple(sorted(found))


def _needed(eta: float, kinds: int) -> str:
    """Words on how many observations show them all; none where there never are so many."""
    least = (kinds - 0.5) / eta if eta else math.inf
    if least > 1e9:
        return ""
    whole = math.ceil(least)
    whole += round(eta * whole) < kinds  # a half may be rounded down
    return f", which takes {whole} observations in that part"


def _draw(
    prepared: Prepared,
    pool: Sequence[Pick],
    eta: float,
    kinds: Sequence[str],
    size: int | None,
    part: str,
) -> Chosen:
    """From a pool in random order, which it keeps."""
    labels = {place: set(prepared.labels[place[0]][place[1]].kinds) for place in pool}
    normal = [place for place in pool if not labels[place]]
    tainted = [place for place in pool if labels[place] and labels[place] <= set(kinds)]
    tainted = _each_kind_first(tainted, labels, kinds)
    size = largest(eta, len(normal), len(tainted)) if size is None else size
    wanted = round(eta * size)
    if size == 0 or wanted > len(tainted) or size - wanted > len(normal):
        raise DataError(
            f"The {part} part of {prepared.folder} has {len(normal)} normal and {len(tainted)} anomalous observations "
            f"to draw from, too few for {size or 'any'} with a share of {eta:g}; choose another size, share or seed."
        )
    if wanted < len(kinds):
        raise DataError(
            f"A share of {eta:g} of the {size} observations for the {part} part of {prepared.folder} is {wanted}, too "
            f"few to show {len(kinds)} kinds of anomaly{_needed(eta, len(kinds))}; get more by "
            "shorter observations or other `shares`, or choose a larger `eta` or a smaller `kappa`."
        )
    return _grouped(normal[: size - wanted] + tainted[:wanted])


def largest(eta: float, normal: int, anomalous: int) -> int:
    """The most observations of which round(eta n) are anomalous and the others normal."""
    bounds = [normal + anomalous]
    bounds += [int(min((anomalous + 0.5) / eta, bounds[0])) + 1] if eta > 0 else []
    bounds += [int(min((normal + 0.5) / (1 - eta), bounds[0])) + 1] if eta < 1 else []
    most = min(bounds)
    while round(eta * most) > anomalous or most - round(eta * most) > normal:
        most -= 1
    return most


def _each_kind_first(places: list[Pick], labels: dict[Pick, set[str]], kinds: Sequence[str]) -> list[Pick]:
    """One observation of every kind in front, so that the smallest draw that can show all of them does."""
    first: list[Pick] = []
    for kind in kinds:
        alone = next((place for place in places if labels[place] == {kind} and place not in first), None)
        any_of = alone or next((place for place in places if kind in labels[place] and place not in first), None)
        first += [any_of] if any_of else []
    chosen = set(first)
    return first + [place for place in places if place not in chosen]


def _grouped(places: Sequence[Pick]) -> Chosen:
    chosen: dict[str, list[int]] = {}
    for entity, i in sorted(places):
        chosen.setdefault(entity, []).append(i)
    return chosen
