"""Options of the command line -> `Reading`, together with the options that a model remembers."""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping
from typing import Any

from tsadc.errors import notice
from tsadc.io.reading import DEFAULT, Reading, join_list, parse_missing, remembered

LISTS = {"columns", "exclude", "difference", "missing", "long"}  # options that are lists separated by commas


def requested_reading(options: Mapping[str, Any], stored: Any = None) -> Reading:
    """Return the options that were given and, for all others, those that a model has `stored`; a notice names these.

    An empty text stands for the default, and so clears what the model has stored."""
    given = {name: value for name, value in options.items() if value is not None}
    # An option that is given several times adds up.
    given |= {name: ",".join(value) for name, value in given.items() if isinstance(value, list)}
    given |= {name: listed(given[name]) for name in LISTS & set(given)}
    if "missing" in given:
        given["missing"] = parse_missing(given["missing"])
    given |= {name: getattr(DEFAULT, name) for name, value in given.items() if value in ("", ())}
    reading, kept = remembered(stored or {}, given)
    if kept:
        notice(f"The data is read like the model's history: {_as_options(kept)}.")
    return reading


def listed(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas; a name with a comma stands in double quotes."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True), []) if name.strip())


def _plain(value: Any) -> str:
    """Write a whole number without decimals: -200, not -200.0."""
    return f"{value:.0f}" if isinstance(value, float) and value.is_integer() else str(value)


def _as_options(reading: Mapping[str, Any]) -> str:
    """Write options as they are given on the command line."""

    def option(name: str, value: Any) -> str:
        if name == "dayfirst":
            return "--dayfirst" if value else "--monthfirst"
        text = join_list([_plain(item) for item in value]) if isinstance(value, list) else _plain(value)
        return f"--{name.replace('_', '-')} {shlex.quote(text)}"

    return " ".join(option(name, value) for name, value in reading.items())
