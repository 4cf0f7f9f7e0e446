"""What the deviates of all observations say together: the contaminated share, and a probability for each.

    name          meaning
    normal        distribution of the training scores of a fold without the highest: for a threshold those count as
                  normal that may be (`Detector.normal_`), here one half of the share that is in doubt
    z             score of an observation as a standard normal deviate: the share of normal observations that score
                  higher, by the model of its fold, read on a Gaussian; standardised by middle and spread of all z
    p             share of a Student distribution above z, which has a degree of freedom for every ten observations and
                  the middle and lower spread of a standard Gaussian
    f             density of all p by Grenander: the slope of the least concave majorant of their distribution function
    share         what lies above the fence of z in excess of what lies below its mirror image (`threshold`)
    excess        f - (1 - share) where that is positive, scaled to the mass `share`
    probability   excess / (1 - share + excess), that an observation is anomalous: 1 - the local false discovery rate
    mean          of the probabilities: the contamination, with the interval of resampled observations

Every model has its own scores, so they are compared through p. Training scores of some detectors are too low, as they
have learnt from what they score; standardising the z of all folds, which have not, removes that (Efron's empirical
null). Middle and spread are estimates, and few observations leave the tail in doubt. Hence Student's distribution: by a
Gaussian, every fifth history of 50 normal observations has one that is anomalous with more than 90 %; of 500, hardly
any, and there both distributions are nearly the same. Normal p are uniform and anomalous ones are small, so f falls
from the anomalous to the normal, and Grenander's estimate of a falling density needs no bandwidth. At the smallest p it
is too high, by a factor that is uniformly distributed (Daniels), and would find anomalies in clean data; hence the
scaling. It is a compromise: the share is a lower bound, as anomalies below the fence are not counted, and the mean
probability lies between it and the mass of the unscaled excess, nearer to the truth than either
(`tests/detectors/test_audit.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.stats import t as student

from tsadc.detectors.threshold import BELOW, FENCE, LARGEST_SAMPLE, RESAMPLES, Contamination, Normal
from tsadc.detectors.threshold import LEVEL as CONFIDENCE
from tsadc.detectors.threshold import _excess as excess_above_fence
from tsadc.series import Floats
from tsadc.subsample import evenly_spaced

LEAST_PROBABILITY = 0.2  # of an interval that is worth a look
LEVEL = 0.5  # from here on, anomalous is more likely than normal
LEAST_SPREAD = 1e-9
NARROWEST = 1e-300  # smallest p
PER_DEGREE = 10  # observations per degree of freedom


@dataclass(frozen=True, eq=False)
class Estimate:
    """What the deviates of all observations say together.

    Attributes
    ----------
    contamination : Contamination
    middle, spread : float
        By which deviates are standardised.
    normal : Normal
        Distribution of the standardised deviates of normal observations, for return periods.
    threshold : float
        Standardised deviates above it have a probability of at least 0.2.
    edges : array of shape (segment + 1,)
        The p at which the probability changes.
    levels : array of shape (segment,)
        The probability in between.
    observations : int
    """

    contamination: Contamination
    middle: float
    spread: float
    normal: Normal
    threshold: float
    edges: Floats
    levels: Floats
    observations: int

    @classmethod
    def of(cls, deviates: Floats, stated: float | Literal["auto"], seed: int) -> Self:
        """Estimate from the deviates of all observations, each by a model that has not learnt from it."""
        mixture = _Mixture.of(deviates, stated)
        contamination = Contamination(mixture.share, mixture.share, mixture.share, True)
        if stated == "auto":
            sample, generator = deviates[evenly_spaced(len(deviates), LARGEST_SAMPLE)], np.random.default_rng(seed)
            draws = generator.integers(0, len(sample), (RESAMPLES, len(sample)))
            shares = [_Mixture.of(sample[draw], stated).mean for draw in draws]
            low, high = np.quantile(shares, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]).tolist()
            contamination = Contamination(mixture.mean, min(low, mixture.mean), max(high, mixture.mean), False)
        z = (deviates - mixture.middle) / mixture.spread
        normal = Normal.of(z, contamination)
        null = mixture.middle, mixture.spread, normal
        unfinished = cls(contamination, *null, np.inf, mixture.edges, mixture.levels, len(deviates))
        suspected = unfinished.probability(z) >= LEAST_PROBABILITY
        threshold = max(FENCE, float(z.max()))
        if suspected.any():
            lowest, others = float(z[suspected].min()), z[~suspected]
            threshold = (lowest + float(others.max())) / 2 if len(others) else lowest - 1
        return replace(unfinished, threshold=threshold)

    def standardised(self, deviates: Floats) -> Floats:
        """Return deviates in standard deviations of normal ones."""
        return (deviates - self.middle) / self.spread

    def probability(self, z: Floats) -> Floats:
        """Return the probability that an observation with the standardised deviate z is anomalous."""
        segment = np.searchsorted(self.edges, share_above(z, self.observations), side="left") - 1
        return np.asarray(self.levels[np.clip(segment, 0, len(self.levels) - 1)])


@dataclass(frozen=True, eq=False)
class _Mixture:
    """What deviates say about normal and anomalous ones: the share in excess above the fence, and the mean of the
    probabilities."""

    share: float
    middle: float
    spread: float
    edges: Floats
    levels: Floats
    mean: float

    @classmethod
    def of(cls, deviates: Floats, stated: float | Literal["auto"]) -> Self:
        ordered = np.sort(deviates)
        share = excess_above_fence(ordered) if stated == "auto" else stated
        middle, low = np.quantile(ordered, [(1 - share) * 0.5, (1 - share) * BELOW]).tolist()
        spread = middle - low if middle - low > LEAST_SPREAD else 1.0
        edges, density = grenander(share_above((ordered - middle) / spread, len(ordered)))
        excess = np.maximum(density - (1 - share), 0.0)
        mass = float((excess * np.diff(edges)).sum())
        excess *= min(1.0, share / mass) if mass > 0 else 0.0
        levels = excess / (1 - share + excess)
        return cls(share, middle, spread, edges, levels, float((levels * density * np.diff(edges)).sum()))


def share_above(z: Floats, observations: int) -> Floats:
    """Return p: how much of the deviates of normal observations lies above z, if z was standardised by that many."""
    freedom = max(observations / PER_DEGREE, 1.0)
    return np.asarray(student.sf(z * student.isf(BELOW, freedom), freedom))


def grenander(p: Floats) -> tuple[Floats, Floats]:
    """Return edges and heights of Grenander's estimate of a falling density on [0, 1].

    Parameters
    ----------
    p : array of shape (n,)
        A sample from [0, 1].

    Returns
    -------
    edges : array of shape (segment + 1,)
        From 0 to 1.
    heights : array of shape (segment,)
        Slopes of the least concave majorant of the distribution function, falling.
    """
    places, counts = np.unique(np.maximum(p, NARROWEST), return_counts=True)
    edges, mass = np.concatenate([[0.0], places]), counts / len(p)
    if places[-1] < 1:
        edges, mass = np.append(edges, 1.0), np.append(mass, 0.0)
    width = np.diff(edges)
    # The slopes of the majorant: those of the distribution function, pooled until none is steeper than the one before.
    pooled = isotonic_regression(mass / width, weights=width, increasing=False)
    return edges[pooled.blocks], pooled.x[pooled.blocks[:-1]]
