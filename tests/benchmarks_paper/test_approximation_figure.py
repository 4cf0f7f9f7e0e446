from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from benchmark import script
from pages import Page, browser, dump

MODULE = script("paper/approximation")
GROUPS, Approximations, Example, render = MODULE.GROUPS, MODULE.Approximations, MODULE.Example, MODULE.render
LENGTH, WINDOW = 40, (10, 20)
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def found() -> Approximations:
    time = np.arange(LENGTH)
    x = np.stack([np.sin(time / 3), np.cos(time / 3)])
    x[1, 12] = np.nan
    examples = tuple(
        Example(group, "unit", 80, kinds, x * size, np.zeros_like(x), x + 0.1, error, anomalous)
        for group, kinds, size, error, anomalous in (
            (GROUPS[0], (), 1.0, 0.25, ()),
            (GROUPS[2], ("level shift",), 3.0, 0.75, ((15, 18), (35, 40))),
        )
    )
    labels = np.array([False, True])
    errors = {"decontaminated": np.array([0.25, 0.75]), "reconstruction": np.array([0.1, 0.1])}
    groups = dict(zip(GROUPS, (~labels, labels, labels), strict=True))
    return Approximations(
        ("flow", HOSTILE), WINDOW, examples, errors, groups, {"decontaminated": 1.0, "reconstruction": 0.5}
    )


def test_the_page_shows_both_observations_and_the_numbers(found: Approximations) -> None:
    page = Page(render(found, title="What is expected", note="A note."))
    assert "Normalunit, steps 0 to 30 from row 80; RMSE under the mask 0.250" in page.text
    assert "Abnormal within the window: level shift" in page.text
    assert "0.750 (0.750 to 0.750)" in page.text
    assert (
        "AUROC of the error alone, abnormal within the window against normal: decontaminated 1.000, reconstruction 0.5"
        in page.text
    )
    assert "A note." in page.text
    assert (
        len(page.of("path", "measured"))
        == len(page.of("path", "imputed"))
        == len(page.of("path", "reconstructed"))
        == 4
    )


def test_the_hidden_window_is_shaded_and_the_estimate_drawn_within(found: Approximations) -> None:
    """Of steps 0 to 30 the window covers a third from a third on: x from 333 to 667 of 1000."""
    page = Page(render(found, title="T"))
    styles = {one["style"] for one in page.of("i", "shade")}
    assert styles == {"left:33.3333%;width:33.33%"}
    for one in page.of("path", "imputed"):
        across = [int(number) for number in re.findall(r"[ML](\d+),", str(one["d"]))]
        assert (min(across), max(across)) == (350, 650)


def test_the_rows_of_the_true_anomaly_are_marked(found: Approximations) -> None:
    """Of steps 0 to 30 the anomaly has 15 to 18; its other run lies beyond them. Two variables are drawn."""
    page = Page(render(found, title="T"))
    assert [one["style"] for one in page.of("i", "anomaly") if "style" in one] == ["left:50%;width:10%"] * 2
    assert "true anomaly" in page.text
    plain = replace(found, examples=tuple(replace(one, anomalous=()) for one in found.examples))
    assert "true anomaly" not in Page(render(plain, title="T")).text


def test_the_page_says_what_made_it(found: Approximations) -> None:
    page = Page(render(found, title="T", facts={"Detector": "tsadc, 3 epochs", "Version": HOSTILE}))
    assert "Where the numbers come from" in page.text
    assert "Detectortsadc, 3 epochsVersion" + HOSTILE in page.text
    assert "Where the numbers" not in Page(render(found, title="T")).text


def test_names_cannot_break_out(found: Approximations) -> None:
    page = Page(render(found, title=HOSTILE))
    assert not page.of("img")
    assert HOSTILE in page.text


@browser
def test_a_browser_has_nothing_to_complain_of(found: Approximations, tmp_path) -> None:
    seen = dump(render(found, title="T"), tmp_path)
    assert seen.root.get("data-error") is None
