from typing import Any
from xml.etree import ElementTree

import pytest

from benchmark import HOSTILE, failed, record
from tsadc.bench.summary import summarise
from tsadc.errors import DataError
from tsadc.show.dots_figure import LINE, WIDE, figure

SVG = "{http://www.w3.org/2000/svg}"


def drawn(records: list[dict[str, Any]], metric: str = "auroc") -> ElementTree.Element:
    return ElementTree.fromstring(figure(summarise(records), [metric]))


def dots(tree: ElementTree.Element) -> dict[str, tuple[str | None, float, float]]:
    """What a dot is called -> its class and place, panels after each other."""
    found = {}
    for group in tree.iter(f"{SVG}g"):
        title, circle = group.find(f"{SVG}title"), group.find(f"{SVG}circle")
        if title is not None and circle is not None:
            found[str(title.text)] = group.get("class"), float(circle.get("cx", "")), float(circle.get("cy", ""))
    return found


def test_a_label_by_both_scorings_is_one_line_of_two_dots() -> None:
    own = {"overrides": {"scoring": "own"}}
    some = [
        record("usad", "plant", 0, 0.9),
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
    assert found["usad scoring=own: 0.600"] == ("own", x(0.6), LINE / 2)
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
    some = [
        record("ridge", "plant", 0, 0.7),
        record("pca", "ludb", 0, 0.6, label=HOSTILE),
        record("ridge", "ludb", 0, 0.5),
    ]
    some.append(failed("bands", "ludb", 0))
    text = figure(summarise(some), ["fit_seconds"])
    assert "<script" not in text
    assert text.count("<circle") == 3 + 1  # and one that says what they mean
    assert "bands" not in text
    assert "<title>ridge: 2</title>" in text
    ticks = [one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text") if one.get("text-anchor") == "middle"]
    assert ticks[0] == "1.95"  # all took 2 seconds, and the axis is wider than that
    with pytest.raises(DataError, match="None of these records has flops; a figure needs some"):
        figure(summarise(some), ["flops"])


def test_heads_are_paired_wherever_their_word_stands() -> None:
    more = {"scoring": "own", "latent": 20}
    some = [
        record("usad", "plant", 0, 0.9, overrides={"latent": 20}),
        record("usad", "plant", 0, 0.6, overrides=more),
    ]
    tree = drawn(some)
    assert [one.text for one in tree.findall(f"{SVG}text")] == ["usad latent=20"]
    assert sum(one.get("class") == "way" for one in tree.iter(f"{SVG}line")) == 1


def test_titles_name_columns() -> None:
    some = [record("ridge", "plant", 0, 0.7), record("ridge", "ludb", 0, 0.5)]
    text = figure(summarise(some), ["fit_seconds"])
    titles = [one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["ludb, fit_seconds", "plant, fit_seconds"]
