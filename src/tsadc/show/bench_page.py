"""A benchmark as one page: what was best, tables to sort and filter, ranks, curves, failures, where it came from."""

from __future__ import annotations

from collections.abc import Sequence

from tsadc.bench.job import Record
from tsadc.bench.metrics import NEUTRAL
from tsadc.bench.published import Published
from tsadc.bench.summary import Summary, data_of, labels_of, summarise
from tsadc.data.protocols import CHOOSING
from tsadc.show.bench_charts import curves, ranks
from tsadc.show.bench_tables import beside, failures, listing, matrix, provenance
from tsadc.show.html import Section
from tsadc.show.markup import Html, element, join, name
from tsadc.show.shell import page
from tsadc.show.words import count

HOW = (
    "Means over seeds, the standard deviation over seeds beside them. AUROC and AP judge the order of scores and need "
    "no threshold; F1 is at the threshold that the detector chose itself, without labels. Rows with a network come "
    "first, then those without; among each the highest mean over the data sets is first. In brackets is what random "
    "scores, or as many flags thrown at random, would get. Click a heading to sort."
)


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
    """The page as text; the same records give the same bytes. `others` is what they published of the same, `lacking` a
    sentence on what was not run."""
    summaries = summarise(records, choosing)
    kept = [one for one in records if (one["seed"] >= CHOOSING) == choosing]
    shown = [metric for metric in metrics if any(one.values(metric) for one in summaries)] or ["auroc"]
    sections = _sections(summaries, kept, shown, title)
    if others is not None:
        sections.insert(1, Section("published", "Published", beside(others, summaries)))
    theme = element("button", "Dark", type="button", id="theme", hidden=True)
    top = element(
        "header",
        element("div", element("h1", title), theme, class_="title"),
        _verdict(summaries, shown),
        element("p", element("strong", lacking), class_="lacking") if lacking else None,
        element("p", note, class_="worst") if note else None,
        _tiles(summaries, kept, lacking),
        element("nav", (element("a", one.title, href=f"#{one.key}") for one in sections), aria_label="Sections"),
        class_="top",
    )
    return page(title, element("main", top, (one.html() for one in sections), "\n"), ("bench",))


def _sections(
    summaries: Sequence[Summary], kept: Sequence[Record], metrics: Sequence[str], title: str
) -> list[Section]:
    out = [
        Section(
            "summary", "Summary", join(element("p", HOW, class_="lead"), _controls(metrics), _each(summaries, metrics))
        )
    ]
    drawn = _per_metric({metric: ranks(summaries, metric) for metric in metrics})
    if drawn:
        out.append(Section("ranks", "Ranks", drawn))
    drawn = _per_metric({metric: curves(summaries, metric) for metric in metrics})
    if drawn:
        out.append(Section("curves", "Curves", drawn))
    out.append(Section("results", "All results", listing(summaries, metrics)))
    failed = failures(kept)
    if failed:
        out.append(Section("failures", "Failures", failed))
    out.append(Section("about", "Where the numbers come from", provenance(kept, title)))
    return out


def _each(summaries: Sequence[Summary], metrics: Sequence[str]) -> Html | None:
    return _per_metric({metric: matrix(summaries, metric) for metric in metrics})


def _per_metric(content: dict[str, Html | None]) -> Html | None:
    """The script shows one metric at a time; without it all are there."""
    some = [
        element("div", element("h3", metric, class_="metric"), part, data_metric=metric)
        for metric, part in content.items()
        if part is not None
    ]
    return join(some) if some else None


def _controls(metrics: Sequence[str]) -> Html:
    options = [element("option", metric, value=metric) for metric in metrics]
    return element(
        "p",
        element("label", "Metric ", element("select", options, id="metric")),
        element("label", "Only rows with ", element("input", id="filter", type="search", placeholder="words")),
        element("span", id="shown", role="status"),
        class_="controls",
        hidden=True,
    )


def _verdict(summaries: Sequence[Summary], metrics: Sequence[str]) -> Html | None:
    """Which rows are best most often by the first metric of which more is better; on data sets where every row that has
    a number at all has one, as a row that was run on few could else not win elsewhere."""
    if not any(one.fine for one in summaries):
        return element("p", element("strong", "Nothing was measured"), ": every job failed.", class_="verdict")
    metric = next((one for one in metrics if one not in NEUTRAL), None)
    if metric is None:
        return None
    means = {(one.label, one.data): mean for one in summaries if (mean := one.mean(metric)) is not None}
    every = [label for label in labels_of(summaries, metric) if any(label == own for own, _ in means)]
    have = data_of(summaries)
    shared = [data for data in have if all((label, data) in means for label in every)]
    if not shared:
        words = f"No row is called the best: there is no data set on which every row has its {metric}."
        return element("p", words, class_="verdict calm")
    tops = {data: max(means[label, data] for label in every) for data in shared}
    wins = {label: sum(means[label, data] == top for data, top in tops.items()) for label in every}
    first = [label for label in every if wins[label] == max(wins.values())]
    what = "data sets and splits" if any(one.split for one in summaries) else "data sets"
    where = "on the only data set" if len(have) == 1 else f"on {wins[first[0]]} of {len(shared)} {what}"
    where += " that every row has a number of" if len(shared) < len(have) else ""
    verb = "has" if len(first) == 1 else "have" if len(have) == 1 else "each have"
    return element("p", _listed(first), f" {verb} the highest {metric} {where}.", class_="verdict calm")


def _listed(names: Sequence[str]) -> Html:
    shown = [element("strong", name(one)) for one in names]
    marks = ["", *([", "] * (len(shown) - 2)), *([" and "] if len(shown) > 1 else [])]
    return join(*(join(mark, one) for mark, one in zip(marks, shown, strict=True)))


def _tiles(summaries: Sequence[Summary], records: Sequence[Record], lacking: str) -> Html:
    failed = sum("error" in one for one in records)
    seeds = len({one["seed"] for one in records})
    boxes = [
        ("Jobs", f"{len(records):,}", f"of {count(seeds, 'seed', 'seeds')}"),
        (
            "Data sets",
            f"{len({one.dataset for one in summaries}):,}",
            f"in {count(len(data_of(summaries)), 'split', 'splits')}",
        ),
        (
            "Detectors",
            f"{len(labels_of(summaries)):,}",
            f"{len({one.label for one in summaries if one.network}):,} with a network",
        ),
        ("Failed", f"{failed:,}", "listed below" if failed else lacking or "every job has its numbers"),
    ]
    return element(
        "dl",
        (
            element(
                "div",
                element("dt", label),
                element("dd", value, class_="big"),
                element("dd", words, class_="note"),
                class_="tile",
            )
            for label, value, words in boxes
        ),
        class_="tiles",
    )
