"""Show how detectors stand over families of data sets, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tsadc.bench.families import ENSEMBLE, REFERENCES, SMD, TSB, Entrant, LeftOut, entrants, family_of
from tsadc.bench.summary import Summary
from tsadc.detectors import PEERS
from tsadc.show.bench_markdown import versions
from tsadc.show.markdown import table
from tsadc.show.words import count

METRICS = {"ap": "AP", "auroc": "AUROC"}
NOT_COMPUTED = "The left-out figures of the ensemble have not been computed."


def markdown(summaries: Sequence[Summary], left_out: Mapping[str, LeftOut] | None) -> str:
    """Return the tables of AP and AUROC, and what was chosen without each family; `left_out` is None if that has not
    been computed."""
    parts = [_preface(summaries), *(_standings(summaries, metric, left_out) for metric in METRICS)]
    return "\n\n".join([*parts, NOT_COMPUTED if left_out is None else _chosen(left_out)])


def _preface(summaries: Sequence[Summary]) -> str:
    members: dict[str, list[str]] = {}
    for summary in summaries:
        names = members.setdefault(family_of(summary.dataset), [])
        names += [] if summary.dataset in names else [summary.dataset]
    joined = "; ".join(f"{family}: {', '.join(names)}" for family, names in members.items() if names != [family])
    rows = [
        family
        for family in members
        if not any(each.values("ap") for each in summaries if family_of(each.dataset) == family)
    ]
    words = [
        "The figure of a family is the mean over its data sets, of means over seeds"
        + (f" ({joined})." if joined else "."),
        f"{' and '.join(rows)} scores rows: VUS-PR instead of AP, VUS-ROC instead of AUROC, in TSB-AD's definition."
        if rows
        else "",
        "Regret is how much a figure is below that of the best single detector (any but the ensemble) on the family, 0 "
        "if it is not below. Ranks are among all detectors; their 90 % intervals are from a bootstrap over "
        f"{count(len(members), 'family', 'families')}. all-positive and random are not ranked. The best figure of a "
        "family is bold; peers are detectors of PyOD.",
        versions([record for summary in summaries for record in summary.records]),
    ]
    return " ".join(filter(None, words))


def _standings(summaries: Sequence[Summary], metric: str, left_out: Mapping[str, LeftOut] | None) -> str:
    every = list(dict.fromkeys(family_of(summary.dataset) for summary in summaries))
    found = entrants(summaries, metric)
    pool = [entrant for entrant in found if entrant.detector not in REFERENCES]
    best = {family: max((each.figures.get(family, 0.0) for each in pool), default=0.0) for family in every}
    body = []
    for entrant in found:
        name = f"{entrant.label} (peer)" if entrant.detector in PEERS else entrant.label
        body.append(_line(name, entrant, every, best))
        if entrant.label == ENSEMBLE and left_out is not None:
            known = {family: left_out[family].figures.get(metric) for family in every if family in left_out}
            figures = {family: value for family, value in known.items() if value is not None}
            instead = next(each for each in entrants(summaries, metric, {ENSEMBLE: figures}) if each.label == ENSEMBLE)
            body.append(_line(f"{ENSEMBLE}, left out", instead, every, {}))
    return table([METRICS[metric], *every, "mean", "mean regret", "worst regret", "mean rank (90 % interval)"], body)


def _line(name: str, entrant: Entrant, every: Sequence[str], best: Mapping[str, float]) -> list[str]:
    figures = []
    for family in every:
        value = entrant.figures.get(family)
        text = "-" if value is None else f"{value:.3f}"
        figures.append(f"**{text}**" if value is not None and value == best.get(family) else text)
    stands = entrant.standing
    if stands is None:
        return [name, *figures, "-", "-", "-", "-"]
    numbers = [f"{value:.3f}" for value in (stands.mean, stands.mean_regret, stands.worst_regret)]
    rank = "-" if stands.rank is None else f"{stands.rank:.1f}"
    within = "" if stands.interval is None else f" ({stands.interval[0]:.1f} to {stands.interval[1]:.1f})"
    return [name, *figures, *numbers, rank + within]


def _chosen(left_out: Mapping[str, LeftOut]) -> str:
    body = [
        [family, left.candidate, *(f"{left.figures[m]:.3f}" if m in left.figures else "-" for m in METRICS)]
        for family, left in left_out.items()
    ]
    words = (
        "In the line *ensemble, left out*, the figure of each family is that of the candidate with the best mean AP "
        "over the other families."
    )
    if {SMD, TSB} <= set(left_out):
        words += (
            f" Without {SMD}, {TSB} counts without its machines of SMD; without {TSB}, the choice has seen those "
            f"machines in {SMD}."
        )
    return f"{words}\n\n" + table(["family left out", "candidate chosen on the others", *METRICS.values()], body)
