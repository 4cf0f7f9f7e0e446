"""The examples in docstrings of the public API run and give what they show."""

import doctest
import inspect
from pathlib import Path

import pytest

import tsadc
from tsadc.scale import Scaler
from tsadc.series import Clock

PUBLIC = [getattr(tsadc, name) for name in tsadc.__all__]
WITH_EXAMPLES = (tsadc.Reading, tsadc.Series, tsadc.read, Clock, Scaler)


@pytest.mark.parametrize(
    "subject", [*PUBLIC, Clock, Scaler], ids=lambda subject: getattr(subject, "__name__", str(subject))
)
def test_examples_give_what_they_show(subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    tests = doctest.DocTestFinder(recurse=False).find(subject, getattr(subject, "__name__", ""), globs={})
    for test in tests:
        runner.run(test)
    assert runner.failures == 0
    if subject in WITH_EXAMPLES:
        assert runner.tries > 0


@pytest.mark.parametrize("subject", [tsadc.Reading, tsadc.Series, tsadc.read, Clock, Scaler, Scaler.Config])
def test_every_parameter_is_documented(subject) -> None:
    described = inspect.getdoc(subject) or ""
    missing = [name for name in inspect.signature(subject).parameters if f"\n{name} : " not in described]
    assert missing == []
