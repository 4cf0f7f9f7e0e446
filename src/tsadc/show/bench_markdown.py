"""Records as Markdown: detectors down, data sets across. Nothing but the records is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tsadc.atomic import write_file
from tsadc.bench.job import Record
from tsadc.bench.metrics import by_chance, flagging_all, format_value, high_end, low_end
from tsadc.bench.paired import against_best
from tsadc.bench.summary import Grid, Read, Summary, summarise
from tsadc.errors import DataError
from tsadc.show.markdown import table as as_table

ALWAYS = ("auroc", "ap", "f1")
RANKING = {"auroc": "AUROC", "ap": "AP (average precision)"}


def markdown(
    records: Sequence[Record], choosing: bool = False, metrics: Sequence[str] = (), brief: bool = False
) -> str:
    """The tables of the seeds for reporting, or of those for choosing; `metrics` are shown beside AUROC, AP and F1.
    `brief` has them alone, without kinds, parts and details."""
    found = Grid(summarise(records, choosing))
    shown = metrics if brief and metrics else (*ALWAYS, *(one for one in metrics if one not in ALWAYS))
    parts = [
        _preface(found, shown, details=not brief),
        *(one_metric(found, metric) for metric in shown),
        *([_seeds(found)] if brief else [_paired(found), _halves(found), _kinds(found), _details(found)]),
    ]
    return "\n\n".join(part for part in parts if part)


def insert(document: Path, text: str, name: str = "quality") -> None:
    """Put `text` between the markers that bear this name in a document; without them, at its end."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if document.is_dir():
        raise DataError(f"{document} is a folder, but the file that the table goes into was expected; name the file.")
    if not document.exists():
        raise DataError(f"There is no file {document} to put the table into; correct the name, or make the file first.")
    try:
        old = document.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DataError(f"{document} cannot be read as text.") from None
    if begin not in old:
        old = f"{old.rstrip()}\n\n{begin}\n{end}\n".lstrip()
    before, _, rest = old.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise DataError(f"{document} has {begin} without {end} after it; add the line where the tables should end.")
    write_file(document, f"{before}{begin}\n\n{text}\n\n{end}{after}".encode())


def _preface(found: Grid, metrics: Sequence[str], details: bool) -> str:
    """How to read the tables, and what made the numbers."""
    records = [one for summary in found.summaries for one in summary.records]
    commits = sorted({f"tsadc {one['version']} at commit {one['commit'] or 'unknown'}" for one in records})
    words = ["Means over seeds."]
    if set(RANKING) & set(metrics):
        words.append(
            "Of AUROC and AP with the mean of their 90 % bootstrap intervals: drawn were whole entities where there "
            "are several, otherwise observations; bold is the best without a network."
        )
    words += ["Of F1 bold is what beats flagging everything."] if "f1" in metrics else []
    if details or "oracle_f1" in metrics:
        words.append("The oracle F1 needs labels and is a bound, not a result.")
    made = f"Made with {', '.join(commits)}"
    changed = any(str(one["commit"] or "").endswith("+") for one in records)
    words.append(f"{made}; a plus sign: with changes that were not committed." if changed else f"{made}.")
    return " ".join(words)


def one_metric(found: Grid, metric: str) -> str:
    """Rows down, data sets across."""
    if metric in RANKING:
        return _ranked(metric, found)
    return _thresholds(found) if metric == "f1" else _plain(metric, found)


def _ranked(metric: str, found: Grid) -> str:
    best = {data: _best(found.of(data), metric) for data in found.data}
    body = []
    for label in found.labels:
        values = {data: _ranking(found.get(label, data), metric) for data in found.data}
        body.append([label, *(f"**{text}**" if best[data] == label else text for data, text in values.items())])
    prevalence = [found.whole(data).mean("prevalence") for data in found.data]
    body.append(["prevalence, also by chance" if metric == "ap" else "prevalence", *map(_number, prevalence)])
    return as_table([RANKING[metric], *found.data], body)


def _best(summaries: Sequence[Summary], metric: str) -> str:
    """The row without a network that is best."""
    means = {one.label: mean for one in summaries if not one.network and (mean := one.mean(metric)) is not None}
    return max(means, key=lambda label: means[label]) if means else ""


def _ranking(one: Summary, metric: str) -> str:
    """Mean over seeds, and the mean of the ends of the seeds' intervals."""
    low, high = one.mean(metric, low_end), one.mean(metric, high_end)
    within = "" if low is None else f" ({_number(low)} to {_number(high)})"
    return _number(one.mean(metric)) + within + _failures(one)


def _plain(metric: str, found: Grid) -> str:
    """In brackets what random scores, or as many flags thrown at random, would get."""
    every = [found.whole(data) for data in found.data]
    if all(one.fine and one.mean(metric) is None for one in every):
        return f"{metric}: none of these rows has it."
    body = [[label, *(_beside(found.get(label, data), metric) for data in found.data)] for label in found.labels]
    flagged = [one.mean(metric, flagging_all) for one in every]
    body += [["flag everything", *(format_value(metric, value) for value in flagged)]] if set(flagged) != {None} else []
    chance = any(one.mean(metric, by_chance) is not None for one in every)
    return as_table([f"{metric} (by chance)" if chance else metric, *found.data], body)


def _beside(one: Summary, metric: str) -> str:
    value, chance = one.mean(metric), one.mean(metric, by_chance)
    beside = "" if value is None or chance is None else f" ({format_value(metric, chance)})"
    return format_value(metric, value) + beside + _failures(one)


def _thresholds(found: Grid) -> str:
    flagging = [found.whole(data).mean("all_positive_f1") for data in found.data]
    body = [[label, *(_f1(found.get(label, data)) for data in found.data)] for label in found.labels]
    return as_table(
        ["F1 at its own threshold (by chance)", *found.data], [*body, ["flag everything", *map(_number, flagging)]]
    )


def _f1(one: Summary) -> str:
    f1, everything, chance = one.mean("f1"), one.mean("all_positive_f1"), one.mean("f1", by_chance)
    better = f1 is not None and everything is not None and f1 > everything
    text = f"**{_number(f1)}**" if better else _number(f1)
    return text + ("" if chance is None else f" ({_number(chance)})") + _failures(one)


def _seeds(found: Grid) -> str:
    """Which seeds are behind each data set; several where labels differ, none where all failed."""
    seeds = {data: sorted({_seeds_of(one.fine) for one in found.of(data)}) for data in found.data}
    return "Seeds: " + "; ".join(f"{data}: {' or '.join(filter(None, some))}" for data, some in seeds.items()) + "."


def _paired(found: Grid) -> str:
    """The best against the others, over the data sets that all of them were run on."""
    compared = against_best(found.summaries, "auroc")
    if compared is None:
        return ""
    best, cases, others = compared
    body = [
        [one.label, f"{one.difference:+.3f} ({one.interval[0]:+.3f} to {one.interval[1]:+.3f})", f"{one.p:.3f}"]
        for one in others
    ]
    head = [f"AUROC of {best} less that of", f"mean over {cases} data sets, 90 % interval", "p (Wilcoxon, Holm)"]
    return as_table(head, body) + (
        "\n\nRows that were not run on all of them are left out. Data sets made of the same recordings are no "
        "independent cases, so that intervals and p are too sure of themselves."
    )


def _halves(found: Grid) -> str:
    """The parts that choosing settings has not seen."""
    order = [(data, part) for data in found.data for part in _named(found.whole(data), "parts")]
    body = []
    for label in found.labels:
        entries = []
        for data, part in order:
            one = found.get(label, data)
            entries.append(" / ".join(_number(one.mean(key, _inside(part))) for key in RANKING))
        body.append([label, *entries])
    return as_table(["AUROC / AP", *(f"{data}: {part}" for data, part in order)], body) if order else ""


def _kinds(found: Grid) -> str:
    """Each kind on its own: its observations against the normal ones."""
    body = []
    for data in found.data:
        kinds = _named(found.whole(data), "kinds")
        for kind in kinds if len(kinds) > 1 else ():
            means = [found.get(label, data).mean(kind, _kind) for label in found.labels]
            body.append([data, kind, *map(_number, means)])
    return as_table(["data", "AUROC of the kind", *found.labels], body) if body else ""


def _named(one: Summary, group: str) -> list[str]:
    return sorted({name for record in one.fine for name in record[group]})


def _inside(part: str) -> Read:
    """Return a function that reads a metric of one of a record's parts."""
    return lambda record, metric: record["parts"].get(part, {}).get(metric)


def _kind(record: Record, kind: str) -> float | None:
    value: float | None = record["kinds"].get(kind)
    return value


def _details(found: Grid) -> str:
    body = []
    for data in found.data:
        for label in found.labels:
            one = found.get(label, data)
            if not one.records:
                continue
            numbers = [one.deviation("auroc"), *(one.mean(key) for key in ("precision", "recall", "oracle_f1"))]
            times = [_time(one, "fit_seconds", 1), _time(one, "score_seconds", 1000)]
            body.append([data, label, _seeds_of(one.records) + _failures(one), *map(_number, numbers), *times])
    head = ["data", "detector", "seeds", "sd of AUROC over seeds", "precision", "recall", "oracle F1"]
    return as_table([*head, "fit, s", "score, ms per observation"], body)


def _seeds_of(records: Sequence[Record]) -> str:
    return " ".join(str(record["seed"]) for record in records)


def _time(one: Summary, key: str, unit: float) -> str:
    mean = one.mean(key)
    return "-" if mean is None else f"{unit * mean:.1f}"


def _failures(one: Summary) -> str:
    failed = len(one.records) - len(one.fine)
    return f" ({failed} of {len(one.records)} failed)" if failed else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
