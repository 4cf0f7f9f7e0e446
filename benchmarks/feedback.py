"""Measure what verdicts teach, by replaying labels: `make bench-feedback`.

A person is asked about intervals that the ensemble has found, in the order of `tsadc review` or at random, and answers
with the label, or with its opposite in a fifth of the cases. Each draw of a protocol is fitted once, and what its views
add is kept in `--cache`, so a run can be interrupted. Everything after that is `tsadc.detectors.feedback` itself.

    AP               of the observations that no question was about, before and after the answers
    false alarms     normal observations above the threshold among them, per 1,000, and per day of one entity that is
                     measured without a break and is normal

Before and after are measured on the same observations: those that were asked about are easy, and leaving them out
lowers AP. An interval is a run of adjacent observations above the threshold. If they are used up, the observations
closest below the threshold are asked about, as with `--alarms` of a larger budget.

The strength and the scale of the loss and the width of exemplars are chosen on all data sets but one, by the mean
change of AP after 5 and 10 answers with and without wrong ones, and after one wrong answer about the highest alarm,
and reported on the one left out. Labels are used for nothing else.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import write_file
from tsadc.bench.source import reference, source_hash
from tsadc.data import catalogue, ecg
from tsadc.detectors import Ensemble, feedback
from tsadc.detectors.base import Detector
from tsadc.detectors.drift import raised_by
from tsadc.detectors.ensemble.fusion import Fusion
from tsadc.detectors.feedback import Verdict, as_answer
from tsadc.detectors.threshold import calibrate
from tsadc.errors import TsadcError, TsadcNotice
from tsadc.evaluate.ranking import average_precision
from tsadc.series import Booleans, Floats
from tsadc.show.markdown import table

HERE = Path(__file__).parent
RECORDS, PAGE = HERE / "results" / "feedback.jsonl", HERE.parent / "docs" / "tables" / "feedback.md"
DATA = ("plant", "ludb", "cinc", "sleep", "smd-causal", "skab", "gecco")
RATES = {  # rows per second
    "plant": 1 / 60,
    "ludb": ecg.RATE,
    "cinc": ecg.RATE,
    "sleep": 100.0,
    "smd-causal": 1 / 60,
    "skab": 1.0,
    "gecco": 1 / 60,
}
DAY = 86_400  # seconds
SEEDS = (0, 1, 2)  # of the draw, of random questions and of wrong answers
ANSWERS = (0, 1, 5, 10, 20, 50)
WRONG = 0.2
BELOW = 0.9  # AP of the data sets that the goal is about
STRENGTHS = (0.1, 0.3, 1.0, 3.0)
WIDTHS = (0.1, 0.3)
OURS = (feedback.STRENGTH, "relative", feedback.WIDTH)
CANDIDATES = (
    *((strength, "relative", width) for strength in STRENGTHS for width in WIDTHS),
    *((strength, "spread", feedback.WIDTH) for strength in STRENGTHS),
)
ORDERS = ("review", "random", "highest")
Array = NDArray[Any]
Draw = Mapping[str, Array]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="the folder of packs; without it, make the table only")
    parser.add_argument(
        "--cache", type=Path, default=Path(".bench-feedback"), help="where scores are kept between runs"
    )
    parser.add_argument("--only", nargs="*", default=list(DATA), help="which data sets (default: all)")
    parser.add_argument("--out", type=Path, default=RECORDS)
    parser.add_argument("--table", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    if options.data is not None:
        cache = options.cache / source_hash([reference(Ensemble)])  # scores of other code do not count
        cache.mkdir(parents=True, exist_ok=True)
        records: list[dict[str, Any]] = []
        try:
            for name in options.only:
                for seed in SEEDS:
                    records += replayed(name, seed, options.data, cache)
                    print(name, seed, flush=True)
        except TsadcError as error:
            print(f"feedback.py: {error}", file=sys.stderr)
            return 2
        write_file(options.out, "".join(json.dumps(record) + "\n" for record in averaged(records)).encode())
    stored = [json.loads(line) for line in options.out.read_text().splitlines()]
    write_file(options.table, page(stored).encode())
    return 0


def averaged(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the means over seeds; of candidates that were not chosen, only what the choice is made by."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        key = {name: record[name] for name in ("data", "order", "answers", "wrong", "candidate")}
        groups.setdefault(json.dumps(key), []).append(record)
    means = []
    for key_text, own in groups.items():
        key = json.loads(key_text)
        ours = key["candidate"] == list(OURS)
        if not ours and key["wrong"] != 1.0 and (key["order"] != "review" or key["answers"] not in (5, 10)):
            continue
        figures = ("ap", "false_alarms", "recall") if ours else ("ap",)
        names = [name for figure in figures for name in (f"{figure}_before", figure)]
        values = {name: round(float(np.mean([record[name] for record in own])), 5) for name in names}
        means.append({**key, "seeds": len(own), **values})
    return means


def drawn(name: str, seed: int, raw: Path, cache: Path) -> Draw:
    """Return what the views add on one draw of a protocol, from the cache if it is there."""
    file = cache / f"{name}-{seed}.npz"
    if not file.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)
            arrays = _scored(name, seed, raw)
        with file.with_suffix(".part").open("wb") as stream:
            np.savez(stream, **arrays)
        file.with_suffix(".part").rename(file)
    with np.load(file, allow_pickle=False) as stored:
        return dict(stored)


def replayed(name: str, seed: int, raw: Path, cache: Path) -> list[dict[str, Any]]:
    """Return the records of one draw, from the cache if this file and the code of verdicts have not changed since."""
    code = b"".join(Path(str(module)).read_bytes() for module in (__file__, feedback.__file__))
    file = cache / f"{name}-{seed}-{hashlib.sha256(code).hexdigest()[:8]}.json"
    if not file.exists():
        write_file(file, json.dumps(replay(name, seed, drawn(name, seed, raw, cache))).encode())
    return cast(list[dict[str, Any]], json.loads(file.read_text()))


def _scored(name: str, seed: int, raw: Path) -> dict[str, Any]:
    task = catalogue.draw(name, raw, seed, ())
    length = catalogue.find(name, "benchmark").length
    detector = Ensemble(length=length, seed=seed).fit(task.train)
    if task.history is not None:
        detector.adapt(task.history)
    observations = detector._cut(task.test).observations
    scorer, scaled = detector.scorer_, observations.scaled(detector.scaler_)
    logs = [scorer.log_scores(scaled.entity(i), scaled.read(i)[scorer.judged]) for i in range(len(scaled))]
    entities = [scaled.entity(i) for i in range(len(scaled))]
    return {
        "labels": task.answers.labels,
        "training": scorer.training_log_scores,
        "new": np.stack(logs),
        "names": np.array(scorer.view_names),
        "weight": scorer.fusion.weight,
        "middle": scorer.fusion.middle,
        "threshold": detector.threshold_,
        "entity": np.array(entities),
        "series": np.array([place.series for place in observations.places]),
        "start": np.array([place.start for place in observations.places]),
        "separate": np.array([item.observation is not None for item in observations.series]),
        "usual": np.array([scorer.usual.get(entity, np.nan) for entity in entities]),
        "length": length,
        "every": detector.clock_.every or 0,
    }


class Player:
    """One draw, and a person who answers questions about it."""

    def __init__(self, draw: Draw, seed: int) -> None:
        self.draw, self.labels = draw, draw["labels"].astype(bool)
        fusion = Fusion(draw["middle"], draw["weight"])
        self.added, self.history = (np.nan_to_num(fusion.added(draw[key])) for key in ("new", "training"))
        self.scores, self.seed = self.added.sum(axis=1), seed
        contamination, normal = calibrate(self.history.sum(axis=1), "auto", seed)
        self.detector = SimpleNamespace(
            threshold_=float(draw["threshold"]),
            normal_=normal,
            contamination_=contamination,
            decision_scores_=self.history.sum(axis=1),
            history_views_=self.history.astype(np.float32),
            view_names=tuple(draw["names"].tolist()),
            _view_weights=draw["weight"],
        )
        self.raised = self._raised(self.scores, 0.0)
        self.events = self._events()

    def _raised(self, scores: Floats, shift: float) -> Floats:
        raised = np.zeros(len(scores))
        for number in np.unique(self.draw["series"]):
            own = np.flatnonzero(self.draw["series"] == number)
            usual = float(self.draw["usual"][own[0]])
            if not self.draw["separate"][number] and not np.isnan(usual):
                raised[own] = raised_by(scores[own], usual + shift)
        return raised

    def _events(self) -> list[list[int]]:
        """Return the intervals: runs of adjacent observations above the threshold."""
        draw, events = self.draw, list[list[int]]()
        for i in np.flatnonzero(self.scores > self.detector.threshold_ + self.raised).tolist():
            last = events[-1][-1] if events else -2
            adjacent = (
                last == i - 1
                and draw["series"][i] == draw["series"][last]
                and draw["start"][i] == draw["start"][last] + draw["length"]
                and not draw["separate"][draw["series"][i]]
            )
            if adjacent:
                events[-1].append(i)
            else:
                events.append([i])
        return events

    def questions(self, order: str) -> list[list[int]]:
        """Return the intervals in the order in which they are asked about, then single observations below."""
        excess = self.scores - self.raised - self.detector.threshold_
        peaks = [max(event, key=lambda i: excess[i]) for event in self.events]
        if order == "random":
            chosen = np.random.default_rng(self.seed).permutation(len(self.events)).tolist()
        elif order == "highest":
            chosen = sorted(range(len(self.events)), key=lambda i: -excess[peaks[i]])
        else:
            names = self.draw["names"].tolist()
            views = [dict(zip(names, self.added[peak].tolist(), strict=True)) for peak in peaks]
            chosen = feedback.question_order(excess[peaks].tolist(), views)
        asked = {i for event in self.events for i in event}
        below = sorted(set(range(len(self.scores))) - asked, key=lambda i: -excess[i])
        return [*(self.events[i] for i in chosen), *([i] for i in below)]

    def after(self, asked: Sequence[list[int]], wrong: float) -> tuple[Floats, float, float]:
        """Return the scores, the threshold and the shift of usual scores after answers to the questions."""
        flipped = np.random.default_rng(self.seed + 100).random(len(asked)) < wrong
        verdicts = []
        for event, flip in zip(asked, flipped.tolist(), strict=True):
            peak = max(event, key=lambda i: self.scores[i] - self.raised[i])
            true = bool(self.labels[event].any()) != flip
            departure = self.added[peak] / np.where(self.draw["weight"] > 0, self.draw["weight"], 1.0)
            views = dict(zip(self.detector.view_names, departure.tolist(), strict=True))
            entity, answer = str(self.draw["entity"][peak]), as_answer("true" if true else "false")
            score = float(self.scores[peak])
            verdicts.append(Verdict(str(peak), entity, 0, 1, False, answer, score=score, views=views))
        lesson = feedback.learn(cast(Detector, self.detector), verdicts)
        if lesson is None:
            return self.scores, self.detector.threshold_, 0.0
        entities = self.draw["entity"].tolist()
        change = [lesson.change(entity, added) for entity, added in zip(entities, self.added, strict=True)]
        return self.scores + np.array(change), float(lesson.after["threshold_"]), lesson.usual_shift

    def measured(self, kept: Booleans, scores: Floats, threshold: float, shift: float) -> dict[str, float]:
        """Return the figures of the observations that no question was about."""
        above = scores > threshold + self._raised(scores, shift)
        normal, anomalous = kept & ~self.labels, kept & self.labels
        return {
            "ap": average_precision(self.labels[kept], scores[kept]),
            "false_alarms": 1000 * float(above[normal].mean()),
            "recall": float(above[anomalous].mean()),
        }


def replay(name: str, seed: int, draw: Draw) -> list[dict[str, Any]]:
    """Return the records of one draw: all orders, numbers of answers, with and without wrong ones, and candidates."""
    player, records = Player(draw, seed), []
    base = {"data": name, "seed": seed, "observations": len(player.labels), "anomalous": int(player.labels.sum())}
    for order in ORDERS:
        questions = player.questions(order)
        for answers in ANSWERS:
            asked = questions[:answers]
            kept = np.ones(len(player.labels), dtype=bool)
            kept[[i for event in asked for i in event]] = False
            if answers > len(questions) // 2 or not player.labels[kept].any() or player.labels[kept].all():
                continue  # too few are left to measure anything
            before = player.measured(kept, player.scores, player.detector.threshold_, 0.0)
            for wrong in (0.0, WRONG, 1.0):
                if wrong == 1.0 and (answers != 1 or order != "highest"):
                    continue
                for chosen in CANDIDATES:
                    if chosen != OURS and (order == "random" or answers not in (1, 5, 10)):
                        continue  # only what the choice is made by
                    with candidate(*chosen):
                        after = player.measured(kept, *player.after(asked, wrong))
                    record = {**base, "order": order, "answers": answers, "wrong": wrong, "candidate": list(chosen)}
                    earlier = {f"{key}_before": value for key, value in before.items()}
                    records.append({**record, **earlier, **after})
    return records


@contextmanager
def candidate(strength: float, scale: str, width: float) -> Iterator[None]:
    """Learn with another strength, scale or width in the block."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(feedback, "WIDTH", width))
        stack.enter_context(mock.patch.object(feedback, "STRENGTH", strength))
        if scale == "spread":
            stack.enter_context(
                mock.patch.object(feedback, "loss_scale", lambda scores, _, spread: np.full(len(scores), spread))
            )
        yield


def gains(records: Sequence[Mapping[str, Any]], keep: Callable[[Mapping[str, Any]], bool]) -> dict[str, float]:
    """Return the mean change of AP by data set, of the records that `keep` chooses."""
    found: dict[str, list[float]] = {}
    for record in records:
        if keep(record):
            found.setdefault(record["data"], []).append(record["ap"] - record["ap_before"])
    return {name: float(np.mean(values)) for name, values in found.items()}


def criterion(records: Sequence[Mapping[str, Any]], chosen: Sequence[Any]) -> dict[str, float]:
    """Return by data set what the choice is made by."""
    own = [record for record in records if record["candidate"] == list(chosen)]
    few = gains(own, lambda record: record["order"] == "review" and record["answers"] in (5, 10))
    one = gains(own, lambda record: record["wrong"] == 1.0)
    return {name: (few[name] + one[name]) / 2 for name in few}


def page(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the tables."""
    names = list(dict.fromkeys(record["data"] for record in records))
    ours = [r for r in records if r["candidate"] == list(OURS)]
    return (
        "# What verdicts teach\n\nMade by `make bench-feedback`, seeds 0 to 2: labels are replayed as answers. Change "
        "of the average precision (AP) of the observations that no question was about, against the same observations "
        "without answers; empty where too few would be left to measure.\n\n"
        + table(["", *names, "mean", f"mean of AP < {BELOW}"], _changes(ours, names))
        + "\n\n## Alarms\n\nBefore → after the answers, on the observations that no question was about. Per day: of "
        "one entity that is measured without a break and is normal.\n\n"
        + table(["", *names], _alarms(ours, names))
        + "\n\n## The choice of the loss\n\nStrength of the pull to the label-free weights, and scale of the loss: "
        "`relative` is at least the distance of an interval from the threshold, `spread` the spread of the scores of "
        "the history. The width of exemplars is how much of its size an observation may differ. Mean change "
        "of AP after 5 and 10 answers (right, and a fifth wrong) and after one wrong answer "
        "about the highest alarm.\n\n" + _choice(records, names) + "\n"
    )


def _changes(ours: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Return AP without answers, and how much answers change it."""

    def mean_start(name: str) -> float:
        return float(np.mean([r["ap_before"] for r in ours if r["data"] == name and r["answers"] == 0]))

    start = {name: mean_start(name) for name in names}

    def line(title: str, values: Mapping[str, float], form: str) -> list[str]:
        low = [values[name] for name in names if start[name] < BELOW and name in values]
        means = [float(np.mean(chosen)) if chosen else np.nan for chosen in (list(values.values()), low)]
        own = [format(values[name], form) if name in values else "" for name in names]
        return [title, *own, *(format(mean, form) for mean in means)]

    rows = [line("AP without answers", start, ".3f")]
    for order, wrong, title in (
        ("review", 0.0, ""),
        ("review", WRONG, ", a fifth of them wrong"),
        ("random", 0.0, ", random questions"),
        ("highest", 0.0, ", highest alarms first"),
    ):
        for answers in ANSWERS[1:]:
            key = order, wrong, answers
            chosen = gains(ours, lambda r, key=key: (r["order"], r["wrong"], r["answers"]) == key)
            if chosen:
                rows.append(line(f"{answers} answer{'s' if answers > 1 else ''}{title}", chosen, "+.3f"))
    rows.append(line("1 wrong answer about the highest alarm", gains(ours, lambda r: r["wrong"] == 1.0), "+.3f"))
    return rows


def _alarms(ours: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[str]]:
    """Return false alarms and recall before and after answers."""
    rows = []
    per_day = {name: DAY * RATES[name] / catalogue.find(name, "benchmark").length / 1000 for name in names}
    for key, title, form, factor in (
        ("false_alarms", "false alarms per 1,000", ".1f", dict.fromkeys(names, 1.0)),
        ("false_alarms", "false alarms per day", ".2f", per_day),
        ("recall", "recall", ".2f", dict.fromkeys(names, 1.0)),
    ):
        for answers in ANSWERS[1:]:
            own = [r for r in ours if (r["order"], r["wrong"], r["answers"]) == ("review", 0.0, answers)]
            cells = []
            for name in names:
                before, after = (
                    [factor[name] * r[k] for r in own if r["data"] == name] for k in (f"{key}_before", key)
                )
                cells.append(f"{np.mean(before):{form}} → {np.mean(after):{form}}" if before else "")
            rows.append([f"{title}, {answers} answer{'s' if answers > 1 else ''}", *cells])
    return rows


def _choice(records: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Return the candidates, and what was chosen on all data sets but one."""
    worth = {each: criterion(records, each) for each in CANDIDATES}
    means = [
        [
            "{:g}, {}, {:g}".format(*each),
            *(f"{worth[each][name]:+.3f}" for name in names),
            f"{np.mean(list(worth[each].values())):+.4f}",
        ]
        for each in CANDIDATES
    ]
    left_out = []
    for name in names:
        others = [other for other in names if other != name]
        best = max(CANDIDATES, key=lambda each: float(np.mean([worth[each][other] for other in others])))
        own = [r for r in records if r["data"] == name and r["candidate"] == list(best)]
        shown = []
        for wrong in (0.0, WRONG):
            key = "review", 10, wrong
            found = gains(own, lambda r, key=key: (r["order"], r["answers"], r["wrong"]) == key)
            shown.append(f"{found[name]:+.3f}" if name in found else "")
        left_out.append([name, "{:g}, {}, {:g}".format(*best), *shown])
    return (
        table(["strength, scale, width", *names, "mean"], means)
        + "\n\nChosen on all data sets but one, and reported on that one, after 10 answers:\n\n"
        + table(["left out", "chosen", "change of AP", "a fifth wrong"], left_out)
    )


if __name__ == "__main__":
    sys.exit(main())
