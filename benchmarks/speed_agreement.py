"""Does a single diffusion step rank observations as all 50 do? Compare scores s1 of a trained network by one step and
by all 50 ancestral steps; another seed of all 50 shows how much the ranking varies anyway.

At the published widths an observation takes seconds by all steps and training takes hours; the record names the widths
that were used instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr
from workload import residuals

from tsadc.config import update
from tsadc.data.plant import Plant
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS, Inference
from tsadc.series import Floats, Observations
from tsadc.windows import cut

UNITS, OBSERVATIONS, DRAWS = 3, 80, 2000
WIDTHS = {
    "decontaminator": {"channels": 64, "blocks": 2, "state": 64},
    "dependencies": {"features": 16, "layers": 1, "state": 16},
}
TRAINING = {"epochs": 4, "batch": 8, "micro_batch": 8, "learning_rate": 3e-3}


def section() -> dict[str, Any]:
    """Compare as published, with a single mask drawn from the seed, and with complementary masks that are the same
    everywhere, so that only steps and noise differ: the harder comparison."""
    masks = TSADC.Config().inference.masks
    detector, observations = trained(Plant.Config(seed=100))

    def s1(seed: int, masks: int, steps: int, masks_of: int | None = None) -> Floats:
        return scores(detector, observations, {"masks": masks, "steps": steps}, seed, masks_of)

    return {
        "widths": widths(len(observations.names), observations.length),
        "observations": len(observations),
        "a mask each": compared(s1(1, 0, 0), s1(2, 0, 0), s1(3, masks, 1)),
        "the same masks": compared(*(s1(seed, masks, steps, masks_of=0) for seed, steps in ((1, 0), (2, 0), (3, 1)))),
    }


def widths(variables: int, length: int) -> str:
    of = WIDTHS["decontaminator"]
    network = f"{of['channels']} channels, {of['blocks']} blocks, N = {of['state']}"
    return f"{network}; simulated plant, K = {variables}, L = {length}, {TRAINING['epochs']} epochs"


def trained(plant: Plant.Config) -> tuple[TSADC, Observations]:
    """Return a detector trained on a few units, and scaled observations of their test part, evenly spaced. The
    detector's own scores are not used, so `fit` computes them by a single step, in seconds instead of minutes."""
    split = Plant(plant).split()
    cheap = {"inference": {"masks": 2, "steps": 1}}
    config = update(TSADC.Config.paper(), {"length": plant.length, "training": TRAINING, **WIDTHS, **cheap})
    detector = TSADC(config=config).fit(split.train[:UNITS])
    observations = cut(split.test.series[:UNITS], plant.length).observations.scaled(detector.scaler_)
    chosen = np.linspace(0, len(observations) - 1, OBSERVATIONS).astype(int)
    return detector, observations.take(chosen)


def scores(
    detector: TSADC, observations: Observations, settings: dict[str, int], seed: int, masks_of: int | None = None
) -> Floats:
    """Return s1 of each observation, with masks and noise of `seed`, or with the masks of the seed `masks_of`."""
    inference = Inference(
        detector.network_,
        update(detector.settings.inference, settings),
        RESIDUALS,
        variables=len(observations.names),
        length=observations.length,
        seed=seed if masks_of is None else masks_of,
    )
    if masks_of is not None:
        inference.generator_seed = seed
        inference.noise = torch.randn(inference.noise.shape, generator=torch.Generator().manual_seed(seed))
    found = (residuals(inference, observations.read(i))[0] for i in range(len(observations)))
    return np.array([np.sqrt(np.nanmean(cells**2)) for cells in found])


def compared(exact: Floats, again: Floats, few: Floats) -> dict[str, Any]:
    """Return rank correlations with `exact`, how much higher that of `few` is, and its 95 % bootstrap interval."""
    rng = np.random.default_rng(0)
    drawn = [difference(exact[i], again[i], few[i]) for i in rng.integers(len(exact), size=(DRAWS, len(exact)))]
    return {
        "another seed": correlation(exact, again),
        "few steps": correlation(exact, few),
        "difference": difference(exact, again, few),
        "interval": [float(bound) for bound in np.nanquantile(drawn, [0.025, 0.975])],
    }


def difference(exact: Floats, again: Floats, few: Floats) -> float:
    return correlation(exact, few) - correlation(exact, again)


def correlation(a: Floats, b: Floats) -> float:
    return float(spearmanr(a, b).statistic)
