import re

import pytest

from benchmark import HOSTILE, records
from tsadc.bench.summary import summarise
from tsadc.show.bench_charts import COLOURS, curves, panels, ranks


def test_mean_ranks_are_in_order_and_detectors_left_out_are_counted() -> None:
    text = ranks(summarise(records()), "auroc")
    assert text is not None
    assert re.findall(r'class="figure">([\d.]+)<', text) == ["1.00", "2.00", "3.00"]
    assert re.findall(r'class="dot" style="left:([\d.]+)%"', text) == ["0", "50", "100"]
    # q(3 detectors) = 2.343, times sqrt(3 * 4 / (6 * 2)).
    assert "critical difference of 2.34" in text
    assert text.count('class="same"') == 3
    assert "Without values on all data sets, so left out: 1 detector." in text


def test_ranks_need_two_data_sets_and_a_measure_that_is_better_when_higher() -> None:
    assert ranks(summarise([one for one in records() if one["dataset"] == "plant"]), "auroc") is None
    assert ranks(summarise(records()), "delay") is None


def test_an_option_that_varies_is_a_panel() -> None:
    (panel,) = panels(summarise(records()))
    assert panel.title == "plant: eta"
    assert [one.split["eta"] for one in panel.curves["ridge"]] == [0.0, 0.2]
    split = [one | {"split": {"eta": 0.1, "kappa": kappa}} for kappa in (1, 2) for one in records()[:1]]
    assert [one.title for one in panels(summarise(split))] == ["plant: kappa at eta = 0.1"]
    assert curves(summarise([one for one in records() if one["dataset"] == "ludb"]), "auroc") is None


def test_curves_lie_where_the_values_are() -> None:
    text = curves(summarise(records()), "auroc")
    assert text is not None
    assert text.count('class="band') == text.count('class="curve') == 3
    low, high = 0.5, 0.91
    margin = 0.06 * (high - low)
    place = [2000 * (1 - (value - low + margin) / (high - low + 2 * margin)) for value in (0.905, 0.885)]
    (path,) = re.findall(r'<path d="M([^"]*)" class="curve colour-1"', text)
    found = [point.split(",") for point in path.split("L")]
    assert [int(x) for x, _ in found] == [0, 1000]
    assert [int(y) for _, y in found] == pytest.approx(place, abs=1)
    assert HOSTILE not in text


def test_detectors_without_a_colour_are_counted() -> None:
    many = [one | {"label": f"row {i}"} for i in range(COLOURS + 2) for one in records()[:1] + records()[3:4]]
    text = curves(summarise(many), "auroc")
    assert text is not None
    assert f"Only the {COLOURS} best of {COLOURS + 2} detectors are drawn." in text
