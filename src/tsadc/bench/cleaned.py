"""Does what TSAD-C makes of its training data help other detectors? A task whose training part it has cleaned.

TSAD-C is fitted on the unlabelled training part. Complementary masks then hide every cell once, and the Decontaminator
tells it from the rest of its observation. Its residual is how far it is from that, in z units of its entity, over the
median of its variable, so that a variable that nothing tells does not count as anomalous throughout. The share of cells
with the largest residuals is replaced by what was told; all others stay as they were measured.

That share is TSAD-C's estimate of the contamination, which is of observations: an anomalous observation seldom is so in
every cell, so rather too much is replaced than too little, and what is replaced wrongly moves by no more than its
residual. No label enters. A threshold that a detector derives from cleaned data will be lower than on data as they
come, so the order of scores (AUROC, AP) is what to compare.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tsadc.bench.records import save_arrays
from tsadc.config import update
from tsadc.data.task import Data
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.io.memory import as_series
from tsadc.series import Booleans, Floats, Observations
from tsadc.windows import cut

MASKS = 5


@dataclass(frozen=True)
class Cleaned:
    """The data as they were given but for `count` cells, which are `share` of those measured."""

    data: Data
    share: float
    count: int


def cleaned(train: Data, config: TSADC.Config, seed: int) -> Cleaned:
    """Entities, names, clocks and lengths stay, and so do cells that were not measured."""
    masks = {} if config.inference.masks else {"inference": {"masks": MASKS}}
    detector = TSADC(config=update(config, {"seed": seed, **masks})).fit(train)
    return replaced(train, detector, detector.contamination_.share)


def keep(file: Path, made: Cleaned) -> Cleaned:
    """Write it down."""
    values = [made.data] if isinstance(made.data, np.ndarray) else [one.values for one in made.data]
    named = {f"values-{i}": np.asarray(one) for i, one in enumerate(values)}
    save_arrays(file, {**named, "share": np.array(made.share), "count": np.array(made.count)})
    return made


def kept(file: Path, train: Data) -> Cleaned | None:
    """What `keep` wrote down of this training part; None where there is nothing, or nothing whole."""
    if not file.exists():
        return None
    try:
        # Opened here: numpy leaves the file open where what it holds is damaged.
        with open(file, "rb") as opened, np.load(opened, allow_pickle=False) as found:
            values = [found[f"values-{i}"] for i in range(len(found.files) - 2)]
            return Cleaned(as_given(train, values), float(found["share"]), int(found["count"]))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile):
        return None


def replaced(data: Data, detector: TSADC, share: float) -> Cleaned:
    """The `share` of measured cells that a fitted TSAD-C finds hardest to tell, replaced by what it tells."""
    series = as_series(data, detector.settings.length)
    observations = cut(series, detector.settings.length, detector.settings.coverage).observations
    told = [found.decontaminated for found in detector.module_outputs(data)]
    residuals = _residuals(observations, told, detector)
    chosen = most_extreme(residuals, share)
    values = [np.array(one.values, dtype=np.result_type(one.values.dtype, np.float32)) for one in series]
    for i, place in enumerate(observations.places):
        first = max(place.start, 0)
        rows = values[place.series][first : place.start + observations.length]
        inside = slice(first - place.start, first - place.start + len(rows))
        rows[chosen[i, :, inside].T] = told[i][:, inside].T[chosen[i, :, inside].T]
    return Cleaned(as_given(data, values), share, int(chosen.sum()))


def _residuals(observations: Observations, told: Sequence[Floats], detector: TSADC) -> Floats:
    """(observation, variable, time), NaN where nothing was measured."""
    scale, out = detector.scaler_, []
    for i, expected in enumerate(told):
        entity = observations.entity(i)
        out.append(np.abs(scale(entity, observations.read(i).T) - scale(entity, expected.T)).T)
    return np.stack(out)


def most_extreme(residuals: Floats, share: float) -> Booleans:
    """The `share` of the known cells with the largest residuals, each over the median of its variable."""
    known = np.isfinite(residuals)
    count = round(share * known.sum())
    usual = np.nanmedian(np.where(known, residuals, np.nan), axis=(0, 2), keepdims=True)
    # A variable that is always told exactly has no usual residual; any other is then extreme.
    ratio = np.where(known, residuals, -1.0) / np.maximum(usual, np.finfo(np.float32).tiny)
    chosen = np.zeros(residuals.size, dtype=bool)
    if count:
        chosen[np.argpartition(ratio.ravel(), -count)[-count:]] = True
    return chosen.reshape(residuals.shape)


def as_given(data: Data, values: Sequence[Floats]) -> Data:
    if isinstance(data, np.ndarray):
        return values[0].reshape(data.shape)  # observations are read as one series, end to end
    return tuple(replace(one, values=new) for one, new in zip(data, values, strict=True))
