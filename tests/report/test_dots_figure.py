from typing import Any
from xml.etree import ElementTree

import pytest

from benchmark import HOSTILE, record
from tsadc.bench.summary import summarise
from tsadc.report.dots_figure import LINE, WIDE, figure

SVG = "{http://www.w3.org/2000/svg}"
NETWORK = {"training": {}}


def drawn(records: list[dict[str, Any]], metric: str = "auroc") -> ElementTree.Element:
    return ElementTree.fromstring(figure(summarise(records), metric))


def dots(tree: ElementTree.Element) -> dict[str, tuple[str | None, float, float]]:
    """What a dot is called -> its class and place, panels after each other."""
    found = {}
    for group in tree.iter(f"{SVG}g"):
        title, circle = group.find(f"{SVG}title"), group.find(f"{SVG}circle")
        if title is not None and circle is not None:
            found[str(title.text)] = group.get("class"), float(circle.get("cx", "")), float(circle.get("cy", ""))
    return found


def test_a_row_by_both_heads_is_one_line_of_two_dots() -> None:
    own = {"settings": {**NETWORK, "head": "paper"}, "overrides": {"head": "paper"}}
    some = [
        record("usad", "plant", 0, 0.9, settings={**NETWORK, "head": "tsadc"}),
        record("usad", "plant", 0, 0.6, **own),
        record("ridge", "plant", 0, 0.7),
        record("ridge", "plant", 1, 0.8),
    ]
    tree = drawn(some)
    found = dots(tree)
    assert [one.text for one in tree.findall(f"{SVG}text")] == ["usad", "ridge"]
    low, high = 0.5 - 0.04 * 0.5, 1.0 + 0.04 * 0.5  # intervals are .1 to both sides

    def x(value: float) -> Any:
        return pytest.approx(WIDE * (value - low) / (high - low), abs=0.06)

    assert found["usad: 0.900"] == ("", x(0.9), LINE / 2)
    assert found["usad head=paper: 0.600"] == ("own", x(0.6), LINE / 2)
    assert found["ridge: 0.750"] == ("cheap", x(0.75), LINE * 1.5)
    lines = {one.get("class"): (float(one.get("x1", "")), float(one.get("x2", ""))) for one in tree.iter(f"{SVG}line")}
    assert lines["way"] == (x(0.6), x(0.9))
    assert lines["chance"] == (x(0.5), x(0.5))
    spans = [
        (float(one.get("x1", "")), float(one.get("x2", "")))
        for one in tree.iter(f"{SVG}line")
        if one.get("class") == "span"
    ]
    assert (x(0.65), x(0.85)) in spans


def test_what_is_absent_or_hostile_breaks_nothing() -> None:
    some = [record("ridge", "plant", 0, 0.7), record(HOSTILE, "ludb", 0, 0.6), record("ridge", "ludb", 0, 0.5)]
    text = figure(summarise(some), "fit_seconds")
    assert "<script" not in text
    assert len(dots(ElementTree.fromstring(text))) == 2  # two of one name
    titles = [one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["ludb, fit_seconds", "plant, fit_seconds"]
