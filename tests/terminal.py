"""The command line as a user meets it: called with words, answering with text and an exit code."""

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from tsadc.cli import main

QUICK = ("--detector", "tsadc", "--preset", "tiny", "--epochs", "1", "--length", "40")
ALONE = {**os.environ, "OMP_NUM_THREADS": "1"}  # of a subprocess: the same arithmetic as here


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def refusal(self) -> str:
        """The one sentence with which a command refuses."""
        assert self.code == 2
        assert self.out == ""
        assert "Traceback" not in self.err
        (line,) = self.err.splitlines()
        assert line.startswith("tsadc: ")
        return line.removeprefix("tsadc: ")


def tsadc(*words: object) -> Answer:
    """Run a command in this process. A warning that is not meant for the user fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["tsadc", *map(str, words)]),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    return Answer(int(stop.value.code or 0), out.getvalue(), err.getvalue())


def frame(rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """Four waves with a little noise, minute by minute from where an observation of 40 begins."""
    clock, generator = np.arange(rows), np.random.default_rng(seed)
    waves = {name: np.sin(2 * np.pi * clock / period) for name, period in zip("abcd", (20, 25, 32, 40), strict=True)}
    noisy = {name: wave + 0.1 * generator.standard_normal(rows) for name, wave in waves.items()}
    return pd.DataFrame({"time": pd.date_range("2026-01-01", periods=rows, freq="1min"), **noisy})


def faulty() -> pd.DataFrame:
    """`b` is six higher in rows 300 to 329."""
    data = frame(seed=9)
    data.loc[300:329, "b"] += 6
    return data


@contextlib.contextmanager
def untouched(folder: Path) -> Iterator[None]:
    """Nothing in the folder is added, removed or changed, hidden files included."""
    before = _content(folder)
    yield
    assert _content(folder) == before


def _content(folder: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
