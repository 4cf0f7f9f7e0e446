"""The convolution of an S4 layer as products of matrices in an ONNX graph.

The node DFT of onnxruntime is slow, and so is a convolution whose filter is as long as its input. Products of matrices
are fast. On a circle of N = m n steps, with t = n a + b and f = c + m d,

    X[f] = sum over b of exp(-2 pi i b f / N) G[c, b],    G[c, b] = sum over a of exp(-2 pi i a c / m) x[n a + b]

so that a transform is a product for the a, and one for the b with a matrix for each c. x is real: the c up to m / 2 are
enough, and m is even. The way back is the same in the opposite order. Complex numbers are pairs of real ones, side by
side, so that a complex product is a real one of twice the size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from tsadc.export.graph import Tensor, joined

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Circle:
    """The matrices for inputs of `length` steps, on a circle that is long enough for all of their lags.

    Attributes
    ----------
    m, n : int
        Factors of the number of steps on the circle; m is even.
    rows : int
        Number of a for which x[n a + b] is not always 0.
    forward, backward : (pair of c, a), (a, pair of c)
        First product of a transform, and last product of the way back.
    inner : (c, pair of b, pair of d)
        Second product of a transform; transposed, the first one of the way back.
    frequencies : (c, d)
        f = c + m d.
    """

    m: int
    n: int
    rows: int
    forward: Array
    backward: Array
    inner: Array
    frequencies: NDArray[np.int64]

    @classmethod
    @cache
    def of(cls, length: int) -> Circle:
        n = round(math.sqrt(2 * length - 1))
        m = 2 * math.ceil((2 * length - 1) / (2 * n))
        c, a, b = np.arange(m // 2 + 1), np.arange(math.ceil(length / n)), np.arange(n)
        frequencies = c[:, None] + m * b
        outer = np.exp(-2j * np.pi * c[:, None] * a / m)
        inner = np.exp(-2j * np.pi * b[:, None] * frequencies[:, None, :] / (m * n))
        # A frequency and its mirror image are counted together.
        back = np.conj(outer).T * np.where((c == 0) | (2 * c == m), 1.0, 2.0) / (m * n)
        return cls(
            m,
            n,
            len(a),
            np.concatenate([outer.real, outer.imag]).astype(np.float32),
            np.concatenate([back.real, -back.imag], axis=1).astype(np.float32),
            np.block([[inner.real, inner.imag], [-inner.imag, inner.real]]).astype(np.float32),
            frequencies,
        )


def convolved(x: Tensor, lags: Array, length: int) -> Tensor:
    """Follow `ssm.convolve`: y[t] = sum over s of lags[t - s] x[s] for x (batch, channel, time).

    `lags` (channel, lag) has the lags from -(length - 1) to length - 1."""
    circle, channels = Circle.of(length), len(lags)
    kept, n, rows = circle.m // 2 + 1, circle.n, circle.rows
    graph, inner = x.graph, x.graph.constant(circle.inner)
    after = graph.constant([0, 0, 0, 0, 0, rows * n - length], np.int64)
    padded = graph.node("Pad", x, after, dtype=np.float32).reshape(-1, channels, rows, n)
    outer = (circle.forward @ padded).reshape(-1, 2, kept, n).transpose(2, 0, 1, 3)  # (c, batch and channel, pair, b)
    spectrum = (outer.reshape(kept, -1, 2 * n) @ inner).reshape(kept, -1, channels, 2 * n)
    real, imaginary = graph.nodes_of("Split", [spectrum], [np.float32, np.float32], axis=3)
    weights = _spectrum(lags, length)
    product = joined(
        [
            real * weights.real - imaginary * weights.imag,
            real * weights.imag + imaginary * weights.real,
        ],
        axis=3,
    )
    back = (product.reshape(kept, -1, 2 * n) @ inner.transpose(0, 2, 1)).reshape(kept, -1, 2, n)
    y = circle.backward @ back.transpose(1, 2, 0, 3).reshape(-1, channels, 2 * kept, n)
    return y.reshape(-1, channels, rows * n).part(0, length, 2)


def _spectrum(lags: Array, length: int) -> NDArray[np.complex128]:
    """Return the Fourier transform of the filter, (c, 1, channel, d)."""
    circle = Circle.of(length)
    filters = np.zeros((len(lags), circle.m * circle.n))
    filters[:, :length] = lags[:, length - 1 :]
    filters[:, filters.shape[1] - length + 1 :] = lags[:, : length - 1]
    return np.fft.fft(filters)[:, circle.frequencies].transpose(1, 0, 2)[:, None]
