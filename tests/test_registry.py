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


class Nameless(Detector):
    """Whose author forgot the name."""


def add(monkeypatch: pytest.MonkeyPatch, name: str, *values: str) -> None:
    points = [EntryPoint(name=name, value=value, group="tsadc.detectors") for value in values]
    monkeypatch.setattr(tsadc.detectors, "entry_points", lambda group: points if group == "tsadc.detectors" else [])


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
    with pytest.raises(ConfigError, match="There is no detector 'TSAD-C'; did you mean `tsadc`"):
        find("TSAD-C")
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
        ("third", f"{__name__}:Nameless", "must be a Detector called 'third'"),
        ("third", "not a place", "which cannot be loaded"),
    ],
)
def test_what_cannot_be_used_is_told(monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str) -> None:
    add(monkeypatch, name, value)
    with pytest.raises(ConfigError, match=complaint):
        find(name)


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        ("ZeroDivisionError('by zero.\\nand more')", "by zero"),
        ("SystemExit(3)", "3"),
        ("RuntimeError()", "RuntimeError"),
        ("ConfigError('wrong')", "name 'ConfigError' is not defined"),
    ],
)
def test_whatever_a_module_raises_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, raised: str, why: str
) -> None:
    (tmp_path / "broken_detector.py").write_text(f"raise {raised}\n")
    monkeypatch.syspath_prepend(tmp_path)
    add(monkeypatch, "third", "broken_detector:Third")
    with pytest.raises(ConfigError) as told:
        find("third")
    assert str(told.value) == f"The detector 'third' is broken_detector:Third, which cannot be loaded: {why}."


def test_an_entry_may_name_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "third", f"{__name__}:Third [extra]")
    assert find("third") is Third


def test_two_packages_with_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "third", f"{__name__}:Third", "other_package:Third")
    with pytest.raises(ConfigError, match=f"Several packages have a detector 'third', {__name__}:Third and other_pack"):
        find("third")
    assert names()[-1] == "third"
    add(monkeypatch, "third", f"{__name__}:Third", f"{__name__}:Third")  # one package, found twice
    assert find("third") is Third


def test_ours_cannot_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    add(monkeypatch, "tsadc", f"{__name__}:Third")
    assert find("tsadc").__module__ == "tsadc.detectors.tsadc.detector"
