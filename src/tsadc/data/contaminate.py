"""Training and validation parts with a chosen share of anomalies (the paper's eta) of a chosen number of kinds (kappa).

`contaminate` draws from a prepared data set, as in the paper's resilience study: parts share no entity, and the test
part has every kind. `halves` draws from a data set of separate observations, for the benchmark.

For one seed, the kinds of a smaller kappa are among those of a larger one, and the smaller of two draws is part of the
larger, so that results differ by what was varied and little else.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.config import require
from tsadc.data.prepared import Prepared, Selection
from tsadc.data.task import Answers, Task
from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Floats, Labelled, Series, Split

PARTS = ("train", "validation", "test")
SHARES = (0.7, 0.1, 0.2)
MOST_ETA = 0.4  # with a larger share, anomalies would be nearly as common as normal observations
Place = tuple[str, int]  # entity, observation


@dataclass(frozen=True)
class ContaminationSpec:
    """How to draw contaminated parts from a prepared data set.

    Parameters
    ----------
    eta
        Share of anomalous observations in the training and validation parts, from 0 to 0.4.
    kappa
        Number of kinds of anomaly in these parts. None takes every kind that occurs alone in both the training and the
        validation entities.
    train_size, validation_size, test_size
        Number of observations; None takes as many as the share allows. `test_size` needs `test_eta`.
    test_eta
        Share of anomalous observations in the test part; None keeps all its observations.
    test_part
        Test only on this part of the archive; for SMD `"test"`, because its `train` files carry no labels.
    shares
        Shares of the observations that go to training, validation and test.
    seed
        Seed of the draw.

    Examples
    --------
    >>> from tsadc.data import ContaminationSpec
    >>> ContaminationSpec(eta=0.1, kappa=2).shares
    (0.7, 0.1, 0.2)
    """

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
        require(0 <= self.eta <= MOST_ETA, "eta", f"from 0 to {MOST_ETA:g}", self.eta)
        require(self.kappa is None or self.kappa >= 0, "kappa", "0 or more, or none for every kind", self.kappa)
        require(self.kappa != 0 or self.eta == 0, "eta", "0 if kappa is 0", self.eta)
        require(self.test_eta is None or 0 <= self.test_eta <= 1, "test_eta", "from 0 to 1", self.test_eta)
        require(self.test_size is None or self.test_eta is not None, "test_eta", "given with test_size", self.test_eta)
        for name in ("train_size", "validation_size", "test_size"):
            size = getattr(self, name)
            require(size is None or size > 0, name, "positive", size)


@dataclass(frozen=True)
class Draw:
    """Training, validation and test parts drawn from a prepared data set.

    Attributes
    ----------
    prepared
        The data set.
    spec
        How it was drawn.
    kinds
        The kinds of anomaly that contaminate the training and validation parts.
    parts
        For "train", "validation" and "test", the observations of each entity.
    """

    prepared: Prepared
    spec: ContaminationSpec
    kinds: tuple[str, ...]
    parts: dict[str, Selection]

    def series(self, part: str) -> tuple[Series, ...]:
        """Return the observations of a part without labels, one series per entity."""
        return self.prepared.series(self.parts[part])

    def labelled(self, part: str) -> Labelled:
        """Return the observations of a part with their labels, for evaluation."""
        return self.prepared.labelled(self.parts[part])

    def split(self) -> Split:
        """Return the unlabelled training part and the labelled test part."""
        return Split(self.series("train"), self.labelled("test"))

    def count(self, part: str) -> tuple[int, int]:
        """Return the number of observations of a part, and how many of them are anomalous."""
        selection = self.parts[part]
        anomalous = sum(bool(self.prepared.labels[entity][i].kinds) for entity in selection for i in selection[entity])
        return sum(map(len, selection.values())), anomalous


def contaminate(prepared: Prepared, spec: ContaminationSpec | None = None) -> Draw:
    """Split the entities of a prepared data set into three parts, then draw the observations of each part.

    Parameters
    ----------
    prepared
        The data set, from `prepare`, `prepare_own` or `load`.
    spec
        How to draw; None takes the defaults of `ContaminationSpec`.

    Returns
    -------
    Draw
        The parts. No entity is in two of them.

    Raises
    ------
    DataError
        If the data set has too few entities, kinds or observations for `spec`.

    Examples
    --------
    >>> from tsadc.data import ContaminationSpec, contaminate, load
    >>> draw = contaminate(load("prepared/smd"), ContaminationSpec(eta=0.1))  # doctest: +SKIP
    >>> draw.series("train")  # doctest: +SKIP
    """
    spec = spec or ContaminationSpec()
    members = split_entities(prepared, spec.shares, spec.seed)
    pools = {part: _pool(prepared, members[part], spec.test_part if part == "test" else "") for part in PARTS}
    # Each part is shuffled once, by a generator of its own: no choice for one changes what another gets.
    pools = {part: _shuffled(pool, [spec.seed, 1 + PARTS.index(part)]) for part, pool in pools.items()}
    kinds = _choose_kinds(prepared, pools, spec)
    parts = {}
    for part, size in (("train", spec.train_size), ("validation", spec.validation_size)):
        parts[part] = _draw(prepared, pools[part], spec.eta, kinds, size, part)
    if spec.test_eta is None:
        parts["test"] = _grouped(pools["test"])
    else:
        every = _kinds_in(prepared, pools["test"]) if spec.test_eta > 0 else ()
        parts["test"] = _draw(prepared, pools["test"], spec.test_eta, every, spec.test_size, "test")
    return Draw(prepared, spec, kinds, parts)


def split_entities(prepared: Prepared, shares: Sequence[float] = SHARES, seed: int = 0) -> dict[str, tuple[str, ...]]:
    """Return the entities of the training, validation and test parts, each with about its share of the observations.

    Entities are taken in a random order in which those with the same kinds of anomaly follow each other, and each goes
    to the part that lacks most. So every part gets its share of every kind, as far as whole entities allow."""
    require(len(shares) == len(PARTS), "shares", "three numbers", list(shares))
    require(all(share > 0 for share in shares), "shares", "positive", list(shares))
    if len(prepared.entities) < len(PARTS):
        raise DataError(
            f"{prepared.folder} has {len(prepared.entities)} entities, but train, validation and test need one each; "
            "cut a long recording into several."
        )
    wanted = np.asarray(shares, dtype=float) / sum(shares)
    order = _entity_order(prepared, np.random.default_rng(seed))
    assigned = np.zeros(len(PARTS))
    members: list[list[str]] = [[] for _ in PARTS]
    for position, entity in enumerate(order):
        weight = len(prepared.labels[entity])
        lack = wanted * (assigned.sum() + weight) - assigned
        empty = np.array([not part for part in members])
        if empty.sum() == len(order) - position:
            lack[~empty] = -np.inf
        part = int(np.argmax(lack))
        members[part].append(entity)
        assigned[part] += weight
    return {name: tuple(sorted(part)) for name, part in zip(PARTS, members, strict=True)}


def _entity_order(prepared: Prepared, generator: np.random.Generator) -> list[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for entity in sorted(prepared.entities):
        kinds = tuple(sorted({kind for label in prepared.labels[entity] for kind in label.kinds}))
        groups.setdefault(kinds, []).append(entity)
    return [groups[kinds][i] for kinds in sorted(groups) for i in generator.permutation(len(groups[kinds]))]


def _pool(prepared: Prepared, entities: Sequence[str], part: str) -> list[Place]:
    pool = [
        (entity, i)
        for entity in entities
        for i, label in enumerate(prepared.labels[entity])
        if not part or label.part == part
    ]
    if not pool:
        raise DataError(f"{prepared.folder} has no observations of its part {part!r} to test on.")
    return pool


def _shuffled(pool: Sequence[Place], seed: list[int]) -> list[Place]:
    return [pool[i] for i in np.random.default_rng(seed).permutation(len(pool))]


def _choose_kinds(prepared: Prepared, pools: dict[str, list[Place]], spec: ContaminationSpec) -> tuple[str, ...]:
    """Choose among the kinds that occur alone in both parts, so that any number can be drawn without the others."""
    both = [set(_kinds_in(prepared, pools[part], alone=True)) for part in ("train", "validation")]
    shared = sorted(both[0] & both[1])
    order = [shared[i] for i in np.random.default_rng([spec.seed, 0]).permutation(len(shared))]
    if spec.eta == 0:
        return ()
    dropped = [kind for kind in prepared.kinds if kind not in order]
    if spec.kappa is None and order and dropped:
        warnings.warn(
            f"{prepared.folder} does not have {', '.join(dropped)} alone in both its training and its validation "
            f"entities, so these kinds contaminate neither; the kinds that do are {', '.join(sorted(order))}.",
            TsadcNotice,
            stacklevel=3,
        )
    kappa = len(order) if spec.kappa is None else spec.kappa
    if kappa > len(order) or kappa == 0:
        raise DataError(
            f"{prepared.folder} has {len(order)} kinds of anomaly in both its training and validation entities, but "
            f"{max(kappa, 1)} were requested; choose a smaller kappa or another seed."
        )
    return tuple(order[:kappa])


def _kinds_in(prepared: Prepared, pool: Sequence[Place], alone: bool = False) -> tuple[str, ...]:
    labels = [prepared.labels[entity][i] for entity, i in pool]
    return tuple(sorted({kind for label in labels if not alone or len(label.kinds) == 1 for kind in label.kinds}))


def _draw(
    prepared: Prepared, pool: Sequence[Place], eta: float, kinds: Sequence[str], size: int | None, part: str
) -> Selection:
    """Take the first observations of a shuffled pool that make up the share."""
    labels = {place: set(prepared.labels[place[0]][place[1]].kinds) for place in pool}
    normal = [place for place in pool if not labels[place]]
    anomalous = [place for place in pool if labels[place] and labels[place] <= set(kinds)]
    anomalous = _each_kind_first(anomalous, labels, kinds)
    size = largest_size(eta, len(normal), len(anomalous)) if size is None else size
    wanted = round(eta * size)
    if size == 0 or wanted > len(anomalous) or size - wanted > len(normal):
        raise DataError(
            f"The {part} part of {prepared.folder} has {len(normal)} normal and {len(anomalous)} anomalous "
            f"observations to draw from, too few for {size or 'any'} with a share of {eta:g}; choose another size, "
            "share or seed."
        )
    if wanted < len(kinds):
        raise DataError(
            f"A share of {eta:g} of the {size} observations for the {part} part of {prepared.folder} is {wanted}, too "
            f"few to show {len(kinds)} kinds of anomaly{_size_hint(eta, len(kinds))}; get more by "
            "shorter observations or other `shares`, or choose a larger `eta` or a smaller `kappa`."
        )
    return _grouped(normal[: size - wanted] + anomalous[:wanted])


def _size_hint(eta: float, kinds: int) -> str:
    """Say how many observations show all kinds; nothing if no realistic number does."""
    least = (kinds - 0.5) / eta if eta else math.inf
    if least > 1e9:
        return ""
    whole = math.ceil(least)
    whole += round(eta * whole) < kinds  # a half may be rounded down
    return f", which takes {whole} observations in that part"


def _each_kind_first(places: list[Place], labels: dict[Place, set[str]], kinds: Sequence[str]) -> list[Place]:
    """Move one observation of every kind to the front, so that the smallest draw that can show all kinds does."""
    first: list[Place] = []
    for kind in kinds:
        alone = next((place for place in places if labels[place] == {kind} and place not in first), None)
        example = alone or next((place for place in places if kind in labels[place] and place not in first), None)
        first += [example] if example else []
    chosen = set(first)
    return first + [place for place in places if place not in chosen]


def _grouped(places: Sequence[Place]) -> Selection:
    selection: dict[str, list[int]] = {}
    for entity, i in sorted(places):
        selection.setdefault(entity, []).append(i)
    return selection


def halves(
    values: Floats,
    kinds: Sequence[tuple[str, ...]],
    eta: float,
    seed: int,
    *,
    kappa: int | None = None,
    fixed_test: bool = False,
) -> Task:
    """Train on half of the normal observations and enough anomalous ones for a share of `eta`; score the rest.

    Parameters
    ----------
    values
        Observations (observation, time, variable).
    kinds
        The kinds of anomaly in each observation; none if it is normal.
    eta
        Share of anomalous observations in the training part.
    seed
        Seed of the draw.
    kappa
        Number of kinds in the training part; None takes all. Needs `fixed_test`.
    fixed_test
        Set half of the anomalous observations apart for training and score only the other half, so that the test part
        is the same for every `eta` and `kappa`. Those that are set apart and not needed are left out.
    """
    generator = np.random.default_rng(seed)
    normal = generator.permutation([i for i, kind in enumerate(kinds) if not kind])
    anomalous = generator.permutation([i for i, kind in enumerate(kinds) if kind])
    half = (len(normal) + 1) // 2
    if fixed_test:
        pool, tested = anomalous[: len(anomalous) // 2].tolist(), anomalous[len(anomalous) // 2 :]
        if kappa is not None:
            pool = _of_kinds(pool, kinds, kappa, seed)
        count = anomalous_count(eta, half, len(pool), "the data set")
        if kappa is not None and 0 < count < kappa:
            raise DataError(f"A share of {eta:g} is {count} observations, too few to show {kappa} kinds; choose fewer.")
    else:
        count = round(eta * largest_size(eta, half, len(anomalous)))
        pool, tested = anomalous.tolist(), anomalous[count:]
    train, test = np.sort([*normal[:half], *pool[:count]]), np.sort([*normal[half:], *tested])
    return Task(values[train], values[test], Answers(tuple(kinds[i] for i in test), ("series",) * len(test)))


def _of_kinds(pool: Sequence[int], kinds: Sequence[tuple[str, ...]], kappa: int, seed: int) -> list[int]:
    """Keep the observations that have only the first `kappa` kinds in the order of the seed, one of each in front."""
    alone = sorted({kinds[i][0] for i in pool if len(kinds[i]) == 1})
    if kappa > len(alone):
        raise DataError(
            f"{len(alone)} kinds of anomaly can contaminate alone, but {kappa} were requested; lower kappa."
        )
    chosen = [alone[i] for i in np.random.default_rng([seed, 1]).permutation(len(alone))[:kappa]]
    fitting = [i for i in pool if set(kinds[i]) <= set(chosen)]
    first = [next(i for i in fitting if kinds[i] == (kind,)) for kind in chosen]
    return first + [i for i in fitting if i not in first]


def anomalous_count(eta: float, normal: int, available: int, source: str) -> int:
    """Return how many anomalous observations make a share of `eta` beside the normal ones."""
    wanted = round(eta * largest_size(eta, normal, normal))
    if wanted > available:
        raise DataError(
            f"A share of {eta:g} beside {normal} normal observations needs {wanted} anomalous ones, but {source} has "
            f"{available} to draw from; choose a smaller eta."
        )
    return wanted


def largest_size(eta: float, normal: int, anomalous: int) -> int:
    """Return the largest n for which round(eta n) anomalous and n - round(eta n) normal observations are available."""
    bounds = [normal + anomalous]
    bounds += [int(min((anomalous + 0.5) / eta, bounds[0])) + 1] if eta > 0 else []
    bounds += [int(min((normal + 0.5) / (1 - eta), bounds[0])) + 1] if eta < 1 else []
    most = min(bounds)
    while round(eta * most) > anomalous or most - round(eta * most) > normal:
        most -= 1
    return most
