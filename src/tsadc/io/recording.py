"""A recording: channels with their own sampling rates, annotations and comments, as in a biosignal file. `to_series`
picks and renames channels and resamples them to one rate and one clock."""

from __future__ import annotations

import difflib
import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tsadc.errors import DataError, notice
from tsadc.io.columns import check_width, find_infinite
from tsadc.io.files import RECORDINGS
from tsadc.io.limits import check_numbers
from tsadc.io.reading import Reading, choose, without_missing
from tsadc.io.resample import resample
from tsadc.series import Clock, Series

MAX_UPSAMPLING = 100  # beyond this factor, the requested rate is a mistake
MAX_NAMES = 40  # in a message
SECOND = 10**9  # nanoseconds
SLOWEST = 1e-8  # Hz: one sample in three years


@dataclass(frozen=True, slots=True, eq=False)
class Channel:
    """One signal, NaN where nothing was measured; `rate` in Hz, None if unknown."""

    name: str
    unit: str
    rate: float | None
    values: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Annotation:
    """A note on the time axis, in seconds since the start of the recording; an instant has duration 0."""

    onset: float
    duration: float
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """The content of one file. `comments` are remarks on the whole recording, verbatim."""

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
        """The comments of the form `Key: value`, with keys in lower case and without < >."""
        pairs = (comment.partition(":") for comment in self.comments if ":" in comment)
        return {key.strip().strip("<>").lower(): value.strip() for key, _, value in pairs}

    def to_series(
        self,
        entity: str,
        rate: float | None = None,
        channels: Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
    ) -> Series:
        """Convert the recording to a Series.

        Parameters
        ----------
        entity : str
            Name of the entity.
        rate : float, optional
            Sampling rate in Hz. Default: the highest rate among the channels, which loses nothing.
        channels : sequence of str, optional
            Names of the channels to keep, in this order. Default: all.
        rename : mapping of str to str, optional
            New names for some of the channels.

        Returns
        -------
        Series
            Shorter channels end in NaN. With a start, the clock has dates in whole nanoseconds: if 1e9 / rate is not a
            whole number, it drifts by at most half a nanosecond per sample (under 10 ms a day at 360 Hz). Without a
            start, rows are counted and the clock knows the time from row to row.
        """
        picked = self._pick(channels)
        names = self._renamed(picked, rename or {})
        check_width(len(names), self.source)
        rate = self._common_rate(picked, rate)
        self._check_size(picked, rate)
        columns = [c.values if c.rate is None or rate is None else resample(c.values, c.rate, rate) for c in picked]
        values = np.full((max(map(len, columns)), len(columns)), np.nan)
        for i, column in enumerate(columns):
            values[: len(column), i] = column
        if len(values) == 0:
            raise DataError(f"{self.source} has no samples.")
        if cell := find_infinite(values):
            raise DataError(
                f"{self.source}: channel {names[cell[1]]!r} is infinite at row {cell[0]}; use NaN where nothing was "
                "measured."
            )
        return Series(values, names, self._clock(rate), entity)

    def _pick(self, names: Sequence[str] | None) -> tuple[Channel, ...]:
        if not self.channels:
            content = "annotations but no signals" if self.annotations else "no signals"
            raise DataError(f"{self.source} has {content}.")
        if names is None:
            return self.channels
        if isinstance(names, str) or not names:
            raise DataError(f"The channels should be a list of names, but got {names!r}.")
        by_name = {channel.name: channel for channel in self.channels}
        for name in names:
            if name not in by_name:
                raise DataError(f"{self.source} has no channel {name!r}{suggestion(name, self.names)}.")
            if list(names).count(name) > 1:
                raise DataError(f"Channel {name!r} was picked twice; pick each channel once.")
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
            raise DataError(f"A sampling rate must be a positive number of Hz, but got {wanted}.")
        known = {channel.rate for channel in picked if channel.rate is not None}
        if wanted is not None and known and wanted > MAX_UPSAMPLING * max(known):
            raise DataError(
                f"{self.source} was sampled at {max(known):g} Hz, and {wanted:g} Hz is more than {MAX_UPSAMPLING} "
                "times that; choose a lower rate."
            )
        if any(channel.rate is None for channel in picked):
            unknown = next(channel.name for channel in picked if channel.rate is None)
            if wanted is not None or len(known) > 1:
                raise DataError(
                    f"{self.source} does not state the sampling rate of channel {unknown!r}, so it cannot be "
                    "resampled; leave out the rate, or that channel."
                )
            lengths = {len(channel.values): channel.name for channel in picked}
            if len(lengths) > 1:
                shown = ", ".join(f"{name!r} has {length}" for length, name in list(lengths.items())[:3])
                raise DataError(
                    f"{self.source} does not state its sampling rates, and its channels differ in length ({shown}); "
                    "pick channels of the same length with --columns (in Python: Reading(columns=[...]))."
                )
        return wanted if wanted is not None else max(known, default=None)

    def _check_size(self, picked: tuple[Channel, ...], rate: float | None) -> None:
        """Raise if a stated sampling rate is impossible, or if the resampled channels do not fit into memory."""
        longest = 0.0
        for channel in picked:
            factor = 1.0
            if channel.rate is not None and rate is not None:
                if not SLOWEST <= channel.rate <= SECOND:
                    raise DataError(
                        f"{self.source} states a sampling rate of {channel.rate:g} Hz for channel {channel.name!r}, "
                        "which cannot be; correct its header, or leave out that channel."
                    )
                factor = rate / channel.rate
            longest = max(longest, len(channel.values) * factor)
        check_numbers(int(longest) * len(picked), f"{self.source}, resampled,", "resample it to a lower --rate")

    def _clock(self, rate: float | None) -> Clock:
        if rate is None:
            return Clock()
        interval = max(1, round(SECOND / rate))
        if self.start is None:
            return Clock(pace=interval)
        if not pd.Timestamp.min.year < self.start.year < pd.Timestamp.max.year:
            notice(
                f"{self.source} starts in the year {self.start.year}, which timestamps cannot represent; its rows are "
                "counted instead."
            )
            return Clock(pace=interval)
        start = pd.Timestamp(self.start).as_unit("ns").value
        zone = None if self.start.tzinfo is None else "UTC"
        return Clock(int(start), interval, dated=True, timezone=zone)


def read_recording(path: str | Path) -> Recording:
    """Read the recording in a file, whose format is known by its ending."""
    # Imported when used: these readers import this module.
    from tsadc.io.edf import read_edf
    from tsadc.io.hdf5 import read_hdf5
    from tsadc.io.wfdb_files import read_mat, read_wfdb

    path = Path(path)
    readers = {".hea": read_wfdb, ".edf": read_edf, ".h5": read_hdf5, ".hdf5": read_hdf5, ".mat": read_mat}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(
            f"{path} should end in {', '.join(RECORDINGS[:-1])} or {RECORDINGS[-1]} to be read as a recording."
        )
    return reader(path)


def recording_to_series(recording: Recording, entity: str, reading: Reading) -> Series:
    """Convert a recording to a Series with the options of `reading`."""
    if reading.time or reading.entity or reading.every:
        raise DataError(f"{recording.source} is a recording with its own clock; leave out time, entity and every.")
    # Before channels are resampled, which would blur a number that means not measured.
    channels = tuple(
        replace(own, values=np.asarray(without_missing(own.values, reading), dtype=np.float64))
        for own in recording.channels
    )
    columns = reading.columns
    if reading.exclude or reading.difference or reading.may_lack:
        order, _ = choose(recording.names, replace(reading, rename=None), recording.source)
        columns = tuple(recording.names[i] for i in order)
    return replace(recording, channels=channels).to_series(entity, reading.rate, columns, reading.rename)


def check_readable(path: Path) -> None:
    """Raise a clear error if the file cannot be opened, before another library does."""
    if path.is_dir():
        raise DataError(f"{path} is a folder, but a file was expected; name the files in it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}; check the name.")
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {(error.strerror or 'unknown reason').lower()}.") from None


def package(name: str, path: Path, form: str) -> Any:
    """Import a library that only this format needs, without the warnings it issues while it is imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except ImportError:
        raise DataError(f"{path} is {form}, which needs one more package: pip install 'tsadc[bio]'.") from None


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Make the names distinct: a file may repeat one, as bipolar EEG montages do, or leave it blank."""
    out: list[str] = []
    for i, name in enumerate(names):
        name = name.strip() or f"channel {i + 1}"
        count, distinct_name = 1, name
        while distinct_name in out:
            count += 1
            distinct_name = f"{name} ({count})"
        out.append(distinct_name)
    return tuple(out)


def suggestion(name: str, names: Sequence[str]) -> str:
    """Return the end of a message: the nearest existing name, ignoring case, and a list of all names."""
    folded = {known.casefold(): known for known in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.5)
    hint = f"; perhaps {folded[close[0]]!r} is meant" if close else ""
    more = ", ..." if len(names) > MAX_NAMES else ""
    return f"{hint}; there are {', '.join(names[:MAX_NAMES])}{more}"
