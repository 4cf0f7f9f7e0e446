"""Show records as Markdown tables of detectors by data sets."""

from __future__ import annotations

from collections.abc import Sequence

from tsadc.bench.job import Record
from tsadc.bench.metrics import by_chance, flagging_all, format_value, high_end, low_end
from tsadc.bench.paired import against_best
from tsadc.bench.summary import Grid, Read, Summary, summarise
from tsadc.show.markdown import table

ALWAYS = ("auroc", "ap", "f1")
RANKING = {"auroc": "AUROC", "ap": "AP (average precision)"}


def markdown(
    records: Sequence[Record], choosing: bool = False, metrics: Sequence[str] = (), brief: bool = False
) -> str:
    """Return the tables of the seeds for reporting, or of those for choosing settings.

    `metrics` are shown in addition to AUROC, AP and F1; with `brief` they are shown alone, without kinds, parts and
    details."""
    grid = Grid(summarise(records, choosing))
    shown = metrics if brief and metrics else (*ALWAYS, *(metric for metric in metrics if metric not in ALWAYS))
    parts = [
        _preface(grid, shown, details=not brief),
        *(one_metric(grid, metric) for metric in shown),
        *([_seeds(grid)] if brief else [_paired(grid), _halves(grid), _kinds(grid), _details(grid)]),
    ]
    return "\n\n".join(part for part in parts if part)


def _preface(grid: Grid, metrics: Sequence[str], details: bool) -> str:
    """Say how to read the tables, and which versions made the numbers."""
    records = [record for summary in grid.summaries for record in summary.records]
    words = ["Means over seeds."]
    if set(RANKING) & set(metrics):
        words.append(
            "AUROC and AP are followed by the mean of their 90 % bootstrap intervals. The bootstrap resamples entities "
            "if there are several, otherwise observations. The best detector without a network is bold."
        )
    words += ["F1 is bold if it is higher than that of flagging everything."] if "f1" in metrics else []
    if details or "oracle_f1" in metrics:
        words.append("The oracle F1 uses labels and is an upper bound, not a result.")
    return " ".join([*words, versions(records)])


def versions(records: Sequence[Record]) -> str:
    """Return a sentence on the versions that made the records."""
    commits = sorted({f"tsadc {record['version']} at commit {record['commit'] or 'unknown'}" for record in records})
    changed = any(str(record["commit"] or "").endswith("+") for record in records)
    return f"Made with {', '.join(commits)}" + ("; a plus sign marks uncommitted changes." if changed else ".")


def one_metric(grid: Grid, metric: str) -> str:
    """Return the table of one metric: detectors by data sets."""
    if metric in RANKING:
        return _ranked(metric, grid)
    return _thresholds(grid) if metric == "f1" else _plain(metric, grid)


def _ranked(metric: str, grid: Grid) -> str:
    best = {data: _best(grid.of(data), metric) for data in grid.data}
    body = []
    for label in grid.labels:
        values = {data: _ranking(grid.get(label, data), metric) for data in grid.data}
        body.append([label, *(f"**{text}**" if best[data] == label else text for data, text in values.items())])
    prevalence = [grid.whole(data).mean("prevalence") for data in grid.data]
    body.append(["prevalence (AP by chance)" if metric == "ap" else "prevalence", *map(_number, prevalence)])
    return table([RANKING[metric], *grid.data], body)


def _best(summaries: Sequence[Summary], metric: str) -> str:
    """Return the best label without a network."""
    means = {
        summary.label: mean
        for summary in summaries
        if not summary.network and (mean := summary.mean(metric)) is not None
    }
    return max(means, key=lambda label: means[label]) if means else ""


def _ranking(summary: Summary, metric: str) -> str:
    """Format the mean over seeds, and the means of the ends of the seeds' intervals."""
    low, high = summary.mean(metric, low_end), summary.mean(metric, high_end)
    within = "" if low is None else f" ({_number(low)} to {_number(high)})"
    return _number(summary.mean(metric)) + within + _failures(summary)


def _plain(metric: str, grid: Grid) -> str:
    """Return a table with the values by chance in parentheses: those of random scores, or of flags at random places."""
    every = [grid.whole(data) for data in grid.data]
    if all(summary.fine and summary.mean(metric) is None for summary in every):
        return f"{metric}: none of these detectors has it."
    body = [[label, *(_beside(grid.get(label, data), metric) for data in grid.data)] for label in grid.labels]
    flagged = [summary.mean(metric, flagging_all) for summary in every]
    body += [["flag everything", *(format_value(metric, value) for value in flagged)]] if set(flagged) != {None} else []
    chance = any(summary.mean(metric, by_chance) is not None for summary in every)
    return table([f"{metric} (by chance)" if chance else metric, *grid.data], body)


def _beside(summary: Summary, metric: str) -> str:
    value, chance = summary.mean(metric), summary.mean(metric, by_chance)
    beside = "" if value is None or chance is None else f" ({format_value(metric, chance)})"
    return format_value(metric, value) + beside + _failures(summary)


def _thresholds(grid: Grid) -> str:
    flagging = [grid.whole(data).mean("all_positive_f1") for data in grid.data]
    body = [[label, *(_f1(grid.get(label, data)) for data in grid.data)] for label in grid.labels]
    return table(
        ["F1 at its own threshold (by chance)", *grid.data], [*body, ["flag everything", *map(_number, flagging)]]
    )


def _f1(summary: Summary) -> str:
    f1, everything, chance = summary.mean("f1"), summary.mean("all_positive_f1"), summary.mean("f1", by_chance)
    better = f1 is not None and everything is not None and f1 > everything
    text = f"**{_number(f1)}**" if better else _number(f1)
    return text + ("" if chance is None else f" ({_number(chance)})") + _failures(summary)


def _seeds(grid: Grid) -> str:
    """List the seeds of each data set; several lists if labels differ, none if all jobs failed."""
    seeds = {data: sorted({_seeds_of(summary.fine) for summary in grid.of(data)} - {""}) for data in grid.data}
    return "Seeds: " + "; ".join(f"{data}: {' or '.join(texts)}" for data, texts in seeds.items()) + "."


def _paired(grid: Grid) -> str:
    """Compare the best label with the others over the data sets that all of them have."""
    compared = against_best(grid.summaries, "auroc")
    if compared is None:
        return ""
    best, datasets, others = compared
    body = []
    for other in others:
        low, high = other.interval
        body.append([other.label, f"{other.difference:+.3f} ({low:+.3f} to {high:+.3f})", f"{other.p:.3f}"])
    head = [f"AUROC of {best} minus that of", f"mean over {datasets} data sets, 90 % interval", "p (Wilcoxon, Holm)"]
    return table(head, body) + (
        "\n\nDetectors without values on all data sets are left out. Data sets made from the same recordings are not "
        "independent, so the intervals are too narrow and p is too small."
    )


def _halves(grid: Grid) -> str:
    """Return the table of named parts, such as those that were not used for choosing settings: AUROC and AP, or the
    metrics of rows if the data set scores rows only."""
    order = {
        (data, part): _metrics_of(grid.whole(data), part)
        for data in grid.data
        for part in _named(grid.whole(data), "parts")
    }
    body = []
    for label in grid.labels:
        entries = []
        for (data, part), metrics in order.items():
            summary = grid.get(label, data)
            entries.append(" / ".join(_number(summary.mean(metric, _inside(part))) for metric in metrics))
        body.append([label, *entries])
    heads = [
        f"{data}: {part}" + ("" if set(metrics) == set(RANKING) else f" ({' / '.join(metrics)})")
        for (data, part), metrics in order.items()
    ]
    return table(["AUROC / AP", *heads], body) if order else ""


def _metrics_of(summary: Summary, part: str) -> list[str]:
    return list(dict.fromkeys(metric for record in summary.fine for metric in record["parts"].get(part, ())))


def _kinds(grid: Grid) -> str:
    """Return the table of single kinds: the observations of each against the normal ones."""
    body = []
    for data in grid.data:
        kinds = _named(grid.whole(data), "kinds")
        for kind in kinds if len(kinds) > 1 else ():
            means = [grid.get(label, data).mean(kind, _kind) for label in grid.labels]
            body.append([data, kind, *map(_number, means)])
    return table(["data", "AUROC of the kind", *grid.labels], body) if body else ""


def _named(summary: Summary, group: str) -> list[str]:
    return sorted({name for record in summary.fine for name in record[group]})


def _inside(part: str) -> Read:
    """Return a function that reads a metric of a record's part."""
    return lambda record, metric: record["parts"].get(part, {}).get(metric)


def _kind(record: Record, kind: str) -> float | None:
    value: float | None = record["kinds"].get(kind)
    return value


def _details(grid: Grid) -> str:
    body = []
    for data in grid.data:
        for label in grid.labels:
            summary = grid.get(label, data)
            if not summary.records:
                continue
            numbers = [summary.deviation("auroc"), *(summary.mean(key) for key in ("precision", "recall", "oracle_f1"))]
            times = [_time(summary, "fit_seconds", 1), _time(summary, "score_seconds", 1000)]
            body.append([data, label, _seeds_of(summary.records) + _failures(summary), *map(_number, numbers), *times])
    head = ["data", "detector", "seeds", "sd of AUROC over seeds", "precision", "recall", "oracle F1"]
    return table([*head, "fit, s", "score, ms per observation"], body)


def _seeds_of(records: Sequence[Record]) -> str:
    return " ".join(str(record["seed"]) for record in records)


def _time(summary: Summary, key: str, unit: float) -> str:
    mean = summary.mean(key)
    return "-" if mean is None else f"{unit * mean:.1f}"


def _failures(summary: Summary) -> str:
    failed = len(summary.records) - len(summary.fine)
    return f" ({failed} of {len(summary.records)} failed)" if failed else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
