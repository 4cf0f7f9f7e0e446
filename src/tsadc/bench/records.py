"""Records on disk: `OUT/DATA/ROW/seed-N.json`, one per cell, each there whole or not at all. A record is current while
its hash is that of what would be run now; the scores lie in a folder of their own under that hash."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tsadc.atomic import write_file
from tsadc.bench.cell import Cell, Record, flat, identity
from tsadc.bench.measure import Arrays
from tsadc.errors import DataError

SCORES, TRAINING, PLAN = "scores", ".training", "plan.toml"
ASKED = {"hash", "data", "detector", "preset", "overrides", "seed", "settings", "tsadc"}
MEASURED = {"auroc", "ap", "f1", "prevalence", "flagged", "all_positive_f1", "fit_seconds", "score_seconds"}


@dataclass(frozen=True)
class Store:
    """Where records go, and, if anywhere, scores. `training` holds what a killed run goes on from."""

    out: Path
    cache: Path | None = None

    @property
    def training(self) -> Path:
        return self.out / TRAINING

    def file(self, cell: Cell) -> Path:
        plain = Cell("", cell.detector, 0, cell.preset).row
        changed = f"+{hashlib.sha256(cell.row.encode()).hexdigest()[:8]}" if cell.row != plain else ""
        data = "+".join([cell.data, *(f"{name}={value:g}" for name, value in flat(cell.split))])
        return self.out / data / f"{plain.replace(':', '-')}{changed}" / f"seed-{cell.seed}.json"

    def current(self, cell: Cell, raw: Path, retry: bool = False) -> Record | None:
        """The record of the cell as it would be run now; with `retry` a failure does not count, and where rows are to
        be measured none without them."""
        try:
            record: Record = json.loads(self.file(cell).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        if not whole(record):
            return None
        same = record["hash"] == identity(cell, raw)["hash"]
        taken = record.get("points", {})
        enough = "error" in record or taken is None or set(cell.by_row) <= set(taken)
        return record if same and enough and not (retry and "error" in record) else None

    def relabel(self, cell: Cell, record: Record) -> None:
        """Have the record say how the plan calls its row now."""
        if record.get("label", "") != cell.label:
            self.keep(cell, {**record, "label": cell.label}, {})

    def keep(self, cell: Cell, record: Record, arrays: Arrays) -> None:
        if self.cache is not None and arrays:
            save_arrays(self.cache / f"{record['hash']}.npz", arrays)
        write_file(self.file(cell), (json.dumps(record, indent=1, ensure_ascii=False) + "\n").encode())


def load(out: Path) -> list[Record]:
    """Every record under a folder."""
    if out.is_file():
        raise DataError(f"{out} is a file, but the folder that `tsadc bench run` wrote was expected.")
    if not out.is_dir():
        raise DataError(f"There is no folder {out} with records; run the benchmark first.")
    found = []
    for file in sorted(out.glob("*/*/seed-*.json")):
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            record = None
        if not whole(record):
            raise DataError(f"{file} is damaged; delete it and run the benchmark again.")
        found.append(record)
    return found


def whole(record: Any) -> bool:
    """Whether it is what `keep` wrote: who it is of, and either numbers or an error."""
    if not isinstance(record, dict):
        return False
    return record.keys() >= ASKED and ("error" in record or record.keys() >= MEASURED)


def cell_of(record: Mapping[str, Any]) -> Cell:
    """The cell that a record is of."""
    return Cell(
        record["data"],
        record["detector"],
        record["seed"],
        record["preset"],
        record["overrides"],
        record.get("split", {}),
        record.get("taken"),
        label=record.get("label", ""),
    )


def save_arrays(file: Path, arrays: Arrays) -> None:
    """Compressed; the file appears whole or not at all."""
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **arrays)
    write_file(file, content.getvalue())
