"""What the kinds of simulated plants share: the interface of a design, and the parts its signals are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # `scipy.signal`, slow to import, is imported when it is used
from numpy.typing import NDArray

from tsadc.data.faults import Span
from tsadc.series import Floats

_HARMONIC = (0.35, 1.0)  # size and phase of the second harmonic, which shapes the waveform
Bias = Mapping[int, Floats]  # errors (time,) of sensors in their units, by column


@dataclass(frozen=True, slots=True)
class Edge:
    """`effect` follows `cause`, `lag` rows later. For an oscillating effect, the gain acts on its amplitude."""

    cause: str
    effect: str
    gain: float
    lag: int = 0


class Design(ABC):
    """The design of a kind of plant: its variables, its causal graph and its clean signals.

    Attributes
    ----------
    default_variables
        Number of variables if the settings name none.
    names
        Names of the variables.
    edges
        Edges of the causal graph, including hidden causes.
    oscillating
        Columns with a waveform.
    faultable
        Columns that faults of the other kinds may hit.
    """

    default_variables: ClassVar[int]
    names: tuple[str, ...]
    edges: tuple[Edge, ...]
    oscillating: Sequence[int]
    faultable: Sequence[int]

    @abstractmethod
    def __init__(self, variables: int) -> None: ...

    @abstractmethod
    def simulate(self, days: Floats, generator: np.random.Generator, bias: Bias | None = None) -> Floats:
        """Simulate the signals (time, variable) of one unit in engineering units, without faults.

        `days` is the time of each row since 1970. `bias` is for designs with controllers, which act on what sensors
        show."""

    def settle(
        self,
        clean: Floats,
        faulty: Floats,
        spans: Sequence[Span],
        hit: Sequence[Sequence[int]],
        again: Callable[[Bias], Floats],
    ) -> Floats:
        """Return the signals with faults after the controllers have acted on them; unchanged without controllers.

        `hit` holds the columns of the fault in each span; `again` repeats the simulation with errors of sensors."""
        return faulty

    def shown_by(self, kind: str, columns: Sequence[int]) -> tuple[int, ...]:
        """Return the columns that show a fault of `kind` in the sensors `columns`."""
        return tuple(columns)


def first_order_lag(drive: Floats, inertia: float) -> Floats:
    """Apply a first-order lag with a time constant of `inertia` rows, in equilibrium at row 0."""
    if inertia == 0:
        return drive
    keep = np.exp(-1 / inertia)
    settled: Floats = scipy.signal.lfilter([1 - keep], [1, -keep], drive, zi=[keep * drive[0]])[0]
    return settled


def autoregressive(rows: int, size: float, memory: float, generator: np.random.Generator) -> Floats:
    """Draw a stationary AR(1) process of standard deviation `size` with a time constant of `memory` rows."""
    keep = np.exp(-1 / memory)
    shocks = size * np.sqrt(1 - keep**2) * generator.standard_normal(rows)
    wandering: Floats = scipy.signal.lfilter([1], [1, -keep], shocks, zi=[keep * size * generator.standard_normal()])[0]
    return wandering


def delayed(signal: Floats, lag: int) -> Floats:
    """Return the signal `lag` rows later; before it begins, its first value."""
    late: Floats = np.concatenate([np.full(lag, signal[0]), signal[: len(signal) - lag]])
    return late


def segments(rows: int, least: float, mean: float, generator: np.random.Generator) -> tuple[NDArray[np.intp], int]:
    """Divide the rows into segments of at least `least` rows, `least + mean` on average. Return the segment of each
    row, counted from 0, and how many segments there are at most."""
    dwell = least + generator.exponential(mean, int(rows // least) + 1)
    return np.searchsorted(np.cumsum(dwell), np.arange(rows), side="right"), len(dwell)


def rotation(rows: int, period: float, generator: np.random.Generator) -> Floats:
    """Return the phase of an oscillation, in turns: about `period` rows per turn, nearly steady."""
    speed = (1 + 0.03 * generator.standard_normal() + autoregressive(rows, 0.01, 200, generator)) / period
    turns: Floats = generator.random() + np.cumsum(speed)
    return turns


def wave(turns: Floats) -> Floats:
    size, phase = _HARMONIC
    form: Floats = np.sin(2 * np.pi * turns) + size * np.sin(4 * np.pi * turns + phase)
    return form


def on_line(name: str, line: int) -> str:
    """Add the line to a name: `pump.speed` of line 2 is `pump_2.speed`, the hidden cause `head` is `head_2`."""
    machine, *rest = name.split(".")
    return ".".join([f"{machine}_{line}", *rest])
