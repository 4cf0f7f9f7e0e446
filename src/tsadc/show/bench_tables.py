"""The tables of a benchmark: rows by data sets for each metric, every result, failures, and where numbers came from."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from tsadc.bench.job import Record
from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, format_value
from tsadc.bench.published import Published
from tsadc.bench.records import job_of
from tsadc.bench.summary import Grid, Summary
from tsadc.show.bench_formats import comma_separated
from tsadc.show.bench_published import SLASH, compared, lead
from tsadc.show.markup import Html, element, join, name
from tsadc.show.words import DASH, count


def matrix(summaries: Sequence[Summary], metric: str) -> Html:
    """Rows down, data sets across; the best of each in bold, the spread over seeds in small."""
    found = Grid(summaries, metric)
    best = {data: found.best(data, metric) for data in found.data}
    body = []
    for label in found.labels:
        entries = [_cell(found.get(label, data), metric, best[data]) for data in found.data]
        body.append(element("tr", element("td", name(label)), entries, data_filter=label.lower()))
    return join(_table(["Detector", *found.data], body, 1), _flagging_all(found, metric))


def _flagging_all(found: Grid, metric: str) -> Html | None:
    """What flagging everything gets, the same for whoever is compared; None where it is what chance gets, which stands
    in every job."""
    if all(one.mean(metric, flagging_all) == one.mean(metric, by_chance) for one in found.summaries if one.fine):
        return None
    values = {data: found.whole(data).mean(metric, flagging_all) for data in found.data}
    known = [f"{data} {format_value(metric, value)}" for data, value in values.items() if value is not None]
    return element("p", f"Flagging everything gets: {', '.join(known)}.", class_="note") if known else None


def _cell(summary: Summary, metric: str, best: float | None) -> Html:
    mean = summary.mean(metric)
    if mean is None:
        failed = summary.records and not summary.fine
        return element("td", "failed" if failed else DASH, class_="num", data_value="NaN")
    spread = summary.deviation(metric)
    text = format_value(metric, mean)
    shown = element("strong", text) if mean == best and metric not in NEUTRAL else text
    small = element("small", f" \N{PLUS-MINUS SIGN}{format_value(metric, spread)}") if spread is not None else None
    chance = summary.mean(metric, by_chance)
    hint = (
        element("small", f"({format_value(metric, chance)})", class_="chance", title="by chance")
        if chance is not None
        else None
    )
    return element("td", shown, small, hint, class_="num", data_value=f"{mean:.9g}")


def listing(summaries: Sequence[Summary], metrics: Sequence[str]) -> Html:
    """Every row on every data set, and the same as a file."""
    body, listed = [], [metric for metric in metrics if metric not in COSTS]
    for one in summaries:
        failed = len(one.records) - len(one.fine)
        seeds = f"{len(one.fine)}" + (f" ({failed} failed)" if failed else "")
        numbers = [(one.mean(metric), 3) for metric in listed]
        costs = [
            (one.mean("fit_seconds"), 1),
            (_scaled(one, "score_seconds", 1e3), 1),
            (_scaled(one, "peak_bytes", 2.0**-20), 0),
        ]
        costs += [(one.mean("parameters"), 0), (_scaled(one, "flops", 1e-6), 1)]
        entries = [
            element(
                "td",
                DASH if value is None else f"{value:,.{digits}f}",
                class_="num",
                data_value="NaN" if value is None else f"{value:.9g}",
            )
            for value, digits in (*numbers, *costs)
        ]
        known = [
            element("td", one.data),
            element("td", name(one.label)),
            element("td", seeds, class_="num", data_value=len(one.fine)),
        ]
        body.append(element("tr", known, entries, data_filter=f"{one.data} {one.label}".lower()))
    head = ["Data", "Detector", "Seeds", *listed, "Fit, s", "Score, ms", "Peak, MiB", "Parameters", "MFLOP"]
    data = base64.b64encode(comma_separated(summaries, metrics).encode("utf-8", "replace")).decode()
    link = element(
        "a",
        f"Download {count(len(summaries), 'line', 'lines')} as CSV",
        href=f"data:text/csv;charset=utf-8;base64,{data}",
        download="benchmark.csv",
    )
    return join(element("p", link, class_="note"), _table(head, body, 2, "scroll tall"))


def _scaled(one: Summary, key: str, factor: float) -> float | None:
    mean = one.mean(key)
    return None if mean is None else factor * mean


def beside(published: Published, summaries: Sequence[Summary]) -> Html:
    """What others published beside the means of ours, and what differs."""
    differs = element("p", published.differs, class_="note")
    if not published.methods:
        return join(element("p", f"{published.source}.", class_="lead"), differs)
    head, lines = compared(published, summaries)
    body = [
        element("tr", (_figure(text) if i > 1 else element("td", text) for i, text in enumerate(line)))
        for line in lines
    ]
    return join(element("p", lead(published), class_="lead"), _table(head, body, 2), differs)


def _figure(text: str) -> Html:
    """Figures of one table entry, sorted by the first of them."""
    try:
        value = f"{float(text.partition(SLASH)[0]):.9g}"
    except ValueError:
        value = "NaN"
    return element("td", text, class_="num", data_value=value)


def failures(records: Sequence[Record]) -> Html | None:
    """What failed, and why. None if nothing did."""
    failed = [one for one in records if "error" in one]
    if not failed:
        return None
    body = []
    for one in failed:
        job = job_of(one)
        words = [
            job.data,
            job.label,
            str(job.seed),
            one["error"],
            one["error_at"],
        ]
        body.append(element("tr", (element("td", word) for word in words)))
    return _table(["Data", "Detector", "Seed", "Error", "Where"], body, 5)


def provenance(records: Sequence[Record], plan: str) -> Html:
    """Everything that is needed to make the numbers again stands in the records; here is what they share."""

    def every(values: Sequence[str | None]) -> str:
        return "; ".join(sorted({value for value in values if value})) or "not recorded"

    known = {
        "Plan": plan or DASH,
        "Records": f"{len(records):,}, of seeds {', '.join(map(str, sorted({one['seed'] for one in records})))}",
        "Version": every([f"tsadc {one.get('version')} at commit {one.get('commit') or 'unknown'}" for one in records]),
        "Packages": every([one.get("packages") for one in records]),
        "Machines": every([one.get("machine") for one in records]),
        "Made": _span([str(one["made"]) for one in records if one.get("made")]),
    }
    return element(
        "dl", (join(element("dt", key), element("dd", value)) for key, value in known.items()), class_="facts"
    )


def _span(times: list[str]) -> str:
    if not times:
        return "not recorded"
    return min(times) if min(times) == max(times) else f"{min(times)} to {max(times)}"


def _table(head: Sequence[str], body: Sequence[Html], words: int, class_: str = "scroll") -> Html:
    """The first `words` columns are text, the others numbers."""
    heads = [element("th", title, scope="col", class_="num" if i >= words else None) for i, title in enumerate(head)]
    table = element("table", element("thead", element("tr", heads)), element("tbody", body), class_="sortable")
    return element("div", table, class_=class_)
