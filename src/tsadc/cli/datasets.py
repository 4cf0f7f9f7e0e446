"""`tsadc data`: list and prepare data sets."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path

from tsadc.config import parse_assignments
from tsadc.data import CATALOGUE, prepare
from tsadc.data.counts import compare, reasons
from tsadc.data.prepared import ARRAYS, Prepared
from tsadc.data.smd import shift_table, shifts
from tsadc.detectors.settings import Common
from tsadc.show.words import count


def describe_all() -> list[tuple[str, str]]:
    """Describe every data set: what it is, how to obtain it, and the expected layout."""
    rows = []
    for name, dataset in CATALOGUE.items():
        card = dataset.card
        size = f"{len(card.variables)} variables, {card.length:,} rows at {card.rate:g} Hz per observation"
        rows.append(
            (name, f"{card.title}. {size}. Licence: {card.licence}. To obtain it: {card.obtain} ({card.size}).")
        )
        rows.append(("", f"Expected under --raw: {card.layout}."))
    return rows


def prepare_to(name: str, raw: Path, out: Path, assignments: Sequence[str], *, skip_bad: bool) -> str:
    """Prepare a data set; return its counts beside the paper's, and the reasons for differences."""
    prepared = prepare(name, raw, out, skip_bad=skip_bad, **parse_assignments(assignments))
    many = count(len(prepared.entities), "entity", "entities")
    lines = [f"Wrote {len(prepared):,} observations of {many} to {out}.", ""]
    lines.append(compare(prepared).to_string(index=False))
    lines += ["", *reasons(prepared)]
    if prepared.name == "smd":
        lines += ["", "Shift of each machine's test part relative to its training part:"]
        lines.append(shift_table(shifts(prepared)).to_string(index=False))
    lines += ["", f"`tsadc.data.load({str(out)!r})` has the labels; without them: {fit_command(prepared)}"]
    return "\n".join(lines)


def fit_command(prepared: Prepared) -> str:
    """Return the command that trains on prepared data: one observation per record, padded records included."""
    words = ["tsadc", "fit", shlex.quote(str(prepared.folder / ARRAYS)), "--length", str(prepared.length)]
    least = float(prepared.about.get("coverage", 1.0))
    if least < Common.coverage:
        words += ["--set", f"coverage={max(1, math.floor(1000 * least)) / 1000:g}"]
    return " ".join([*words, "--out", "MODEL"])
