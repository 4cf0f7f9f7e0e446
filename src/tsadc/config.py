"""Convert mappings, TOML files and `--set a.b=c` to trees of frozen dataclasses, and back; parse JSON strictly.

A dataclass declares the names and types of its settings and, in `__post_init__`, checks their ranges. An error message
gives the full dotted path of the wrong setting and the nearest right name."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import json
import math
import numbers
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar, Union

from tsadc.errors import ConfigError

T = TypeVar("T")
MOST_NAMES = 12  # listed in a message
MOST_SHOWN = 100  # characters of a wrong value in a message
LARGEST = 2**63  # whole numbers must be smaller, as arrays, times and seeds cannot hold others


def build(cls: type[T], mapping: Mapping[str, Any], where: str = "") -> T:
    """Return an instance of the dataclass `cls` with the settings of `mapping`; all others keep their defaults."""
    return update(cls(), mapping, where)


def update(config: T, mapping: Mapping[str, Any], where: str = "") -> T:
    """Return a copy of `config` in which the settings of `mapping` are replaced, including those of nested sections."""
    instance: Any = config  # a dataclass, which a TypeVar cannot say
    hints = _hints(instance.__class__)
    names = [field.name for field in dataclasses.fields(instance)]
    changes: dict[str, Any] = {}
    for name, value in mapping.items():
        path = f"{where}.{name}" if where else str(name)
        if name not in names:
            _refuse_unknown(instance.__class__, str(name), where)
        current = getattr(instance, name)
        section = dataclasses.is_dataclass(current)
        if isinstance(value, Mapping) and not section:  # perhaps an old section whose name is now that of a setting
            _refuse_renamed(instance.__class__, name, path)
        changes[name] = _section(current, value, path) if section else _convert(value, hints[name], path)
    try:
        return typing.cast(T, dataclasses.replace(instance, **changes))
    except ConfigError as error:
        raise ConfigError(str(error).replace("`", f"`{where}.", 1) if where else str(error)) from None


def build_sections(config: Any) -> None:
    """Replace, in `__post_init__` of a frozen dataclass, mappings given for nested sections by their dataclasses.

    `Config(training={"epochs": 3})` keeps the class's defaults for all other settings of `training`."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(_hints(config.__class__)[field.name]) and not dataclasses.is_dataclass(value):
            default: Any = field.default_factory  # a section always has one
            object.__setattr__(config, field.name, _section(default(), value, field.name))


def refuse_unknown_settings(cls: Any) -> None:
    """Make the constructor of a dataclass refuse an unknown setting with a `ConfigError` that has the nearest name."""
    construct = cls.__init__
    if hasattr(construct, "__wrapped__"):  # done before, or inherited
        return

    @wraps(construct)
    def checked(self: Any, *values: Any, **settings: Any) -> None:
        names = {field.name for field in dataclasses.fields(cls)}
        for name in settings:
            if name not in names:
                _refuse_unknown(cls, name)
        construct(self, *values, **settings)

    cls.__init__ = checked


def _refuse_unknown(cls: Any, name: str, where: str = "") -> NoReturn:
    path = f"{where}.{name}" if where else name
    _refuse_renamed(cls, name, path)
    names = [field.name for field in dataclasses.fields(cls)]
    raise ConfigError(f"There is no setting `{path}`{nearest(name, names, where)}")


def _refuse_renamed(cls: type, name: str, path: str) -> None:
    """Say what became of an old name, if the dataclass lists it in its class variable `renamed_settings`."""
    renamed: Mapping[str, str] = getattr(cls, "renamed_settings", {})
    if name in renamed:
        raise ConfigError(f"`{path}` {renamed[name]}.")


def _section(current: T, value: Any, path: str) -> T:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"`{path}` is a section with settings of its own, but got {shown(value)}; set one of its settings, such as "
            f"{path}.{next(iter(to_mapping(current)))}."
        )
    return update(current, value, path)


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass's fields; cached, as resolving them is slow."""
    return typing.get_type_hints(kind)


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number, of Python or of NumPy; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def require(condition: bool, name: str, expected: str, value: Any) -> None:
    """Raise a `ConfigError` unless `condition` holds; for range checks in `__post_init__`."""
    if not condition:
        raise ConfigError(f"`{name}` must be {expected}, but got {shown(value)}.")


def to_mapping(config: Any) -> dict[str, Any]:
    """Return the settings as plain data, ready for JSON; the inverse of `build`."""
    return {
        field.name: to_mapping(value) if dataclasses.is_dataclass(value) else _plain(value)
        for field in dataclasses.fields(config)
        for value in [getattr(config, field.name)]
    }


def read_toml(path: str | Path, what: str = "settings file") -> dict[str, Any]:
    """Return the content of a TOML file; error messages call the file `what`."""
    if Path(path).is_dir():
        raise ConfigError(f"{path} is a folder, but a {what} in TOML was expected; name the file.")
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ConfigError(f"There is no {what} {path}, but a TOML file was expected; check the name.") from None
    except ValueError as error:  # invalid TOML or invalid UTF-8
        raise ConfigError(f"The {what} {path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise ConfigError(f"The {what} {path} is not valid TOML: it is nested too deeply.") from None
    except OSError as error:
        raise ConfigError(f"The {what} {path} cannot be read: {error.strerror}.") from None


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that tsadc may have written; raise a ValueError for anything else.

    Refused are, besides what is no JSON: text that is not valid Unicode, a name given twice in an object, NaN and
    infinity, numbers beyond 64 bits, and deep nesting."""
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        content = json.loads(
            text,
            object_pairs_hook=_distinct_names,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_finite_number,
        )
        if "\\ud" in text.lower():  # an escape of half a character; written out it is not valid UTF-8
            json.dumps(content, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return content


def _distinct_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name occurs twice in one object")
    return content


def _whole_number(digits: str) -> int:
    number = int(digits)  # raises a ValueError for thousands of digits
    if abs(number) >= 2 * LARGEST:
        raise ValueError("a number has more than 64 bits")
    return number


def _finite_number(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{shown(digits)} is not a finite number")
    return number


def shown(value: Any) -> str:
    """Write a value that a user gave, for a message; a long one is shortened."""
    try:
        text = repr(list(value) if isinstance(value, tuple) else value)  # as it is written in TOML
    except (ValueError, RecursionError):  # a number of thousands of digits, or a list in a list in a list ...
        return f"a {type(value).__name__}"
    return text if len(text) <= MOST_SHOWN else text[:MOST_SHOWN] + "..."


def parse_assignments(assignments: Sequence[str]) -> dict[str, Any]:
    """Parse `["a.b=1", "c=x"]` into `{"a": {"b": 1}, "c": "x"}`; a value that is no TOML literal is text."""
    out: dict[str, Any] = {}
    for assignment in assignments:
        path, equals, text = assignment.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or not all(keys):
            raise ConfigError(f"A setting is written as name=value or section.name=value, but got {assignment!r}.")
        section = out
        for key in keys[:-1]:
            section = section.setdefault(key, {})
            if not isinstance(section, dict):
                raise ConfigError(f"{assignment!r} treats `{key}` as a section, but an earlier one gives it a value.")
        section[keys[-1]] = _literal(text.strip())
    return out


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `over`, section by section."""
    out = dict(base)
    for name, value in over.items():
        old = out.get(name)
        out[name] = merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return out


def nearest(name: str, names: Sequence[str], where: str = "") -> str:
    """Return the end of an error message: the most similar of `names`, or a list of them."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    prefix = f"{where}." if where else ""
    if close:
        return f"; did you mean `{prefix}{close[0]}`?"
    more = ", ..." if len(names) > MOST_NAMES else ""
    there = "there is only" if len(names) == 1 else "there are"
    return f"; {there} " + ", ".join(f"`{prefix}{n}`" for n in names[:MOST_NAMES]) + (more or ".")


def _literal(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return {"none": None}.get(text.lower(), text)
    return parsed["value"] if len(parsed) == 1 else text


def _plain(value: Any) -> Any:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _convert(value: Any, hint: Any, path: str) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value in arguments:
            return value
        raise ConfigError(f"`{path}` must be one of {', '.join(map(repr, arguments))}, but got {shown(value)}.")
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        options = [a for a in arguments if a is not type(None)]
        if len(options) == 1:
            return _convert(value, options[0], path)
        for option in options:
            with contextlib.suppress(ConfigError):
                return _convert(value, option, path)
        raise ConfigError(f"`{path}` must be {' or '.join(map(_expected, options))}, but got {shown(value)}.")
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise ConfigError(f"`{path}` must be {_expected_list(hint)}, but got {shown(value)}.")
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(value) != len(kinds):
            raise ConfigError(f"`{path}` must be a list of {len(kinds)}, but got {shown(value)}.")
        return tuple(_convert(v, kind, path) for v, kind in zip(value, kinds, strict=True))
    return _scalar(value, hint, path)


def _expected_list(hint: Any) -> str:
    kinds = typing.get_args(hint)
    if Ellipsis in kinds:
        return "a list"
    names = ", ".join('"..."' if kind is str else "..." for kind in kinds)
    return f"made of lists of {len(kinds)}, such as [{names}]"


def _scalar(value: Any, hint: Any, path: str) -> Any:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if hint is int and number and _finite(value) and abs(value) < LARGEST and float(value).is_integer():
        return int(value)
    if hint is float and number and _finite(value):
        return float(value)
    if hint in (bool, str) and isinstance(value, hint):
        return value
    raise ConfigError(f"`{path}` must be {_expected(hint)}, but got {shown(value)}.")


def _expected(hint: Any) -> str:
    if typing.get_origin(hint) is Literal:
        return " or ".join(map(repr, typing.get_args(hint)))
    if typing.get_origin(hint) is tuple:
        return f"a list, each {_expected(typing.get_args(hint)[0])}"
    return {float: "a finite number", int: "a whole number", bool: "true or false", str: "text"}.get(hint, str(hint))


def _finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond any float
        return False
