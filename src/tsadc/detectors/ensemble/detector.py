"""The ensemble as a detector of its own: many cheap views of an observation, fused, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.ensemble.views import view_names_with
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


class Ensemble(Detector["Ensemble.Config"]):
    """Detects anomalies by seven cheap views of each observation, fused into one score without labels.

    The views detect extreme values (`deviation`), values that do not fit those of other variables (`combination`),
    broken correlations (`correlation`), unusual shapes (`shape`), and short windows that vary more or less than usual
    (`energy`), that the other variables explain worse or better than usual (`conditional`), or that are rougher or
    smoother than usual (`roughness`). Views that set some training observations apart get more weight. There is no
    network to train, and the same seed gives the same scores to the bit.

    Parameters
    ----------
    length : int, optional
        Rows per observation, the unit that is scored; at least 8. Default 600.
    contamination : float or "auto", optional
        Share of anomalous training data, between 0 and 0.5. Default "auto": estimated from the scores.
    seed : int, optional
        Seed of all randomness: random convolutions, and which observations are held out. Default 0.
    config : Ensemble.Config, optional
        All settings; the arguments above override it. See `help(Ensemble.Config)`.

    Attributes
    ----------
    threshold_ : float
        Observations with a higher score are anomalous.
    decision_scores_ : ndarray of shape (n_observations,)
        Scores of the training observations.
    labels_ : ndarray of shape (n_observations,)
        1 for training observations above the threshold, otherwise 0.
    validation_scores_ : ndarray of shape (n_validation,)
        Scores of the validation observations, which the threshold method "quantile" uses.
    held_out_ : bool
        Whether the validation observations were held out of the history; False if they were passed to `fit`.
    contamination_ : Contamination
        Share of anomalous training data, stated or estimated.
    normal_ : Normal
        Distribution of the scores of normal training observations.
    scorer_ : FusedScorer
        The fitted views (`scorer_.views`) and their weights (`scorer_.fusion.weight`, in the order of `view_names`).
    scaler_ : Scaler
        Statistics that normalise each entity and variable.
    variables_ : tuple of str
        Names of the variables, in the order of the training data.
    clock_ : Clock
        Sampling interval of the training data.
    settings_ : Ensemble.Config
        The settings that the detector was fitted with.
    provenance_ : dict
        Versions and a description of the training data, stored with the model.

    See Also
    --------
    tsadc.TSADC : a network whose residuals are fused with the same views.

    Examples
    --------
    >>> import numpy as np
    >>> from tsadc import Ensemble
    >>> rng = np.random.default_rng(0)
    >>> history, new = rng.normal(size=(3000, 3)), rng.normal(size=(500, 3))
    >>> new[210:230, 1] += 8  # rows 210 to 229 of the second variable are anomalous
    >>> detector = Ensemble(length=50, config=Ensemble.Config(kernels=32)).fit(history)
    >>> worst = detector.detect(new).worst(1).iloc[0]
    >>> int(worst["start"]), int(worst["end"]), worst["evidence"], list(worst["variables"])
    (210, 230, 'deviation', ['variable_1'])
    """

    name: ClassVar[str] = "ensemble"
    view_names: ClassVar[tuple[str, ...]] = view_names_with(())

    @dataclass(frozen=True)
    class Config(FusedScorer.Config, Common):
        """Settings of the ensemble.

        Parameters
        ----------
        length : int
            Rows per observation, at least 8.
        contamination : float or "auto"
            Share of anomalous training data, between 0 and 0.5; "auto" estimates it from the scores.
        seed : int
            Seed of all randomness.
        validation : float
            Share of the training observations held out for validation, above 0 and at most 0.5. The views are fitted
            to all, as an observation is never its own neighbour; the threshold method "quantile" uses the held-out.
        coverage : float
            Share of its rows that must be present for an observation to be used. Lower it for short records that are
            padded to a common length.
        scaler : Scaler.Config
            `method` "robust" (median and quartiles) or "standard" (mean and standard deviation); `scope` "entity"
            (each entity by its own statistics) or "pooled".
        threshold : Threshold.Config
            How the threshold is chosen: `method` "quantile", "tail", "alarms", or "auto" ("quantile" if
            `contamination` is a number, otherwise "tail"); `share` for "tail"; `per_day` for "alarms".
        kernels : int
            Random convolutions per dilation (view `shape`).
        neighbours : int
            Number of nearest training observations that `correlation` and `shape` average over.
        keep : float
            Share of the training observations, those with the lowest scores, that counts as normal.
        """

        def __post_init__(self) -> None:
            Common.__post_init__(self)
            FusedScorer.Config.__post_init__(self)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> None:
        self.scorer_ = FusedScorer.fit((train, validation), self.settings, self.settings.seed)

    def _adapt(self, history: Observations) -> None:
        self.scorer_.adapt(history)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self.scorer_.evidence(observations.entity(i), observations.read(i))

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.scorer_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scorer_ = FusedScorer.restore(state, self.settings, len(self.variables_), self.settings.length)
