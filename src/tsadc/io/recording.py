"""A biosignal file as it was recorded: channels each at their own rate, notes on the time axis, remarks. `to_series`
picks and renames channels and brings them to one rate and one clock."""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.columns import check_count, check_width, infinite
from tsadc.io.files import RECORDINGS
from tsadc.io.resample import resample
from tsadc.series import Clock, Series

MOST_FASTER = 100  # times the rate there is: beyond, the rate asked for is a mistake
MOST_NAMES = 40  # in a message
SECOND = 10**9  # nanoseconds


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One signal, NaN where nothing was measured; `rate` in Hz, None where the file does not tell."""

    name: str
    unit: str
    rate: float | None
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on the time axis, in seconds since the start of the recording; a moment has duration 0."""

    onset: float
    duration: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """What one file holds. `comments` are remarks on the whole of it, as they stand in the file."""

    channels: tuple[Channel, ...]
    start: datetime | None
    annotations: tuple[Annotation, ...]
    comments: tuple[str, ...]
    source: str

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(channel.name for channel in self.channels)

    @property
    def fields(self) -> dict[str, str]:
        """The comments of the form `Key: value` by their key, in small letters and without < >."""
        pairs = (comment.partition(":") for comment in self.comments if ":" in comment)
        return {key.strip().strip("<>").lower(): value.strip() for key, _, value in pairs}

    def to_series(
        self,
        entity: str,
        rate: float | None = None,
        channels: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
    ) -> Series:
        """The `channels`, in the order given, under the names that `rename` maps theirs to, at `rate`: by default at
        the highest rate among them, which loses nothing. Shorter channels end in NaN.

        A recording with a start gets a clock with dates, in whole nanoseconds: where 1e9 / rate is not whole, the
        clock drifts by at most half a nanosecond a sample (under 10 ms a day at 360 Hz). Without a start rows are
        counted, and the clock keeps their pace."""
        picked = self._pick(channels)
        names = self._renamed(picked, rename or {})
        check_width(len(names), self.source)
        check_count(names, self.source, "take another channel along with it")
        rate = self._common_rate(picked, rate)
        columns = [c.values if c.rate is None or rate is None else resample(c.values, c.rate, rate) for c in picked]
        values = np.full((max(map(len, columns)), len(columns)), np.nan)
        for i, column in enumerate(columns):
            values[: len(column), i] = column
        if len(values) == 0:
            raise DataError(f"{self.source} holds no samples.")
        if found := infinite(values):
            raise DataError(
                f"{self.source}: channel {names[found[1]]!r} is infinite at row {found[0]}; use NaN where nothing was "
                "measured."
            )
        return Series(values, names, self._clock(rate), entity)

    def _pick(self, names: Sequence[str] | None) -> tuple[Channel, ...]:
        if not self.channels:
            kept = "annotations but no signals" if self.annotations else "no signals"
            raise DataError(f"{self.source} holds {kept}.")
        if names is None:
            return self.channels
        if isinstance(names, str) or not names:
            raise DataError(f"The channels to pick should be a list of names, but got {names!r}.")
        by_name = {channel.name: channel for channel in self.channels}
        for name in names:
            if name not in by_name:
                raise DataError(f"{self.source} has no channel {name!r}{suggestion(name, self.names)}.")
            if list(names).count(name) > 1:
                raise DataError(f"Channel {name!r} was picked twice; each can be picked once.")
        return tuple(by_name[name] for name in names)

    def _renamed(self, picked: tuple[Channel, ...], rename: Mapping[str, str]) -> tuple[str, ...]:
        for old in rename:
            if old not in self.names:
                raise DataError(f"{self.source} has no channel {old!r} to rename{suggestion(old, self.names)}.")
        names = tuple(rename.get(channel.name, channel.name) for channel in picked)
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise DataError(f"Two channels of {self.source} would both be named {twice!r}; give each its own name.")
        return names

    def _common_rate(self, picked: tuple[Channel, ...], wanted: float | None) -> float | None:
        if wanted is not None and not (np.isfinite(wanted) and wanted > 0):
            raise DataError(f"A sampling rate must be a positive number of samples a second, but got {wanted}.")
        known = {channel.rate for channel in picked if channel.rate is not None}
        if wanted is not None and known and wanted > MOST_FASTER * max(known):
            raise DataError(
                f"{self.source} was sampled at {max(known):g} Hz, and {wanted:g} Hz would make more than {MOST_FASTER} "
                "rows of each; choose a lower rate."
            )
        if any(channel.rate is None for channel in picked):
            unknown = next(channel.name for channel in picked if channel.rate is None)
            if wanted is not None or len(known) > 1:
                raise DataError(
                    f"{self.source} does not tell how often channel {unknown!r} was sampled, so it cannot be brought "
                    "to another rate."
                )
            lengths = {len(channel.values): channel.name for channel in picked}
            if len(lengths) > 1:
                shown = ", ".join(f"{name!r} has {length}" for length, name in list(lengths.items())[:3])
                raise DataError(
                    f"{self.source} does not tell its sampling rates, and its channels differ in length ({shown}); "
                    "pick channels that belong together."
                )
        return wanted if wanted is not None else max(known, default=None)

    def _clock(self, rate: float | None) -> Clock:
        if rate is None:
            return Clock()
        interval = max(1, round(SECOND / rate))
        if self.start is None:
            return Clock(pace=interval)
        if not pd.Timestamp.min.year < self.start.year < pd.Timestamp.max.year:
            warnings.warn(
                f"{self.source} starts in the year {self.start.year}, beyond any clock; its rows are counted.",
                TsadcNotice,
                stacklevel=3,
            )
            return Clock(pace=interval)
        start = pd.Timestamp(self.start).as_unit("ns").value
        zone = None if self.start.tzinfo is None else "UTC"
        return Clock(int(start), interval, dated=True, timezone=zone)


def read_recording(path: str | Path) -> Recording:
    """The recording in a file, whose format is known by its ending."""
    path = Path(path)
    reader = _reader(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path} should end in {', '.join(RECORDINGS[:-1])} or {RECORDINGS[-1]} to be read as a recording."
        )
    return reader(path)


def _reader(ending: str) -> Callable[[Path], Recording] | None:
    from tsadc.io.edf import read_edf
    from tsadc.io.hdf5 import read_hdf5
    from tsadc.io.wfdb_files import read_mat, read_wfdb

    readers = {".hea": read_wfdb, ".edf": read_edf, ".h5": read_hdf5, ".hdf5": read_hdf5, ".mat": read_mat}
    return readers.get(ending)


def check_readable(path: Path) -> None:
    """Refuses what cannot be opened, before a library's own words for it."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected; name the files in it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}.")
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"{path} may not be read: {(error.strerror or 'unknown reason').lower()}.") from None


def package(name: str, path: Path, form: str) -> Any:
    """A library that only this format needs. What it warns of while it is imported is none of the user's business."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        raise DataError(f"{path} is {form}, which needs one more package: pip install 'tsadc[bio]'.") from None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Each name once: a file may repeat one (bipolar EEG montages do), or leave it blank."""
    out: list[str] = []
    for i, name in enumerate(names):
        name = name.strip() or f"channel {i + 1}"
        count, own = 1, name
        while own in out:
            count += 1
            own = f"{name} ({count})"
        out.append(own)
    return tuple(out)


def suggestion(name: str, names: Sequence[str]) -> str:
    """For a message: the nearest name there is, whatever its case, and those there are."""
    folded = {one.casefold(): one for one in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    hint = f"; perhaps {folded[close[0]]!r} is meant" if close else ""
    more = ", ..." if len(names) > MOST_NAMES else ""
    return f"{hint}; there are {', '.join(names[:MOST_NAMES])}{more}"
