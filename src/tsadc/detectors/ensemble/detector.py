"""The ensemble as a detector of its own: many cheap views of an observation, fused, without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from tsadc.detectors.base import Detector, FitOptions, PartScores
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.ensemble.views import view_names_with
from tsadc.detectors.result import Evidence
from tsadc.detectors.settings import Common
from tsadc.series import Observations


class Ensemble(Detector["Ensemble.Config"]):
    """Detect anomalies by seven cheap views of each observation, fused into one score without labels.

    The views detect extreme values (`deviation`), values that do not fit those of other variables (`combination`),
    broken correlations (`correlation`), unusual shapes (`shape`), and short windows that vary more or less than usual
    (`energy`), that the other variables explain worse or better than usual (`conditional`), or that are rougher or
    smoother than usual (`roughness`). Views that set some training observations apart get more weight. There is no
    network to train, and the same seed gives the same scores to the bit.

    Parameters
    ----------
    seed : int, optional
        Seed of all randomness: random convolutions, and which observations are held out. Default 0.
    config : Ensemble.Config, optional
        All settings; the arguments above override it. See `help(tsadc.Ensemble.Config)`.

    Attributes
    ----------
    scorer_ : FusedScorer
        The fitted views (`scorer_.views`) and their weights (`scorer_.fusion.weight`, in the order of `view_names`).

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

        `help(tsadc.Ensemble.Config().threshold)` and `help(tsadc.Ensemble.Config().scaler)` explain those of the nested
        sections. A mapping can be given for a section: `threshold={"method": "tail", "share": 0.01}`.

        Parameters
        ----------
        validation : float, default 0.2
            Share of the training observations held out for validation, above 0 and at most 0.5. The views are fitted to
            all, as an observation is never its own neighbour; the threshold method "quantile" uses the held-out ones.
        """

        renamed_settings: ClassVar[Mapping[str, str]] = {
            "views": "is no longer a section; write its settings without it, like `kernels`",
        }

        def __post_init__(self) -> None:
            Common.__post_init__(self)
            FusedScorer.Config.__post_init__(self)

    def _fit(self, train: Observations, validation: Observations, options: FitOptions) -> PartScores | None:
        self.scorer_ = FusedScorer.fit((train, validation), self.settings, self.settings.seed)
        return self.scorer_.training_scores

    def _adapt(self, history: Observations) -> None:
        self.scorer_.adapt(history)

    def _score(self, observations: Observations) -> Iterator[Evidence]:
        for i in range(len(observations)):
            yield self.scorer_.evidence(observations.entity(i), observations.read(i))

    def _state(self) -> dict[str, NDArray[Any]]:
        return self.scorer_.state()

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        self.scorer_ = FusedScorer.restore(state, self.settings, len(self.variables_), self.settings.length)
