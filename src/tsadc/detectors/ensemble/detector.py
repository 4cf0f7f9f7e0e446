"""The ensemble as a detector of its own: many cheap views of an observation, fused, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions, PartScores
from tsadc.detectors.ensemble.scorer import VIEWS, FusedScorer, most_observations
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Floats, Observations


class Ensemble(Detector["Ensemble.Config"]):
    """Detect anomalies by many cheap views of each observation, fused into one score without labels.

    There are thirteen views: values far from the middle of the observation (`departure`), values, levels and longer
    stretches that do not fit those of other variables (`combination`, `level`, `sustained`), broken correlations
    (`correlation`), unusual shapes (`shape`), unusual or changing spectra (`bands`, `quarters`), short windows that
    vary more or less than usual (`energy`), that the other variables explain worse or better than usual (`conditional`)
    or that are rougher or smoother (`roughness`), rare combinations of values (`density`), and excursions that the
    history does not contain (`range`). With one variable, those that compare variables are left out, and with
    observations of fewer than 64 rows `quarters`. Variables with at most 10 different values in the history, like
    commands and states, are not judged. There is no network to train, and the same seed gives the same scores to the
    bit.

    Parameters
    ----------
    seed : int, optional
        Seed of all randomness: random convolutions, and which observations are held out. Default 0.
    config : Ensemble.Config, optional
        All settings; the arguments above override it. See `help(tsadc.Ensemble.Config)`.

    Attributes
    ----------
    scorer_ : FusedScorer
        The fitted views, their names (`scorer_.view_names`) and their weights (`scorer_.fusion.weight`).

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
    (205, 235, 'range', ['variable_1'])
    """

    name: ClassVar[str] = "ensemble"
    mergeable: ClassVar[bool] = True
    row_cuts: ClassVar[int] = 2

    @dataclass(frozen=True)
    class Config(FusedScorer.Config, Common):
        """Settings of the ensemble.

        `help(tsadc.Ensemble.Config().threshold)` and `help(tsadc.Ensemble.Config().scaler)` explain those of the nested
        sections. A mapping can be given for a section: `threshold={"method": "tail", "share": 0.01}`.

        Parameters
        ----------
        validation : float, default 0.2
            Share of the training observations held out for validation, above 0 and at most 0.5. The views are fitted to
            all, as training scores are cross-fitted; the threshold method "quantile" uses the held-out ones.
        """

        renamed_settings: ClassVar[Mapping[str, str]] = {
            **FusedScorer.Config.renamed_settings,
            "views": "is no longer a section; write its settings without it, like `kernels`",
            "ensemble": "is a section of detectors with a network only; write its settings without it, like `kernels`",
        }

        def __post_init__(self) -> None:
            Common.__post_init__(self)
            FusedScorer.Config.__post_init__(self)

    @property
    def view_names(self) -> tuple[str, ...]:
        return self.scorer_.view_names if hasattr(self, "scorer_") else VIEWS

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> PartScores | None:
        settings, judged = self.settings, options.judged
        self.scorer_ = FusedScorer.fit(
            (train, validation), settings, settings.seed, judged=judged, others=options.others
        )
        return self.scorer_.training_scores

    @property
    def _view_weights(self) -> Floats | None:
        return self.scorer_.fusion.weight

    def _training_views(self) -> PartScores | None:
        return self.scorer_.training_views

    def _most_observations(self, variables: int) -> int:
        settings = self._requested_settings()
        return most_observations(variables, settings.length, settings)

    def _adapt(self, history: Observations) -> None:
        self.scorer_.adapt(history)

    def _baselines(self) -> Mapping[str, dict[str, Any]]:
        groups = {group.stored: group.baselines for group in self.scorer_.groups}
        return {**groups, "scores": self.scorer_.usual}

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self.scorer_.evidence(observations.entity(i), observations.read(i))

    def _score_values(self, observations: Observations) -> Iterator[float]:
        for i in range(len(observations)):
            yield self.scorer_.score(observations.entity(i), observations.read(i))

    def _predict(self, entity: str, z: Floats) -> Floats | None:
        return self.scorer_.predict(entity, z)

    def _usual(self, entity: str) -> float | None:
        return self.scorer_.usual.get(entity)

    @property
    def _audits(self) -> bool:
        return self.settings.mode == "audit"

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.scorer_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scorer_ = FusedScorer.restore(state, self.settings, self.settings.length)
