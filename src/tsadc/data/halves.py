"""Data sets of separate observations divided into a contaminated training part and a test part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsadc.data.contaminate import largest
from tsadc.data.task import Answers, Task
from tsadc.errors import DataError
from tsadc.series import Floats


def halves(values: Floats, kinds: Sequence[tuple[str, ...]], eta: float, seed: int) -> Task:
    """Half of the normal observations, rounded up, and anomalous ones for a share of `eta` train; the rest is
    scored."""
    normal = [i for i, kind in enumerate(kinds) if not kind]
    anomalous = [i for i, kind in enumerate(kinds) if kind]
    generator = np.random.default_rng(seed)
    half = (len(normal) + 1) // 2
    taken = round(eta * largest(eta, half, len(anomalous)))
    train = np.sort([*generator.permutation(normal)[:half], *generator.permutation(anomalous)[:taken]])
    test = np.setdiff1d(np.arange(len(kinds)), train)
    known = Answers(tuple(kinds[i] for i in test), ("series",) * len(test))
    return Task(values[train], values[test], known)


def contaminated(
    values: Floats, kinds: Sequence[tuple[str, ...]], eta: float, seed: int, kappa: int | None = None
) -> Task:
    """The normal halves of `halves`; half of the anomalous observations are set apart, and those among them that make a
    share of `eta` of `kappa` kinds (None: of all) train. The other half is scored, so that the test part is the same
    for every share and number of kinds; what is set apart and not needed is left out."""
    normal = [i for i, kind in enumerate(kinds) if not kind]
    anomalous = [i for i, kind in enumerate(kinds) if kind]
    generator = np.random.default_rng(seed)
    half = (len(normal) + 1) // 2
    ordinary, strange = generator.permutation(normal), generator.permutation(anomalous)
    pool, tested = strange[: len(strange) // 2].tolist(), strange[len(strange) // 2 :]
    if kappa is not None:
        pool = _of_kinds(pool, kinds, kappa, seed)
    taken = share(eta, half, len(pool), "the data set")
    if kappa is not None and 0 < taken < kappa:
        raise DataError(f"A share of {eta:g} is {taken} observations, too few to show {kappa} kinds; choose fewer.")
    test = np.sort([*ordinary[half:], *tested])
    known = Answers(tuple(kinds[i] for i in test), ("series",) * len(test))
    return Task(values[np.sort([*ordinary[:half], *pool[:taken]])], values[test], known)


def _of_kinds(pool: Sequence[int], kinds: Sequence[tuple[str, ...]], kappa: int, seed: int) -> list[int]:
    """What of the pool has no other than the first `kappa` kinds in the order of the seed, one of each in front."""
    alone = sorted({kinds[i][0] for i in pool if len(kinds[i]) == 1})
    if kappa > len(alone):
        raise DataError(f"{len(alone)} kinds of anomaly can contaminate alone, but {kappa} are wanted; lower kappa.")
    chosen = [alone[i] for i in np.random.default_rng([seed, 1]).permutation(len(alone))[:kappa]]
    fitting = [i for i in pool if set(kinds[i]) <= set(chosen)]
    first = [next(i for i in fitting if kinds[i] == (kind,)) for kind in chosen]
    return first + [i for i in fitting if i not in first]


def share(eta: float, normal: int, available: int, what: str) -> int:
    """How many anomalous observations make a share of `eta` beside the normal ones."""
    wanted = round(eta * largest(eta, normal, normal))
    if wanted > available:
        raise DataError(
            f"A share of {eta:g} beside {normal} normal observations needs {wanted} anomalous ones, but {what} has "
            f"{available} to draw from; choose a smaller eta."
        )
    return wanted
