"""Compare the counts of a prepared data set or a draw with the paper's Table 1, and say why they differ."""

from __future__ import annotations

import pandas as pd

from tsadc.data.catalogue import find
from tsadc.data.contaminate import PARTS, Draw
from tsadc.data.prepared import Prepared

NOTHING = "-"


def compare(prepared: Prepared) -> pd.DataFrame:
    """Return one line per quantity, with its value in `prepared` and in the paper."""
    card = find(prepared.name, "prepare").card
    labels = [label for labels in prepared.labels.values() for label in labels]
    anomalous = sum(bool(label.kinds) for label in labels)
    total = card.paper.total if card.paper else None
    rows: list[tuple[str, str, str]] = [
        ("observations", f"{len(labels):,}", f"{total.observations:,}" if total else NOTHING),
        ("anomalous", f"{anomalous / len(labels):.1%}", f"{total.ratio:.1%}" if total else NOTHING),
        ("variables K", str(len(prepared.variables)), str(len(card.variables)) if total else NOTHING),
        ("length L", f"{prepared.length:,}", f"{card.length:,}" if total else NOTHING),
        (f"entities ({card.entity})", f"{len(prepared.entities):,}", NOTHING),
    ]
    for kind in prepared.kinds:
        rows.append((f"of kind {kind}", f"{sum(kind in label.kinds for label in labels):,}", NOTHING))
    return pd.DataFrame(rows, columns=["", "prepared", "paper"])


def compare_parts(draw: Draw) -> pd.DataFrame:
    """Return one line per part: observations and the share of anomalous ones, as drawn and in the paper."""
    paper = find(draw.prepared.name, "prepare").card.paper
    rows = []
    for part in PARTS:
        count, anomalous = draw.count(part)
        share = paper.parts[part] if paper else None
        given = (f"{share.observations:,}", f"{share.ratio:.1%}") if share else (NOTHING, NOTHING)
        rows.append((part, f"{count:,}", f"{anomalous / count:.1%}", *given))
    return pd.DataFrame(rows, columns=["part", "observations", "anomalous", "paper: observations", "paper: anomalous"])


def reasons(prepared: Prepared) -> list[str]:
    """Return sentences that say why the counts differ from the paper's."""
    card = find(prepared.name, "prepare").card
    out = []
    if card.paper is None:
        out.append("The paper does not use this data set.")
    elif card.paper.total.observations != len(prepared):
        out.append(f"{card.title.split(':')[0]}: {card.differs}")
    if card.entities is not None and len(prepared.entities) < card.entities:
        out.append(f"{len(prepared.entities):,} of the {card.entities:,} entities of the whole archive are here.")
    if prepared.length != card.length:
        out.append(f"Observations of {prepared.length} rows were requested; the usual length is {card.length}.")
    if prepared.about["settings"].get("leave_out"):
        out.append(f"Left out on request: {', '.join(prepared.about['settings']['leave_out'])}.")
    left_out = {reason: count for reason, count in prepared.about["left_out"].items() if count}
    if left_out:
        out.append("Not used: " + ", ".join(f"{reason} ({count:,})" for reason, count in left_out.items()) + ".")
    if prepared.about["skipped"]:
        out.append(f"Records that could not be read: {len(prepared.about['skipped'])}.")
    return out
