"""The views of the ensemble as parts of an ONNX graph.

Each function here adds what a group of views computes in `ViewGroup.measure` and `score`, and names the function that
it follows. Numbers of float32 stay float32 where that decides something: the random convolutions count how often an
output exceeds its bias, so they are added in the same order. `tests/export` compares every view with the original.

    name        meaning
    z           (variable, time) float32, 0 where not measured
    measured    (variable, time)
    known       (variable, time) float64, gaps interpolated (`features.interpolated`)
    silent      (variable, time) long gaps of a variable while others were measured (`features.silent`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tsadc.detectors.ensemble import features, linear, neighbours, rows, views
from tsadc.detectors.ensemble.features import Bands, Convolutions, Correlations, Standardiser, Windows
from tsadc.detectors.ensemble.neighbours import Neighbours, Quarters
from tsadc.detectors.ensemble.peaks import Departure, ModelResiduals, Remainder
from tsadc.detectors.ensemble.rows import Density, Ranges
from tsadc.detectors.ensemble.views import ViewGroup
from tsadc.detectors.ensemble.windows import Energy, RidgeResiduals
from tsadc.export.graph import Graph, Tensor, joined
from tsadc.series import Floats

MOST_DFT = 512  # of the larger factor of a length: a product with a matrix is faster than the node DFT up to here
PRECISION = 1e-28  # of a linear solution: square of its residual, relative to that at the start
OUTPUTS_AT_ONCE = 2**18  # of convolutions, kernels times steps: this bounds the memory of a long observation
SAME = 1e-11  # squared distance per feature that rounding explains: the original compares with 0
MISSING_SIZE = -1.0  # of a cell; sizes are 0 or more


class Entities:
    """Chooses what belongs to the entity of an observation: `index` is its place among `names`, or -1.

    A place that is not among them is -1, too: ONNX would count from the end, or end with an error."""

    def __init__(self, index: Tensor, names: Sequence[str]) -> None:
        known = (index >= 0) & (index < len(names))
        self.index, self.names = known.where(index, -1), names

    def row(self, known: Mapping[str, object]) -> Tensor:
        """Return the place of the entity in `known`; its length if it is not in there."""
        places = {name: place for place, name in enumerate(known)}
        table = [*(places.get(name, len(known)) for name in self.names), len(known)]  # index -1 is the last one
        return self.index.graph.constant(table, np.int64).take(self.index)

    def choose(self, own: Mapping[str, Floats], default: Floats) -> Tensor:
        """Return the array of the entity, or the default."""
        table = np.stack([*own.values(), default]).astype(np.float64)
        return self.index.graph.constant(table).take(self.row(own))


@dataclass(frozen=True)
class Observation:
    """An observation, and what several views derive from it."""

    z: Tensor
    measured: Tensor
    variables: int
    length: int

    @property
    def graph(self) -> Graph:
        return self.z.graph

    def of(self, variables: NDArray[np.intp]) -> Observation:
        """Return the observation with some of the variables only."""
        return Observation(self.z.take(variables), self.measured.take(variables), len(variables), self.length)

    @cached_property
    def z64(self) -> Tensor:
        return self.z.cast(np.float64)

    @cached_property
    def some(self) -> Tensor:
        """(time,) True where at least one variable was measured."""
        return self.measured.any(0)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """(variable, time) the last measured step until each step, -1 if there is none, and the next one from it on,
        `length` if there is none."""
        steps = self.graph.constant(np.arange(self.length)[None], np.int64)
        before = self.measured.where(steps, -1)
        after = self.measured.where(steps, self.length)
        width = 1
        while width < self.length:  # the largest of 1, 2, 4, ... steps
            before = before.at_least(before.pad(width, 0, -1).part(0, self.length, 1))
            after = after.at_most(after.pad(0, width, self.length).part(width, self.length + width, 1))
            width *= 2
        return before, after

    @cached_property
    def known(self) -> Tensor:
        """Follow `features.interpolated`."""
        before, after = self.ends
        filled = self.z.clip(features.MAX_SIZE).cast(np.float64)
        low = (before < 0).where(after, before).at_most(self.length - 1)
        high = (after >= self.length).where(before, after).at_least(0)
        first, last = filled.take_along(low, 1), filled.take_along(high, 1)
        steps = self.graph.constant(np.arange(self.length)[None], np.int64)
        distance = (high - low).cast(np.float64)
        slope = (last - first) / (distance > 0).where(distance, 1.0)
        return (distance > 0).where(slope * (steps - low).cast(np.float64) + first, first)

    @cached_property
    def gaps(self) -> Tensor:
        """(variable, time) length of the gap that a cell is in; less than 1 for a measured one."""
        before, after = self.ends
        return after - before - 1

    @cached_property
    def silent(self) -> Tensor:
        """Follow `features.silent`."""
        return (self.gaps > features.MAX_BRIDGED) & self.some

    @cached_property
    def bridged(self) -> tuple[Tensor, Tensor]:
        """Follow `features.bridged`: float64 values, and where they are known."""
        before, after = self.ends
        short = (self.gaps <= features.MAX_BRIDGED) & (before >= 0) & (after < self.length)
        complete = ~(~self.measured).any(1, keepdims=True).any(0, keepdims=True)  # then nothing is clipped
        bridged = complete.where(self.z, self.known.cast(np.float32))
        return short.where(bridged, 0.0).cast(np.float64), short


def log_scores(groups: Sequence[ViewGroup], observation: Observation, entities: Entities) -> Tensor:
    """Return the log scores (view,) of all views, as `FusedScorer.log_scores` does."""
    return joined([BUILDERS[type(group)](group, observation, entities) for group in groups])


# Views of single steps.


def _departure(group: Departure, own: Observation, entities: Entities) -> Tensor:
    sizes = _sizes(_without_level(own.z, own.measured, own.length).abs(), own, group.top)
    return _peak(sizes) - entities.choose(group.entities, group.baseline)


def _remainder(group: Remainder, own: Observation, entities: Entities) -> Tensor:
    rest = own.z64 - _projected(group, own)
    departing = _sizes(_without_level(rest, own.measured, own.length).abs(), own, group.top)
    level = _sizes(rest.abs(), own, group.top)
    sizes, steps = departing.at_least(0.0), (departing >= 0).count(0)
    largest = sizes.max(0)
    shares = sizes / (largest > 0).where(largest, 1.0)
    lasting = largest * (shares.square().sum(0) / steps.at_least(1.0)).sqrt()
    scores = joined([_peak(departing), _log(lasting.reshape(1)), _peak(level)])
    return scores - entities.choose(group.entities, group.baseline)


def residual_scores(
    group: ModelResiduals,
    residuals: Sequence[tuple[Tensor, Tensor]],
    usual: Floats,
    own: Observation,
    entities: Entities,
) -> Tensor:
    """Follow `ModelResiduals.score` for residuals (variable, time) of the judged variables, and where they are known.

    A view that knows no residual has its usual log score, which adds nothing to the score."""
    sizes = [_sizes(cells, replace(own, measured=known), group.top) for cells, known in residuals]
    logs = joined([_peak(size.at_least(0.0)) for size in sizes]) - entities.choose(group.entities, group.baseline)
    return joined([(size >= 0).any(0, keepdims=True) for size in sizes]).where(logs, usual)


def _projected(group: Remainder, own: Observation) -> Tensor:
    """Follow `linear.completed` and `linear.project`."""
    known = _completed(own.known.transpose(), own.silent.transpose(), group.center, group.precision).transpose()
    centred = known.clip(linear.COVARIANCE_CLIP) - group.center[:, None]
    components = own.graph.constant(group.components, np.float64)
    return components.transpose() @ (components @ centred) + group.center[:, None]


def _completed(known: Tensor, missing: Tensor, center: Floats, precision: Floats) -> Tensor:
    """Follow `linear.completed` for rows (row, variable): replace what is missing by its mean given the others.

    With the others fixed, the mean x solves P x = 0 in the missing places. All rows are solved together by conjugate
    gradients, scaled by the diagonal of P; without missing values, no step is taken."""
    graph = known.graph
    diagonal = np.diag(precision)[None].astype(np.float64)
    centred = missing.where(missing.cast(np.float64) * 0.0, known - center)
    residual = missing.where(0.0 - centred @ precision, 0.0)
    size = (residual.square() / diagonal).sum(1, keepdims=True)
    start = size * PRECISION

    def step(_: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        x, residual, direction, size = state
        within, limit = missing.inside(x), start.inside(x)
        applied = within.where(direction @ precision, 0.0)
        curvature = (direction * applied).sum(1, keepdims=True)
        share = (curvature > 0).where(size / (curvature > 0).where(curvature, 1.0), 0.0)
        x, residual = x + share * direction, residual - share * applied
        scaled = residual / diagonal
        after = (residual * scaled).sum(1, keepdims=True)
        kept = (size > 0).where(after / (size > 0).where(size, 1.0), 0.0)
        going_on = (after > limit).any(0).reshape()
        return going_on, [x, residual, scaled + kept * direction, after]

    trips = graph.constant(4 * len(center) + 50, np.int64)
    state = [centred, residual, residual / diagonal, size]
    solved = graph.loop(trips, (size > 0).any(0).reshape(), state, step)[0]
    return missing.where(solved + center, known)


def _without_level(x: Tensor, measured: Tensor, length: int) -> Tensor:
    """Follow `peaks.without_level`; any number where not measured."""
    ordered, _ = measured.where(x, np.inf).top(length // 2 + 1, axis=1, largest=False)
    count = measured.cast(np.int64).sum(1, keepdims=True)
    lower, upper = ((count - 1) / 2).at_least(0), count / 2
    middle = (ordered.take_along(lower, 1) + ordered.take_along(upper, 1)) / 2.0
    return x - (count > 0).where(middle, 0.0)


def _sizes(cells: Tensor, own: Observation, count: int) -> Tensor:
    """Follow `pooling.top_mean`: (time,) float64 from cells >= 0; negative where nothing was measured."""
    largest, _ = own.measured.where(cells, MISSING_SIZE).top(min(count, own.variables), axis=0)
    present = largest >= 0
    number = present.cast(largest.dtype).sum(0)
    mean = (present.where(largest, 0.0).sum(0) / number.at_least(1.0)).cast(np.float32).cast(np.float64)
    return (number > 0).where(mean, MISSING_SIZE)


def _peak(sizes: Tensor) -> Tensor:
    return _log(sizes.max(0, keepdims=True))


def _log(size: Tensor) -> Tensor:
    return (size + views.LOG_OFFSET).log()


# Views of whole observations.


def _neighbours(group: Neighbours, own: Observation, entities: Entities) -> Tensor:
    values, known = FEATURES[type(group.features)](group.features, own)
    u = _standardised(values, known, group.standardiser, entities).cast(np.float32)
    pool = own.graph.constant(group.pool)
    fast = (pool @ u) * -2.0 + group.squares
    number = min(group.count + neighbours.EXTRA_CANDIDATES, len(group.pool))
    _, candidates = fast.top(number, axis=0, largest=False)
    nearest = pool.take(candidates)
    exact, order = (nearest.cast(np.float64) - u.cast(np.float64)).square().sum(1).top(number, axis=0, largest=False)
    deviation = (u - nearest.take(order)).abs().cast(np.float64)
    width = float(group.pool.shape[1])
    distances = (deviation.square().sum(1) / width).sqrt()
    # The nearest one is the observation itself, if the history is scored again.
    skipped = (exact.part(0, 1, 0) <= SAME * width).cast(np.int64) * int(number > 1)
    place = own.graph.constant(np.arange(number), np.int64)
    chosen = ((place >= skipped) & (place < skipped + group.count)).cast(np.float64)
    mean = (distances * chosen).sum(0, keepdims=True) / chosen.sum(0, keepdims=True)
    return (mean + views.DISTANCE_OFFSET).log()


def _standardised(values: Tensor, known: Tensor, standardiser: Standardiser, entities: Entities) -> Tensor:
    """Follow `Standardiser.__call__` for values (..., feature)."""
    u = (values - entities.choose(standardiser.entities, standardiser.center)) / standardiser.scale
    return known.where(u, 0.0).clip(features.FEATURE_CLIP)


def _correlations(own_features: Correlations, own: Observation) -> tuple[Tensor, Tensor]:
    weight = own.measured.cast(np.float64)
    number = weight.sum(1, keepdims=True).at_least(1.0)
    mean = own.z64.sum(1, keepdims=True) / number
    centred = own.measured.where(own.z64 - mean, 0.0)
    deviation = (centred.square().sum(1, keepdims=True) / number).sqrt()
    constant = deviation <= (mean.abs() + 1.0) * features.ROUNDING
    x = constant.where(centred * 0.0, centred / constant.where(deviation * 0.0 + 1.0, deviation))
    steps = weight @ weight.transpose()
    both = steps.at_least(1.0)
    product, total, square = x @ x.transpose(), x @ weight.transpose(), x.square() @ weight.transpose()
    covariance = product - total * total.transpose() / both
    variance = (square - total.square() / both).at_least(0.0)
    size = (variance * variance.transpose()).sqrt()
    varies = size > both * features.ROUNDING
    correlation = varies.where(covariance / varies.where(size, 1.0), 0.0).clip(features.MAX_CORRELATION)
    found = ((correlation + 1.0) / (1.0 - correlation)).log() * 0.5  # arctanh
    pairs = own_features.first * own.variables + own_features.second
    return found.reshape(-1).take(pairs), (steps > 2.0).reshape(-1).take(pairs)


def _convolutions(own_features: Convolutions, own: Observation) -> tuple[Tensor, Tensor]:
    margin, kernels = int(own_features.shifts[-1]), len(own_features.bias)
    padded = own.known.clip(features.KERNEL_CLIP).cast(np.float32).pad(margin, margin, 0.0)
    shifts = [padded.part(margin + shift, margin + shift + own.length, 1) for shift in own_features.shifts.tolist()]
    shifted = joined(shifts)
    matrix = own_features.matrix
    sums, order = [], []
    entries = np.diff(matrix.indptr)  # of each kernel: 9 for each of its variables
    for number in np.unique(entries).tolist():
        alike = np.flatnonzero(entries == number)
        for chosen in np.array_split(alike, -(-len(alike) * own.length // OUTPUTS_AT_ONCE)):
            places = matrix.indptr[chosen][:, None] + np.arange(number)
            # Added one after the other, because the sum of float32 depends on the order.
            total: Tensor | None = None
            for column, weight in zip(matrix.indices[places].T, matrix.data[places].T, strict=True):
                product = shifted.take(column) * weight[:, None]
                total = product if total is None else total + product
            assert total is not None
            above = (total > own_features.bias[chosen, None]) & own.some
            sums.append(above.count(1))
            order.append(chosen)
    count = joined(sums).take(np.argsort(np.concatenate(order)))
    share = count / own.some.count(0).at_least(1.0)
    rare = share.at_most(1.0 - share)
    angle = rare.sqrt().arcsin()
    found = (share > 0.5).where(np.pi / 2 - angle, angle)
    # A kernel is blind if one of its variables was never measured.
    uses = np.zeros((kernels, own.variables))
    kernel, variable = own_features.owners
    uses[kernel, variable] = 1.0
    never = (~own.measured.any(1, keepdims=True)).cast(np.float64)
    return found, (uses @ never).reshape(-1) < 0.5


def _bands(own_features: Bands, own: Observation) -> tuple[Tensor, Tensor]:
    power, known = _band_powers(own_features, own)
    return power.reshape(-1), known.reshape(-1)


def _band_powers(bands: Bands, own: Observation) -> tuple[Tensor, Tensor]:
    """Follow `Bands.__call__`: (variable, band) log powers, and whether they are known."""
    filled, measured = own.bridged
    energy = _squared_spectrum(filled * bands.window[None], own) @ bands.weights
    weight = measured.cast(np.float64) @ np.square(bands.window)[:, None]
    power = energy / (weight > 0).where(weight, 1.0)
    known = ((weight > 0) & own.graph.constant(np.ones((1, features.BANDS), dtype=bool))).reshape(-1, features.BANDS)
    return (power + features.MIN_POWER).log(), known


def _squared_spectrum(x: Tensor, own: Observation) -> Tensor:
    """Return |X|^2 (variable, frequency) of x (variable, time), X the discrete Fourier transform at frequencies >= 0.

    With L = m n, t = n a + b and f = c + m d, the transform is one of length m over a, a rotation by b c / L, and one
    of length n over b: two small products instead of a large one."""
    length = own.length
    m = max(divisor for divisor in range(1, int(np.sqrt(length)) + 1) if length % divisor == 0)
    n, frequencies = length // m, length // 2 + 1
    if n > MOST_DFT:
        spectrum = own.graph.node("DFT", x.reshape(-1, length, 1), dtype=np.float64, axis=1, onesided=1)
        return spectrum.square().sum(2)
    inner = _turns(np.arange(m)[:, None] * np.arange(m) / m)  # (c, a)
    rotation = _turns(np.arange(m)[:, None] * np.arange(n) / length)  # (c, b)
    outer = _turns(np.arange(n)[:, None] * np.arange(n) / n)  # (b, d)
    pieces = x.reshape(-1, m, n)
    real, imaginary = inner.real @ pieces, inner.imag @ pieces  # (variable, c, b)
    turned_real = real * rotation.real - imaginary * rotation.imag
    turned_imaginary = real * rotation.imag + imaginary * rotation.real
    spectrum_real = turned_real @ outer.real - turned_imaginary @ outer.imag  # (variable, c, d)
    spectrum_imaginary = turned_real @ outer.imag + turned_imaginary @ outer.real
    squares = spectrum_real.square() + spectrum_imaginary.square()
    return squares.transpose(0, 2, 1).reshape(-1, length).part(0, frequencies, 1)


def _turns(angle: Floats) -> NDArray[np.complex128]:
    return np.asarray(np.exp(-2j * np.pi * angle))


def _quarters(group: Quarters, own: Observation, entities: Entities) -> Tensor:
    width = group.length // neighbours.QUARTERS
    places = [i * width for i in range(neighbours.QUARTERS)]
    z, measured = (
        joined([tensor.part(first, first + width, 1) for first in places]) for tensor in (own.z, own.measured)
    )
    pieces = Observation(z, measured, neighbours.QUARTERS * own.variables, width)
    powers, known = (tensor.reshape(neighbours.QUARTERS, -1) for tensor in _band_powers(group.bands, pieces))
    level = powers - _without_level(powers.transpose(), known.transpose(), neighbours.QUARTERS).transpose()
    u = _standardised(powers - level, known, group.standardiser, entities).abs()
    number = min(group.largest, features.BANDS * own.variables)
    means = u.top(number, axis=1)[0].sum(1) / float(number)
    return _peak(means)


# Views of short windows.


def _energy(group: Energy, own: Observation, entities: Entities) -> Tensor:
    sizes, known = _log_sizes(group.windows, own.z64, own.measured, centred=True)
    return _window_scores(group, [sizes], [known], entities, own)


def _log_sizes(windows: Windows, x: Tensor, measured: Tensor, centred: bool = False) -> tuple[Tensor, Tensor]:
    """Follow `Windows.log_sizes`: (window, variable), and where it is known."""
    places = windows.starts[:, None] + np.arange(windows.width)
    # Whole rows are taken, (window, step, variable): single cells would take ten times as long.
    within = measured.transpose().take(places)
    cells = within.where(x.transpose().take(places), 0.0)
    count = within.count(1, keepdims=True)
    number = count.at_least(1.0)
    if centred:
        cells = within.where(cells - cells.sum(1, keepdims=True) / number, 0.0)
    size = (cells.square().sum(1, keepdims=True) / number).sqrt()
    shape = len(windows), -1
    return (size + features.MIN_WINDOW_SIZE).log().reshape(*shape), (count * 2.0 >= float(windows.width)).reshape(
        *shape
    )


def _window_scores(
    group: Energy, sizes: Sequence[Tensor], known: Sequence[Tensor], entities: Entities, own: Observation
) -> Tensor:
    """Follow `Energy.score` for sizes (window, variable) of each view."""
    stacked, present = (joined(tensors, axis=1) for tensors in (sizes, known))
    u = _standardised(stacked, present, group.standardiser, entities).abs()
    number = min(features.TOP_VARIABLES, own.variables)
    by_view = u.reshape(len(group.windows), len(group.names), own.variables)
    means = (by_view.top(number, axis=2)[0].sum(2) / float(number)).cast(np.float32).cast(np.float64)
    return _log(means.max(0))


def _ridge(group: RidgeResiduals, own: Observation, entities: Entities) -> Tensor:
    residual = own.z64 - _predicted(group, own, entities)
    changes = residual - residual.pad(1, 0, 0.0).part(0, own.length, 1)
    both = own.measured & (own.measured.cast(np.float32).pad(1, 0, 0.0).part(0, own.length, 1) > 0)
    pairs = [_log_sizes(group.windows, x, where) for x, where in ((residual, own.measured), (changes, both))]
    sizes, known = zip(*pairs, strict=True)
    return _window_scores(group, sizes, known, entities, own)


def _predicted(group: RidgeResiduals, own: Observation, entities: Entities) -> Tensor:
    """Follow `linear.predict`, with the weights of the entity."""
    graph, variables, length = own.graph, own.variables, own.length
    reach, lags = len(group.lags) // 2, len(group.lags)
    weights = graph.constant(group.weights, np.float64)
    if group.entities:
        table = graph.constant(np.stack([*group.entities.values(), group.weights]).astype(np.float32))
        place = entities.row(group.entities)
        weights = (place < len(group.entities)).where(table.take(place).cast(np.float64), weights)
    by_lag, constant = weights.part(0, -1, 1).reshape(variables, lags, variables), weights.part(-1, 2**31, 1)
    places = np.arange(length) - np.array(group.lags)[:, None] + reach  # (lag, time) in what is padded by `reach`

    def impute(round_: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        (filled,) = state
        chosen, unknown_ = own.silent.inside(filled), unknown.inside(filled)
        number_ = number.inside(filled)
        k = unknown_.take(round_ - round_ / number_ * number_)  # one variable after the other, again and again
        sums = (by_lag.inside(filled).take(k) @ filled).pad(reach, reach, 0.0)
        predicted = sums.take_along(filled.graph.constant(places, np.int64), 1).sum(0, keepdims=True)
        predicted = (predicted + constant.inside(filled).take(k)).clip(linear.COVARIANCE_CLIP)
        own_row = filled.graph.constant(np.arange(variables)[:, None], np.int64).equals(k)
        again = filled.graph.constant(True)
        return again, [(own_row & chosen).where(predicted, filled)]

    filled = own.known.clip(linear.COVARIANCE_CLIP)
    unknown = graph.node("NonZero", own.silent.any(1), dtype=np.int64).reshape(-1)
    number = own.silent.any(1).cast(np.int64).sum(0).reshape()
    rounds = number * linear.ROUNDS
    (filled,) = graph.loop(rounds, graph.constant(True), [filled], impute)
    padded = filled.pad(reach, reach, 0.0)
    design = joined([padded.part(reach - lag, reach - lag + length, 1) for lag in group.lags])
    return weights.part(0, -1, 1) @ design + constant


# Views of rows and ranges.


def _density(group: Density, own: Observation, entities: Entities) -> Tensor:
    graph, most = own.graph, min(rows.ROWS, own.length)
    # Evenly spaced steps at which something was measured; if there are fewer than `most`, the last ones are not valid.
    steps = own.some.cast(np.int64).sum(0)
    number = steps.at_most(most)
    place = graph.constant(np.arange(most), np.int64)
    valid = place < number
    spacing = (steps - 1).cast(np.float64) / (number - 1).at_least(1).cast(np.float64)
    spaced = (place.cast(np.float64) * spacing).round().cast(np.int64)
    found = joined([graph.node("NonZero", own.some, dtype=np.int64).reshape(-1), graph.constant([0], np.int64)])
    picked = found.take(spaced.at_most((steps - 1).at_least(0)).at_least(0))
    values = own.known.clip(rows.ROW_CLIP).cast(np.float32).cast(np.float64).take(picked, axis=1).transpose()
    silent = own.silent.take(picked, axis=1).transpose()
    precision = group.whitening @ group.whitening.T
    complete = _completed(values, silent, group.center, precision).cast(np.float32).cast(np.float64)
    u = (complete - group.center) @ group.whitening
    v = (_bank(group, entities, graph) - group.center) @ group.whitening
    squares = u.square().sum(1, keepdims=True) + v.square().sum(1) - 2.0 * (u @ v.transpose())
    least = min([len(group.pooled), *(len(bank) for bank in group.entities.values())])
    if least >= rows.NEAREST:
        nearest = squares.top(rows.NEAREST, axis=1, largest=False)[0].at_least(0.0).sqrt().sum(1) / float(rows.NEAREST)
    else:
        size = graph.node("Shape", v, dtype=np.int64).part(0, 1, 0).at_most(rows.NEAREST)
        nearest = squares.top(size, axis=1, largest=False)[0].at_least(0.0).sqrt().sum(1) / size.cast(np.float64)
    distance = valid.where(nearest / float(np.sqrt(group.variables)), MISSING_SIZE)
    worst, _ = distance.top(min(rows.WORST_ROWS, most), axis=0)
    mean = worst.at_least(0.0).sum(0, keepdims=True) / (worst >= 0).count(0, keepdims=True).at_least(1.0)
    return (mean + views.DISTANCE_OFFSET).log() * 0.5


def _bank(group: Density, entities: Entities, graph: Graph) -> Tensor:
    """Return the bank of the entity (row, variable)."""
    banks = [*group.entities.values(), group.pooled]
    lengths = np.array([len(bank) for bank in banks])
    stops, place = np.cumsum(lengths), entities.row(group.entities)
    first, stop = (graph.constant(rows_, np.int64).take(place).reshape(1) for rows_ in (stops - lengths, stops))
    return graph.constant(np.concatenate(banks)).part(first, stop, 0).cast(np.float64)


def _ranges(group: Ranges, own: Observation, entities: Entities) -> Tensor:
    graph = own.graph
    places = group.starts[:, None] + np.arange(group.width)
    # Whole rows are taken, (window, step, variable).
    high = own.measured.where(own.z, -np.inf).transpose().take(places).max(1).transpose().cast(np.float64)
    low = own.measured.where(own.z, np.inf).transpose().take(places).min(1).transpose().cast(np.float64)
    known = own.measured.transpose().take(places).count(1).transpose() * 2.0 >= float(group.width)
    ranges = known.where(high - low, 0.0).cast(np.float32).cast(np.float64) / group.scale[:, None]
    largest = max(len(bank) for bank in group.bank)
    if largest == 0:
        return graph.constant([np.log(rows.RANGE_OFFSET)])
    # Binary search in banks that are padded with infinity to the same length, a power of two.
    width = 2 ** int(np.ceil(np.log2(largest + 1)))
    table = np.full((own.variables, width), np.inf)
    for variable, bank in enumerate(group.bank):
        table[variable, : len(bank)] = bank
    banks = graph.constant(table)
    place = ranges.cast(np.int64) * 0  # how many are smaller
    step = width // 2
    while step:
        smaller = banks.take_along(place + (step - 1), 1) < ranges
        place = place + smaller.cast(np.int64) * step
        step //= 2
    lengths = np.array([len(bank) for bank in group.bank])[:, None]
    last = graph.constant(np.maximum(lengths - 1, 0), np.int64)
    above, below = banks.take_along(place.at_most(last), 1), banks.take_along((place - 1).at_least(0), 1)
    usable = known & graph.constant(lengths > 0)
    novelty = usable.where((ranges - below).abs().at_most((ranges - above).abs()), 0.0)
    return (novelty.square().sum(0).sqrt().max(0, keepdims=True) + rows.RANGE_OFFSET).log()


FEATURES: dict[type, Callable[..., tuple[Tensor, Tensor]]] = {
    Correlations: _correlations,
    Convolutions: _convolutions,
    Bands: _bands,
}
BUILDERS: dict[type, Callable[..., Tensor]] = {
    Departure: _departure,
    Remainder: _remainder,
    Neighbours: _neighbours,
    Quarters: _quarters,
    Energy: _energy,
    RidgeResiduals: _ridge,
    Density: _density,
    Ranges: _ranges,
}
