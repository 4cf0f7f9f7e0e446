"""`tsadc backtest`: which alarms the service would have raised over history, as a folder with a page and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from tsadc.atomic import locked_folder, replaced_folder
from tsadc.detectors.base import Detector, ProgressCallback, ScoringProgress
from tsadc.errors import ConfigError, DataError, OutputError, listed, notice
from tsadc.io.calendar import Calendar
from tsadc.series import Series
from tsadc.serve.backtest import Rules, replay, rules_of
from tsadc.serve.backtest_page import FILES, PAGE, summary, write_backtest
from tsadc.serve.config import read_config
from tsadc.serve.lifecycle import Quiet


def requested_rules(config: Path | None, model: Path) -> Rules:
    """Return how the configured service treats the rows of a model; without a configuration, the defaults."""
    if config is None:
        return Rules()
    try:
        requested = read_config(config)
    except ImportError as error:
        raise ConfigError(
            f"The configuration needs more packages ({error.name}): pip install 'tsadc[serve]'."
        ) from None
    return rules_of(requested, model, Quiet((), Calendar.read(*requested.server.calendars)))


def backtest_to(
    detector: Detector,
    series: Sequence[Series],
    out: Path,
    rules: Rules,
    *,
    start: str | None,
    end: str | None,
    model: Path,
    progress: ProgressCallback | None = None,
) -> str:
    """Replay the service over the series, write the folder `out`, all of it or nothing, and return a summary.

    An earlier backtest is replaced."""
    _refuse_to_replace(out)  # before time is spent
    zone = series[0].clock.timezone or "UTC"
    if sentence := detector.unknown_entities([item.entity for item in series if rules.judges(item.entity)]):
        notice(sentence)

    def report(done: int, total: int) -> None:
        if progress is not None:
            length = detector.settings.length
            progress(ScoringProgress(done // length, -(-total // length)))

    found = replay(
        detector, series, rules, start=_tick(start, "--from", zone), end=_tick(end, "--to", zone), progress=report
    )
    about = {
        "model": str(model),
        "detector": detector.name,
        "reorder": f"{rules.reorder} rows",
        "provisional alarms": "yes" if rules.provisional else "no",
    }
    with locked_folder(out):
        _refuse_to_replace(out)
        with replaced_folder(out) as folder:
            write_backtest(found, folder, title=f"Backtest of {model.name}", about=about)
    return f"{summary(found)}\nThe page is {out / PAGE}."


def _tick(text: str | None, option: str, zone: str) -> int | None:
    """Return a time in nanoseconds since 1970; without a time zone it is in that of the data."""
    if text is None:
        return None
    try:
        stamp = pd.Timestamp(text)
        if stamp.tzinfo is None:
            stamp = stamp.tz_localize(zone, ambiguous=True, nonexistent="shift_forward")
        return int(stamp.as_unit("ns").value)
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{option} must be a time such as 2026-03-01 or 2026-03-01T12:30, but got {text!r}.") from None


def _refuse_to_replace(out: Path) -> None:
    """Raise if `out` is there and is not an earlier backtest."""
    if not out.exists():
        return
    files = {file.name for file in out.iterdir()} if out.is_dir() else set()
    if not set(FILES) <= files:
        raise OutputError(f"{out} exists and is no earlier backtest, so it is not replaced; choose another name.")
    if others := sorted(files - set(FILES)):
        raise OutputError(f"{out} also holds {listed(others)}, which would be lost; choose another name, or move it.")
