"""Options that several commands have, and what they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from tsadc.errors import ConfigError, DataError, TooShortError
from tsadc.nn.runtime.allocator import keep_freed_memory

if TYPE_CHECKING:
    from tsadc.io.calendar import Calendar
    from tsadc.series import Series

Data = Annotated[
    list[Path],
    typer.Argument(
        help="Data files or folders; one file per entity (machine, patient). None with --sql.",
        readable=False,
        default_factory=list,
        show_default=False,
    ),
]
ModelOption = Annotated[Path, typer.Option("--model", help="Model folder written by `tsadc fit`.", readable=False)]
ModelArgument = Annotated[Path, typer.Argument(help="Model folder written by `tsadc fit`.", readable=False)]
DetectorOption = Annotated[
    str,
    typer.Option(
        "--detector",
        help="Name of the detector: ensemble has no network and takes seconds, tsadc is the paper's method and knows "
        "expected values; docs/detectors.md lists all. Or one of your own: my_file.py:Class.",
    ),
]
OwnDetector = Annotated[
    str | None,
    typer.Option("--detector", help="FILE.py:CLASS, needed for a model of a detector of your own; runs the file."),
]
AlarmsOption = Annotated[
    str | None,
    typer.Option("--alarms", help="False alarms per entity that you accept, such as 2/day. (default: 1/week)"),
]
CalendarOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--calendar",
        help="Planned work that is neither judged nor learnt from: .ics, or .csv with entity, start, end.",
        readable=False,
    ),
]
EngineOption = Annotated[
    str, typer.Option("--engine", help="local, or ray to use the cores of this machine or of a cluster.")
]
AddressOption = Annotated[
    str | None, typer.Option("--address", help="HOST:PORT of a Ray cluster, or auto. (default: this machine)")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Skip files that cannot be used, and list them.")]


@dataclass
class Options:
    """The options of every command that reads data."""

    time: Annotated[str | None, typer.Option("--time", help="Column with the time. (default: detected)")] = None
    entity: Annotated[str | None, typer.Option("--entity", help="Column with the name of each row's entity.")] = None
    every: Annotated[
        str | None, typer.Option("--every", help="Average rows onto a regular grid with this step, such as 1min.")
    ] = None
    columns: Annotated[
        list[str] | None, typer.Option("--columns", help="Variables to use, separated by commas. (default: all)")
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="Columns to leave out, separated by commas, such as labels.")
    ] = None
    difference: Annotated[
        list[str] | None,
        typer.Option("--difference", help="Counters to replace by their increments, separated by commas."),
    ] = None
    missing: Annotated[
        list[str] | None,
        typer.Option("--missing", help="Numbers and texts that mean not measured, such as -200,Bad,No Data."),
    ] = None
    separator: Annotated[
        str | None, typer.Option("--separator", help="Character between cells of a text file. (default: detected)")
    ] = None
    decimal: Annotated[
        str | None, typer.Option("--decimal", help="Mark of decimals, a point or a comma. (default: detected)")
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Encoding of text files, such as cp1252. (default: detected)")
    ] = None
    skip_rows: Annotated[
        int | None, typer.Option("--skip-rows", help="Lines above the header of a text file. (default: detected)")
    ] = None
    dayfirst: Annotated[
        bool | None,
        typer.Option("--dayfirst/--monthfirst", help="Read 03/04/2024 as 3 April, or as 4 March. (default: detected)"),
    ] = None
    long: Annotated[
        str | None,
        typer.Option("--long", help="Columns of time, variable and value of a table with one row per value."),
    ] = None
    sheet: Annotated[str | None, typer.Option("--sheet", help="Sheet of Excel files. (default: the first)")] = None
    sql: Annotated[
        str | None, typer.Option("--sql", help="URL of a database to read instead of files; needs --query.")
    ] = None
    query: Annotated[str | None, typer.Option("--query", help="SQL query whose result is read with --sql.")] = None
    entity_name: Annotated[
        str | None, typer.Option("--entity-name", help="Join all files into one entity with this name.")
    ] = None
    entity_from: Annotated[
        str | None,
        typer.Option(
            "--entity-from", help=r"Pattern for file names, such as 'pump-(\d+)_.*', whose group is the entity."
        ),
    ] = None
    rate: Annotated[
        float | None, typer.Option("--rate", help="Resample recordings (WFDB, EDF, HDF5) to this many Hz.")
    ] = None
    skip_bad: SkipBad = False
    stream: Annotated[
        bool, typer.Option("--stream", help="Read .npy and .parquet files piece by piece: for data larger than memory.")
    ] = False
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse data that lacks a variable, instead of reading it as not measured.")
    ] = False


@functools.cache
def _option_parameters() -> tuple[inspect.Parameter, ...]:
    """Return the fields of `Options` as parameters, for every command the same ones."""
    hints = get_type_hints(Options, include_extras=True)
    return tuple(
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
        for name, default in vars(Options()).items()
    )


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the fields of `Options` as parameters of its own, because typer makes options of parameters."""
    hints = get_type_hints(command, include_extras=True)
    kept = [
        parameter.replace(annotation=hints[name])
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "options"
    ]
    added, fields = _option_parameters(), vars(Options())

    @functools.wraps(command)
    def called(**given: Any) -> None:
        command(options=Options(**{name: given.pop(name) for name in fields}), **given)

    called.__annotations__ = {parameter.name: parameter.annotation for parameter in (*kept, *added)}
    called.__signature__ = inspect.Signature([*kept, *added])  # type: ignore[attr-defined]
    return called


def alarm_settings(alarms: str | None, assignments: Sequence[str]) -> dict[str, Any]:
    """Return the settings for a number of alarms."""
    if alarms is None:
        return {}
    methods = [text.partition("=")[2].strip() for text in assignments if text.strip().startswith("threshold.method")]
    if methods and methods[-1] not in ("alarms", "auto"):
        raise ConfigError(
            f"--alarms chooses the threshold by `alarms`, but `threshold.method` is set to {methods[-1]}; leave one of "
            "them out."
        )
    return {"threshold": {"method": "alarms", "alarms": alarms}}


def uses_ray(engine: str, address: str | None) -> bool:
    """Return whether Ray was requested; raise if the options contradict each other."""
    if engine not in ("local", "ray"):
        raise ConfigError(f"--engine must be local or ray, but got {engine!r}.")
    if engine == "local" and address is not None:
        raise ConfigError("--address names a Ray cluster; add --engine ray.")
    return engine == "ray"


def planned_work(files: list[Path] | None) -> Calendar | None:
    """Return the calendar of planned work in these files; None without files."""
    from tsadc.io.calendar import Calendar

    return Calendar.read(*files) if files else None


def read_data(data: list[Path], options: Options, model: Mapping[str, Any] | None = None) -> tuple[Series, ...]:
    """Read the data with the given options, and with those that a model remembers, if its provenance is given."""
    from tsadc.cli.reading import requested_reading
    from tsadc.io.read import read

    if not options.stream:  # streaming is for data larger than memory: then freed memory is given back
        keep_freed_memory()
    return read(data, requested_reading(vars(options), (model or {}).get("reading")))


def read_day(data: list[Path], options: Options, model: Mapping[str, Any]) -> tuple[Series, ...]:
    """Read new data. One file or query with too few rows is a day that has just begun; one file among several is a
    mistake."""
    try:
        return read_data(data, options, model)
    except TooShortError as error:
        if options.sql or (len(data) == 1 and data[0].is_file()):
            raise
        raise DataError(str(error)) from None
