"""Turn what the user gives into series of the same variables and into observations, with the same checks everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.settings import Common
from tsadc.errors import DataError
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading, how_to_resample, spell
from tsadc.scale import Scaler
from tsadc.series import Clock, Observations, Series
from tsadc.variables import match
from tsadc.windows import cut

MIN_OBSERVATIONS = 5
MAX_NAMED = 3  # observations named in a notice


def matched(data: Any, settings: Common, names: tuple[str, ...] | None = None) -> tuple[Series, ...]:
    """Return the series of data, with the variables `names` or those of the first series."""
    series = as_series(data, settings.length, Reading(coverage=settings.coverage))
    return match(series, series[0].names if names is None else names)


def history_observations(series: Sequence[Series], settings: Common) -> Observations:
    """Return the observations of a history, which must be enough to learn from."""
    observations = cut(series, settings.length, settings.coverage).observations
    if len(observations) < MIN_OBSERVATIONS:
        rows = sum(map(len, series))
        raise DataError(
            f"Training needs at least {MIN_OBSERVATIONS} observations of {settings.length} rows with enough "
            f"values, but the history of {rows} rows in {len(series)} series gives {len(observations)}; use a "
            "smaller length or more data."
        )
    return observations


def validation_observations(
    data: Any, settings: Common, names: tuple[str, ...], clock: Clock, scaler: Scaler
) -> Observations:
    """Return the observations of validation data that the user gives. The scaler is adapted to its new entities."""
    series = matched(data, settings, names)
    check_intervals(series, clock)
    if settings.scaler.scope == "entity":
        scaler.adapt(entity for entity in series if entity.entity not in scaler.entities)
    observations = cut(series, settings.length, settings.coverage).observations
    if not len(observations):
        raise DataError(f"The validation data has no observation of {settings.length} rows; give more of it.")
    return observations


def hold_out(count: int, share: float, seed: int) -> NDArray[np.int64]:
    """Return the indices of the validation observations, drawn at random, so that drift affects both parts alike."""
    chosen = np.random.default_rng(seed).permutation(count)[: max(1, round(share * count))]
    return np.sort(chosen)


def clock_of(series: Sequence[Series]) -> Clock:
    """Return the clock of the first series whose sampling interval is known."""
    return next((entity.clock for entity in series if entity.clock.every), series[0].clock)


def check_intervals(series: Sequence[Series], expected: Clock) -> None:
    """Raise if a series has another sampling interval than `expected`."""
    for entity in series:
        if entity.clock.every and expected.every and entity.clock.every != expected.every:
            raise DataError(
                f"{entity.entity!r} is sampled every {spell(entity.clock.every)}, but {spell(expected.every)} was "
                f"expected; {_how_to_match(entity.clock.every, expected.every)}."
            )


def _how_to_match(interval: int, expected: int) -> str:
    """Return advice for a message; only recordings can be resampled to a finer time step."""
    if interval < expected:
        return how_to_resample(expected, recording=True)
    rate = f", or resample a recording with --rate {10**9 / expected:.6g}" if expected < 10**9 else ""
    return f"fit a model to data of this step{rate}"


def named(observations: Observations) -> str:
    """Name the first few observations by entity and start."""
    names = []
    for place in observations.places[:MAX_NAMED]:
        series = observations.series[place.series]
        start = series.clock.at([max(place.start, 0)])[0]
        names.append(f"{series.entity!r} from {start if series.clock.dated else f'row {start}'}")
    more = len(observations) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
