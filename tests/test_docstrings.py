"""The examples in docstrings of the public API run, and its parameters and attributes are documented."""

import dataclasses
import doctest
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import tsadc
from tsadc.detectors import REGISTRY, find
from tsadc.detectors.base import Detector
from tsadc.detectors.parameters import Parameters
from tsadc.detectors.settings import Common
from tsadc.detectors.threshold import Threshold
from tsadc.scale import Scaler
from tsadc.series import Clock

METHODS = [
    method
    for cls in (Detector, Parameters, tsadc.Result, tsadc.Stream)
    for name, method in vars(cls).items()
    if inspect.isfunction(method) and not name.startswith("_")
]
PUBLIC = [tsadc, *(getattr(tsadc, name) for name in tsadc.__all__), Clock, Scaler, Threshold.Config, Common, *METHODS]
WITH_EXAMPLES = (
    tsadc, tsadc.Reading, tsadc.Result, tsadc.Series, tsadc.load, tsadc.read, Clock, Scaler, Threshold.Config, Common,
    Detector.fit, Detector.detect, Detector.predict,
)  # fmt: skip


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """What examples take from those of `fit` and `detect`."""
    monkeypatch.chdir(tmp_path)  # examples may write files
    generator = np.random.default_rng(0)
    detector = tsadc.Ensemble(length=60, contamination=0.1).fit(generator.normal(size=(3000, 3)))
    new = generator.normal(size=(600, 3))
    new[300:330, 1] += 8
    return {"tsadc": tsadc, "generator": generator, "detector": detector, "new": new, "folder": tmp_path}


@pytest.mark.parametrize("subject", PUBLIC, ids=lambda subject: getattr(subject, "__qualname__", "tsadc"))
def test_examples_give_what_they_show(subject, names: dict[str, object]) -> None:
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(doctest.DocTestParser().get_doctest(inspect.getdoc(subject) or "", names, str(subject), None, 0))
    assert runner.failures == 0
    assert runner.tries > 0 or subject not in WITH_EXAMPLES


@pytest.mark.parametrize("subject", [tsadc.Reading, tsadc.Series, tsadc.read, Clock, Scaler, Scaler.Config, Common])
def test_every_parameter_is_documented(subject) -> None:
    described = inspect.getdoc(subject) or ""
    missing = [name for name in inspect.signature(subject).parameters if f"\n{name} : " not in described]
    assert missing == []


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.__qualname__)
def test_every_parameter_of_a_public_method_is_documented(method) -> None:
    parameters = [name for name in inspect.signature(method).parameters if name != "self"]
    if method is Detector.prepare:  # one sentence says it all
        return
    section = inspect.getdoc(method).partition("Parameters\n----------\n")[2].partition("\n\n")[0]
    assert [name for name in parameters if f"{name} :" not in section and f"**{name}\n" not in section] == []


def test_every_fitted_attribute_and_frame_is_documented() -> None:
    fitted = {name for name in Detector.__annotations__ if name.endswith("_")} | {"labels_"}
    assert {name for name in fitted if f"\n{name} : " not in inspect.getdoc(Detector)} == set()
    frames = {name for name in dir(tsadc.Result) if not name.startswith("_")}
    frames -= {"plot", "report", "to_frame", "worst"}  # methods
    assert {name for name in frames if f"\n{name} : " not in inspect.getdoc(tsadc.Result)} == set()


@pytest.mark.parametrize("name", REGISTRY)
def test_help_describes_every_setting_once_with_its_default_and_every_fitted_attribute(name: str) -> None:
    detector = find(name)
    settings = inspect.getdoc(detector.Config)
    for field in dataclasses.fields(detector.Config):
        entry = re.findall(rf"^({field.name} : .*\n(?:    .*\n?)+)", settings, re.MULTILINE)
        default = getattr(detector.Config(), field.name)
        text = f'default "{default}"' if isinstance(default, str) else f"efault:? {re.escape(repr(default))}"
        assert len(entry) == 1, field.name
        assert re.search(text, " ".join(entry[0].split())), field.name
    fitted = [attribute for attribute in Detector.__annotations__ if attribute.endswith("_")]
    assert [attribute for attribute in fitted if inspect.getdoc(detector).count(f"\n{attribute} : ") != 1] == []


@pytest.mark.parametrize("config", [tsadc.TSADC.Config, tsadc.Ensemble.Config])
def test_help_that_the_settings_refer_to_exists(config) -> None:
    paths = re.findall(r"help\((tsadc\.\S+?)\)`", inspect.getdoc(config))
    assert paths
    for path in paths:
        assert "Parameters" in inspect.getdoc(type(eval(path, {"tsadc": tsadc})))
