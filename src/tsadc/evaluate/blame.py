"""Whether a detector blames the right variables for an event.

name            symbol         meaning
blamed          GT             True for the variables that are to blame
contributions                  one number per variable, higher = blamed more; equal ones share their ranks
hit rate        HitRate@P%     share of GT among the floor(P% * |GT|) most blamed (Su et al., OmniAnomaly, KDD 2019)
ndcg            NDCG           sum over GT of 1 / log2(1 + rank), relative to the best order (Järvelin and
                               Kekäläinen, 2002)

Equal contributions get the mean over all their orders, so a detector that blames all variables alike gets exactly the
expectation of a random order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tsadc.errors import DataError
from tsadc.evaluate.inputs import as_flags
from tsadc.series import Booleans, Floats


@dataclass(frozen=True)
class Blame:
    """Blame metrics, averaged over events."""

    hit_rate_100: float
    hit_rate_150: float
    ndcg: float


def hit_rate(blamed: Booleans, contributions: Floats, share: float = 1.0) -> float:
    """Return HitRate@P%: the share of the variables to blame among the floor(P% * |GT|) most blamed ones.

    Su et al., "Robust Anomaly Detection for Multivariate Time Series through Stochastic Recurrent Neural Network",
    KDD 2019.

    Parameters
    ----------
    blamed : (variable,)
        True for the variables to blame; at least one.
    contributions : (variable,)
        Finite contributions, higher = blamed more.
    share
        P%, usually 1.0 or 1.5.

    Returns
    -------
    float
        From 0 to 1; floor(P% * |GT|) over the number of variables for a random order.

    Examples
    --------
    >>> import numpy as np
    >>> hit_rate(np.array([True, True, False, False]), np.array([4.0, 1.0, 3.0, 2.0]))
    0.5
    """
    truth, values = _checked(blamed, contributions)
    taken = min(int(np.floor(share * truth.sum() + 1e-9)), len(truth))
    return _gain(truth, values, (np.arange(len(truth)) < taken).astype(np.float64)) / int(truth.sum())


def ndcg(blamed: Booleans, contributions: Floats) -> float:
    """Return the normalised discounted cumulative gain over the ranks of all variables.

    DCG is the sum over the variables to blame of 1 / log2(1 + rank), NDCG its ratio to that of the best order (Järvelin
    and Kekäläinen, "Cumulated Gain-Based Evaluation of IR Techniques", ACM TOIS 20(4), 2002).

    Parameters
    ----------
    blamed : (variable,)
        True for the variables to blame; at least one.
    contributions : (variable,)
        Finite contributions, higher = blamed more.

    Returns
    -------
    float
        Above 0 and at most 1.

    Examples
    --------
    >>> import numpy as np
    >>> ndcg(np.array([False, True, False]), np.array([1.0, 3.0, 2.0]))
    1.0
    """
    truth, values = _checked(blamed, contributions)
    discounts = 1 / np.log2(np.arange(len(truth)) + 2)
    return _gain(truth, values, discounts) / float(discounts[: truth.sum()].sum())


def blame(events: Iterable[tuple[Booleans, Floats]]) -> Blame:
    """Return HitRate@100%, HitRate@150% and NDCG averaged over events; each counts once, however long it is.

    Parameters
    ----------
    events
        For each event, the variables to blame (variable,) and their contributions (variable,).

    Returns
    -------
    Blame
        The three means.

    Examples
    --------
    >>> import numpy as np
    >>> blame([(np.array([True, False]), np.array([2.0, 1.0]))])
    Blame(hit_rate_100=1.0, hit_rate_150=1.0, ndcg=1.0)
    """
    values = [(hit_rate(b, c, 1.0), hit_rate(b, c, 1.5), ndcg(b, c)) for b, c in events]
    if not values:
        raise DataError("Blame is measured over events, but there are none.")
    return Blame(*(float(mean) for mean in np.mean(values, axis=0)))


def random_blame(events: Iterable[tuple[Booleans, Floats]]) -> Blame:
    """Return the expectation of `blame` for a random order of variables; blaming all alike gets the same.

    Parameters
    ----------
    events
        As in `blame`; of the contributions only their number counts.

    Returns
    -------
    Blame
        The three expectations.

    Examples
    --------
    >>> import numpy as np
    >>> random_blame([(np.array([True, False]), np.array([2.0, 1.0]))]).hit_rate_100
    0.5
    """
    return blame((blamed, np.zeros(len(contributions))) for blamed, contributions in events)


def _gain(truth: Booleans, values: Floats, weights: Floats) -> float:
    """Return the sum over the variables to blame of the weight of their rank; equal ones share the mean weight."""
    _, inverse, counts = np.unique(-values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    added = np.append(0.0, np.cumsum(weights))
    means = (added[last] - added[last - counts]) / counts
    return float(means[inverse][truth].sum())


def _checked(blamed: Booleans, contributions: Floats) -> tuple[Booleans, Floats]:
    truth, values = as_flags(np.asarray(blamed), "blame"), np.asarray(contributions, dtype=np.float64)
    if truth.shape != values.shape or truth.ndim != 1:
        raise DataError(f"Each variable needs one contribution, but {truth.shape} variables have {values.shape}.")
    if not truth.any():
        raise DataError("At least one variable must be to blame, but none is.")
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        raise DataError(f"All contributions must be finite, but that of variable {wrong[0]} is not.")
    return truth, values
