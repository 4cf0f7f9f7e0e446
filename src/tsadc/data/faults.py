"""Sensor faults of the simulated plant. A fault maps the clean signal of one variable to what the sensor shows in rows
[start, stop); it changes no other row and no other variable. `schedule` decides when faults happen, `inject` applies
them to the sensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.series import Floats


@dataclass(frozen=True, slots=True)
class Signal:
    """The clean signal of one variable of one entity: `values` (time,), their robust standard deviation, and the number
    of rows of the moving mean that separates trend and fluctuation."""

    values: Floats
    spread: float
    length: int

    @classmethod
    def of(cls, values: Floats, length: int) -> Signal:
        low, high = np.quantile(values, [0.25, 0.75])
        return cls(values, float(high - low) / 1.349, length)

    def trend(self, start: int, stop: int) -> Floats:
        """Return the centred moving mean over `length` rows (fewer at the ends of the signal) at rows [start, stop)."""
        rows, half = np.arange(start, stop), self.length // 2
        low, high = np.maximum(rows - half, 0), np.minimum(rows + half + 1, len(self.values))
        sums = np.concatenate([[0.0], np.cumsum(self.values[low[0] : high[-1]])])
        means: Floats = (sums[high - low[0]] - sums[low - low[0]]) / (high - low)
        return means

    def fluctuation(self, start: int, stop: int) -> Floats:
        """Return the signal minus its trend at rows [start, stop)."""
        fast: Floats = self.values[start:stop] - self.trend(start, stop)
        return fast


Fault = Callable[[Signal, int, int, np.random.Generator], Floats]


def spike(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Add a burst of outliers to one side."""
    heights = generator.uniform(5.0, 9.0) * generator.uniform(0.6, 1.0, stop - start)
    burst: Floats = signal.values[start:stop] + generator.choice([-1.0, 1.0]) * heights * signal.spread
    return burst


def level_shift(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Add a constant offset, as if the sensor lost its calibration."""
    offset = generator.choice([-1.0, 1.0]) * generator.uniform(2.5, 5.0) * signal.spread
    shifted: Floats = signal.values[start:stop] + offset
    return shifted


def stuck(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Repeat the last reading."""
    return np.full(stop - start, signal.values[max(start - 1, 0)])


def decoupled(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Reorder the values as at another time: the distribution stays, the dependence on other variables is lost."""
    true = signal.values[start:stop]
    begins = generator.integers(0, len(signal.values) - len(true) + 1, 32)
    others = signal.values[begins[:, None] + np.arange(len(true))]
    alike = (others - others.mean(1, keepdims=True)) @ (true - true.mean()) / (others.std(1) + 1e-12)
    ranks = np.argsort(np.argsort(others[np.argmin(np.abs(alike))]))
    return _join(true, np.sort(true)[ranks])


def waveform(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Make the fluctuation faster, slower or flat-topped, at the same standard deviation."""
    true = signal.fluctuation(start, stop)
    form = generator.choice(["faster", "slower", "flat"])
    if form == "flat":
        changed: Floats = np.sign(true) * np.abs(true) ** 0.3
    else:
        speed = generator.uniform(1.5, 2.2) ** (1 if form == "faster" else -1)
        changed = _replay(signal, start, stop, speed)
    changed = (changed - changed.mean()) * true.std() / (changed.std() + 1e-12)
    return _join(signal.values[start:stop], signal.trend(start, stop) + changed)


def quiet(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """Keep the trend and nearly remove fluctuation and noise."""
    calm: Floats = signal.trend(start, stop) + generator.uniform(0.1, 0.25) * signal.fluctuation(start, stop)
    return calm


def _replay(signal: Signal, start: int, stop: int, speed: float) -> Floats:
    """Replay the fluctuation from about `start` on at another speed, over the same number of rows."""
    source = min(max(round((stop - start) * speed), 2), len(signal.values))
    first = min(start, len(signal.values) - source)
    piece = signal.fluctuation(first, first + source)
    return np.interp(np.linspace(0, source - 1, stop - start), np.arange(source), piece)


def _join(true: Floats, false: Floats) -> Floats:
    """Fade from the true signal into the false one and back, so that no jump at the edges reveals the fault."""
    fade = 1 + min(4, len(true) // 4)
    from_edge = np.minimum(np.arange(1, len(true) + 1), np.arange(len(true), 0, -1))
    weight = np.minimum(from_edge / fade, 1.0)
    joined: Floats = true + weight * (false - true)
    return joined


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault: `brief` ones last up to 5 rows, `oscillating` ones need a sensor with a waveform."""

    fault: Fault
    brief: bool = False
    oscillating: bool = False


KINDS: dict[str, Kind] = {
    "spike": Kind(spike, brief=True),
    "level shift": Kind(level_shift),
    "stuck": Kind(stuck),
    "decoupled": Kind(decoupled),
    "waveform": Kind(waveform, oscillating=True),
    "quiet": Kind(quiet),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Rows [start, stop) of a fault of `kind`."""

    start: int
    stop: int
    kind: str


def schedule(
    windows: int, length: int, touched: int, kinds: Sequence[str], generator: np.random.Generator
) -> tuple[Span, ...]:
    """Draw spans that touch exactly `touched` of `windows` windows of `length` rows, each once; kinds take turns."""
    turns = _in_turn(kinds, generator)
    blocks: list[tuple[str, int, bool] | None] = []
    remaining = touched
    while remaining:
        kind = next(turns)
        low, high = (1, min(5, length)) if KINDS[kind].brief else (max(2, length // 6), length)
        duration = int(generator.integers(low, high + 1))
        # The probability that a span at a random time crosses a border.
        crosses = remaining > 1 and generator.random() < (duration - 1) / length
        blocks.append((kind, duration, crosses))
        remaining -= 1 + crosses
    blocks += [None] * (windows - touched)
    spans, window = [], 0
    for i in generator.permutation(len(blocks)):
        block = blocks[i]
        if block is None:
            window += 1
            continue
        kind, duration, crosses = block
        if crosses:
            start = (window + 1) * length - int(generator.integers(1, duration))
        else:
            start = window * length + int(generator.integers(0, length - duration + 1))
        spans.append(Span(start, start + duration, kind))
        window += 1 + crosses
    return tuple(spans)


def inject(
    clean: Floats,
    spans: Sequence[Span],
    oscillating: Sequence[int],
    others: Sequence[int],
    length: int,
    generator: np.random.Generator,
) -> tuple[Floats, list[tuple[int, ...]]]:
    """Return a copy of `clean` (time, variable) with a fault in every span, and the one to four columns of each.

    Kinds that need a waveform hit the columns `oscillating`, the other kinds `others`."""
    signals: dict[int, Signal] = {}
    faulty, hit = clean.copy(), []
    for span in spans:
        kind = KINDS[span.kind]
        able = oscillating if kind.oscillating else others
        count = min(int(generator.integers(1, 5)), len(able))
        columns = sorted(int(i) for i in generator.choice(able, count, replace=False))
        for i in columns:
            if i not in signals:
                signals[i] = Signal.of(clean[:, i], length)
            faulty[span.start : span.stop, i] = kind.fault(signals[i], span.start, span.stop, generator)
        hit.append(tuple(columns))
    return faulty, hit


def _in_turn(kinds: Sequence[str], generator: np.random.Generator) -> Iterator[str]:
    while True:
        yield from (kinds[i] for i in generator.permutation(len(kinds)))
