"""Verdicts of people about intervals, and what a detector learns from them without training.

    name        meaning
    added       (view,) what each view adds to the score of an observation, by the weights that were fitted without
                labels (`ensemble/fusion.py`). Of an interval: to that of its strongest observation
    factor      (view,) what each weight is multiplied by, 0 or more; 1 without verdicts
    y           1 for a true anomaly, -1 for a false alarm
    T           threshold without verdicts
    spread      of the scores of the history (`threshold.py`)
    scale       of an interval: |score - T|, at least the spread, so that no single verdict outweighs the others
    exemplar    an interval with a verdict: what resembles a false one, of the same entity, is lowered

    factor  =  argmin  sum log(1 + exp(-y (factor . added - T) / scale))  +  STRENGTH / 2 |factor - 1|^2
    score   =  factor . added  -  similarity * excess of a false exemplar over the threshold, if none is more similar

The loss is convex, so its minimum does not depend on where the search begins. The sum grows with the number of
verdicts and the penalty does not, so a few of them change little, as in the active anomaly discovery of Das et al.
(2016) and Siddiqui et al. (2018). The threshold lets through the same share of normal observations as before, and then
moves to where it makes fewer mistakes on the verdicts, if that changes the share little. `benchmarks/feedback.py`
measures all of it.

A verdict keeps its view scores divided by the weights, so that it can teach a refitted model, too."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from tsadc.config import nearest, parse_json
from tsadc.detectors.drift import usual_score
from tsadc.detectors.result import Evidence, Result
from tsadc.detectors.stored_limits import RESTORE
from tsadc.detectors.threshold import BELOW, Normal
from tsadc.errors import DataError, ModelFileError, notice
from tsadc.series import Booleans, Floats, Series

if TYPE_CHECKING:
    from tsadc.detectors.base import Detector

Answer = Literal["true", "false", "planned"]
ANSWERS: tuple[Answer, ...] = get_args(Answer)
FILE, FORMAT = "verdicts.json", 1
COLUMN = "feedback"  # the change of a score by verdicts, beside the views
STRENGTH = 0.3  # of the pull to the label-free weights
WIDTH = 0.1  # of the similarity of exemplars, as a share of their size
MARGIN = 0.1  # spreads by which a copy of a false alarm stays below the threshold
COPY = 0.9  # similarity of two questions from which on one of them is enough
CAUTION = 1.0  # mistakes that a change of the false alarms by a factor of e must avoid
SAME_SCORE = 1e-4  # tolerance for the rounding of scores that verdicts have changed
MOST_VERDICTS, MOST_BYTES, MOST_TEXT = 100_000, 2**26, 10_000  # in a file; characters of a note


@dataclass(frozen=True)
class Judged:
    """An interval of a result, with what verdicts need to know about it.

    Attributes
    ----------
    id, entity : str
    start, end : int
        Nanoseconds since 1970 in UTC, or row numbers; `end` is exclusive.
    dated : bool
        Whether they are times.
    score : float
        Label-free score of its strongest observation.
    views : dict of str to float
        What each view adds to it; empty for a sensor that stopped reporting and for a detector without views.
    scored : bool
        Whether it has a score; a sensor that stopped reporting has none.
    others : tuple of dict of str to float
        What each view adds to the scores of its other observations above the threshold.
    """

    id: str
    entity: str
    start: int
    end: int
    dated: bool
    score: float
    views: Mapping[str, float]
    scored: bool = True
    others: Sequence[Mapping[str, float]] = ()


@dataclass(frozen=True)
class Verdict:
    """What a person says about an interval.

    Attributes
    ----------
    id, entity : str
        Name of the interval, and its entity.
    start, end : int
        Nanoseconds since 1970 in UTC if `dated`, otherwise row numbers; `end` is exclusive.
    dated : bool
    verdict : {"true", "false", "planned"}
        A true anomaly, a false alarm, or planned work, which is neither judged nor learnt from.
    note, by : str
        Free text, and who gave the verdict.
    when : str
        When it was given, in ISO 8601.
    model : str
        The detector that scored the interval, and a digest of its training data.
    score : float or None
        Label-free score of the strongest observation; None for a sensor that stopped reporting, which teaches nothing.
    views : dict of str to float
        What each view adds to it, divided by the weight of the view.
    others : sequence of dict of str to float
        The same of its other observations above the threshold. If the interval is a false alarm, they are lowered, too.
    """

    id: str
    entity: str
    start: int
    end: int
    dated: bool
    verdict: Answer
    note: str = ""
    by: str = ""
    when: str = ""
    model: str = ""
    score: float | None = None
    views: Mapping[str, float] = field(default_factory=dict)
    others: Sequence[Mapping[str, float]] = ()

    def rows(self, series: Series) -> tuple[int, int] | None:
        """Return the rows [start, stop) of the interval in a series, possibly outside of it; None if it is of another
        entity."""
        clock = series.clock
        if series.entity != self.entity or clock.dated != self.dated:
            return None
        return (self.start - clock.start) // clock.interval, -((clock.start - self.end) // clock.interval)


@dataclass(frozen=True, eq=False)
class Exemplar:
    """An interval with a verdict, to which observations are compared: `added` (view,) and `excess`, how far its score
    lies above the threshold."""

    entity: str
    true: bool
    added: Floats
    excess: float

    def similarity(self, added: Floats) -> float:
        """Return 1 for a copy, and less for what differs by more of its size."""
        size = max(float(np.linalg.norm(self.added)), 1e-9)
        return math.exp(-0.5 * (float(np.linalg.norm(added - self.added)) / (WIDTH * size)) ** 2)


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a detector has learnt from verdicts.

    Attributes
    ----------
    names : tuple of str
        The views; empty for a detector without views, whose scores stay as they are.
    factor : (view,)
        What each weight is multiplied by.
    exemplars : tuple of Exemplar
    usual_shift : float
        How much the usual scores of the entities change.
    before, after : dict of str to Any
        Attributes of the detector without the verdicts and with them.
    """

    names: tuple[str, ...]
    factor: Floats
    exemplars: tuple[Exemplar, ...]
    usual_shift: float
    before: Mapping[str, Any]
    after: Mapping[str, Any]

    def change(self, entity: str, added: Floats) -> float:
        """Return how much the score of an observation changes."""
        return float(added @ (self.factor - 1)) - self._lowered(entity, added)

    def _lowered(self, entity: str, added: Floats) -> float:
        true = max((exemplar.similarity(added) for exemplar in self.exemplars if exemplar.true), default=0.0)
        false = (
            (exemplar.similarity(added), exemplar.excess)
            for exemplar in self.exemplars
            if not exemplar.true and exemplar.entity == entity
        )
        return max((similarity * excess for similarity, excess in false if similarity > true), default=0.0)

    def corrected(self, entity: str, evidence: Evidence) -> Evidence:
        """Return the evidence of an observation with the change as one more view."""
        if not self.names:
            return evidence
        change = self.change(entity, np.array([evidence.view_scores.get(name, 0.0) for name in self.names]))
        score = float(np.float32(evidence.score + change))
        # Steps lie below the score in proportion to it (`Fusion.fuse`), so that the rows of an interval stay the same.
        size = abs(score) / abs(evidence.score) if abs(evidence.score) > 1e-6 else 1.0
        steps = score - size * (evidence.score - evidence.steps.astype(np.float64))
        return replace(
            evidence,
            score=score,
            view_scores={**evidence.view_scores, COLUMN: change},
            steps=steps.astype(np.float32),
        )


def learnt_from(scores: Floats, views: Floats | None) -> Booleans:
    """Return which of the training observations with these scores were learnt from, by what their views add."""
    return np.ones(len(scores), dtype=bool) if views is None else np.asarray(np.isfinite(views).all(axis=1))


def learn(detector: Detector, verdicts: Sequence[Verdict]) -> Lesson | None:
    """Return what the verdicts teach a detector without a lesson; None if they teach nothing."""
    taught = [verdict for verdict in verdicts if verdict.verdict != "planned" and verdict.score is not None]
    if not taught:
        return None
    true = np.array([verdict.verdict == "true" for verdict in taught])
    threshold, normal, history = detector.threshold_, detector.normal_, detector.decision_scores_
    before = {"threshold_": threshold, "normal_": normal, "decision_scores_": history}
    weights, history_views = detector._view_weights, detector.history_views_
    if weights is None:  # there is nothing but the score
        scores = np.array([verdict.score for verdict in taught], dtype=np.float64)
        after = {**before, "threshold_": respecting(threshold, normal, scores, true)}
        return Lesson((), np.ones(0), (), 0.0, before, after)
    names = detector.view_names
    added = weights * np.array([[verdict.views.get(name, 0.0) for name in names] for verdict in taught])
    learnt = detector._learnt_from
    middle, low = np.quantile(history[learnt], [0.5, BELOW]).tolist()
    spread = max(middle - low, 1e-9)
    factor: Floats = np.ones(len(names))
    if history_views is not None:
        factor = fit_factor(added, true, threshold, spread)
        history = history + np.nan_to_num(history_views.astype(np.float64) @ (factor - 1))
        normal = Normal.of(history[learnt], detector.contamination_)
        threshold = normal.at(detector.normal_.above(threshold))
    scores = added @ factor
    threshold = respecting(threshold, normal, scores, true)

    def exemplar(verdict: Verdict, vector: Floats) -> Exemplar:
        excess = max(float(vector @ factor) - threshold, 0.0) + MARGIN * spread
        return Exemplar(verdict.entity, verdict.verdict == "true", vector, excess)

    exemplars = tuple(exemplar(verdict, vector) for verdict, vector in zip(taught, added, strict=True))
    exemplars += tuple(
        exemplar(verdict, weights * np.array([views.get(name, 0.0) for name in names]))
        for verdict in taught
        if verdict.verdict == "false"
        for views in verdict.others
    )
    shift = usual_score(history[learnt]) - usual_score(detector.decision_scores_[learnt])
    after = {"threshold_": threshold, "normal_": normal, "decision_scores_": history}
    return Lesson(names, factor, exemplars, shift, before, after)


def fit_factor(added: Floats, true: Booleans, threshold: float, spread: float) -> Floats:
    """Return the factors (view,) of the weights that separate true from false intervals, `added` (interval, view)."""
    from scipy.optimize import minimize  # slow to import, and not needed without verdicts

    sign = np.where(true, 1.0, -1.0)
    scale = loss_scale(added.sum(axis=1), threshold, spread)

    def loss(factor: Floats) -> tuple[float, Floats]:
        margin = sign * (added @ factor - threshold) / scale
        wrong = 1 / (1 + np.exp(np.clip(margin, -50, 50)))
        gradient = -(sign * wrong / scale) @ added + STRENGTH * (factor - 1)
        return float(np.logaddexp(0, -margin).sum() + STRENGTH / 2 * np.square(factor - 1).sum()), gradient

    views = added.shape[1]
    solution = minimize(loss, np.ones(views), jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * views)
    return np.asarray(solution.x, dtype=np.float64)


def loss_scale(scores: Floats, threshold: float, spread: float) -> Floats:
    """Return the scale of the loss of each interval."""
    return np.asarray(np.maximum(np.abs(scores - threshold), spread))


def respecting(threshold: float, normal: Normal, scores: Floats, true: Booleans) -> float:
    """Return the threshold that makes fewest mistakes on verdicts about these scores, without changing the share of
    normal observations above it by more than that is worth."""

    def cost(candidate: float) -> float:
        mistakes = int(((scores > candidate) != true).sum())
        share, now = (max(normal.above(value), 1e-300) for value in (candidate, threshold))
        return mistakes + CAUTION * abs(math.log(share / now))

    # A threshold at a score is not exceeded by it, and one just below it is.
    return float(min([threshold, *scores.tolist(), *np.nextafter(scores, -np.inf).tolist()], key=cost))


def question_order(excess: Sequence[float], views: Sequence[Mapping[str, float]]) -> list[int]:
    """Return in which order to ask about intervals, to learn most from the first answers.

    The one that lies farthest above the threshold and the one that lies closest to it, in turns: the first say what an
    anomaly is like, the others where anomalies end. What nearly copies another question comes last."""
    ranked = sorted(range(len(excess)), key=lambda i: -excess[i])
    turns = [i for pair in zip(ranked, reversed(ranked), strict=True) for i in pair]
    names = sorted({name for scores in views for name in scores})
    vectors = [np.array([scores.get(name, 0.0) for name in names]) for scores in views]
    asked: list[int] = []
    copies: list[int] = []
    for i in dict.fromkeys(turns):
        known = (Exemplar("", True, vectors[j], 0.0) for j in asked if len(names))
        (copies if any(exemplar.similarity(vectors[i]) > COPY for exemplar in known) else asked).append(i)
    return [*asked, *copies]


def judged(result: Result, ids: Sequence[str]) -> list[Judged]:
    """Return the intervals of a result with these names."""
    every = {
        interval.id(part.series): (number, interval)
        for number, part in enumerate(result.parts)
        for interval in part.intervals
    }
    intervals = []
    for name in ids:
        name = as_named(name, list(every), "The result")
        number, interval = every[name]
        series = result.parts[number].series
        scored = None if interval.is_missing else _scored(result, number, interval.start, interval.stop)
        score, views, others = scored or (0.0, {}, ())
        span = series.clock.tick(interval.start), series.clock.tick(interval.stop)
        intervals.append(
            Judged(name, series.entity, *span, series.clock.dated, score, views, scored is not None, others)
        )
    return intervals


def _scored(
    result: Result, number: int, first: int, last: int
) -> tuple[float, Mapping[str, float], Sequence[Mapping[str, float]]] | None:
    """Return label-free score and view scores of the observation of series `number` that stands out most among those
    that overlap rows [first, last), and the view scores of the others whose label-free score is above the threshold;
    None if there is none."""
    places = result.scored.places
    inside = [
        i
        for i, place in enumerate(places)
        if place.series == number and place.start < last and place.start + result.length > first
    ]
    if not inside:
        return None
    excess = result.scores - result.raised - result.threshold
    inside.sort(key=lambda i: -excess[i])
    best, *rest = [{view: float(scores[i]) for view, scores in result.view_scores.items()} for i in inside]
    score = float(result.scores[inside[0]]) - best.pop(COLUMN, 0.0)
    # Without earlier verdicts, so that giving one again does not undo a part of it.
    others = [views for i, views in zip(inside[1:], rest, strict=True) if excess[i] > views.pop(COLUMN, 0.0)]
    return score, best, others


def as_named(name: str, known: Sequence[str], where: str) -> str:
    """Return the name of an interval as it is written in `known`, regardless of case and blanks around it; raise, with
    the nearest name, if it is not there."""
    written = name.strip().lower()
    if written in known:
        return written
    if not known:
        raise DataError(f"{where} has no unusual interval, so there is no {name!r}; detect with other data.")
    raise DataError(f"{where} has no interval {name!r}{nearest(written, list(known))}")


def requested(result: Any, verdicts: Any, note: Any, by: Any) -> tuple[list[Judged], dict[str, Answer], list[str]]:
    """Return what a call of `Detector.feedback` asks for: the intervals that get a verdict, the verdicts by their
    names, and the names of those whose verdict is taken back. Raise if an argument is of another type."""
    if not isinstance(verdicts, Mapping):
        raise DataError(
            "`verdicts` must map the id of each interval to True, False or 'planned', such as {'ksrsghqq': False}, but "
            f"got {_kind(verdicts)}."
        )
    if result is not None and not isinstance(result, Result):
        raise DataError(
            f"`result` must be what `detect` has returned, or None to take verdicts back, but got {_kind(result)}; "
            "keep the result as a whole, since its tables alone do not show what each view found."
        )
    for text, what in ((note, "note"), (by, "by")):
        if text is not None and not isinstance(text, str):
            raise DataError(f"`{what}` must be a text, but got {_kind(text)}.")
    for name in verdicts:
        if not isinstance(name, str):
            raise DataError(
                f"The id of an interval is a text such as 'ksrsghqq', but got {name!r}, {_kind(name)}; take it from "
                "the column `id` of `result.intervals`."
            )
    withdrawn = [name for name, verdict in verdicts.items() if verdict is None]
    answers = {name: as_answer(verdict) for name, verdict in verdicts.items() if verdict is not None}
    if answers and result is None:
        raise DataError(f"A verdict about {next(iter(answers))!r} needs the result that has the interval.")
    intervals = [] if result is None else judged(result, list(answers))
    by_name: dict[str, Answer] = {}
    for interval, answer in zip(intervals, answers.values(), strict=True):
        if by_name.setdefault(interval.id, answer) != answer:
            raise DataError(f"`verdicts` has two verdicts about the interval {interval.id!r}; leave one of them out.")
    return intervals, by_name, withdrawn


def _kind(value: Any) -> str:
    """Return the type of a value, for messages."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def given(
    detector: Detector,
    verdicts: Sequence[Verdict],
    intervals: Sequence[Judged],
    answers: Mapping[str, Answer],
    note: str | None = None,
    by: str | None = None,
) -> tuple[Verdict, ...]:
    """Return `verdicts` with further ones about `intervals`; a newer one replaces an older one."""
    for text, what in ((note, "note"), (by, "name")):
        if text is not None and len(text) > MOST_TEXT:
            raise DataError(f"A {what} has at most {MOST_TEXT:,} characters, but got {len(text):,}; shorten it.")
    kept = {verdict.id: verdict for verdict in verdicts}
    weights = detector._view_weights
    if weights is not None and detector.history_views_ is None:
        notice(
            "The model was fitted by an earlier version and does not know what each view adds to its training scores, "
            "so verdicts change the threshold and what resembles them, but no weights; fit it again to change that."
        )
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for interval in intervals:
        answer = answers[interval.id]
        if answer == "planned" and not interval.dated:
            raise DataError(
                f"Planned work is an interval of time, but {interval.id} has row numbers only, which would hide the "
                "same rows of later data; use data with a time column, or the verdict 'false'."
            )
        old = kept.get(interval.id)
        if old is not None and not is_about(old, interval):
            notice(
                f"The verdict about the interval {interval.id} of other data is replaced, because names of intervals "
                "repeat from file to file without dates."
            )
        elif old is not None and old.verdict != answer:
            notice(f"The interval {interval.id} was judged {old.verdict!r} before; it is now {answer!r}.")
        if not interval.scored and answer != "planned":
            notice(
                f"The interval {interval.id} is a sensor that stopped reporting and has no score, so the verdict is "
                "kept but changes nothing; `planned` would keep it from being reported again."
            )
        views: dict[str, float] = {}
        others: list[dict[str, float]] = []
        if weights is not None and interval.scored:
            views, *others = (
                _unweighted(detector.view_names, weights, added) for added in (interval.views, *interval.others)
            )
        kept[interval.id] = Verdict(
            interval.id,
            interval.entity,
            interval.start,
            interval.end,
            interval.dated,
            answer,
            note or "",
            by or "",
            now,
            model_name(detector),
            interval.score if interval.scored else None,
            views,
            others,
        )
    return tuple(kept.values())


def is_about(verdict: Verdict, interval: Judged) -> bool:
    """Return whether a verdict is about this interval. Names repeat from file to file without dates, so that the
    label-free scores must be the same, too."""
    if verdict.id != interval.id or interval.dated:
        return verdict.id == interval.id
    if verdict.score is None or not interval.scored:
        return verdict.score is None and not interval.scored
    return math.isclose(verdict.score, interval.score, rel_tol=SAME_SCORE, abs_tol=SAME_SCORE)


def _unweighted(names: Sequence[str], weights: Floats, views: Mapping[str, float]) -> dict[str, float]:
    """Return what each view adds, divided by its weight."""
    return {
        name: views.get(name, 0.0) / weight if weight > 0 else 0.0
        for name, weight in zip(names, weights.tolist(), strict=True)
    }


def without(detector: Detector, names: Sequence[str]) -> tuple[Verdict, ...]:
    """Return the verdicts of a detector without those about the intervals of these names."""
    known = [verdict.id for verdict in detector.verdicts_]
    removed = {name.strip().lower() for name in names}
    for name in names:
        if name.strip().lower() not in known:
            there = nearest(name.lower(), known) if known else "; it has no verdict at all."
            raise DataError(f"The model has no verdict about the interval {name!r}{there}")
    return tuple(verdict for verdict in detector.verdicts_ if verdict.id not in removed)


def carried_over(verdicts: Sequence[Verdict], detector: Detector, result: Result) -> tuple[Verdict, ...]:
    """Return the verdicts about another detector's intervals for this one, which has made `result`: scored again where
    the result has the time of the interval, otherwise as they are."""
    weights, carried = detector._view_weights, []
    for verdict in verdicts:
        scored = None
        for number, part in enumerate(result.parts):
            rows = verdict.rows(part.series)
            if scored is None and rows is not None and verdict.score is not None:
                scored = _scored(result, number, *rows)
        if scored is None:
            carried.append(verdict)
            continue
        score, views, others = scored
        if weights is None:
            views, others = {}, ()
        else:
            views, *others = (_unweighted(detector.view_names, weights, added) for added in (views, *others))
        carried.append(replace(verdict, model=model_name(detector), score=score, views=views, others=others))
    return tuple(carried)


def model_name(detector: Detector) -> str:
    """Return the detector's name and the beginning of the digest of its training data."""
    return f"{detector.name}-{str(detector.provenance_['data']['digest'])[:8]}"


def to_json(verdicts: Sequence[Verdict]) -> bytes:
    """Return the content of the file of verdicts."""
    content = {"format": FORMAT, "verdicts": [asdict(verdict) for verdict in verdicts]}
    return (json.dumps(content, indent=1) + "\n").encode()


def read(folder: Path) -> tuple[Verdict, ...]:
    """Return the verdicts that a model folder holds; none if it has no file of them."""
    file = folder / FILE
    try:
        if file.stat().st_size > MOST_BYTES:
            raise ModelFileError(f"{file} is larger than {MOST_BYTES >> 20} MB, which no verdicts are; {RESTORE}.")
        content = parse_json(file.read_bytes())
    except FileNotFoundError:
        return ()
    except ModelFileError:
        raise
    except (OSError, ValueError):
        raise ModelFileError(f"{file} is truncated or not JSON; {RESTORE}, or remove the file.") from None
    version = content.get("format") if isinstance(content, dict) else None
    if type(version) is int and version > FORMAT:
        raise ModelFileError(f"{file} has format {version}, but this version reads up to {FORMAT}; upgrade tsadc.")
    rows = content.get("verdicts") if type(version) is int and version == FORMAT else None
    if not isinstance(rows, list) or len(rows) > MOST_VERDICTS or not all(map(_is_verdict, rows)):
        raise ModelFileError(f"{file} does not hold verdicts as tsadc writes them; {RESTORE}, or remove the file.")
    if len({row["id"] for row in rows}) < len(rows):
        raise ModelFileError(f"{file} has two verdicts about one interval; {RESTORE}, or remove one of them.")
    return tuple(Verdict(**row) for row in rows)


def _is_verdict(row: Any) -> bool:
    """Return whether a row of the file has exactly the fields of a verdict, with values of their types."""
    if not isinstance(row, dict) or row.keys() | {"others"} != Verdict.__dataclass_fields__.keys():
        return False
    texts = [row[name] for name in ("id", "entity", "note", "by", "when", "model")]
    whole = [row[name] for name in ("start", "end")]
    numbers: list[Any] = [] if row["score"] is None else [row["score"]]
    others = row.get("others", [])  # not in files of earlier versions
    for views in [row["views"], *(others if isinstance(others, list) and len(others) <= MOST_VERDICTS else [None])]:
        numbers += views.values() if isinstance(views, dict) else [None]
    return (
        all(isinstance(text, str) and len(text) <= MOST_TEXT for text in texts)
        and all(type(number) is int and abs(number) < 2**63 for number in whole)
        and row["start"] <= row["end"]
        and type(row["dated"]) is bool
        and row["verdict"] in ANSWERS
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers)
    )


def as_answer(value: Any) -> Answer:
    """Return a verdict that a user gave, as a word or as True or False."""
    word = str(bool(value)).lower() if isinstance(value, bool | np.bool_) else value
    if not isinstance(word, str) or word not in ANSWERS:
        raise DataError(f"A verdict is true, false or planned, but got {value!r}.")
    return word
