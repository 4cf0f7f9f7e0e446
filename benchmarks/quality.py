"""How well detectors find anomalies, on every data set at hand: `make bench-quality`.

A cell is a detector with a seed on a protocol (`tsadc.bench.protocols`); each is one JSON record, by default under
`benchmarks/results/quality/`, with its scores in `benchmarks/cache/`. What has a record of the same settings is not run
again, so the run can be interrupted. `--table` makes the tables of `docs/results.md` from the records alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path

from tsadc.bench import table
from tsadc.bench.cell import Cell, Record, identity
from tsadc.bench.protocols import CHOOSING, PROTOCOLS, find, present
from tsadc.bench.records import Store, load
from tsadc.bench.run import run_all
from tsadc.config import parse_assignments
from tsadc.detectors import REGISTRY
from tsadc.detectors import find as registered
from tsadc.detectors.residual import ResidualDetector
from tsadc.errors import ConfigError, TsadcError

HERE = Path(__file__).parent
DOCUMENT = HERE.parent / "docs" / "results.md"


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    try:
        if given.table:
            text = table.markdown(load(given.out), choosing=given.seeds == "choose")
            print(text)
            if given.seeds != "choose":
                table.insert(given.document, text)
            return 0
        return execute(given)
    except TsadcError as error:
        print(f"quality.py: {error}", file=sys.stderr)
        return 2
    except BrokenExecutor:
        print("quality.py: A process was killed, perhaps for want of memory; go on with --jobs 1.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on where it stopped.", file=sys.stderr)
        return 130


def trained(name: str) -> bool:
    return issubclass(registered(name), ResidualDetector)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("TSADC_DATA") or "."
    parser.add_argument("--data", help=f"protocols, separated by commas, of {', '.join(PROTOCOLS)}; default: all")
    parser.add_argument(
        "--detectors", help="names, or name:preset, by commas; default: tsadc and all without a network"
    )
    parser.add_argument("--seeds", default="report", help="report, choose, or numbers separated by commas")
    parser.add_argument("--set", action="append", default=[], metavar="A.B=C", help="a setting of the detectors")
    parser.add_argument("--raw", type=Path, default=Path(data), help="the folder with the packs; default: TSADC_DATA")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "quality", help="where records go")
    parser.add_argument("--cache", type=Path, default=HERE / "cache", help="where scores go")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--again", action="store_true", help="run also what has a record")
    parser.add_argument("--retry", action="store_true", help="run also what failed")
    parser.add_argument("--dry-run", action="store_true", help="say what would be run")
    parser.add_argument("--table", action="store_true", help="make the tables instead of running")
    parser.add_argument("--document", type=Path, default=DOCUMENT, help="the document that gets the tables")
    return parser


def plan(given: argparse.Namespace) -> tuple[list[Cell], list[str]]:
    """The cells that are asked for, checked, and the protocols whose data is not there."""
    names = _listed(given.data) or list(PROTOCOLS)
    absent = [] if given.data else [name for name in names if not present(find(name), given.raw)]
    detectors = _listed(given.detectors) or [name for name in REGISTRY if name == "tsadc" or not trained(name)]
    overrides = parse_assignments(given.set)
    cells = [
        Cell(name, detector.partition(":")[0], seed, detector.partition(":")[2] or "default", overrides)
        for name in names
        if name not in absent
        for seed in seeds(name, given.seeds)
        for detector in detectors
    ]
    for cell in cells:
        identity(cell, given.raw)  # refuses what cannot be run before anything is
    return cells, absent


def _listed(text: str | None) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(","))) if text else []


def seeds(name: str, asked: str) -> tuple[int, ...]:
    protocol = find(name)
    if asked in ("report", "choose"):
        return protocol.report if asked == "report" else protocol.choose
    try:
        numbers = tuple(int(number) for number in asked.split(","))
    except ValueError:
        numbers = (-1,)
    if min(numbers) < 0:
        raise ConfigError(f"--seeds takes report, choose or whole numbers such as 0,1,2, but got {asked!r}.")
    return numbers


def execute(given: argparse.Namespace) -> int:
    cells, absent = plan(given)
    store = Store(given.out, given.cache)
    for name in absent:
        print(f"{name} is not run: {given.raw} has no {PROTOCOLS[name].source}")
    todo = [cell for cell in cells if given.again or store.current(cell, given.raw, given.retry) is None]
    print(f"{len(cells)} cells, {len(cells) - len(todo)} of them done before", flush=True)
    if given.dry_run:
        print("\n".join(f"{cell.data} {cell.row} seed {cell.seed}" for cell in todo))
        return 0
    started, failed = time.monotonic(), 0
    for done, (cell, record) in enumerate(run_all(todo, given.raw, store, given.jobs), start=1):
        failed += "error" in record
        left = (time.monotonic() - started) / done * (len(todo) - done) / 60
        print(f"[{done}/{len(todo)}, about {left:.0f} min left] {line(cell, record)}", flush=True)
    if failed:
        print(f"{failed} cells failed; their records say why, and --retry runs them again.", file=sys.stderr)
    return 1 if failed else 0


def line(cell: Cell, record: Record) -> str:
    what = f"{cell.data} {cell.row} seed {cell.seed}{' (choosing)' if cell.seed >= CHOOSING else ''}"
    if "error" in record:
        return f"{what}: failed, {record['error']['type']}: {record['error']['message']}"
    scores = f"AUROC {record['auroc']:.3f}, AP {record['ap']:.3f}, F1 {record['f1']:.3f}"
    times = f"fit {record['fit_seconds']:.1f} s, {1000 * record['score_seconds']:.1f} ms per observation"
    return f"{what}: {scores}, {times}"


if __name__ == "__main__":
    sys.exit(main())
