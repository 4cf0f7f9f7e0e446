"""The settings of the service: one TOML file with `[server]`, `[model.*]`, `[reader.*]`, `[writer.*]`, `[schedule.*]`.

Each kind of reader and writer is a module with a dataclass `Settings` and a function `create(name, settings)`; `type`
names the module. Paths are relative to the folder of the file."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tsadc.config import build, nearest, read_toml, require
from tsadc.detectors.refit import duration
from tsadc.detectors.store import SETTINGS
from tsadc.errors import ConfigError, DataError
from tsadc.io.calendar import Calendar
from tsadc.series import Clock
from tsadc.serve.patterns import covers, matches
from tsadc.wording import DAY

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")
Scope = Literal["read", "write", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "admin")
SECTIONS = ("server", "model", "reader", "writer", "schedule")
NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
LEAST_TOKEN = 16  # characters
# Limits within which times of rows, in nanoseconds, do not leave 64 bits, and no wait is longer than one that can end.
MOST_DAYS = 100_000
LONGEST_WAIT, MOST_FUTURE = 86_400, 10**9  # seconds
MOST_REORDERED, MOST_APART = 10_000, 604_800  # rows, and seconds between two
MOST_MINUTES = 10_080
MOST_COUNTED = 10**9
DURATION = f"a whole number of min, h, d or w, such as 7d, of at most {MOST_DAYS} days"
SHARDS = 16  # parts of the entities, by the remainder of their number; each is scored by one process
# Kinds by the name of their module. Those that are pushed to have no thread of their own.
PUSHED = ("line_protocol", "remote_write")
READERS = (*PUSHED, "folder", "mqtt", "prometheus", "sql")
WRITERS = ("alertmanager", "grafana", "json_lines", "webhook")


@dataclass(frozen=True)
class Server:
    """Where the service listens, what it keeps, and its limits.

    Parameters
    ----------
    host : str, default "127.0.0.1"
        Anything but this machine requires tokens.
    port : int, default 8731
    store : str, default "tsadc.sqlite"
        A SQLite file, or `postgresql://user@host/database`.
    tokens : str, default ""
        File with lines `read = ...`, `write = ...`, `admin = ...`. The environment variables TSADC_READ_TOKEN,
        TSADC_WRITE_TOKEN and TSADC_ADMIN_TOKEN take precedence.
    keep_days : float, default 30
        How long rows and scores are kept, counted from now or from the latest row of their entity if that is earlier.
    forget_days : float, default 365
        An entity that has sent nothing for this long is deleted, with its rows, scores and episodes.
    wait : float, default 5
        Seconds until a row is scored although some of its variables have not arrived.
    future : float, default 300
        Seconds that the time of a row may lie ahead of this machine's clock.
    expire_minutes : float, default 60
        An open episode expires when its entity has sent nothing for this long while the service was running.
    calendars : tuple of str
        Files of planned work, `.ics` or `.csv`; an episode is muted while it covers at least half of it.
    processes : int, default 1
        Processes that score rows, at most 16. Each scores a part of the entities, and has all models in memory.
    entities : int, default 10000
        Maximum number of entities.
    megabytes : int, default 32
        Maximum size of the body of a request.
    rows : int, default 100000
        Maximum number of rows in a request, and of rows that wait to be stored.
    backlog : int, default 2000000
        Maximum number of stored rows that wait to be scored.
    """

    host: str = "127.0.0.1"
    port: int = 8731
    store: str = "tsadc.sqlite"
    tokens: str = ""
    keep_days: float = 30.0
    forget_days: float = 365.0
    wait: float = 5.0
    future: float = 300.0
    expire_minutes: float = 60.0
    calendars: tuple[str, ...] = ()
    processes: int = 1
    entities: int = 10_000
    megabytes: int = 32
    rows: int = 100_000
    backlog: int = 2_000_000

    def __post_init__(self) -> None:
        require(bool(self.host.strip()), "host", "a name or address", self.host)
        require(0 <= self.port < 65536, "port", "from 0 to 65535", self.port)
        require(1 <= self.processes <= SHARDS, "processes", f"from 1 to {SHARDS}", self.processes)
        require(bool(self.store.strip()), "store", "a file or postgresql://user@host/database", self.store)
        for name in ("entities", "megabytes", "rows", "backlog"):
            value = getattr(self, name)
            require(1 <= value <= MOST_COUNTED, name, f"a whole number from 1 to {MOST_COUNTED}", value)
        for name, most in (("keep_days", MOST_DAYS), ("forget_days", MOST_DAYS), ("expire_minutes", 1440 * MOST_DAYS)):
            value = getattr(self, name)
            require(0 < value <= most, name, f"above 0 and at most {most}", value)
        for name, most in (("wait", LONGEST_WAIT), ("future", MOST_FUTURE)):
            value = getattr(self, name)
            require(0 <= value <= most, name, f"from 0 to {most} seconds", value)

    @property
    def is_local(self) -> bool:
        return self.host in LOCAL_HOSTS

    @property
    def url(self) -> str:
        """The store as a URL of SQLAlchemy."""
        if self.store.startswith("postgresql://"):
            return "postgresql+psycopg://" + self.store.removeprefix("postgresql://")
        from sqlalchemy import URL  # here: a backtest needs no package of the service

        return URL.create("sqlite", database=self.store).render_as_string()


@dataclass(frozen=True)
class Model:
    """A fitted model, and the entities that it judges.

    Parameters
    ----------
    folder : str
        The folder that `tsadc fit` wrote.
    entities : tuple of str, default ("*",)
        Patterns of names such as `pump-*`; only `*` and `?` are special. Of several models, the first that matches is
        used.
    reorder : int, default 0
        Rows that are waited for if an earlier row may still come.
    seconds : float, default 0
        Time from row to row, needed only if the model was fitted on rows without times.
    provisional : bool, default True
        Whether to raise an alarm before an observation is complete, at every quarter of it. The final verdict may
        withdraw it; `tsadc backtest` says how often that happens.
    """

    folder: str = ""
    entities: tuple[str, ...] = ("*",)
    reorder: int = 0
    seconds: float = 0.0
    provisional: bool = True

    def __post_init__(self) -> None:
        require(bool(self.entities), "entities", "a list of at least one pattern", self.entities)
        require(0 <= self.reorder <= MOST_REORDERED, "reorder", f"from 0 to {MOST_REORDERED} rows", self.reorder)
        require(0 <= self.seconds <= MOST_APART, "seconds", f"from 0 to {MOST_APART}", self.seconds)

    def judges(self, entity: str) -> bool:
        return any(matches(entity, pattern) for pattern in self.entities)


@dataclass(frozen=True)
class Schedule:
    """When a model is trained again on the rows of the store, and what that may cost.

    Parameters
    ----------
    model : str, default ""
        Name of the model; may be left out if there is only one.
    every : str, default "7d"
        Time from one refit to the next, in min, h, d or w.
    history : str, default "30d"
        The last part of the rows that the new model learns from; rows are kept for `keep_days` of `[server]`.
    swap : bool, default True
        Whether a new model that passes all checks is used at once. Otherwise it waits until a person accepts it.
    minutes : float, default 60
        Maximum time of a refit.
    megabytes : int, default 4096
        Maximum memory of a refit.
    """

    model: str = ""
    every: str = "7d"
    history: str = "30d"
    swap: bool = True
    minutes: float = 60.0
    megabytes: int = 4096

    def __post_init__(self) -> None:
        for name in ("every", "history"):
            require(_is_duration(getattr(self, name)), name, DURATION, getattr(self, name))
        require(0 < self.minutes <= MOST_MINUTES, "minutes", f"above 0 and at most {MOST_MINUTES}", self.minutes)
        whole = f"a whole number from 256 to {MOST_COUNTED}"
        require(256 <= self.megabytes <= MOST_COUNTED, "megabytes", whole, self.megabytes)


@dataclass(frozen=True)
class Part:
    """A configured reader or writer: its kind, and the settings of its module."""

    kind: str
    settings: Any

    def create(self, name: str, package: str) -> Any:
        return _module(package, self.kind).create(name, self.settings)


@dataclass(frozen=True)
class Config:
    """All settings of the service."""

    server: Server = Server()
    models: Mapping[str, Model] = field(default_factory=dict)
    readers: Mapping[str, Part] = field(default_factory=dict)
    writers: Mapping[str, Part] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)

    def model_of(self, entity: str) -> str | None:
        """Return the name of the model that judges an entity; None if there is none."""
        return next((name for name, model in self.models.items() if model.judges(entity)), None)

    def pushed(self, kind: str) -> Any:
        """Return the settings of a reader that is pushed to, the default ones if it is not configured."""
        settings = [part.settings for part in self.readers.values() if part.kind == kind]
        return settings[0] if settings else _module("readers", kind).Settings()


def for_model(folder: Path) -> Config:
    """Return the settings without a file: one model, and a SQLite file beside it."""
    folder = folder.resolve()
    _check_model(folder, str(folder))
    name = folder.name if NAME.fullmatch(folder.name) else "model"
    store = folder.with_name(f"{folder.name}.sqlite")
    return Config(server=Server(store=str(store)), models={name: Model(folder=str(folder))})


def read_config(file: Path) -> Config:
    """Read and check a settings file. Model folders and calendars must exist; nothing is started or connected."""
    content = read_toml(file, "configuration")
    for name, section in content.items():
        if name not in SECTIONS:
            raise ConfigError(f"There is no section `{name}`{nearest(name, SECTIONS)}")
        if not isinstance(section, Mapping):
            raise ConfigError(f"`{name}` is a section: write [{name if name == 'server' else f'{name}.NAME'}].")
    base = file.resolve().parent
    server = build(Server, content.get("server", {}), "server")
    if "://" in server.store and not server.store.startswith("postgresql://"):
        raise ConfigError(
            f"`server.store` must be a file or postgresql://..., but got {_without_secrets(server.store)}."
        )
    located: dict[str, Any] = {name: str(base / getattr(server, name)) for name in ("tokens",) if getattr(server, name)}
    if "://" not in server.store:
        located["store"] = str(base / server.store)
    calendars = tuple(str(base / name) for name in server.calendars)
    Calendar.read(*calendars)  # scoring reads them again; here, what is wrong with one is said before it starts
    models = {name: _model(name, section, base) for name, section in _named(content, "model")}
    if not models:
        raise ConfigError(f'{file} has no model; add [model.NAME] with folder = "...", written by `tsadc fit`.')
    return Config(
        server=dataclasses.replace(server, calendars=calendars, **located),
        models=models,
        readers=_parts(content, "reader", READERS, base),
        writers=_parts(content, "writer", WRITERS, base),
        schedules={name: _schedule(name, section, models) for name, section in _named(content, "schedule")},
    )


def _named(content: Mapping[str, Any], kind: str) -> list[tuple[str, Mapping[str, Any]]]:
    for name, section in content.get(kind, {}).items():
        if not isinstance(section, Mapping):
            raise ConfigError(f"[{kind}] needs a name of your choice: write [{kind}.NAME] in place of [{kind}].")
        if not NAME.fullmatch(name):
            raise ConfigError(f"The name in [{kind}.{name}] must have 1 to 60 letters, digits, hyphens or underscores.")
    return list(content.get(kind, {}).items())


def _schedule(name: str, section: Mapping[str, Any], models: Mapping[str, Model]) -> Schedule:
    schedule = build(Schedule, section, f"schedule.{name}")
    if not schedule.model and len(models) == 1:
        return dataclasses.replace(schedule, model=next(iter(models)))
    if schedule.model not in models:
        given = f"is {schedule.model!r}{nearest(schedule.model, tuple(models))}" if schedule.model else "is missing."
        raise ConfigError(f"`schedule.{name}.model` {given}")
    return schedule


def _model(name: str, section: Mapping[str, Any], base: Path) -> Model:
    model = build(Model, section, f"model.{name}")
    if not model.folder:
        raise ConfigError(f"[model.{name}] needs `folder`, the folder that `tsadc fit` wrote.")
    folder = base / model.folder
    _check_model(folder, f"`model.{name}.folder`, {folder},")
    return dataclasses.replace(model, folder=str(folder))


def _check_model(folder: Path, what: str) -> None:
    if not (folder / SETTINGS).is_file():
        raise ConfigError(f"{what} is not a model folder; name one that `tsadc fit` wrote.")


def _parts(content: Mapping[str, Any], kind: str, kinds: tuple[str, ...], base: Path) -> dict[str, Part]:
    parts = {}
    for name, section in _named(content, kind):
        where = f"{kind}.{name}"
        chosen = section.get("type")
        if not isinstance(chosen, str) or chosen not in kinds:
            if chosen is None:
                raise ConfigError(f"[{where}] has no `type`; it is one of {', '.join(kinds)}.")
            raise ConfigError(f"`{where}.type` is {chosen!r}{nearest(str(chosen), kinds)}")
        settings = build(_module(f"{kind}s", chosen).Settings, {k: v for k, v in section.items() if k != "type"}, where)
        if isinstance(path := getattr(settings, "path", None), str) and path:
            settings = dataclasses.replace(settings, path=str(base / path))
        parts[name] = Part(chosen, settings)
        if chosen not in PUSHED:
            try:
                parts[name].create(name, f"{kind}s")  # checks what it needs; it connects to nothing
            except ConfigError as error:  # about a setting, if it begins with its name
                raise ConfigError(re.sub("^`", f"`{where}.", str(error))) from None
    return parts


def _module(package: str, kind: str) -> Any:
    return importlib.import_module(f"tsadc.serve.{package}.{kind}")


def _is_duration(text: str) -> bool:
    try:
        return duration(text) <= MOST_DAYS * DAY
    except DataError:
        return False


def live_clock(name: str, clock: Clock, seconds: float) -> Clock:
    """Return the clock of live rows. Live rows have dates, also if the history of the model had none."""
    if clock.dated:
        return Clock(0, clock.interval, dated=True, timezone=clock.timezone)
    interval = round(seconds * 10**9) or clock.pace
    if not interval:
        raise ConfigError(
            f"The model {name!r} was fitted on rows without times, so it does not know how often rows come; set "
            f"`seconds` in [model.{name}], or --seconds of `tsadc watch`."
        )
    return Clock(0, interval, dated=True)


def tokens_of(server: Server, environment: Mapping[str, str] = os.environ) -> dict[Scope, str]:
    """Return the tokens from the file and the environment. Raise unless there is one where it is required."""
    tokens: dict[Scope, str] = {}
    if server.tokens:
        given = read_toml_tokens(Path(server.tokens))
        tokens.update({scope: given[scope] for scope in SCOPES if scope in given})
    for scope in SCOPES:
        if value := environment.get(f"TSADC_{scope.upper()}_TOKEN"):
            tokens[scope] = value
    for scope, value in tokens.items():
        if len(value) < LEAST_TOKEN or not value.isascii() or not value.isprintable() or " " in value:
            raise ConfigError(f"The {scope} token must have at least {LEAST_TOKEN} ASCII characters without spaces.")
    if not server.is_local and "admin" not in tokens:
        raise ConfigError(
            f"The service listens on {server.host}, which other machines can reach, so it needs tokens: set "
            "TSADC_ADMIN_TOKEN (and TSADC_WRITE_TOKEN, TSADC_READ_TOKEN), or `server.tokens`, a file with them."
        )
    return tokens


def read_toml_tokens(file: Path) -> dict[str, str]:
    """Return the tokens of a file with lines such as `read = "..."`; messages never contain one."""
    content = read_toml(file, "file of tokens")
    for name, value in content.items():
        if name not in SCOPES:
            raise ConfigError(f"The file of tokens {file} may have read, write and admin, but has `{name}`.")
        if not isinstance(value, str):
            raise ConfigError(f"The {name} token in {file} must be text in quotes.")
    return content


def explained(config: Config) -> list[str]:
    """Return what the settings mean, one sentence per line."""
    server = config.server
    store = f"PostgreSQL, {_without_secrets(server.store)}" if "://" in server.store else f"SQLite, {server.store}"
    access = "a token is required" if tokens_of(server) else "any program on this machine may use it"
    lines = [
        f"server: listens on http://{server.host}:{server.port}; {access}.",
        f"store: {store}; rows and scores are kept for {server.keep_days:g} days, silent entities for "
        f"{server.forget_days:g}.",
    ]
    if server.calendars:
        lines.append(f"calendars: {', '.join(server.calendars)}; episodes are muted if half of them is planned work.")
    for name, model in config.models.items():
        lines.append(f"model {name}: {model.folder} judges entities named {', '.join(model.entities)}.")
    lines += [f"reader {name}: {part.kind}, {_shown(part.settings)}." for name, part in config.readers.items()]
    lines += [f"writer {name}: {part.kind}, {_shown(part.settings)}." for name, part in config.writers.items()]
    for name, schedule in config.schedules.items():
        then = "used if it passes all checks" if schedule.swap else "a candidate until a person accepts it"
        lines.append(
            f"schedule {name}: every {schedule.every}, {schedule.model} is trained again on the last "
            f"{schedule.history}, in at most {schedule.minutes:g} minutes and {schedule.megabytes} MB; the new model "
            f"is {then}."
        )
    if not config.writers:
        lines.append("There is no writer: episodes are kept in the store and shown on the page, and sent nowhere.")
    return lines


def remarks(config: Config) -> list[str]:
    """Return warnings about what can be used but is probably a mistake, one sentence per line."""
    lines, server = [], config.server
    if "://" not in server.store and not Path(server.store).absolute().parent.is_dir():
        lines.append(f"The folder of the store {server.store} does not exist yet; create it.")
    if server.tokens and Path(server.tokens).is_file() and Path(server.tokens).stat().st_mode & 0o077:
        lines.append(f"Other users of this machine can read the tokens in {server.tokens}: chmod 600 {server.tokens}")
    for kind in PUSHED:
        first, *others = [name for name, part in config.readers.items() if part.kind == kind] or [""]
        lines += [f"The reader {name!r} is not used, as {first!r} takes all {kind}; remove one." for name in others]
    for name, part in config.readers.items():
        if part.kind == "folder" and not Path(part.settings.path).is_dir():
            path = Path(part.settings.path)
            said = "is a file; give the folder that it is in" if path.exists() else "does not exist yet; create it"
            lines.append(f"The folder {path} of the reader {name!r} {said}.")
        variable = getattr(part.settings, "password_variable", "")
        if variable and variable not in os.environ:
            lines.append(f"The reader {name!r} needs the environment variable {variable}, which is not set; set it.")
    for name, part in config.writers.items():
        if part.kind == "alertmanager" and "/api/" in part.settings.url:
            lines.append(f"The `url` of the writer {name!r} should end before /api/, as the rest is added to it.")
    patterns: list[str] = []
    for name, model in config.models.items():
        if all(any(covers(wide, pattern) for wide in patterns) for pattern in model.entities):
            lines.append(
                f"The model {name!r} is never used, as models before it judge all of its entities; put it before them, "
                "or narrow their `entities`."
            )
        patterns += model.entities
    for name, schedule in config.schedules.items():
        if duration(schedule.history) > config.server.keep_days * DAY:
            lines.append(
                f"The schedule {name!r} learns from {schedule.history}, but rows are kept for "
                f"{config.server.keep_days:g} days only; raise `server.keep_days`."
            )
    return lines


def _shown(settings: Any) -> str:
    every = {item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)}
    secret = ("token", "password", "secret", "headers")
    return ", ".join(
        f"{name} = {'(hidden)' if any(word in name for word in secret) else _without_secrets(value)}"
        for name, value in every.items()
        if value not in ("", None, ())
    )


def _without_secrets(value: Any) -> Any:
    """Return a setting with its addresses, also those in lists, without user, password and query."""
    if isinstance(value, tuple):
        return tuple(map(_without_secrets, value))
    if not isinstance(value, str) or "://" not in value:
        return value
    kind, _, rest = value.partition("://")
    place, *query = re.split("[?#]", rest, maxsplit=1)
    if query and "@" in query[0]:  # it may belong to a password
        return f"{kind}://(hidden)"
    _, mark, host = place.rpartition("@")
    return f"{kind}://(hidden)@{host}" if mark else f"{kind}://{host}"
