"""TSAD-C: the three modules as one detector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Self

from tsadc.config import require
from tsadc.detectors.residual import NetworkOutput, ResidualDetector
from tsadc.detectors.result import Evidence
from tsadc.detectors.tsadc.decontaminator import Decontaminator
from tsadc.detectors.tsadc.dependencies import Dependencies
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference, ModuleOutputs, own_evidence
from tsadc.detectors.tsadc.network import Network
from tsadc.nn.masks import masked_length
from tsadc.nn.runtime.threads import parallel_map
from tsadc.nn.train import Training
from tsadc.series import Floats


class TSADC(ResidualDetector["TSADC.Config"]):
    """Detect anomalies in multivariate series whose unlabelled training data already contains some (TSAD-C).

    The Decontaminator hides cells of each training observation and imputes them by diffusion, so that anomalies tend to
    disappear. A second network learns the dependencies within and between variables from the result. What it cannot
    reconstruct, together with the views of the ensemble, becomes one score per observation and per row.

    Parameters
    ----------
    config : TSADC.Config, optional
        All settings; the arguments above override it. See `help(tsadc.TSADC.Config)`. `TSADC.Config.paper()` gives the
        settings of the paper, `TSADC.Config.tiny()` a network that trains in seconds.

    Attributes
    ----------
    network_ : torch.nn.Module
        The trained network: `network_.decontaminator` and `network_.dependencies`.

    See Also
    --------
    tsadc.Ensemble : the same views without a network.

    References
    ----------
    T. K. K. Ho, N. Armanfard: Contaminated Multivariate Time-Series Anomaly Detection with Spatio-Temporal Graph
    Conditional Diffusion Models (TSAD-C).
    `docs/fidelity.md` lists what the paper leaves open and where the defaults differ from it.

    Examples
    --------
    >>> import numpy as np
    >>> from tsadc import TSADC
    >>> rng = np.random.default_rng(0)
    >>> phase = np.arange(2500)[:, None] / 5 + np.arange(3)
    >>> series = np.sin(phase) + 0.1 * rng.normal(size=phase.shape)
    >>> history, new = series[:2000], series[2000:]
    >>> new[210:230, 1] = 0  # rows 210 to 229 of the second variable are anomalous
    >>> detector = TSADC(length=50, config=TSADC.Config.tiny()).fit(history)
    >>> worst = detector.detect(new).worst(1).iloc[0]
    >>> bool(worst["start"] <= 210 and worst["end"] >= 230), next(iter(worst["variables"]))
    (True, 'variable_1')
    """

    name: ClassVar[str] = "tsadc"
    inference_settings: ClassVar[tuple[str, ...]] = ("inference",)

    @dataclass(frozen=True)
    class Config(ResidualDetector.Config):
        """All settings of TSAD-C. Nested sections are `Config` classes, or mappings that become one.

        `help(tsadc.TSADC.Config().decontaminator)` explains the settings of that section, and so on for every section.
        A mapping keeps the defaults of the settings that it does not name: `training={"epochs": 3}`.

        Parameters
        ----------
        contamination : float or "auto", default "auto"
            Share of anomalous training data, between 0 and 0.5, both excluded; "auto" estimates it from the scores. If
            it is a number, the threshold method "auto" is "quantile". It also sets the length of the training masks if
            `hidden` is None.
        scoring : {"fused", "own"}, default "fused"
            "fused": the ensemble scores the values and the residuals of the network together. "own": the paper's
            score, a weighted sum of two RMSEs.
        hidden : float or None, default 0.2
            Share of the time steps that a training mask hides, between 0 and 1, both excluded. None hides the share
            `contamination`, as the paper does; 0.1 if that is "auto".
        decontaminate : bool, default True
            Train module 2 on decontaminated observations; if False, on the observations as measured.
        squash : bool, default True
            Feed the networks asinh(z), so that an extreme value is large but not huge. Not in the paper.
        joint : bool, default False
            Let the reconstruction loss train the Decontaminator too, as in the paper.
        decontaminator : Decontaminator.Config
            Module 1: size of the network (`channels`, `blocks`, `state`, `kernel`, `dropout`), training masks
            (`masking`), cells and steps of its loss (`start`, `loss`, `at`), noise process (`diffusion`).
        dependencies : Dependencies.Config
            Module 2: size of the network (`features`, `layers`, `state`, `kernel`, `dropout`, `gin_layers`), its graphs
            (`graphs`, `neighbours`, `zeta`, `symmetric`, `weights`), what it reconstructs from (`own`, `identity`).
        inference : Inference.Config
            Scoring with the trained network: `residuals` to use, number of `masks` and diffusion `steps` of an
            imputation, `weights` of the paper's score. Changing them needs no retraining.
        """

        presets: ClassVar[tuple[str, ...]] = ("paper", "tiny")
        renamed_settings: ClassVar[Mapping[str, str]] = {
            **ResidualDetector.Config.renamed_settings,
            "scoring": "as a section is now called `inference`",
        }

        hidden: float | None = 0.2
        decontaminate: bool = True
        squash: bool = True
        joint: bool = False
        decontaminator: Decontaminator.Config = field(default_factory=Decontaminator.Config)
        dependencies: Dependencies.Config = field(default_factory=Dependencies.Config)
        inference: Inference.Config = field(default_factory=Inference.Config)
        training: Training = field(
            default_factory=lambda: Training(
                epochs=12, batch=16, learning_rate=3e-3, warmup_epochs=1, patience=8, ema=0.99, weight_decay=1e-2
            )
        )

        def __post_init__(self) -> None:
            super().__post_init__()
            require(self.hidden is None or 0 < self.hidden < 1, "hidden", "between 0 and 1, or none", self.hidden)
            chain, most = self.inference.steps, self.decontaminator.diffusion.steps
            require(chain <= most, "inference.steps", f"at most the {most} of decontaminator.diffusion.steps", chain)

        @classmethod
        def paper(cls) -> Self:
            """Return the paper's settings at the published widths; `docs/fidelity.md` says what it leaves open."""
            return cls.with_settings(
                contamination=0.1,
                hidden=None,
                squash=False,
                joint=True,
                scaler={"method": "standard", "scope": "pooled"},
                decontaminator={
                    "channels": 256,
                    "blocks": 8,
                    "state": 64,
                    "kernel": "dplr",
                    "dropout": 0.1,
                    "masking": "RandBM",
                    "start": "signal",
                    "loss": "masked",
                    "at": "uniform",
                    "diffusion": {"steps": 50, "beta_start": 1e-4, "beta_end": 0.02, "target": "noise"},
                },
                dependencies={
                    "features": 128,
                    "layers": 4,
                    "state": 64,
                    "kernel": "dplr",
                    "dropout": 0.1,
                    "graphs": 6,
                    "neighbours": 3,
                    "zeta": 0.6,
                    "gin_layers": 2,
                    "symmetric": False,
                    "own": True,
                    "identity": False,
                    "weights": {"smooth": 1.0, "sparse": 0.05, "connect": 0.5},
                },
                scoring="own",
                selected=1.0,
                inference={"masks": 0, "steps": 0, "weights": (0.01, 1.2)},
                training=asdict(Training(micro_batch=1)),
            )

        @classmethod
        def tiny(cls) -> Self:
            """Return settings for a network that trains in seconds: for trying things out, not for results."""
            return cls.with_settings(
                decontaminator={"channels": 16, "blocks": 1, "state": 8},
                dependencies={"features": 16, "layers": 1, "state": 8, "graphs": 2},
                training={"epochs": 5},
            )

    def _residual_names(self) -> tuple[str, ...]:
        return RESIDUALS if self.settings.scoring == "own" else self.settings.inference.residuals

    def _network(self, variables: int) -> Network:
        settings = self.settings
        hidden = settings.assumed_contamination if settings.hidden is None else settings.hidden
        return Network(
            settings.decontaminator,
            settings.dependencies,
            variables=variables,
            masked_length=masked_length(hidden, settings.length),
            squash=settings.squash,
            joint=settings.joint,
            decontaminate=settings.decontaminate,
        )

    def module_outputs(self, X: Any) -> Iterator[ModuleOutputs]:
        """Yield what both modules make of each observation, in the units of `X`.

        `hidden` marks the cells hidden by the masks of `inference.masks`; `inference.residuals` is ignored.

        Parameters
        ----------
        X
            Data as for `detect`.

        Yields
        ------
        ModuleOutputs
            One for each observation, in the order of `decision_function`.
        """
        observations = self._cut(X).observations
        scaled, undo = observations.scaled(self.scaler_), self.scaler_.undo
        inference = self._inference(RESIDUALS)
        outputs = parallel_map(inference.module_outputs, map(scaled.read, range(len(scaled))))
        for i, output in enumerate(outputs):
            entity = observations.entity(i)
            decontaminated, reconstruction = (
                undo(entity, values.T).T for values in (output.decontaminated, output.reconstruction)
            )
            yield ModuleOutputs(output.hidden, decontaminated, reconstruction)

    def _make_inference(self) -> Callable[[Floats], NetworkOutput]:
        return self._inference(self._residual_names())

    def _inference(self, residuals: tuple[str, ...]) -> Inference:
        settings = self.settings
        return Inference(
            self.network_,
            settings.inference,
            residuals,
            variables=len(self.variables_),
            length=settings.length,
            seed=settings.seed,
        )

    def _own_evidence(self, z: Floats, found: NetworkOutput) -> Evidence:
        return own_evidence(self.settings.inference.weights, z, found)
