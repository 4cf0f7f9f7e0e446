import re
from xml.etree import ElementTree

import pytest

from benchmark import HOSTILE, records
from tsadc.bench.summary import summarise
from tsadc.show.curves_figure import HIGH, WIDE, figure

SVG = "{http://www.w3.org/2000/svg}"


def test_panels_are_of_options_and_metrics() -> None:
    """On the plant AUROC is .9 - eta / 10 + seed / 100 for tsadc, .8 - eta + seed / 100 for ridge, .5 + seed / 100 for
    the hostile one, so that values reach from .5 to .91; ludb has no option."""
    text = figure(summarise(records()), ["auroc", "ap"])
    tree = ElementTree.fromstring(text)
    titles = [one.text for one in tree.iter(f"{SVG}text") if one.get("class") == "title"]
    assert titles == ["plant: eta, auroc", "plant: eta, ap"]
    first = tree.find(f"{SVG}g")
    low, high = 0.5 - 0.06 * 0.41, 0.91 + 0.06 * 0.41
    lines = {one.find(f"{SVG}title").text: one.get("d") for one in first.iter(f"{SVG}path")}
    for row, values in {"tsadc": (0.905, 0.885), "ridge": (0.805, 0.605), HOSTILE: (0.505, 0.505)}.items():
        places = [float(number) for number in re.findall(r"[\d.]+", lines[row])]
        assert places[::2] == [0, WIDE]
        assert places[1::2] == pytest.approx([HIGH * (high - value) / (high - low) for value in values], abs=0.06)
    band = first.find(f"{SVG}polygon")
    ends = [float(pair.split(",")[1]) for pair in band.get("points").split()]
    assert ends[0] < ends[3]  # at the first value, the highest seed above the lowest
    assert "<script" not in text
