"""`tsadc label` and `tsadc review`: verdicts of people about intervals that a model has found."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsadc.atomic import locked_folder, write_file
from tsadc.cli.nightly import identity
from tsadc.cli.workflow import check_report, explain_threshold
from tsadc.config import parse_json
from tsadc.detectors import feedback
from tsadc.detectors.base import Detector
from tsadc.detectors.feedback import Answer, Verdict, as_answer, as_named, given, is_about, question_order, without
from tsadc.detectors.store import load
from tsadc.errors import DataError
from tsadc.series import Floats
from tsadc.show.charts import highest
from tsadc.show.html import write_page
from tsadc.show.review_page import render
from tsadc.show.stored_results import Stored, StoredResults, read_results
from tsadc.show.words import count, number, percent, severity

KEYS: Mapping[str, Answer] = {"y": "true", "n": "false", "p": "planned"}
BARS = "▁▂▃▄▅▆▇█"
COLUMNS = 48  # of a sparkline
ANSWERS_FORMAT, MOST_BYTES = 1, 2**24


@dataclass(frozen=True)
class Given:
    """Verdicts by interval, with a note each, and the identity of the model that found the intervals, if it is
    known."""

    verdicts: Mapping[str, Answer]
    notes: Mapping[str, str]
    model: str = ""


def label_model(
    model: Path,
    results: Path | None,
    answers: Given,
    withdrawn: Sequence[str],
    note: str | None,
    by: str | None,
    own: str | None = None,
) -> str:
    """Add verdicts to a model, or take some back, and return what that changes. A kill leaves the model as it was or
    with all of them."""
    with locked_folder(model.resolve()):
        detector = load(model, detector=own)
        threshold = detector.threshold_
        verdicts = without(detector, withdrawn)
        named: dict[str, Answer] = {}
        if answers.verdicts:
            if results is None:
                raise DataError("A verdict needs the results that have the interval; name their folder with --results.")
            _refuse_answers_about_another(model, answers)
            stored = read_results(results)
            intervals = {interval.judged.id: interval.judged for interval in judged_by(model, stored)}
            finders = {interval.judged.id: interval.model for interval in stored.intervals}
            for written, answer in answers.verdicts.items():
                name = as_named(written, list(finders), str(results))
                if name not in intervals:
                    raise _found_by_another(f"The interval {name} in {results} was", finders[name], model)
                if named.setdefault(name, answer) != answer:
                    raise DataError(f"The interval {name} has two verdicts, {named[name]} and {answer}; choose one.")
                said = answers.notes.get(written) or note
                verdicts = given(detector, verdicts, [intervals[name]], named, said, by)
        detector._judge_by(verdicts)
        _write(model, verdicts)
    return _changes(detector, threshold, len(named), len(withdrawn))


def _refuse_answers_about_another(model: Path, answers: Given) -> None:
    """Raise if a file of answers says that it is about what another model found."""
    if answers.model and not _is_same(answers.model, identity(model)):
        raise _found_by_another("The answers are about intervals that were", answers.model, model)


def _is_same(one: str, other: str) -> bool:
    """Return whether two identities are of the same model, with or without verdicts."""
    return one.partition("+")[0] == other.partition("+")[0]


def _found_by_another(what: str, finder: str, model: Path) -> DataError:
    who = finder or "a model of an earlier version, which is not named"
    return DataError(
        f"{what} found by {who}, not by {model}, which is {identity(model).partition('+')[0]}; name the model that "
        f"did, or detect again: tsadc detect DATA --model {shlex.quote(str(model))} --out FOLDER."
    )


def _write(model: Path, verdicts: Sequence[Verdict]) -> None:
    file = model / feedback.FILE
    if verdicts:
        write_file(file, feedback.to_json(verdicts))
    else:
        file.unlink(missing_ok=True)


def judged_by(model: Path, results: StoredResults) -> tuple[Stored, ...]:
    """Return the intervals that this model has found, with or without verdicts; raise if another one has found all."""
    name = identity(model)
    intervals = tuple(interval for interval in results.intervals if _is_same(interval.model, name))
    if results.intervals and not intervals:
        raise _found_by_another(f"The intervals in {results.folder} were", results.intervals[0].model, model)
    return intervals


def _changes(detector: Detector, before: float, added: int, removed: int) -> str:
    lesson = detector.lesson_
    done = [f"{count(added, 'verdict', 'verdicts')} noted"] if added else []
    done += [f"{count(removed, 'verdict', 'verdicts')} taken back"] if removed else []
    total = len(detector.verdicts_)
    lines = [f"{' and '.join(done) or 'Nothing changed'}; the model has {count(total, 'verdict', 'verdicts')}."]
    if lesson is not None and len(lesson.names):
        order = np.argsort(-np.abs(np.log(np.maximum(lesson.factor, 1e-3))), kind="stable")[:3]
        moved = [f"{lesson.names[k]} x {lesson.factor[k]:.2g}" for k in order if abs(lesson.factor[k] - 1) > 0.005]
        if moved:
            lines.append(f"Weights that change most: {', '.join(moved)}.")
    lines.append(f"Threshold {number(detector.threshold_)} (before: {number(before)}), {explain_threshold(detector)}.")
    lines.append("Run `tsadc detect` again to see what changes.")
    return "\n".join(lines)


def listing(model: Path, own: str | None = None) -> str:
    """Return the verdicts of a model as a table."""
    detector = load(model, detector=own)
    verdicts, zone = detector.verdicts_, detector.clock_.timezone
    if not verdicts:
        return f"{model} has no verdicts."
    rows = [
        [
            verdict.id,
            verdict.verdict,
            verdict.entity,
            _moment(verdict.start, verdict.dated, zone),
            _moment(verdict.end, verdict.dated, zone),
            verdict.by,
            verdict.when[:10],
            verdict.note,
        ]
        for verdict in verdicts
    ]
    titles = ["interval", "verdict", "entity", "start", "end", "by", "given on", "note"]
    table = pd.DataFrame(rows, columns=titles).to_string(index=False)
    if not any(verdict.dated for verdict in verdicts):
        return table
    times = f"those of {zone}" if zone else "in UTC, as which times without a time zone are read"
    return f"{table}\nTimes are {times}."


def _moment(tick: int, dated: bool, zone: str | None) -> str:
    return f"{pd.Timestamp(tick, tz='UTC').tz_convert(zone or 'UTC'):%Y-%m-%d %H:%M:%S}" if dated else f"row {tick}"


def read_answers(file: Path) -> Given:
    """Return the verdicts in a file that the page of `tsadc review` saved."""
    try:
        if file.stat().st_size > MOST_BYTES:
            raise DataError(f"{file} is larger than {MOST_BYTES >> 20} MB, which no answers are; check the name.")
        content = parse_json(file.read_bytes())
    except FileNotFoundError:
        raise DataError(f"There is no file of answers {file}; save it from the page of `tsadc review`.") from None
    except DataError:
        raise
    except (OSError, ValueError):
        raise DataError(f"{file} is no file of answers: it is not JSON; save it from the page again.") from None
    rows = content.get("answers") if isinstance(content, dict) else None
    version = content.get("format") if isinstance(content, dict) else None
    finder = content.get("model", "") if isinstance(content, dict) else None
    good = type(version) is int and version == ANSWERS_FORMAT
    if not good or not isinstance(rows, list) or not isinstance(finder, str):
        raise DataError(f"{file} is no file of answers of this version; save it from the page of `tsadc review`.")
    verdicts: dict[str, Answer] = {}
    notes: dict[str, str] = {}
    for row in rows:
        good = isinstance(row, dict) and row.keys() <= {"id", "verdict", "note"} and {"id", "verdict"} <= row.keys()
        if not good or not all(isinstance(value, str) for value in row.values()):
            raise DataError(
                f'An answer in {file} is {str(row)[:100]}, but {{"id": ..., "verdict": ..., "note": ...}} of texts was '
                "expected; save it from the page again."
            )
        answer = as_answer(row["verdict"])
        if verdicts.get(row["id"], answer) != answer:
            raise DataError(
                f"{file} has two answers about the interval {row['id']!r}, {verdicts[row['id']]} and {answer}; leave "
                "one of them out."
            )
        verdicts[row["id"]] = answer
        notes[row["id"]] = row.get("note", "")
    return Given(verdicts, notes, finder)


def questions(model: Path, results: StoredResults, verdicts: Sequence[Verdict]) -> list[Stored]:
    """Return the intervals that have no verdict yet, in the order that teaches most."""
    left = [
        interval
        for interval in judged_by(model, results)
        if not any(is_about(verdict, interval.judged) for verdict in verdicts)
    ]
    scored = [interval for interval in left if interval.judged.scored]
    order = question_order([interval.excess for interval in scored], [interval.judged.views for interval in scored])
    return [*(scored[i] for i in order), *(interval for interval in left if not interval.judged.scored)]


def review_page(model: Path, results: Path, page: Path, most: int, own: str | None = None) -> str:
    """Write a page that asks about intervals, and return what to do with its answers."""
    check_report(page)
    stored = read_results(results)
    asked = questions(model, stored, load(model, detector=own).verdicts_)[:most]
    if not asked:
        raise DataError(f"Every interval in {results} has a verdict already, so there is nothing to ask.")
    write_page(render(stored, asked, title=f"Review of {results.name}", model=identity(model)), page)
    return (
        f"{page} asks about {count(len(asked), 'interval', 'intervals')}. Open it in a browser, answer, save the "
        f"answers, then run: tsadc label {shlex.quote(str(model))} --results {shlex.quote(str(results))} --answers "
        "answers.json"
    )


def review_here(
    model: Path,
    results: Path,
    most: int,
    by: str | None,
    say: Callable[[str], None],
    own: str | None = None,
) -> str:
    """Ask in the terminal, one interval after the other, and return what the answers change."""
    stored = read_results(results)
    asked = questions(model, stored, load(model, detector=own).verdicts_)[:most]
    if not asked:
        return f"Every interval in {results} has a verdict already, so there is nothing to ask."
    verdicts: dict[str, Answer] = {}
    for i, interval in enumerate(asked, start=1):
        say(f"\n{i} of {len(asked)}: {describe(interval)}\n{sparkline(*stored.scores_around(interval))}")
        try:
            key = _key(say)
        except KeyboardInterrupt:
            say("")  # the terminal shows ^C in the line of the question
            key = "q"
        if key == "q":
            break
        if key in KEYS:
            verdicts[interval.judged.id] = KEYS[key]
    if not verdicts:
        return "No answers, so the model stays as it is."
    return label_model(model, results, Given(verdicts, {}), [], None, by, own)


def _key(say: Callable[[str], None]) -> str:
    """Return the answer to one question: y, n, p, s or q. The end of the input is q."""
    while True:
        say("A true anomaly? y yes, n no, p planned work, s skip, q or Ctrl-C quit and keep the answers")
        line = sys.stdin.readline()
        key = line.strip().lower()[:1]
        if not line:
            return "q"
        if key in (*KEYS, "s", "q"):
            return key


def describe(interval: Stored) -> str:
    """Return what is known about an interval, in a few lines."""
    entity, name = interval.judged.entity, interval.judged.id
    shares = ", ".join(f"{variable} {percent(share)}" for variable, share in interval.variables.items())
    lines = [f"{entity}, {interval.when} ({interval.duration}), interval {name}", interval.reason]
    lines.append(f"severity {severity(interval.severity)}" + (f"; {shares}" if shares else ""))
    return "\n".join(line for line in lines if line)


def sparkline(scores: Floats, first: int, last: int) -> str:
    """Draw scores as a line of bars, with the interval between brackets; a space where there is no score."""
    if not len(scores):
        return ""
    parts = [scores[:first], scores[first:last], scores[last:]]
    finite = scores[np.isfinite(scores)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)

    def drawn(part: Any) -> str:
        columns = max(1, round(COLUMNS * len(part) / len(scores))) if len(part) else 0
        tops = highest(np.asarray(part, dtype=np.float64), columns) if columns else np.zeros(0)
        return "".join(
            BARS[int((len(BARS) - 1) * (top - low) / max(high - low, 1e-12))] if np.isfinite(top) else " "
            for top in tops
        )

    return f"score {drawn(parts[0])}[{drawn(parts[1])}]{drawn(parts[2])}"
