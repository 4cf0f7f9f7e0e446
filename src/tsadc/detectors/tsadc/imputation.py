"""Impute hidden cells by the network of TSAD-C: draws of the diffusion, their mean and their spread.

`tsadc.detectors.imputation` is cheaper and, as docs/tables/imputation.md shows, closer to what was measured; it is what
`Decontaminator` uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tsadc.detectors.imputation import Imputed
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.nn.randomness import derive_seed
from tsadc.series import Booleans, Floats
from tsadc.windows import stitch


def impute(detector: TSADC, X: Any, hidden: tuple[Booleans, ...], *, samples: int = 20) -> tuple[Imputed, ...]:
    """Impute cells of data by a fitted network, observation by observation.

    Parameters
    ----------
    detector : TSADC
        A fitted detector; `inference.steps` of its settings is the number of diffusion steps of a draw.
    X : like the history of `fit`
        The data.
    hidden : tuple of arrays of shape (time, variable), bool
        For each series, the cells to impute without looking at them.
    samples : int, default 20
        Draws per observation. With one diffusion step, the default, they differ little: the network is trained to
        return the mean.

    Returns
    -------
    tuple of Imputed
        For each series, mean and standard deviation of the draws, in its units; NaN where no observation lies.
    """
    observations = detector._cut(X).observations
    pieces: list[list[Floats]] = [[], []]
    drawn = [np.full((samples, int(cells.sum())), np.nan) for cells in hidden]
    numbers = [np.where(cells, np.cumsum(cells).reshape(cells.shape) - 1, -1) for cells in hidden]
    for i, place in enumerate(observations.places):
        cells = np.zeros((len(observations.names), observations.length), dtype=bool)
        inside = slice(max(place.start, 0), max(place.start + observations.length, 0))
        own = hidden[place.series][inside].T
        first = inside.start - place.start
        cells[:, first : first + own.shape[1]] = own
        entity = observations.entity(i)
        z = np.where(cells, np.nan, observations.scaled(detector.scaler_).read(i))
        draws = _draws(detector, z, samples) if cells.any() else np.zeros((1, *z.shape))
        raw = np.stack([detector.scaler_.undo(entity, draw.T).T for draw in draws.astype(np.float64)])
        if own.any():
            within = raw[:, :, first : first + own.shape[1]]
            drawn[place.series][:, numbers[place.series][inside].T[own]] = within[:, own]
        for part, value in zip(pieces, (raw.mean(axis=0), raw.std(axis=0)), strict=True):
            part.append(np.where(cells, value, np.nan))
    lead = (len(observations.names),)
    imputed = []
    for number, draws in enumerate(drawn):
        mean, deviation = (stitch(observations, part, number, lead=lead).T for part in pieces)
        imputed.append(Imputed(mean, deviation, draws))
    return tuple(imputed)


@torch.no_grad()
def _draws(detector: TSADC, z: Floats, samples: int) -> Floats:
    """Return draws (sample, variable, time) in z units."""
    network, settings = detector.network_, detector.settings
    values = torch.from_numpy(np.asarray(z, dtype=np.float32))
    observed = torch.isfinite(values)
    x = network.to_input(torch.where(observed, values, 0.0))
    shape = (samples, *x.shape)
    generator = torch.Generator().manual_seed(derive_seed(settings.seed, 3))
    noise = torch.randn(shape, generator=generator)
    repeated, shown = x.expand(shape), observed.expand(shape)
    model, steps = network.decontaminator, settings.inference.steps
    if steps == 1:
        estimates = model.estimate(repeated, shown, noise)
    else:
        estimates = model.sample(repeated, shown, noise, generator, steps or None)
    drawn: Floats = network.to_z(estimates).numpy()
    return drawn
