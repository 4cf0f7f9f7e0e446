"""A table of published figures beside the means of our records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from tsadc.bench.metrics import format_value
from tsadc.bench.published import Published, PublishedMethod
from tsadc.bench.summary import Grid, Summary
from tsadc.show.markdown import table

DASH, SLASH = "-", " / "


def markdown(published: Published, summaries: Sequence[Summary]) -> str:
    """Return the published figures beside ours, and how the experiments differ."""
    if not published.methods:
        return f"Published: {published.source}. {published.differs}"
    return f"{lead(published)}\n\n{table(*compared(published, summaries))}\n\n{published.differs}"


def lead(published: Published) -> str:
    """Return the sentence that says how to read the table."""
    theirs, ours = SLASH.join(published.metrics), SLASH.join(name or DASH for name in published.metrics.values())
    return f"Published ({published.source}) beside ours: {theirs}; ours are means over seeds of {ours}."


def compared(published: Published, summaries: Sequence[Summary]) -> tuple[list[str], list[list[str]]]:
    """Return a heading and lines. The longer list, methods or data sets, goes down, with a line for each of ours that
    one is compared with; our columns follow each column of theirs."""
    grid = Grid(summaries)
    methods = {method.name: method for method in published.methods}
    down: Mapping[str, tuple[str, ...]] = {name: method.ours for name, method in methods.items()}
    across, wide = published.data, len(published.data) > len(methods)
    down, across = (across, down) if wide else (down, across)
    head = ["data" if wide else "method", "ours"]
    for there, ours in across.items():
        head += [there, *(f"ours: {name}" for name in ours)]
    body = []
    for here, own in itertools.chain(*([(name, own) for own in names or ("",)] for name, names in down.items())):
        line = [here, own or DASH]
        for there, ours in across.items():
            method, data = (there, here) if wide else (here, there)
            line.append(_theirs(published, methods[method], data))
            line += [_ours(published, grid.get(*((name, own) if wide else (own, name)))) for name in ours]
        body.append(line)
    return head, body


def _theirs(published: Published, method: PublishedMethod, data: str) -> str:
    figures = method.figures.get(data)
    if figures is None:
        return DASH
    known = [None if math.isnan(figure) else figure for figure in figures]
    return SLASH.join(map(format_value, published.metrics.values(), known))


def _ours(published: Published, summary: Summary) -> str:
    if not summary.fine:
        return "failed" if summary.records else DASH
    values = SLASH.join(format_value(name, summary.mean(name) if name else None) for name in published.metrics.values())
    failed = len(summary.records) - len(summary.fine)
    return values + (f" ({failed} of {len(summary.records)} failed)" if failed else "")
