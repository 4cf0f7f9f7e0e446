"""How long the steps of an S4 layer take, row by row, compared with its convolution over a whole observation.

    OMP_NUM_THREADS=1 python benchmarks/s4_step.py

Both alternate in one process, on one thread, with a one-way layer, since only that has steps."""

from __future__ import annotations

import time

import torch

from tsadc.nn.s4 import S4

ROWS, CHANNELS, REPEATS = 600, 64, 5


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    layer = S4(CHANNELS, bidirectional=False).eval()
    values = torch.randn(1, CHANNELS, ROWS)
    layer(values)  # computes the filter, which is kept
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(20):
            layer(values)
        convolution = (time.process_time() - began) / 20
        began, state = time.process_time(), layer.initial_state(1)
        for row in range(ROWS):
            _, state = layer.step(values[..., row], state)
        step = (time.process_time() - began) / ROWS
        print(f"convolution of {ROWS} rows {1e3 * convolution:.2f} ms, one step {1e3 * step:.2f} ms")


if __name__ == "__main__":
    main()
