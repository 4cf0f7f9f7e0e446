"""Fit and detect, from files to files."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tsadc.atomic import new_folder
from tsadc.cli.console import FIRST
from tsadc.config import merge, parse_assignments, read_toml, update
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.result import Result, worst
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import Contamination, daily, explain, refuse_idle
from tsadc.errors import ConfigError, OutputError
from tsadc.series import Series
from tsadc.show import write as write_report
from tsadc.show.tables import write_tables
from tsadc.show.words import count, evidence, number, severity


def settings(
    preset: str, file: Path | None, assignments: Sequence[str], given: Mapping[str, Any], detector: str = "tsadc"
) -> Common:
    """Of the detector: preset, then the TOML file, then --set, then the options of their own name: the later wins."""
    chosen: dict[str, Any] = read_toml(file) if file else {}
    chosen = merge(chosen, parse_assignments(assignments))
    chosen = merge(chosen, _without_none(given))
    base = find(detector).Config.preset(preset)
    if "training" in chosen and not hasattr(base, "training"):
        raise ConfigError(f"{detector} has no network to train; leave out --epochs and the settings of `training`.")
    if "scoring" in chosen and not hasattr(base, "scoring"):
        raise ConfigError(f"`scoring` does not apply to {detector}, which has no network; leave it out.")
    config: Common = update(base, chosen)
    refuse_idle(config.threshold, config.contamination != "auto", chosen.get("threshold", {}))
    return config


def fit_model(
    series: tuple[Series, ...],
    config: Common,
    out: Path,
    *,
    name: str = "tsadc",
    resume: bool = False,
    progress: Callable[[Any], None] | None = None,
) -> str:
    """Train the detector `name` and save it; an unfinished run lives in `OUT.partial`. Returns a verdict."""
    if out.exists():
        raise OutputError(f"{out} exists already; choose another name or remove it.")
    partial = out.with_name(out.name + ".partial")
    checkpoint = partial / "training.safetensors"
    if checkpoint.exists() and not resume and FIRST:
        raise OutputError(f"{partial} holds an unfinished run: go on with --resume, or remove it to start anew.")
    detector = find(name)(config=config)
    if not detector.savable:
        raise ConfigError(f"A {name} cannot be saved, which is what this command is for; fit and use it in Python.")
    try:
        detector.fit(series, progress=progress, checkpoint=checkpoint, resume=resume)
        if FIRST:
            detector.save(out)
            checkpoint.unlink(missing_ok=True)
    finally:
        with contextlib.suppress(OSError):  # it is not empty: there is something to resume
            partial.rmdir()
    data, training = detector.provenance_["data"], detector.provenance_.get("training")
    epochs = _epochs(training) if training else ""
    return (
        f"Trained on {data['observations']} observations of {data['length']} rows, {data['variables']} variables, "
        f"{count(data['entities'], 'entity', 'entities')}{epochs}.\n"
        f"Contamination {_doubted(detector.contamination_)}\n"
        f"Threshold {detector.threshold_:.3f} {how(detector)}. {int(detector.labels_.sum())} training observations lie "
        "above it.\n"
        f"The model is in {out}."
    )


def _doubted(contamination: Contamination) -> str:
    return f"{contamination}. {contamination.doubt}".rstrip()


def _epochs(training: Mapping[str, Any]) -> str:
    return f": {count(len(training['epochs']), 'epoch', 'epochs')}, the best was {training['best_epoch']}"


def detect_to(
    detector: Detector,
    series: tuple[Series, ...],
    out: Path,
    report: Path | None,
    *,
    title: str,
    progress: Callable[[Any], None] | None = None,
) -> str:
    """Detect and write tables, and a report if asked for: all or nothing. Returns a verdict. Memory does not grow with
    the data, except for a report, which shows all of it."""
    if report == out:
        raise OutputError(f"{out} cannot be the folder of the tables and the report; give the report its own name.")
    with new_folder(out) as folder:
        whole = [detector.detect(series, progress=progress)] if report is not None else None
        parts = whole or detector.detect_parts(series, progress=progress)
        intervals: list[pd.DataFrame] = []
        names = write_tables(_noting(parts, intervals), folder, parquet=out.suffix == ".parquet")
        if whole is not None and report is not None:
            # A report inside the folder appears with it.
            inside = report.absolute().is_relative_to(out.absolute())
            place = folder / report.absolute().relative_to(out.absolute()) if inside else report
            write_report(whole[0], place, title=title, about=facts(detector))
    written = f"Wrote {', '.join(names)} to {out}." + (f"\nThe report is {report}." if report else "")
    found = pd.concat([table for table in intervals if len(table)] or intervals[:1])
    return f"{verdict(found, len(series), detector.threshold_)}\n{written}"


def facts(detector: Detector) -> dict[str, str]:
    """What a report says of the model behind it."""
    settings, data = detector.settings, detector.provenance_["data"]
    return {
        "detector": detector.name,
        "observation length": f"{settings.length} rows",
        "contamination": _doubted(detector.contamination_).rstrip("."),
        "threshold": f"{number(detector.threshold_)} {how(detector)}",
        "seed": str(settings.seed),
        "trained on": f"{data['rows']} rows of {count(data['entities'], 'entity', 'entities')}",
    }


def how(detector: Detector) -> str:
    """How the threshold was chosen, and what it lets through."""
    settings, above = detector.settings, detector.normal_.above(detector.threshold_)
    most = daily(detector.clock_, settings.length)
    return explain(settings.threshold, detector.contamination_, above, most)


def rethreshold(detector: Detector, assignments: Sequence[str]) -> Detector:
    """The detector with its threshold chosen as the assignments say; anything else would need training anew."""
    chosen = parse_assignments(assignments)
    update(detector.settings, chosen)  # refuses what is not a setting at all
    for name in chosen:
        if name not in ("contamination", "threshold"):
            raise ConfigError(
                f"`{name}` cannot be changed without training anew; here --set takes `contamination` and the settings "
                "of `threshold`."
            )
    return detector.set_threshold(contamination=chosen.get("contamination"), **chosen.get("threshold", {}))


def _noting(parts: Iterable[Result], intervals: list[pd.DataFrame]) -> Iterator[Result]:
    for part in parts:
        intervals.append(part.intervals)
        yield part


def verdict(intervals: pd.DataFrame, entities: int, threshold: float) -> str:
    """How many intervals, and the worst three in words."""
    if intervals.empty:
        return f"Nothing unusual: no score above the threshold {threshold:.3f}."
    found = count(len(intervals), "unusual interval", "unusual intervals")
    lines = [f"{found} in {intervals['entity'].nunique()} of {count(entities, 'entity', 'entities')}. The worst:"]
    for row in worst(intervals).to_dict("records"):
        blamed = ", ".join(f"{name} {share:.0%}" for name, share in row["variables"].items())
        reason = evidence(row["evidence"])[0].lower()
        span = f"{_time(row['start'])} to {_time(row['end'])}"
        lines.append(f"  {row['entity']}  {span}  severity {severity(row['severity'])}  {reason}: {blamed}")
    return "\n".join(lines)


def _time(time: Any) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}" if isinstance(time, pd.Timestamp) else f"row {time}"


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    cleaned = {name: _without_none(value) if isinstance(value, Mapping) else value for name, value in tree.items()}
    return {name: value for name, value in cleaned.items() if value is not None and value != {}}
