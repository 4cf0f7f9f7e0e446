"""The page of `tsadc audit`: which parts of a history look anomalous, how surely, and what depends on it."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from dataclasses import replace

from tsadc.detectors.audit import LEAST_PROBABILITY, LEVEL, Audit, Model, Suspect
from tsadc.detectors.threshold import LEVEL as CONFIDENCE
from tsadc.show.findings import Findings, read
from tsadc.show.html import Html, Section, element, facts, join, name, outline, page, sortable_table, tiles
from tsadc.show.report import legend
from tsadc.show.report_cards import MOST, cards
from tsadc.show.report_overview import strips
from tsadc.show.report_variables import ranking
from tsadc.show.words import DASH, Times, count, likely, number, percent

LISTED = 1000
FEW = 200  # observations; the distribution of normal scores is uncertain with fewer
OVERVIEW = (
    "The score of each entity over time, maximum per pixel column, in standard deviations of normal scores. Every part "
    "was scored by a model that was not trained on it. Above the dashed line, an interval is listed below; the scale "
    "there is compressed. Click a marked interval for its details."
)
INTERVALS = (
    " has a line for each, in the same folder: write keep, drop or fix into its column decision, in a spreadsheet if "
    "you like, and train with tsadc fit --review. The most probable come first."
)
COLUMNS = (
    ("No.", True), ("Entity", False), ("Start", False), ("End", False), ("Duration", True), ("Probability", True),
    ("Kind", False), ("Variables to blame", False), ("Proposed", False),
)  # fmt: skip
GUIDE = (
    (
        "Probability",
        "How surely the interval is anomalous, given how many observations score as high and how many normal ones "
        "would: 1 minus the local false discovery rate. Of all observations with a probability of about 70 %, about "
        "7 in 10 should be anomalous, if normal scores are distributed as those of the lower half suggest. An anomaly "
        "is what is rare and unlike the rest; whether it is a fault, only you can say.",
    ),
    (
        "Share",
        "The share of anomalous observations is the mean of their probabilities. Anomalies that score like normal "
        "operation are not counted, and normal observations that stand out are. Its interval is from resampling the "
        "observations.",
    ),
    (
        "Folds",
        "The history was divided into contiguous parts. Each part was scored by a model, a scaler and a threshold "
        "that were learnt from the other parts, without the observations next to it, so that no interval has shaped "
        "the model that judges it. A regime that occurs in one part only looks anomalous for that reason.",
    ),
    (
        "Decisions",
        "keep: the interval is normal, and everything in it is learnt. drop: nothing in it is learnt. fix: only the "
        "variables to blame are not learnt. Proposed is drop from a probability of 50 % on.",
    ),
)


def render(audit: Audit, *, title: str, about: Mapping[str, str]) -> str:
    """Return the page as text."""
    findings = _findings(audit)
    sections = [
        Section("models", "What depends on it", _models(audit)),
        Section("overview", "Overview", join(element("p", OVERVIEW, class_="lead"), strips(findings, LISTED))),
    ]
    if audit.suspects:
        lead = element("p", element("a", "review.csv", href="review.csv"), INTERVALS, class_="lead")
        sections += [
            Section("intervals", "Suspected intervals", join(lead, legend(findings), cards(findings))),
            Section("variables", "Variables", join(ranking(findings))),
            Section("table", "All intervals", _table(audit)),
        ]
    given = [*about.items(), *_about(audit)]
    sections.append(
        Section("about", "How sure is this?", join(facts(GUIDE), element("h3", "This audit"), facts(given)))
    )
    return page(title, outline(title, join(_verdict(audit), _tiles(audit, findings)), sections))


def _findings(audit: Audit) -> Findings:
    """Return what the cards show: the intervals in the order of the suspects, each with its probability."""
    findings = read(audit.result, ())
    known = {(finding.track.entity, finding.start, finding.stop): finding for finding in findings.intervals}
    ordered = []
    for rank, suspect in enumerate(audit.suspects, start=1):
        finding = known[suspect.entity, suspect.interval.start, suspect.interval.stop]
        finding = replace(finding, rank=rank, probability=suspect.probability, suspect=suspect.id)
        ordered.append(replace(finding, similar=finding.similar or None))
    return replace(findings, intervals=tuple(ordered))


def headline(audit: Audit) -> str:
    """Say how much of the history looks anomalous."""
    if audit.contamination.stated:
        return f"{percent(audit.share)} of this history was stated to be anomalous"
    return f"About {percent(audit.share)} of this history looks anomalous" if audit.share else "No part stands out"


def summary(audit: Audit) -> str:
    """Say how sure the share is, and how many intervals are suspected."""
    certain = sum(suspect.probability >= LEVEL for suspect in audit.suspects)
    others = len(audit.suspects) - certain
    interval = ""
    if not audit.contamination.stated:
        interval = f"{CONFIDENCE:.0%} interval: {percent(audit.low)} to {percent(audit.high)} of the observations. "
    doubt = f"{audit.contamination.doubt} " if audit.contamination.doubt else ""
    if len(audit.probabilities) < FEW:
        doubt += f"With only {len(audit.probabilities)} observations, share and probabilities are rough. "
    likely_ones = f"{count(certain, 'interval is', 'intervals are')} more likely anomalous than not"
    rest = f", and {count(others, 'is', 'are')} doubtful" if others else ""
    return f"{interval}{doubt}{likely_ones}{rest}."


def _verdict(audit: Audit) -> Html:
    calm = not any(suspect.probability >= LEVEL for suspect in audit.suspects)
    return join(
        element("p", element("strong", headline(audit)), ".", class_="verdict calm" if calm else "verdict"),
        element("p", summary(audit), class_="worst"),
        element("p", compared(audit), class_="worst"),
    )


def compared(audit: Audit) -> str:
    """Say in a sentence what a model misses that was trained on the suspects."""
    suspected = int((audit.probabilities >= LEVEL).sum())
    if not suspected:
        return "Nothing has to be left out before training."
    if audit.without is None:
        return "Without the suspected intervals, too little is left to train a model."
    whole, without = audit.whole.suspects_flagged, audit.without.suspects_flagged
    suspects = count(suspected, "suspected observation", "suspected observations")
    return f"A model trained on everything flags {whole:,} of the {suspects}; one trained without them {without:,}."


def _tiles(audit: Audit, findings: Findings) -> Html:
    rows = sum(int(inside.sum()) for inside in audit.suspected_rows())
    total = sum(map(len, audit.series))
    variables = [
        element("li", name(variable), element("span", f"{times:,}\N{MULTIPLICATION SIGN}", class_="figure"))
        for variable, times in list(findings.main_variables().items())[:3]
    ]
    certain = [suspect for suspect in audit.suspects if suspect.probability >= LEVEL]
    entities = len({suspect.entity for suspect in certain})
    return tiles(
        [
            ("Intervals more likely anomalous", f"{len(certain):,}", f"of {len(audit.suspects):,} listed"),
            ("Their rows", percent(rows / total), f"of {total:,}"),
            ("Entities affected", f"{entities:,}", f"of {len(audit.series):,}"),
        ],
        element(
            "div",
            element("dt", "Most frequent main variable"),
            element("dd", element("ol", variables) if variables else "none"),
            class_="tile wide",
        ),
    )


def _models(audit: Audit) -> Html:
    """Compare the models that were trained with and without the suspects."""
    note = (
        "The same detector, trained twice: on the whole history, and without the intervals that are more likely "
        "anomalous than not. Scores and thresholds of two models have different scales; what they flag can be compared."
    )
    suspected = int((audit.probabilities >= LEVEL).sum())
    titles = [
        "Trained on",
        "Contamination that it sees",
        "Threshold",
        "False alarms",
        f"Alarms in the {count(suspected, 'suspected observation', 'suspected observations')}",
        f"Alarms in the {len(audit.probabilities) - suspected:,} others",
    ]
    columns = [_figures(model) if model else [DASH] * len(titles) for model in (audit.whole, audit.without)]
    rows = [
        element("tr", element("th", title, scope="row"), (element("td", text) for text in texts))
        for title, *texts in zip(titles, *columns, strict=True)
    ]
    heads = [element("th", text, scope="col") for text in ("", "On the whole history", "Without the suspects")]
    shown = element("table", element("thead", element("tr", heads)), element("tbody", rows), class_="ranking")
    return join(element("p", note, class_="lead"), element("div", shown, class_="scroll"))


def _figures(model: Model) -> list[str]:
    return [
        count(model.observations, "observation", "observations"),
        str(model.contamination),
        number(model.threshold),
        model.alarms,
        f"{model.suspects_flagged:,}",
        f"{model.others_flagged:,}",
    ]


def _table(audit: Audit) -> Html:
    rows = [_row(rank, suspect) for rank, suspect in enumerate(audit.suspects[:LISTED], start=1)]
    hidden = len(audit.suspects) - LISTED
    note = f"The table lists only the {LISTED:,} most probable; intervals.csv lists all." if hidden > 0 else None
    return join(element("p", note, class_="note") if note else None, sortable_table(COLUMNS, rows, "scroll tall"))


def _row(rank: int, suspect: Suspect) -> Html:
    interval, times = suspect.interval, Times(suspect.clock)
    start, stop = (suspect.clock.start + row * suspect.clock.interval for row in (interval.start, interval.stop))
    blamed = join(*(join(", " if i else "", name(variable)) for i, variable in enumerate(suspect.blamed)))
    cells: list[tuple[str, object]] = [
        (element("a", f"{rank}", href=f"#interval-{rank}") if rank <= MOST else f"{rank}", rank),
        (name(suspect.entity), None),
        (times.short(interval.start), start),
        (times.short(interval.stop), stop),
        (times.duration(interval.stop - interval.start), stop - start),
        (likely(suspect.probability).removeprefix("probability "), suspect.probability),
        (interval.why(suspect.clock)[0], None),
        (blamed, None),
        (suspect.decision, None),
    ]
    shown = [
        element("td", text, data_value=value, class_="num" if right else "time" if title in ("Start", "End") else None)
        for (title, right), (text, value) in zip(COLUMNS, cells, strict=True)
    ]
    return element("tr", shown, id=None if rank <= MOST else f"interval-{rank}")


def _about(audit: Audit) -> list[tuple[str, str]]:
    data, cost = audit.data, audit.cost
    return [
        ("detector", audit.detector),
        ("observation length", f"{data['length']} rows"),
        ("seed", str(audit.settings.seed)),
        (
            "history",
            f"{data['rows']:,} rows of {count(data['entities'], 'entity', 'entities')}, "
            f"{count(data['variables'], 'variable', 'variables')}, digest {data['digest']}",
        ),
        ("listed", f"intervals with a probability of at least {LEAST_PROBABILITY:.0%}"),
        (
            "models",
            f"{cost.models}, {len(cost.observations)} of them for folds, trained on "
            f"{min(cost.observations):,} to {max(cost.observations):,} observations; {cost.seconds:,.0f} seconds",
        ),
        ("created with", f"tsadc {importlib.metadata.version('tsadc')}"),
    ]
