import re
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmark import HOSTILE, failed, record, records
from tsadc.bench.summary import summarise
from tsadc.errors import DataError
from tsadc.show.bench_figures import CURVE_PANEL, DOT_PANEL, LINE, curves_figure, dots_figure, figure

SVG = "{http://www.w3.org/2000/svg}"


def test_panels_are_of_options_and_metrics() -> None:
    """On the plant AUROC is .9 - eta / 10 + seed / 100 for tsadc, .8 - eta + seed / 100 for ridge, .5 + seed / 100 for
    the hostile one, so that values reach from .5 to .91; ludb has no option."""
    text = curves_figure(summarise(records()), ["auroc", "ap"])
    tree = ElementTree.fromstring(text)
    titles = [one.text for one in tree.iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["plant: eta, auroc", "plant: eta, ap"]
    width, height = CURVE_PANEL
    first = tree.find(f"{SVG}g")
    low, high = 0.5 - 0.06 * 0.41, 0.91 + 0.06 * 0.41
    lines = {one.find(f"{SVG}title").text: one.get("d") for one in first.iter(f"{SVG}path")}
    for label, values in {"tsadc": (0.905, 0.885), "ridge": (0.805, 0.605), HOSTILE: (0.505, 0.505)}.items():
        places = [float(number) for number in re.findall(r"[\d.]+", lines[label])]
        assert places[::2] == [0, width]
        assert places[1::2] == pytest.approx([height * (high - value) / (high - low) for value in values], abs=0.06)
    band = first.find(f"{SVG}polygon")
    ends = [float(pair.split(",")[1]) for pair in band.get("points").split()]
    assert ends[0] < ends[3]  # at the first value, the highest seed above the lowest
    assert "<script" not in text


def drawn(records: list[dict[str, Any]], metric: str = "auroc") -> ElementTree.Element:
    return ElementTree.fromstring(dots_figure(summarise(records), metric))


def dots(tree: ElementTree.Element) -> dict[str, tuple[str | None, float, float]]:
    """Return the class and place of each dot by its title."""
    found = {}
    for group in tree.iter(f"{SVG}g"):
        title, circle = group.find(f"{SVG}title"), group.find(f"{SVG}circle")
        if title is not None and circle is not None:
            found[str(title.text)] = group.get("class"), float(circle.get("cx", "")), float(circle.get("cy", ""))
    return found


def test_a_label_by_both_scorings_is_one_line_of_two_dots() -> None:
    own = {"overrides": {"scoring": "own"}}
    made = [
        record("usad", "plant", 0, 0.9),
        record("usad", "plant", 0, 0.6, **own),
        record("ridge", "plant", 0, 0.7),
        record("ridge", "plant", 1, 0.8),
    ]
    tree = drawn(made)
    found = dots(tree)
    assert [one.text for one in tree.findall(f"{SVG}text")] == ["usad", "ridge"]
    low, high = 0.5 - 0.04 * 0.5, 1.0 + 0.04 * 0.5  # intervals are .1 to both sides

    def x(value: float) -> Any:
        return pytest.approx(DOT_PANEL * (value - low) / (high - low), abs=0.06)

    assert found["usad: 0.900"] == ("", x(0.9), LINE / 2)
    assert found["usad scoring=own: 0.600"] == ("own", x(0.6), LINE / 2)
    assert found["ridge: 0.750"] == ("cheap", x(0.75), LINE * 1.5)
    lines = {one.get("class"): (float(one.get("x1", "")), float(one.get("x2", ""))) for one in tree.iter(f"{SVG}line")}
    assert lines["gain"] == (x(0.6), x(0.9))
    assert lines["chance"] == (x(0.5), x(0.5))
    spans = [
        (float(one.get("x1", "")), float(one.get("x2", "")))
        for one in tree.iter(f"{SVG}line")
        if one.get("class") == "span"
    ]
    assert (x(0.65), x(0.85)) in spans


def test_missing_results_and_hostile_names_break_nothing() -> None:
    made = [
        record("ridge", "plant", 0, 0.7),
        record("pca", "ludb", 0, 0.6, label=HOSTILE),
        record("ridge", "ludb", 0, 0.5),
    ]
    made.append(failed("bands", "ludb", 0))
    text = dots_figure(summarise(made), "fit_seconds")
    assert "<script" not in text
    assert text.count("<circle") == 3 + 1  # and one that says what they mean
    assert "bands" not in text
    assert "<title>ridge: 2</title>" in text
    ticks = [one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text") if one.get("text-anchor") == "middle"]
    assert ticks[0] == "1.95"  # all took 2 seconds, and the axis is wider than that
    with pytest.raises(DataError, match="None of the records has flops; choose another metric"):
        dots_figure(summarise(made), "flops")


def test_scorings_are_paired_wherever_the_setting_stands_in_the_label() -> None:
    more = {"scoring": "own", "latent": 20}
    made = [
        record("usad", "plant", 0, 0.9, overrides={"latent": 20}),
        record("usad", "plant", 0, 0.6, overrides=more),
    ]
    tree = drawn(made)
    assert [one.text for one in tree.findall(f"{SVG}text")] == ["usad latent=20"]
    assert sum(one.get("class") == "gain" for one in tree.iter(f"{SVG}line")) == 1


def test_titles_name_data_sets() -> None:
    made = [record("ridge", "plant", 0, 0.7), record("ridge", "ludb", 0, 0.5)]
    text = dots_figure(summarise(made), "fit_seconds")
    titles = [one.text for one in ElementTree.fromstring(text).iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["ludb, fit_seconds", "plant, fit_seconds"]


def test_an_option_that_varies_makes_curves_and_otherwise_there_are_dots() -> None:
    assert figure(summarise(records()), ["auroc", "ap"]) == curves_figure(summarise(records()), ["auroc", "ap"])
    fixed = summarise([made for made in records() if made["dataset"] == "ludb"])
    assert figure(fixed, ["auroc", "ap"]) == dots_figure(fixed, "auroc")
