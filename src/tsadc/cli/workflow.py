"""Fit and detect, from files to files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.atomic import locked, new_file, refuse_existing
from tsadc.cli.console import IS_MAIN_PROCESS
from tsadc.cli.nightly import Detected, Existing, results_folder, silent_ends
from tsadc.cluster.storage import address_of, is_inside
from tsadc.config import merge, parse_assignments, read_toml, update
from tsadc.detectors import find
from tsadc.detectors.base import Detector, ProgressCallback
from tsadc.detectors.drift import Drift
from tsadc.detectors.events import Events
from tsadc.detectors.result import Result, worst
from tsadc.detectors.review import read_review
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import Contamination, explain, refuse_unused
from tsadc.errors import ConfigError, OutputError, notice
from tsadc.io.calendar import Calendar
from tsadc.io.doctor import Examination
from tsadc.optional import has_torch
from tsadc.series import Series
from tsadc.show import words
from tsadc.show import write as write_report
from tsadc.show.chance import by_chance, count_scored, false_alarms, graded
from tsadc.show.html import refuse_other_file
from tsadc.show.result_files import write_ends, write_tables
from tsadc.show.words import count, evidence, number, reviewed_text

MAX_DRIFTED, MAX_WORST = 3, 3  # entities and intervals in the summary


def requested_settings(
    detector: type[Detector] | str,
    preset: str,
    file: Path | None,
    assignments: Sequence[str],
    options: Mapping[str, Any],
) -> Common:
    """Combine preset, TOML file, --set and the other options into settings; a later one overrides an earlier one."""
    changes: dict[str, Any] = read_toml(file) if file else {}
    changes = merge(changes, parse_assignments(assignments))
    changes = merge(changes, _without_none(options))
    cls = find(detector) if isinstance(detector, str) else detector
    base = cls.Config()
    if not hasattr(base, "training"):
        _refuse_settings_of_networks(cls.name, base, preset, changes)
    config: Common = update(base.preset(preset), changes)
    refuse_unused(config.threshold, config.contamination != "auto", changes.get("threshold", {}))
    return config


def _refuse_settings_of_networks(detector: str, base: Common, preset: str, changes: Mapping[str, Any]) -> None:
    """Raise if a preset or a setting is requested that `tsadc` has and a detector without a network has not."""
    unknown = [name for name in changes if not hasattr(base, name) and name != detector]
    if not has_torch() and "training" in unknown:
        raise ConfigError(f"`training` (--epochs) does not apply to {detector}, which has no network; leave it out.")
    if not has_torch() or (not unknown and preset in ("default", *base.presets)):
        return
    network = find("tsadc").Config()  # imports torch, which nothing else here needs
    shown = [f"The preset {preset!r}"] if preset in network.presets and preset not in base.presets else []
    shown += [
        "`training` (--epochs)" if name == "training" else f"`{name}`" for name in unknown if hasattr(network, name)
    ]
    if shown:
        raise ConfigError(
            f"{shown[0]} does not apply to {detector}, which has no network; leave it out, or add --detector tsadc."
        )


def fit_model(
    detector: Detector,
    series: tuple[Series, ...],
    out: Path,
    *,
    resume: bool = False,
    clean: bool = False,
    mergeable: bool = False,
    progress: ProgressCallback | None = None,
    reading: Mapping[str, Any] | None = None,
    calendar: Calendar | None = None,
    review: Path | None = None,
) -> str:
    """Train the detector, save it to `out` and return a summary. The model remembers the options of `reading`.

    `review` is a review file: what it drops is not learnt from, and of what it fixes only the variables to blame.

    A network's unfinished run is in `OUT.partial`, and so is the lock that keeps a second process from training the
    same model."""
    refuse_existing(out)
    if not detector.savable:
        raise ConfigError(
            f"{detector.name} cannot be saved, so the command line cannot use it; fit and use it in Python."
        )
    reviewed = None if review is None else read_review(review, series)
    learnt = series if reviewed is None else reviewed.apply(series)
    if review is not None and reviewed is not None:
        from tsadc.show.audit_files import notice_undecided  # slow to import

        notice_undecided(review, reviewed.decisions, "everything in them is learnt from")
    if mergeable:  # as in a merged model
        learnt = tuple(sorted(learnt, key=lambda item: item.entity))
    partial = out.with_name(out.name + ".partial")
    checkpoint = partial / "training.safetensors"
    has_network = hasattr(detector.settings, "training")
    if checkpoint.exists() and not (resume and has_network) and IS_MAIN_PROCESS:
        how = "--resume" if has_network else "--resume and the --detector that it was started with"
        raise OutputError(f"{partial} holds an unfinished run: continue it with {how}, or remove it to start again.")
    if resume and not has_network:
        notice(f"--resume has no effect: {detector.name} has no network to train, so it starts and ends in one go.")
    busy = f"Another `tsadc fit` is writing {out}; wait until it is done, or choose another --out."
    try:
        with locked(partial / "lock", busy) if IS_MAIN_PROCESS else contextlib.nullcontext():
            detector.fit(
                learnt,
                calendar=calendar,
                progress=progress,
                checkpoint=checkpoint,
                resume=resume,
                clean=clean,
                mergeable=mergeable,
            )
            if reading:
                detector.provenance_["reading"] = dict(reading)
            if reviewed is not None:
                detector.provenance_["review"] = reviewed.provenance(series)
            if IS_MAIN_PROCESS:
                detector.save(out)
                checkpoint.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):  # not empty: there is something to resume
            partial.rmdir()
    cleaned = detector.provenance_.get("cleaned")
    without = (
        f"{count(cleaned['intervals'], 'suspect interval was', 'suspect intervals were')} left out of the history "
        f"({count(cleaned['rows'], 'row', 'rows')}).\n"
        if cleaned
        else ""
    )
    if reviewed is not None:
        without = f"Reviewed: {reviewed_text(reviewed.provenance(series))}.\n{without}"
    return f"{without}{trained(detector, out)}"


def refuse_inside(out: Path, folders: Iterable[Path], what: str) -> None:
    """Raise if results would be written to one of the folders, or into it; `what` says what the folders hold."""
    for folder in folders:
        if is_inside(address_of(out), address_of(folder)):
            raise OutputError(f"{out} is inside {folder}, whose files belong to {what}; choose a place outside of it.")


def trained(detector: Detector, out: Path) -> str:
    """Say what a model was trained on, and what its threshold is."""
    data, training = detector.provenance_["data"], detector.provenance_.get("training")
    above = int(detector.labels_.sum())
    return (
        f"Trained on {data['observations']} observations of {data['length']} rows, "
        f"{count(data['variables'], 'variable', 'variables')}, "
        f"{count(data['entities'], 'entity', 'entities')}{_epochs(training) if training else ''}.\n"
        f"Contamination {_with_doubt(detector.contamination_)}\n"
        f"Threshold {detector.threshold_:.3f}, {explain_threshold(detector)}. "
        f"{count(above, 'training observation lies', 'training observations lie')} above it.\n"
        f"The model is in {out}."
    )


def _with_doubt(contamination: Contamination) -> str:
    return f"{contamination}. {contamination.doubt}".rstrip()


def _epochs(training: Mapping[str, Any]) -> str:
    epochs = len(training["epochs"])
    return f": {count(epochs, 'epoch', 'epochs')}" + (f", best epoch {training['best_epoch']}" if epochs > 1 else "")


def detect_to(
    detector: Detector,
    series: tuple[Series, ...],
    out: Path | None,
    report: Path | None,
    *,
    title: str,
    model: str = "",
    existing: Existing = "refuse",
    processes: int = 1,
    progress: ProgressCallback | None = None,
    examination: Examination | None = None,
    calendar: Calendar | None = None,
) -> Detected:
    """Write tables to the folder `out` and a page to `report`, both, either or none, all or nothing.

    `model` is the name of the model in the tables, and `existing` says what becomes of earlier results in `out`.
    Without a report, memory does not grow with the data.
    """
    if report is not None and report == out:
        raise OutputError(f"{out} cannot be both the folder for tables and the report; give the report its own name.")
    if report is not None:
        check_report(report)
    if out is None:
        result = detector.detect(series, calendar=calendar, progress=progress, processes=processes)
        said = verdict(result.intervals, len(series), detector.threshold_, by_chance(result), result.drift)
        if report is not None:
            write_report(result, report, title=title, about=facts(detector), examination=examination)
            said += f"\nThe report is {report}."
        return Detected(said, _with_similar(result), result.drift)
    with contextlib.ExitStack() as outputs:
        # A report inside the folder appears together with it, and one elsewhere right after it.
        inside = report is not None and report.absolute().is_relative_to(out.absolute())
        page = outputs.enter_context(new_file(report)) if report is not None and not inside else None
        events = Events.of(detector.settings.event, detector.memory_, detector.settings.length)
        folder = outputs.enter_context(results_folder(out, series, existing, events.merge))
        whole = None
        parts: Iterable[Result]
        if report is not None:
            whole = detector.detect(series, calendar=calendar, progress=progress, processes=processes)
            parts = [whole]
        else:
            parts = detector.detect_parts(series, calendar=calendar, progress=progress, processes=processes)
        intervals, drift, expected = list[pd.DataFrame](), list[Drift](), list[float]()
        collected = _collecting(parts, intervals, drift, expected)
        parquet = out.suffix == ".parquet"
        names = write_tables(collected, folder, parquet=parquet, model=model)
        if existing == "update":
            write_ends(silent_ends(detector, series), folder, parquet=parquet, model=model)
        if whole is not None and report is not None:
            place = page or folder / report.absolute().relative_to(out.absolute())
            write_report(whole, place, title=title, about=facts(detector), examination=examination)
    done = f"Updated {', '.join(names)} in" if existing == "update" else f"Wrote {', '.join(names)} to"
    found = pd.concat([table for table in intervals if len(table)] or intervals[:1], ignore_index=True)
    written = f"{done} {out}." + (f"\nThe report is {report}." if report else "")
    share = detector.normal_.above(detector.threshold_)
    chance = false_alarms(count_scored(found), sum(expected), share, detector.settings.length, detector.clock_)
    said = verdict(found, len(series), detector.threshold_, chance, drift)
    return Detected(f"{said}\n{written}", found, tuple(drift))


def check_report(report: Path) -> None:
    """Raise if the report cannot be written, before time is spent on detection."""
    if report.is_dir():
        raise OutputError(f"{report} is a folder, but a file is to be written there; choose another name.")
    refuse_other_file(report)
    parent = next(folder for folder in report.absolute().parents if folder.exists())
    if not parent.is_dir():
        raise OutputError(f"{report} cannot be written, because {parent} is not a folder; choose another name.")
    if not os.access(parent, os.W_OK):
        raise OutputError(f"{report} cannot be written, because {parent} is read-only; choose another folder.")


def facts(detector: Detector) -> dict[str, str]:
    """Describe the model for the report."""
    settings, data = detector.settings, detector.provenance_["data"]
    return {
        "detector": detector.name,
        "observation length": f"{settings.length} rows",
        "contamination": _with_doubt(detector.contamination_).rstrip("."),
        "threshold": f"{number(detector.threshold_)}, {explain_threshold(detector)}",
        "seed": str(settings.seed),
        **({"verdicts": count(len(detector.verdicts_), "verdict", "verdicts")} if detector.verdicts_ else {}),
        "trained on": f"{data['rows']} rows of {count(data['entities'], 'entity', 'entities')}",
    }


def explain_threshold(detector: Detector) -> str:
    """Say how the threshold was chosen and how many false alarms to expect."""
    settings = detector.settings
    return explain(
        settings.threshold,
        detector.contamination_,
        detector.normal_,
        detector.threshold_,
        detector.clock_,
        settings.length,
    )


def rethreshold(detector: Detector, assignments: Sequence[str], options: Mapping[str, Any]) -> Detector:
    """Apply `--set` and other options to threshold and events; without any the stored ones stay as they are."""
    changes = merge(parse_assignments(assignments), options)
    if not changes:
        return detector
    update(detector.settings, changes)  # refuses names that are no settings at all
    for name in changes:
        if name not in ("contamination", "threshold", "event"):
            raise ConfigError(
                f"`{name}` cannot be changed without training again; here --set takes `contamination` and the "
                "settings of `threshold` and `event`."
            )
    if "event" in changes:
        detector.settings_ = update(detector.settings_, {"event": changes.pop("event")})
    if not changes:
        return detector  # with the stored threshold
    return detector.set_threshold(contamination=changes.get("contamination"), **changes.get("threshold", {}))


def _collecting(
    parts: Iterable[Result], intervals: list[pd.DataFrame], drift: list[Drift], expected: list[float]
) -> Iterator[Result]:
    for part in parts:
        intervals.append(_with_similar(part))
        drift.extend(part.drift)
        expected.append(part.false_alarms)
        yield part


def _with_similar(result: Result) -> pd.DataFrame:
    """Return the intervals, each with a list of the past episodes that resemble it."""
    similar = {number: own.drop(columns="interval") for number, own in result.similar.groupby("interval")}
    found = [similar[i].to_dict("records") if i in similar else [] for i in range(len(result.intervals))]
    return result.intervals.assign(similar=pd.Series(found, dtype=object))


@dataclass(frozen=True)
class Unusual:
    """How many intervals were found, in how many entities, and descriptions of the most severe."""

    intervals: int
    entities: int
    worst: Sequence[str]

    @classmethod
    def of(cls, intervals: pd.DataFrame) -> Unusual:
        described = [describe_interval(interval) for interval in worst(intervals, MAX_WORST).to_dict("records")]
        return cls(len(intervals), intervals["entity"].nunique() if len(intervals) else 0, described)


def verdict(intervals: pd.DataFrame, entities: int, threshold: float, chance: str, drift: Sequence[Drift] = ()) -> str:
    """Say which entities drifted and how many intervals are unusual, describe the three most severe, and say how many
    false alarms are to be expected."""
    return summarise(Unusual.of(intervals), entities, threshold, chance, [words.drift(found) for found in drift])


def summarise(found: Unusual, entities: int, threshold: float, chance: str, drift: Sequence[str]) -> str:
    """Return the same as `verdict` for what was found and for sentences about drift."""
    lines = list(drift[:MAX_DRIFTED])
    if len(drift) > MAX_DRIFTED:
        lines.append(f"{count(len(drift) - MAX_DRIFTED, 'further entity has', 'further entities have')} drifted.")
    if drift and not found.intervals:
        return "\n".join([*lines, "Nothing stands out from the recent past."])
    return "\n".join([*lines, _unusual(found, entities, threshold), chance])


def _unusual(found: Unusual, entities: int, threshold: float) -> str:
    if not found.intervals:
        return f"No unusual interval (threshold {threshold:.3f})."
    number_found = count(found.intervals, "unusual interval", "unusual intervals")
    where = f" in {found.entities} of {entities} entities" if found.intervals > 1 and entities > 1 else ""
    heading = f"{number_found}{where}{'. The worst three' if found.intervals > MAX_WORST else ''}:"
    return "\n".join([heading, *found.worst])


def describe_interval(interval: Mapping[Any, Any]) -> str:
    """Describe an interval in two lines: where, when, how severe and which variables; and why."""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in interval["variables"].items())
    why = evidence(interval["evidence"])[1] if interval["kind"] == "other" else interval["reason"]
    span = f"{_time(interval['start'])} to {_time(interval['end'])}"
    often = graded(interval["severity"], words.return_period(interval["return_period"]))
    return f"  {interval['entity']}  {span}  {often}  {shares}\n    {why}"


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else f"row {time}"


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = {name: _without_none(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    return {name: value for name, value in cleaned.items() if value is not None and value != {}}
