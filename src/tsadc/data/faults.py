"""The ways a sensor goes wrong, and when. A fault reads the clean signal of one variable and says what the sensor shows
in rows [start, stop) instead; it touches no other row and no other variable. `schedule` decides when faults happen,
`inject` puts them on the sensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tsadc.series import Floats


@dataclass(frozen=True, slots=True)
class Signal:
    """One variable of one entity, clean: `values` (time,), its robust standard deviation, and the rows that count as
    slow, so that what is faster is fluctuation."""

    values: Floats
    spread: float
    length: int

    @classmethod
    def of(cls, values: Floats, length: int) -> Signal:
        low, high = np.quantile(values, [0.25, 0.75])
        return cls(values, float(high - low) / 1.349, length)

    def trend(self, start: int, stop: int) -> Floats:
        """The centred moving mean over `length` rows (fewer at the ends of the signal), at rows [start, stop)."""
        rows, half = np.arange(start, stop), self.length // 2
        low, high = np.maximum(rows - half, 0), np.minimum(rows + half + 1, len(self.values))
        sums = np.concatenate([[0.0], np.cumsum(self.values[low[0] : high[-1]])])
        means: Floats = (sums[high - low[0]] - sums[low - low[0]]) / (high - low)
        return means

    def fluctuation(self, start: int, stop: int) -> Floats:
        fast: Floats = self.values[start:stop] - self.trend(start, stop)
        return fast


Fault = Callable[[Signal, int, int, np.random.Generator], Floats]


def spike(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """A burst of outliers to one side."""
    heights = generator.uniform(5.0, 9.0) * generator.uniform(0.6, 1.0, stop - start)
    burst: Floats = signal.values[start:stop] + generator.choice([-1.0, 1.0]) * heights * signal.spread
    return burst


def level_shift(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """A constant offset: the sensor lost its calibration."""
    offset = generator.choice([-1.0, 1.0]) * generator.uniform(2.5, 5.0) * signal.spread
    shifted: Floats = signal.values[start:stop] + offset
    return shifted


def stuck(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """The last reading, again and again."""
    return np.full(stop - start, signal.values[max(start - 1, 0)])


def decoupled(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """The values of these rows in the order of another time: the distribution stays, the ties to other variables go."""
    true = signal.values[start:stop]
    begins = generator.integers(0, len(signal.values) - len(true) + 1, 32)
    others = signal.values[begins[:, None] + np.arange(len(true))]
    alike = (others - others.mean(1, keepdims=True)) @ (true - true.mean()) / (others.std(1) + 1e-12)
    ranks = np.argsort(np.argsort(others[np.argmin(np.abs(alike))]))
    return _join(true, np.sort(true)[ranks])


def waveform(signal: Signal, start: int, stop: int, generator: np.random.Generator) -> Floats:
    """The fluctuation faster, slower or with flattened tops, at the standard deviation it has anyway."""
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
    """The slow course stays; fluctuation and noise nearly vanish."""
    calm: Floats = signal.trend(start, stop) + generator.uniform(0.1, 0.25) * signal.fluctuation(start, stop)
    return calm


def _replay(signal: Signal, start: int, stop: int, speed: float) -> Floats:
    """The fluctuation from about `start` on, run at another speed over as many rows."""
    source = min(max(round((stop - start) * speed), 2), len(signal.values))
    first = min(start, len(signal.values) - source)
    piece = signal.fluctuation(first, first + source)
    return np.interp(np.linspace(0, source - 1, stop - start), np.arange(source), piece)


def _join(true: Floats, false: Floats) -> Floats:
    """Fade from the true course into the false one and back, so that no jump at the edges gives the fault away."""
    fade = 1 + min(4, len(true) // 4)
    from_edge = np.minimum(np.arange(1, len(true) + 1), np.arange(len(true), 0, -1))
    weight = np.minimum(from_edge / fade, 1.0)
    joined: Floats = true + weight * (false - true)
    return joined


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault and where it strikes: `brief` lasts up to 5 rows, `oscillating` needs a sensor that has a waveform."""

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
    """Rows [start, stop) in which a fault of `kind` shall happen."""

    start: int
    stop: int
    kind: str


def schedule(
    windows: int, length: int, touched: int, kinds: Sequence[str], generator: np.random.Generator
) -> tuple[Span, ...]:
    """Spans that touch exactly `touched` of `windows` windows of `length` rows, none of them twice, kinds in turn."""
    turns = _in_turn(kinds, generator)
    blocks: list[tuple[str, int, bool] | None] = []
    remaining = touched
    while remaining:
        kind = next(turns)
        low, high = (1, min(5, length)) if KINDS[kind].brief else (max(2, length // 6), length)
        duration = int(generator.integers(low, high + 1))
        # A span thrown anywhere on the clock crosses a border this often.
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
    clean: Floats, spans: Sequence[Span], oscillating: Sequence[int], length: int, generator: np.random.Generator
) -> tuple[Floats, list[tuple[int, ...]]]:
    """A copy of `clean` (time, variable) with a fault in every span, and the one to four columns each has hit."""
    signals: dict[int, Signal] = {}
    faulty, hit = clean.copy(), []
    for span in spans:
        kind = KINDS[span.kind]
        able = oscillating if kind.oscillating else range(clean.shape[1])
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
