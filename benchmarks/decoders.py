"""Measure how long requests of Prometheus and Telegraf take to decode.

    python benchmarks/decoders.py

Each time is the fastest of 20, in milliseconds of the processor. `new` is a first request, whose series have not been
seen before; `known` is the same request again, as senders repeat their series."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tsadc.serve.readers.line_protocol import LineProtocolDecoder
from tsadc.serve.readers.remote_write import RemoteWriteDecoder, _known_label

sys.path.append(str(Path(__file__).parents[1] / "tests" / "serve"))
from wire import NOW, metric, request, series

VALUES = 10_000
REPEATS = 20


def remote_write(samples: int) -> bytes:
    """A request of `VALUES` samples, so many per series, of 20 hosts with up to 500 metrics."""
    return request(
        *(
            series(
                metric(f"node_metric_{i % 500}", f"host-{i % 20}", cpu=str(i % 7), device=f"eth{i // 500}"),
                [(NOW + 15_000 * k, 0.1 * (i + k)) for k in range(samples)],
            )
            for i in range(VALUES // samples)
        )
    )


def lines(fields: int) -> bytes:
    """A request of 10,000 lines with so many fields each, of 50 hosts."""
    names = [f"usage_{k}" for k in range(fields)]
    found = []
    for i in range(VALUES):
        values = ",".join(f"{name}={i % 97}.25" for name in names)
        found.append(f"cpu,cpu=cpu{i % 8},host=h{i // 200} {values} {10**18 + i // 8 * 10**9}")
    return "\n".join(found).encode()


def first_write(body: bytes) -> None:
    _known_label.cache_clear()
    RemoteWriteDecoder().decode(body)


def fastest(run: Callable[[], Any]) -> float:
    spent = []
    for _ in range(REPEATS):
        start = time.process_time()
        run()
        spent.append(time.process_time() - start)
    return 1000 * min(spent)


def main() -> None:
    print("| request | new (ms) | known (ms) |\n|---|---|---|")
    for samples in (1, 20):
        body = remote_write(samples)
        decoder = RemoteWriteDecoder()
        assert decoder.decode(body).values == VALUES
        new = fastest(lambda body=body: first_write(body))
        known = fastest(lambda body=body, decoder=decoder: decoder.decode(body))
        print(f"| remote write, {VALUES:,} values, {samples} per series | {new:.0f} | {known:.0f} |")
    for fields in (1, 10):
        body = lines(fields)
        decoder = LineProtocolDecoder()
        assert decoder.decode(body, 0).values == VALUES * fields
        new = fastest(lambda body=body: LineProtocolDecoder().decode(body, 0))
        known = fastest(lambda body=body, decoder=decoder: decoder.decode(body, 0))
        print(f"| line protocol, {VALUES:,} lines, {fields} field{'s' * (fields > 1)} each | {new:.0f} | {known:.0f} |")


if __name__ == "__main__":
    main()
