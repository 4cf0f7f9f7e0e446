"""The page of a benchmark: who leads, tables to sort and filter, ranks, curves, failures, provenance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tsadc.bench.job import Record
from tsadc.bench.metrics import COSTS, NEUTRAL, by_chance, flagging_all, format_value, high_end, low_end
from tsadc.bench.published import Published
from tsadc.bench.records import job_of
from tsadc.bench.summary import Grid, Read, Summary, data_of, labels_of, ranked, summarise
from tsadc.data.protocols import CHOOSING
from tsadc.show.bench_charts import curves, ranks
from tsadc.show.bench_export import comma_separated
from tsadc.show.bench_published import SLASH, compared, lead
from tsadc.show.html import (
    Html,
    Section,
    csv_link,
    element,
    facts,
    join,
    name,
    outline,
    page,
    sortable_table,
    tiles,
)
from tsadc.show.words import DASH, count, metric_name

NAMED = 4  # detectors in the headline
HOW = (
    "Means over seeds, with the standard deviation over seeds in small print. AUROC and AP rate the order of the "
    "scores and need no threshold. F1 is at the detector's own threshold, which is set without labels. Detectors with "
    "a network come first, then those without, each by the mean over the data sets. Values in parentheses are expected "
    "by chance: from random scores, or from the same number of flags at random places. Click a heading to sort."
)
TIED = "Tied means that the 90 % intervals overlap on a data set."


def render(
    records: Sequence[Record],
    *,
    title: str,
    note: str = "",
    metrics: Sequence[str] = (),
    choosing: bool = False,
    others: Published | None = None,
    lacking: str = "",
) -> str:
    """Return the page as text. The same records give the same bytes.

    `others` holds published figures of the same experiment. `lacking` is a sentence about jobs that were not run."""
    summaries = summarise(records, choosing)
    kept = [record for record in records if (record["seed"] >= CHOOSING) == choosing]
    shown = [metric for metric in metrics if any(summary.values(metric) for summary in summaries)] or ["auroc"]
    sections = _sections(summaries, kept, shown, title)
    if others is not None:
        sections.insert(1, Section("published", "Published", published_table(others, summaries)))
    summary = join(
        _verdict(summaries, shown),
        element("p", element("strong", lacking.replace("`", "")), class_="lacking") if lacking else None,
        element("p", note, class_="worst") if note else None,
        _tiles(summaries, kept, lacking),
    )
    return page(title, outline(title, summary, sections), ("bench",))


def _sections(
    summaries: Sequence[Summary], records: Sequence[Record], metrics: Sequence[str], title: str
) -> list[Section]:
    tables = _per_metric({metric: matrix(summaries, metric) for metric in metrics})
    rank_charts = _per_metric({metric: ranks(summaries, metric) for metric in metrics})
    curve_charts = _per_metric({metric: curves(summaries, metric) for metric in metrics})
    summary = join(element("p", HOW, class_="lead"), _controls(metrics), tables)
    contents = (
        ("summary", "Summary", summary),
        ("ranks", "Ranks", rank_charts),
        ("curves", "Curves", curve_charts),
        ("results", "All results", listing(summaries, metrics)),
        ("failures", "Failures", failures(records)),
        ("about", "Provenance", provenance(records, title)),
    )
    return [Section(key, heading, content) for key, heading, content in contents if content]


def _per_metric(contents: dict[str, Html | None]) -> Html:
    """Return one block per metric. The script shows one at a time; without it, all are visible."""
    return join(
        element("div", element("h3", metric_name(metric), class_="metric"), content, data_metric=metric)
        for metric, content in contents.items()
        if content is not None
    )


def _controls(metrics: Sequence[str]) -> Html:
    options = [element("option", metric_name(metric), value=metric) for metric in metrics]
    return element(
        "p",
        element("label", "Metric ", element("select", options, id="metric")),
        element("label", "Filter ", element("input", id="filter", type="search", placeholder="data set or detector")),
        element("span", id="shown", role="status"),
        class_="controls",
        hidden=True,
    )


def _verdict(summaries: Sequence[Summary], metrics: Sequence[str]) -> Html | None:
    """Say which detectors lead or tie most often by the first metric of which a higher value is better.

    Only data sets on which all detectors have a value count. Otherwise a detector that ran on few could not win on the
    others."""
    if not any(summary.fine for summary in summaries):
        return element("p", element("strong", "Nothing was measured"), ": all jobs failed.", class_="verdict")
    metric = next((metric for metric in metrics if metric not in NEUTRAL), None)
    if metric is None:
        return None
    grid = Grid([summary for summary in summaries if summary.values(metric)], metric)
    every = data_of(summaries)
    tied = {data: _tied(grid.of(data), metric) for data in grid.data if len(grid.of(data)) == len(grid.labels)}
    if not tied:
        words = f"No detector leads: there is no data set on which all detectors have {metric_name(metric)}."
        return element("p", words, class_="verdict calm")
    wins = Counter(label for labels in tied.values() for label in labels)
    leaders = [label for label in ranked(grid.summaries, metric) if wins[label] == max(wins.values())]
    kind = "data sets and splits" if any(summary.split for summary in summaries) else "data sets"
    where = "on the only data set" if len(every) == 1 else f"on {wins[leaders[0]]} of {len(tied)} {kind}"
    where += " with values of all detectors" if len(tied) < len(every) else ""
    others = Counter(label for labels in tied.values() if leaders[0] in labels for label in labels)
    del others[leaders[0]]
    if len(leaders) > 1:
        same = all(len({label in labels for label in leaders}) == 1 for labels in tied.values())
        verb = " are tied" if same else " are tied: each leads or ties"
        words = join(_listed(leaders), f"{verb} by {metric_name(metric)} {where}.")
    elif others:
        ties = {label: f" on {amount}" if len(tied) > 1 else "" for label, amount in others.most_common()}
        words = join(
            _listed(leaders), f" leads or ties by {metric_name(metric)} {where}. Tied with it: ", _listed(ties), "."
        )
    else:
        words = join(_listed(leaders), f" has the highest {metric_name(metric)} {where}.")
    note = element("p", TIED, class_="worst") if others else None
    return join(element("p", words, class_="verdict calm"), note)


def _tied(summaries: Sequence[Summary], metric: str) -> list[str]:
    """Return the labels that are best on a data set: those whose interval overlaps with that of the highest mean.
    Without intervals, only equal means are tied."""

    def end(summary: Summary, read: Read) -> float:
        value = summary.mean(metric, read)
        return value if value is not None else summary.mean(metric) or 0.0

    best = max(summaries, key=lambda summary: summary.mean(metric) or 0.0)
    return [summary.label for summary in summaries if end(summary, high_end) >= end(best, low_end)]


def _listed(labels: Iterable[str]) -> Html:
    """Join labels as in a sentence: "a", "a and b", "a, b, c, d and 3 more". A mapping holds a text after each."""
    texts = labels if isinstance(labels, Mapping) else dict.fromkeys(labels, "")
    parts = [join(element("strong", name(label)), text) for label, text in texts.items()]
    parts = [*parts[:NAMED], *([join(f"{len(parts) - NAMED} more")] if len(parts) > NAMED else [])]
    last = [join(" and ", parts[-1])] if len(parts) > 1 else []
    return join(parts[0], (join(", ", part) for part in parts[1:-1]), last)


def _tiles(summaries: Sequence[Summary], records: Sequence[Record], lacking: str) -> Html:
    failed = sum("error" in record for record in records)
    datasets = {summary.dataset for summary in summaries}
    trained = {summary.label for summary in summaries if summary.network}
    return tiles(
        [
            ("Jobs", f"{len(records):,}", count(len({record["seed"] for record in records}), "seed", "seeds")),
            ("Data sets", f"{len(datasets):,}", count(len(data_of(summaries)), "split", "splits")),
            ("Detectors", f"{len(labels_of(summaries)):,}", f"{len(trained):,} with a network"),
            (
                "Failed",
                f"{failed:,}",
                "listed below" if failed else "see the note above" if lacking else "all jobs have results",
            ),
        ]
    )


def matrix(summaries: Sequence[Summary], metric: str) -> Html:
    """Return a table of detectors by data sets, with the highest mean on each data set in bold."""
    grid = Grid(summaries, metric)
    best = {data: grid.best(data, metric) for data in grid.data}
    rows = []
    for label in grid.labels:
        entries = [_entry(grid.get(label, data), metric, best[data]) for data in grid.data]
        rows.append(element("tr", element("td", name(label)), entries, data_filter=label.lower()))
    heads = [("Detector", False), *((data, True) for data in grid.data)]
    return join(sortable_table(heads, rows), _flagging_all(grid, metric))


def _entry(summary: Summary, metric: str, best: float | None) -> Html:
    mean = summary.mean(metric)
    if mean is None:
        failed = summary.records and not summary.fine
        return element("td", "failed" if failed else DASH, class_="num", data_value="NaN")
    text, spread, chance = format_value(metric, mean), summary.deviation(metric), summary.mean(metric, by_chance)
    parts: list[str] = [element("strong", text) if mean == best and metric not in NEUTRAL else text]
    if spread is not None:
        parts.append(element("small", f" \N{PLUS-MINUS SIGN}{format_value(metric, spread)}"))
    if chance is not None:
        parts.append(element("small", f"({format_value(metric, chance)})", class_="chance", title="by chance"))
    return element("td", parts, class_="num", data_value=f"{mean:.9g}")


def _flagging_all(grid: Grid, metric: str) -> Html | None:
    """Return the values of flagging everything; None if they equal those by chance, which the table shows."""
    fine = [summary for summary in grid.summaries if summary.fine]
    if all(summary.mean(metric, flagging_all) == summary.mean(metric, by_chance) for summary in fine):
        return None
    values = {data: grid.whole(data).mean(metric, flagging_all) for data in grid.data}
    known = [f"{data} {format_value(metric, value)}" for data, value in values.items() if value is not None]
    return element("p", f"With everything flagged: {', '.join(known)}.", class_="note") if known else None


def listing(summaries: Sequence[Summary], metrics: Sequence[str]) -> Html:
    """Return every result with its costs, and a CSV file to download."""
    shown = [metric for metric in metrics if metric not in COSTS]
    # Column title, metric, factor, decimals.
    columns = [(metric_name(metric), metric, 1.0, 3) for metric in shown]
    columns += [
        ("Fit, s", "fit_seconds", 1.0, 1),
        ("Score, ms", "score_seconds", 1e3, 1),
        ("Peak, MiB", "peak_bytes", 2.0**-20, 0),
        ("Parameters", "parameters", 1.0, 0),
        ("MFLOP", "flops", 1e-6, 1),
    ]
    rows = []
    for summary in summaries:
        failed = len(summary.records) - len(summary.fine)
        seeds = f"{len(summary.fine)}" + (f" ({failed} failed)" if failed else "")
        entries = [
            element("td", summary.data),
            element("td", name(summary.label)),
            element("td", seeds, class_="num", data_value=len(summary.fine)),
            *(_number(summary.mean(metric), factor, decimals) for _, metric, factor, decimals in columns),
        ]
        rows.append(element("tr", entries, data_filter=f"{summary.data} {summary.label}".lower()))
    link = csv_link(
        f"Download {count(len(summaries), 'line', 'lines')} as CSV",
        comma_separated(summaries, metrics),
        "benchmark.csv",
    )
    heads = [("Data", False), ("Detector", False), ("Seeds", True), *((column[0], True) for column in columns)]
    return join(element("p", link, class_="note"), sortable_table(heads, rows, "scroll tall"))


def _number(value: float | None, factor: float, decimals: int) -> Html:
    if value is None:
        return element("td", DASH, class_="num", data_value="NaN")
    return element("td", f"{factor * value:,.{decimals}f}", class_="num", data_value=f"{factor * value:.9g}")


def published_table(published: Published, summaries: Sequence[Summary]) -> Html:
    """Return published figures beside the means of ours, and how the experiments differ."""
    differs = element("p", published.differs, class_="note")
    if not published.methods:
        return join(element("p", f"{published.source}.", class_="lead"), differs)
    head, lines = compared(published, summaries)
    rows = [
        element("tr", (_figures(text) if i > 1 else element("td", text) for i, text in enumerate(line)))
        for line in lines
    ]
    table = sortable_table([(title, i > 1) for i, title in enumerate(head)], rows)
    return join(element("p", lead(published), class_="lead"), table, differs)


def _figures(text: str) -> Html:
    """Return an entry with several figures, which is sorted by the first."""
    try:
        value = f"{float(text.partition(SLASH)[0]):.9g}"
    except ValueError:
        value = "NaN"
    return element("td", text, class_="num", data_value=value)


def failures(records: Sequence[Record]) -> Html | None:
    """Return the failed jobs and their errors; None if no job failed."""
    rows = []
    for record in records:
        if "error" in record:
            job = job_of(record)
            texts = (job.data, job.label, str(job.seed), record["error"], record["error_at"])
            rows.append(element("tr", (element("td", text) for text in texts)))
    heads = [(title, False) for title in ("Data", "Detector", "Seed", "Error", "Where")]
    return sortable_table(heads, rows) if rows else None


def provenance(records: Sequence[Record], plan: str) -> Html:
    """Return what the records share: seeds, versions, packages, machines and times."""

    def distinct(values: Sequence[str | None]) -> str:
        return "; ".join(sorted({value for value in values if value})) or "not recorded"

    seeds = sorted({record["seed"] for record in records})
    versions = [f"tsadc {record.get('version')} at commit {record.get('commit') or 'unknown'}" for record in records]
    times = sorted({str(record["made"]) for record in records if record.get("made")})
    return facts(
        {
            "Plan": plan or DASH,
            "Records": f"{len(records):,}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(map(str, seeds))}",
            "Version": distinct(versions),
            "Packages": distinct([record.get("packages") for record in records]),
            "Machines": distinct([record.get("machine") for record in records]),
            "Created": " to ".join(dict.fromkeys([times[0], times[-1]])) if times else "not recorded",
        }.items()
    )
