"""Options for reading data, and the wording that all readers' messages share."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from tsadc.config import nearest, refuse_unknown_settings, require, update
from tsadc.errors import ConfigError, DataError, ModelFileError
from tsadc.series import Floats

MINUTE = 60 * 10**9  # nanoseconds
UNITS = {"D": 1440 * MINUTE, "h": 60 * MINUTE, "min": MINUTE, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
INTERNAL = ("cannot reshape", "index out of range", "mmap length", "unpack requires", "buffer is smaller")
DAMAGED = "it is empty, cut off or damaged"
MAX_REASON = 300  # characters: some messages quote the whole file
MAX_UNITS = 100_000  # in a message: beyond, a larger unit with a decimal point is easier to read


@dataclass(frozen=True)
class Reading:
    """Options for reading files.

    By default the time column is found by its type, its name or its content, every other column must hold numbers, and
    rows must be sorted by time and regularly sampled. Rows that were skipped become rows of NaN.

    Parameters
    ----------
    time : str, optional
        Name of the time column. For xarray: of the time dimension.
    entity : str, optional
        Name of the column that says which entity (machine, patient, ...) a row belongs to. Without it, each file is one
        entity.
    every : str, optional
        Put the rows on a regular grid with this time step, for example ``"1min"``. A cell of the grid is the mean of
        the values measured in [tick, tick + every); ticks are multiples of the step since 1970 in UTC. A cell without
        any value is NaN: nothing is interpolated.
    columns : sequence of str, optional
        Names of the variables to keep, in this order. Default: all.
    exclude : sequence of str, optional
        Names of columns to leave out, such as labels. All others are kept.
    difference : sequence of str, optional
        Names of counters, such as operating hours or energy meters, which become their increments from row to row. The
        first row, and a row in which the counter went back, are NaN.
    missing : sequence of float or str, optional
        Numbers and texts that mean "not measured" in a variable, for example ``[-200, "Bad"]``; they become NaN. Empty
        cells and the usual texts (NaN, NA, null) always do. Upper and lower case are the same.
    separator : str, optional
        Character between the cells of a text file, ``"\\t"`` for a tab. Default: found in the first lines.
    decimal : {".", ","}, optional
        Mark of decimals in a text file; the other one may group thousands. Default: a comma if the first rows show that
        it cannot be anything else, otherwise a point.
    encoding : str, optional
        Encoding of a text file. Default: UTF-8, or UTF-16 or cp1252 (Western European) if its bytes show it.
    skip_rows : int, optional
        Number of lines above the header. Default: found in the first lines.
    dayfirst : bool, optional
        Whether 03/04/2024 is 3 April (True) or 4 March (False). Default: found in the dates.
    rename : mapping of str to str, optional
        New names for some of the variables: ``{old: new}``. All other options use the old names.
    long : sequence of three str, optional
        Names of the columns with time, variable and value of a table that has one row per value, for example
        ``("time", "tag", "value")``. Its variables become columns; other columns are left out.
    sheet : str, optional
        Name of the sheet of an Excel file. Default: the first.
    sql : str, optional
        URL of a database, as SQLAlchemy takes it, to read instead of files. Needs `query`.
    query : str, optional
        SQL query whose result is read from the database `sql`, like one table file.
    entity_name : str, optional
        Name of the one entity to which all files belong. Their rows are joined in the order of time.
    entity_from : str, optional
        Regular expression that is searched in each file's name; its first group is the name of the entity. The rows of
        files with the same entity are joined in the order of time.
    rate : float, optional
        Sampling rate in Hz to which recordings (WFDB, EDF, HDF5, MAT) are resampled. Default: the highest rate among
        the channels.
    coverage : float, optional
        For arrays of shape (observation, time, variable): refuse observations with a smaller share of measured time
        steps, between 0 and 1.
    skip_bad : bool, default False
        Leave out files and entities that cannot be used, with a notice, instead of raising an error.
    stream : bool, default False
        Leave the values in their files (.npy, .parquet) and read rows when they are needed, for data larger than
        memory. Cannot be combined with options that change values or join rows.
    strict : bool, default False
        Refuse files that lack a variable which others have. By default it counts as not measured, with a notice, unless
        more than half of the variables are missing.
    may_lack : sequence of str, optional
        Names that `columns`, `exclude` and `difference` may contain although the data does not have them: those that a
        model remembers.

    Raises
    ------
    ConfigError
        If an option is out of range or cannot be combined with another.

    Examples
    --------
    >>> import tsadc
    >>> options = tsadc.Reading(time="when", every="90s", columns=["flow", "pressure"])
    >>> options.columns
    ('flow', 'pressure')
    >>> options.interval  # `every` in nanoseconds
    90000000000
    """

    time: str | None = None
    entity: str | None = None
    every: str | None = None
    columns: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()
    difference: tuple[str, ...] = ()
    missing: tuple[float | str, ...] = ()
    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    skip_rows: int | None = None
    dayfirst: bool | None = None
    rename: Mapping[str, str] | None = None
    long: tuple[str, str, str] | None = None
    sheet: str | None = None
    sql: str | None = field(default=None, repr=False)  # it may hold a password
    query: str | None = None
    entity_name: str | None = None
    entity_from: str | None = None
    rate: float | None = None
    coverage: float | None = None
    skip_bad: bool = False
    stream: bool = False
    strict: bool = False
    may_lack: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("columns", "exclude", "difference", "long", "may_lack"):
            names: Any = getattr(self, name)
            if names is not None:
                require(_is_list_of_names(names), name, "a list of names", names)
                object.__setattr__(self, name, tuple(names))
        require(self.columns is None or len(self.columns) > 0, "columns", "a list of names", self.columns)
        object.__setattr__(self, "missing", _missing(self.missing))
        require(self.rate is None or 0 < self.rate < float("inf"), "rate", "a positive number of Hz", self.rate)
        require(self.entity is None or self.entity != self.time, "entity", "another column than `time`", self.entity)
        _ = self.interval
        distinct = self.long is None or len(set(self.long)) == len(self.long) == 3
        require(distinct, "long", "the names of three columns: time, variable and value", self.long)
        if (self.sql is None) != (self.query is None):
            raise ConfigError("`sql` names a database and `query` what to read from it; give both or neither.")
        self._check_names()
        self._check_text()
        self._check_entities()
        if self.stream:
            self._check_stream()

    def _check_names(self) -> None:
        both = sorted(set(self.exclude) & {self.time, self.entity, *self.difference, *(self.columns or ())} - {None})
        if both:
            raise ConfigError(
                f"`exclude` leaves out {both[0]!r}, which another option uses; remove it from one of them."
            )
        others = sorted(set(self.difference) - set(self.columns or self.difference))
        if others:
            raise ConfigError(f"`difference` contains {others[0]!r}, which is not among `columns`; add it there.")

    def _check_text(self) -> None:
        if self.separator is not None:
            mark = {"\\t": "\t", "tab": "\t"}.get(self.separator, self.separator)
            fits = len(mark) == 1 and not mark.isalnum() and mark not in '."\r\n'
            require(fits, "separator", "one character between cells, such as ;", self.separator)
            object.__setattr__(self, "separator", mark)
        require(self.decimal in (None, ".", ","), "decimal", "a point or a comma", self.decimal)
        whole = isinstance(self.skip_rows, int) and not isinstance(self.skip_rows, bool) and self.skip_rows >= 0
        require(self.skip_rows is None or whole, "skip_rows", "a whole number of lines", self.skip_rows)
        if self.encoding is not None:
            try:
                "".encode(self.encoding)
            except (LookupError, ValueError, TypeError):
                raise ConfigError(
                    f"`encoding` must be the name of an encoding such as utf-8, utf-16 or cp1252, but got "
                    f"{self.encoding!r}."
                ) from None

    def _check_entities(self) -> None:
        given = [name for name in ("entity", "entity_name", "entity_from") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ConfigError(
                f"`{given[0]}` and `{given[1]}` both say which entity a row belongs to; give one of them."
            )
        require(self.entity_name is None or self.entity_name.strip() != "", "entity_name", "a name", self.entity_name)
        if self.entity_from is not None:
            try:
                groups = re.compile(self.entity_from).groups
            except re.error as error:
                raise ConfigError(
                    f"`entity_from` must be a regular expression such as 'pump-(\\d+)_.*', but {self.entity_from!r} is "
                    f"none: {error}."
                ) from None
            require(groups > 0, "entity_from", "a pattern with a group, as in 'pump-(\\d+)_.*'", self.entity_from)

    def _check_stream(self) -> None:
        changing = ("every", "entity", "rate", "missing", "difference", "long", "sql")
        given = next((name for name in changing if getattr(self, name)), None)
        if given:
            raise ConfigError(
                f"`stream` leaves the rows in their file, so it cannot be combined with `{given}`; drop one of them."
            )

    @property
    def interval(self) -> int | None:
        """`every` in nanoseconds."""
        if self.every is None:
            return None
        text = str(self.every).strip()
        try:
            step = pd.Timedelta(text) if any(letter.isalpha() for letter in text) else pd.NaT
        except (ValueError, OverflowError):
            step = pd.NaT
        length = 0 if pd.isna(step) else step.as_unit("ns").value
        require(length > 0, "every", "a length of time such as 30s, 1min or 2h", self.every)
        return int(length)


def _is_list_of_names(names: Any) -> bool:
    return isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(name, str) for name in names)


def _missing(given: Any) -> tuple[float | str, ...]:
    """Return the values of `missing`. A single value need not be in a list."""
    values = [given] if isinstance(given, (int, float, str)) else list(given)
    for value in values:
        known = isinstance(value, (int, float, np.integer, np.floating, str)) and not isinstance(value, bool)
        require(known, "missing", "a list of numbers and texts", given)
    return tuple(value.strip() if isinstance(value, str) else float(value) for value in values)


refuse_unknown_settings(Reading)
DEFAULT = Reading()


# What a model remembers: how files of its kind are read. Where its history came from is no part of it.
REMEMBERED = (
    "time", "entity", "every", "columns", "exclude", "difference", "missing", "separator", "decimal", "encoding",
    "skip_rows", "dayfirst", "long", "sheet", "entity_name", "entity_from", "rate",
)  # fmt: skip
ENTITIES = {"entity", "entity_name", "entity_from"}  # at most one of them is given


def to_remember(reading: Reading) -> dict[str, Any]:
    """Return the options that a model remembers, as plain data."""
    given = {name: getattr(reading, name) for name in REMEMBERED}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
        if value != getattr(DEFAULT, name)
    }


def remembered(stored: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[Reading, dict[str, Any]]:
    """Return the options that a model remembers together with those of `given`, which override them, and the former
    alone. Columns that the model's options name may be absent in new data."""
    if not isinstance(stored, Mapping):
        raise ModelFileError("The model does not say how its history was read; fit it again.")
    dropped = {*given, *(ENTITIES if ENTITIES & set(given) else ())}
    own = {name: value for name, value in stored.items() if name not in dropped}
    try:
        known = update(DEFAULT, own)
    except ConfigError as error:
        raise ModelFileError(f"The model does not say how its history was read: {error}") from None
    names = tuple(name for option in ("columns", "exclude", "difference") for name in own.get(option, ()))
    return Reading(**{name: getattr(known, name) for name in own}, **given, may_lack=names), own


def parse_missing(texts: Sequence[str]) -> tuple[float | str, ...]:
    """Return the numbers among `texts` as numbers, as `missing` takes them."""

    def parse(text: str) -> float | str:
        try:
            number = float(text)
        except ValueError:
            return text
        return number if math.isfinite(number) else text

    return tuple(map(parse, texts))


def without_missing(values: Floats, reading: Reading) -> Floats:
    """Return the values with NaN for the numbers that `reading.missing` lists."""
    numbers = [value for value in reading.missing if isinstance(value, float)]
    if not numbers:
        return values
    # In the type of the values: 0.1 as float32 is not the float64 0.1.
    marked = np.isin(values, np.array(numbers).astype(values.dtype))
    return np.where(marked, np.nan, values) if marked.any() else values


def increments(values: Floats, names: Sequence[str], reading: Reading, observation: int | None = None) -> Floats:
    """Return the values with each counter in `reading.difference` replaced by its increments from row to row.

    The first row (of each of several observations of `observation` rows) and a row in which a counter went back are
    NaN."""
    renamed = reading.rename or {}
    counters = [k for k, name in enumerate(names) if name in {renamed.get(n, n) for n in reading.difference}]
    if not counters:
        return values
    out = np.array(values)
    steps = np.diff(out[:, counters], axis=0, prepend=np.nan)
    steps[steps < 0] = np.nan
    if observation is not None:
        steps[::observation] = np.nan
    out[:, counters] = steps
    return out


def choose(names: Sequence[str], reading: Reading, source: str) -> tuple[list[int], tuple[str, ...]]:
    """Return the positions of the variables that `reading` keeps, and their new names."""
    position = {name: i for i, name in enumerate(names)}
    picked = [name for name in names if name not in reading.exclude] if reading.columns is None else reading.columns
    renamed = reading.rename or {}
    for name in (*picked, *reading.exclude, *reading.difference, *renamed):
        if name not in position and name not in reading.may_lack:
            raise no_column(name, names, source)
    picked = [name for name in picked if name in position]
    out = tuple(renamed.get(name, name) for name in picked)
    if len(set(out)) < len(out):
        twice = next(name for name in out if out.count(name) > 1)
        raise DataError(f"{source} would have two variables named {twice!r}; pick each once, under its own name.")
    return [position[name] for name in picked], out


def no_column(name: str, names: Sequence[str], source: str) -> DataError:
    """Return the error for a column that does not exist; it suggests the nearest one."""
    return DataError(f"{source} has no column {name!r}{nearest(name, names)}")


def join_list(items: Sequence[str]) -> str:
    """Write a list as an option of the command line takes it: separated by commas, with quotes around a comma."""
    return ",".join('"' + item.replace('"', '""') + '"' if "," in item else item for item in items)


def spell(interval: int) -> str:
    """Write a number of nanoseconds the way `every` takes it, with few digits: 90s, 3.90625ms."""
    whole = next(unit for unit, size in UNITS.items() if interval % size == 0)
    if interval < MAX_UNITS * UNITS[whole]:
        return f"{interval // UNITS[whole]}{whole}"
    unit = next(unit for unit in ("s", "ms", "us") if interval >= UNITS[unit])
    return f"{Decimal(interval) / UNITS[unit]}{unit}"


def how_to_resample(interval: int, *, recording: bool = False) -> str:
    """Return advice for a message: how to bring data, which may be a `recording`, to this time step."""
    step = spell(interval)
    rate = f", or a recording with --rate {10**9 / interval:.6g}" if recording and interval < 10**9 else ""
    return (
        f"resample it with --every {step}{rate} (in Python: Reading(every={step!r}) for files, "
        f".resample({step!r}).mean() for data frames)"
    )


def reason(error: BaseException) -> str:
    """Return the first sentence of another library's message, or a plain one if it speaks of that library's inside."""
    message = " ".join(str(error).split()).removeprefix("Error tokenizing data. C error: ")
    if any(words in message for words in INTERNAL):
        return DAMAGED
    sentence = message.split(". ")[0].rstrip(".")
    return (sentence if len(sentence) <= MAX_REASON else f"{sentence[:MAX_REASON]} ...") or DAMAGED
