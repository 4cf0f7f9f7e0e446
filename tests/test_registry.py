import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import tsadc.detectors
from tsadc.detectors import REGISTRY, find, names
from tsadc.detectors.base import Detector
from tsadc.detectors.residual import ResidualDetector
from tsadc.errors import ConfigError


class Third(Detector):
    """Of another package."""

    name = "third"


def add(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    point = EntryPoint(name=name, value=value, group="tsadc.detectors")
    monkeypatch.setattr(tsadc.detectors, "entry_points", lambda group: [point] if group == "tsadc.detectors" else [])


@pytest.mark.parametrize("name", list(REGISTRY))
def test_every_detector_is_found_by_name_and_by_class(name: str) -> None:
    cls = find(name)
    assert issubclass(cls, Detector)
    assert cls.name == name
    assert getattr(tsadc.detectors, cls.__name__) is cls
    assert cls.__name__ in dir(tsadc.detectors)
    assert cls.__doc__
    assert cls.Config.preset("default") == cls.Config()


def test_the_page_lists_every_detector_once() -> None:
    page = (Path(__file__).parents[1] / "docs" / "detectors.md").read_text(encoding="utf-8")
    first, rest = page.split("## Deviations from the papers")
    deviations, cheap = rest.split("## Without a network")
    listed = [
        name for text in (first, cheap) for row in re.findall(r"^\| (`.*?) \|", text, re.M) for name in row.split(", ")
    ]
    assert sorted(name.strip("`") for name in listed) == sorted(REGISTRY)
    trained = [name for name in REGISTRY if issubclass(find(name), ResidualDetector) and name != "tsadc"]
    assert sorted(re.findall(r"^\| `(.*?)` \|", deviations, re.M)) == sorted(trained)


def test_a_name_that_is_nearly_right() -> None:
    with pytest.raises(ConfigError, match="There is no detector 'robustz'; did you mean `robust-z`"):
        find("robustz")
    with pytest.raises(AttributeError, match="has no attribute 'GND'"):
        _ = tsadc.detectors.GND


def test_another_package_adds_a_detector(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "third", f"{__name__}:Third")
    assert find("third") is Third
    assert names()[-1] == "third"


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("third", "no_such_module:Third", "is no_such_module:Third, which cannot be loaded"),
        ("third", f"{__name__}:Fourth", "which cannot be loaded"),
        ("other", f"{__name__}:Third", "must be a Detector called 'other'"),
        ("third", f"{__name__}:add", "must be a Detector called 'third'"),
    ],
)
def test_what_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str) -> None:
    add(monkeypatch, name, value)
    with pytest.raises(ConfigError, match=complaint):
        find(name)


def test_ours_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "tsadc", f"{__name__}:Third")
    assert find("tsadc").__module__ == "tsadc.detectors.tsadc.detector"
