"""Whether the variables that a detector blames for an event are those that are to blame.

name            symbol         meaning
blamed          GT             the variables to blame, True for each
contributions                  a number per variable, higher = blamed more; equal ones share their ranks
hit rate        HitRate@P%     share of GT among the floor(P% * |GT|) most blamed (Su et al., OmniAnomaly, KDD 2019)
ndcg            NDCG           sum over GT of 1 / log2(1 + rank), against that of the best order (Järvelin and
                               Kekäläinen, 2002)

Equal contributions get the mean over all their orders: a detector that blames all alike gets exactly what a random
order gets on average."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tsadc.errors import DataError
from tsadc.evaluate.inputs import verdicts
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Blame:
    """Means over events, or what one event got."""

    hit_rate_100: float
    hit_rate_150: float
    ndcg: float


def hit_rate(blamed: Booleans, contributions: Floats, share: float = 1.0) -> float:
    """`share` is P%: 1.0 and 1.5 are usual."""
    truth, values = _checked(blamed, contributions)
    taken = min(int(np.floor(share * truth.sum() + 1e-9)), len(truth))
    return _gain(truth, values, (np.arange(len(truth)) < taken).astype(np.float64)) / int(truth.sum())


def ndcg(blamed: Booleans, contributions: Floats) -> float:
    """Over the ranks of all variables."""
    truth, values = _checked(blamed, contributions)
    discounts = 1 / np.log2(np.arange(len(truth)) + 2)
    return _gain(truth, values, discounts) / float(discounts[: truth.sum()].sum())


def blame(events: Iterable[tuple[Booleans, Floats]]) -> Blame:
    """The mean over events of (blamed, contributions): each event counts once, however long it is."""
    found = [(hit_rate(b, c, 1.0), hit_rate(b, c, 1.5), ndcg(b, c)) for b, c in events]
    if not found:
        raise DataError("Blame is measured over events, but there is none.")
    return Blame(*(float(mean) for mean in np.mean(found, axis=0)))


def random_blame(events: Iterable[tuple[Booleans, Floats]]) -> Blame:
    """What a random order of variables gets on average over the same events; blaming all alike gets the same."""
    return blame((blamed, np.zeros(len(contributions))) for blamed, contributions in events)


def _gain(truth: Booleans, values: Floats, weights: Floats) -> float:
    """Sum over the variables to blame of the weight of their rank, mean over the ranks that equal ones share."""
    _, inverse, counts = np.unique(-values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    added = np.append(0.0, np.cumsum(weights))
    means = (added[last] - added[last - counts]) / counts
    return float(means[inverse][truth].sum())


def _checked(blamed: Booleans, contributions: Floats) -> tuple[Booleans, Floats]:
    truth, values = verdicts(np.asarray(blamed), "blame"), np.asarray(contributions, dtype=np.float64)
    if truth.shape != values.shape or truth.ndim != 1:
        raise DataError(f"Each variable needs one contribution, but {truth.shape} variables have {values.shape}.")
    if not truth.any():
        raise DataError("Blame is measured where a variable is to blame, but none is.")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(f"Contributions can be ranked when all are finite, but that of variable {wrong[0]} is not.")
    return truth, values
