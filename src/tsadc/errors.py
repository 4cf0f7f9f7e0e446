"""Errors that a user can cause, and notices. Each message is one sentence: what was expected, what came, how to fix
it."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator, Sequence

MAX_LISTED = 5


class TsadcError(Exception):
    """Base class of all errors that tsadc raises on purpose; the command line prints them and exits with code 2."""


class DataError(TsadcError, ValueError):
    """The input data cannot be used."""


class TooShortError(DataError):
    """The data is in order but has too few rows for one observation, so there is nothing to judge yet."""


class ConfigError(TsadcError, ValueError):
    """A setting is unknown or out of range."""


class NotFittedError(TsadcError, AttributeError):
    """A detector must be fitted before it can score."""


class ModelFileError(TsadcError, OSError):
    """A saved model cannot be read or written."""


class OutputError(TsadcError, OSError):
    """A file or folder cannot be written, or exists already."""


class RefitError(TsadcError):
    """A refitted model is not fit to replace the old one, which stays in place."""


class TsadcNotice(UserWarning):
    """Something was left out or assumed; the result is valid."""


def notice(message: str) -> None:
    """Issue a `TsadcNotice` that points at the line of the user's code that called the package."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "tsadc":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, TsadcNotice, stacklevel=level)


@contextlib.contextmanager
def collected_notices() -> Iterator[list[str]]:
    """Yield a list that has the notices issued in the block when it ends, each once; other warnings are ignored."""
    notices = list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TsadcNotice)
        yield notices
    notices += dict.fromkeys(str(warning.message) for warning in caught)


def listed(names: Sequence[str], most: int = MAX_LISTED) -> str:
    """Join names for a message: all of them, or the first few and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
