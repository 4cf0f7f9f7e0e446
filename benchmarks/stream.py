"""Measure `detector.stream()`: rows per second, memory per entity, and the delay from a fault to its alarm.

    make bench-stream                       # TSADC_DATA names the folder with smd19.npz; a few minutes
    python benchmarks/stream.py             # makes the table from the records only

Speed is processor time of one thread, with the default ensemble fitted to four machines of SMD (K = 38), on their test
rows, which are pushed row by row, entities in turn. At 10,000 entities only the first rows are pushed; the speed is
extrapolated from what storing a row costs there, and from what a score costs with 100 entities.

The delay is counted from the first row of a true anomaly to the end of the first anomalous verdict that overlaps it.
Labels measure it, and nothing else. A false alarm is a run of anomalous verdicts, each of which overlaps the next, that
overlaps no anomaly.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tsadc import Ensemble, Stream
from tsadc.atomic import write_file
from tsadc.data.plant import Plant
from tsadc.detectors.streaming import LiveVerdict
from tsadc.errors import TsadcNotice
from tsadc.series import Clock, Floats, Labelled, Series, Truth
from tsadc.show.markdown import table
from tsadc.windows import runs

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "stream.json", HERE.parent / "docs" / "tables" / "stream.md"
LENGTHS = (600, 60)
ENTITIES = (1, 100, 10_000)
MANY = 10_000  # entities, with which only the first rows are pushed
FIRST_ROWS = 20
MACHINES, DELAY_MACHINES = 4, 8  # of SMD
REPEATS = 2  # the fastest counts, as other work may share the machine
KEPT = 20  # entities that memory is measured with
DAY = 1440  # rows of a minute
SHARES = (0, 2, 4, 8)  # provisional verdicts per observation, the final one included; 0: none
PLANT = Plant.Config(entities=3, rows=14 * DAY, seed=0)
PLANT_LENGTH = 120
DAILY_ENTITIES = 3
CLOCK = Clock(0, 60 * 10**9, dated=True)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder with smd19.npz; without it, make the table only")
    parser.add_argument("--only", nargs="*", help="which parts, such as 'speed 600' or 'delay smd' (default: all)")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--table", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    records: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    if options.data is not None:
        parts: dict[str, Callable[[], Any]] = {
            **{f"speed {length}": lambda length=length: speed(options.data, length) for length in LENGTHS},
            "delay plant": lambda: delays(plant(), PLANT_LENGTH),
            "delay daily": lambda: delays(daily(), DAY),
            "delay smd": lambda: delays(smd(options.data, DELAY_MACHINES), LENGTHS[0]),
        }
        for name, measure in parts.items():
            if name not in records and (not options.only or name in options.only):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TsadcNotice)
                    records[name] = measure()
                write_file(options.out, json.dumps(records, indent=1).encode())
                print(name, json.dumps(records[name]), flush=True)
    write_file(options.table, page(records).encode())
    return 0


def smd(folder: Path, count: int) -> tuple[tuple[Series, ...], Labelled]:
    """Return the training rows of the first machines, and their test rows with labels."""
    train, test, truth = list[Series](), list[Series](), list[Truth]()
    with np.load(folder / "smd19.npz", allow_pickle=False) as pack:
        keys = sorted(key.removesuffix("_train") for key in pack.files if key.endswith("_train"))
        for key in keys[:count]:
            names = tuple(f"metric-{k}" for k in range(pack[f"{key}_train"].shape[1]))
            train.append(Series(pack[f"{key}_train"] / 1e6, names, entity=key))
            test.append(Series(pack[f"{key}_test"] / 1e6, names, entity=key))
            spans = runs(pack[f"{key}_test_label"] == 1)
            truth += [Truth(key, start, stop, "", ()) for start, stop in spans]
    return tuple(train), Labelled(tuple(test), tuple(truth))


def plant() -> tuple[tuple[Series, ...], Labelled]:
    split = Plant(PLANT).split()
    return split.train, split.test


def daily() -> tuple[tuple[Series, ...], Labelled]:
    """Return entities with a daily cycle: 40 days of history, and 20 days with two faults each."""

    def entity(name: str, days: int, generator: np.random.Generator) -> Series:
        day = 2 * np.pi * np.arange(days * DAY) / DAY
        shapes = [np.sin(day), np.cos(day) + 0.3 * np.sin(2 * day), 2 * np.maximum(np.sin(day), 0.0) ** 2, 0 * day]
        values = np.stack(shapes, axis=1) + generator.normal(scale=0.1, size=(days * DAY, len(shapes)))
        return Series(values, tuple("abcd"[: len(shapes)]), CLOCK, name)

    generator = np.random.default_rng(0)
    names = [f"unit-{i}" for i in range(DAILY_ENTITIES)]
    train = tuple(entity(name, 40, generator) for name in names)
    test, truth = [entity(name, 20, generator) for name in names], list[Truth]()
    for series in test:
        for first in (8 * DAY + DAY // 3, 15 * DAY + DAY // 3):
            series.values[first : first + DAY // 2, 1] += 1.0
            truth.append(Truth(series.entity, first, first + DAY // 2, "", ()))
    return train, Labelled(tuple(test), tuple(truth))


def speed(folder: Path, length: int) -> dict[str, Any]:
    """Return what rows and scores cost, in processor seconds, and what an entity costs, in bytes."""
    train, test = smd(folder, MACHINES)
    detector = Ensemble(length=length).fit(train)
    values = np.concatenate([series.values for series in test.series])
    found: dict[str, Any] = {"rows": {}}
    for entities in ENTITIES:
        first, count = (0, FIRST_ROWS) if entities == MANY else (length, length if entities > 1 else 20 * length)
        names = [f"entity {i}" for i in range(entities)]
        for every in (0,) if entities == MANY else (0, length // 2, length // 4):
            costs = []
            for _ in range(REPEATS):
                stream = detector.stream(every=every)
                push_in_turn(stream, names, values, 0, first)
                costs.append(timed(push_in_turn, stream, names, values, first, first + count))
            found["rows"][f"{entities} {every}"] = [entities * count, min(costs)]
    block = values[: 20 * length]
    streams = [detector.stream(every=0) for _ in range(2 * REPEATS)]
    many = [timed(stream.push_many, "x", np.arange(len(block)), block) for stream in streams[:REPEATS]]
    found["rows"]["push_many"] = [len(block), min(many)]
    stored = [timed(push_in_turn, stream, ["x"], values, 0, length - 1) for stream in streams[REPEATS:]]
    found["store"] = min(stored) / (length - 1)
    tracemalloc.start()
    stream = detector.stream(every=0)
    before, _ = tracemalloc.get_traced_memory()
    for i in range(KEPT):
        stream.push_many(f"entity {i}", np.arange(2 * length - 1), values[: 2 * length - 1])
    found["memory"] = (tracemalloc.get_traced_memory()[0] - before) / KEPT
    tracemalloc.stop()
    found["state"] = len(stream.state("entity 0"))
    return found


def push_in_turn(stream: Stream, names: Sequence[str], values: Floats, first: int, stop: int) -> None:
    """Push rows [first, stop) of each entity; entities begin at different rows of `values`."""
    for row in range(first, stop):
        for i, name in enumerate(names):
            stream.push(name, row, values[(row + 37 * i) % len(values)])


def timed(run: Callable[..., object], *arguments: Any) -> float:
    """Return the processor seconds of a call."""
    started = time.process_time()
    run(*arguments)
    return time.process_time() - started


def delays(data: tuple[tuple[Series, ...], Labelled], length: int) -> dict[str, Any]:
    """Return the delays in rows, None for anomalies without an alarm, and how many false alarms there are."""
    train, test = data
    detector = Ensemble(length=length).fit(train)
    found: dict[str, Any] = {"anomalies": len(test.truth), "rows": sum(map(len, test.series))}
    for share in SHARES:
        waited, night, false = list[int | None](), list[int | None](), 0
        for series in test.series:
            stream = detector.stream(every=length // share if share else 0)
            ticks = [series.clock.tick(row) for row in range(len(series))]
            said = [*stream.push_many(series.entity, ticks, series.values).verdicts, *stream.flush().verdicts]
            spans = [rows_of(verdict, series) for verdict in said if verdict.anomalous]
            true = [(truth.start, truth.stop) for truth in test.truth if truth.entity == series.entity]
            for start, stop in true:
                ends = [end for begin, end in spans if begin < stop and end > start]
                waited.append(min(ends) - start if ends else None)
                night.append(-(-min(ends) // DAY) * DAY - start if ends else None)
            false += sum(not any(begin < stop and end > start for start, stop in true) for begin, end in joined(spans))
        found[str(share)] = {"waited": waited, "false": false, **({"nightly": night} if share == 0 else {})}
    return found


def rows_of(verdict: LiveVerdict, series: Series) -> tuple[int, int]:
    clock = series.clock
    return (verdict.start - clock.start) // clock.interval, (verdict.end - clock.start) // clock.interval


def joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans of rows with those joined that overlap or touch."""
    out: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(stop, out[-1][1])
        else:
            out.append((start, stop))
    return out


def page(records: dict[str, Any]) -> str:
    """Return the tables in Markdown."""
    lines = [
        "# Streaming: speed, memory and delay",
        "",
        "Made by `make bench-stream` (`benchmarks/stream.py`, which defines the measures), one thread, processor time.",
        "Ensemble with default settings, seed 0.",
        "",
        "## Speed and memory",
        "",
        f"Fitted to {MACHINES} machines of SMD, K = 38. Rows are pushed one by one, entities in turn, the fastest "
        f"of {REPEATS} runs. The machine was otherwise idle.",
        "",
    ]
    body = []
    for length in LENGTHS:
        if found := records.get(f"speed {length}"):
            body += _speed_rows(found, length)
    lines.append(
        table(
            ["rows per second", *(f"{entities:,} entit{'ies' if entities > 1 else 'y'}" for entities in ENTITIES)], body
        )
    )
    many = f"{MANY:,} entities"
    lines += [
        "",
        f"The verdicts of {many} are extrapolated from the cost of storing the first {FIRST_ROWS} rows of each, and "
        "from that of the verdicts of 100 entities.",
        "",
    ]
    memory = [
        [str(length), f"{found['memory'] / 1024:,.0f} KiB", f"{found['state'] / 1024:,.0f} KiB"]
        for length in LENGTHS
        if (found := records.get(f"speed {length}"))
    ]
    lines += [table(["length", "memory per entity", "saved state"], memory), "", "## From the fault to the alarm", ""]
    lines += [
        f"Simulated plant ({PLANT.entities} entities, {PLANT.rows:,} rows, seed {PLANT.seed}), length {PLANT_LENGTH}; "
        f"SMD ({DELAY_MACHINES} machines), length {LENGTHS[0]}; a simulated daily cycle ({DAILY_ENTITIES} entities, "
        f"20 days, seed 0), length {DAY}. A row is a minute. Delay in rows, over all anomalies that raise an alarm.",
        "",
    ]
    rows = []
    for name, key in (("plant", "delay plant"), ("SMD", "delay smd"), ("daily cycle", "delay daily")):
        if found := records.get(key):
            rows += _delay_rows(name, found)
    head = ["data", "verdicts", "anomalies with an alarm", "median delay", "90 % quantile", "false alarms"]
    return "\n".join([*lines, table(head, rows)]) + "\n"


def _speed_rows(found: dict[str, Any], length: int) -> list[list[str]]:
    body = []
    costs = {key: seconds / rows for key, (rows, seconds) in found["rows"].items()}
    stored = costs[f"{MANY} 0"]
    for every, said in ((0, "final only"), (length // 2, "2 per observation"), (length // 4, "4 per observation")):
        extrapolated = stored + costs[f"100 {every}"] - found["store"]
        cells = [1 / costs[f"1 {every}"], 1 / costs[f"100 {every}"], 1 / extrapolated]
        body.append([f"length {length}, verdicts: {said}", *(f"{cell:,.0f}" for cell in cells)])
    body.append([f"length {length}, final only, `push_many`", f"{1 / costs['push_many']:,.0f}", "", ""])
    body.append([f"length {length}, stored without a verdict", f"{1 / found['store']:,.0f}", "", f"{1 / stored:,.0f}"])
    return body


def _delay_rows(name: str, found: dict[str, Any]) -> list[list[str]]:
    final = found["0"]
    described = [
        ("`tsadc detect` once a day", final["nightly"], final["false"]),
        ("final only", final["waited"], final["false"]),
        *(
            (f"{share} per observation", found[str(share)]["waited"], found[str(share)]["false"])
            for share in SHARES[1:]
        ),
    ]
    rows = []
    for said, waited, false in described:
        known = [rows for rows in waited if rows is not None]
        middle, late = np.quantile(known, [0.5, 0.9])
        rows.append([name, said, f"{len(known)} of {len(waited)}", f"{middle:.0f}", f"{late:.0f}", str(false)])
    return rows


if __name__ == "__main__":
    raise SystemExit(main())
