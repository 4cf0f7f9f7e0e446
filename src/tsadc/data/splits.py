"""Parts for training, validation and test. Every entity lives in exactly one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tsadc.config import require
from tsadc.data.prepared import Prepared
from tsadc.errors import DataError

PARTS = ("train", "validation", "test")
SHARES = (0.7, 0.1, 0.2)


def split_entities(prepared: Prepared, shares: Sequence[float] = SHARES, seed: int = 0) -> dict[str, tuple[str, ...]]:
    """Give each part about its share of the observations. Entities are drawn in a random order in which those with the
    same kinds of anomaly follow each other, and each goes to the part that lacks most: so every part gets its share of
    every kind, as far as whole entities allow."""
    require(len(shares) == len(PARTS), "shares", "three numbers", list(shares))
    require(all(share > 0 for share in shares), "shares", "positive", list(shares))
    if len(prepared.entities) < len(PARTS):
        raise DataError(
            f"{prepared.folder} has {len(prepared.entities)} entities, but train, validation and test need one each; "
            "cut a long recording into several."
        )
    wanted = np.asarray(shares, dtype=float) / sum(shares)
    order = _order(prepared, np.random.default_rng(seed))
    given = np.zeros(len(PARTS))
    members: list[list[str]] = [[] for _ in PARTS]
    for place, entity in enumerate(order):
        weight = len(prepared.labels[entity])
        lack = wanted * (given.sum() + weight) - given
        empty = np.array([not part for part in members])
        if empty.sum() == len(order) - place:
            lack[~empty] = -np.inf
        part = int(np.argmax(lack))
        members[part].append(entity)
        given[part] += weight
    return {name: tuple(sorted(part)) for name, part in zip(PARTS, members, strict=True)}


def _order(prepared: Prepared, generator: np.random.Generator) -> list[str]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for entity in sorted(prepared.entities):
        kinds = tuple(sorted({kind for label in prepared.labels[entity] for kind in label.kinds}))
        groups.setdefault(kinds, []).append(entity)
    return [groups[kinds][i] for kinds in sorted(groups) for i in generator.permutation(len(groups[kinds]))]
