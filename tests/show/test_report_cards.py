"""A card of the report shows similar past episodes, or says that there are none."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find
from tsadc.detectors.result import Result
from tsadc.show.report import render

HOSTILE = "<script>alert('x')</script>"


def frame(rows: int, seed: int, start: str, faults: dict[int, str]) -> pd.DataFrame:
    values = np.random.default_rng(seed).uniform(-1, 1, size=(rows, 3))
    table = pd.DataFrame(values, columns=["flow", HOSTILE, "speed"])
    for row, name in faults.items():
        table.loc[row : row + 29, name] += 12
    return table.set_index(pd.date_range(start, periods=rows, freq="1min"))


@pytest.fixture(scope="module")
def result() -> Result:
    history = {
        "unit-1": frame(2000, 0, "2026-03-02 05:40", {}),
        "unit <2>": frame(2000, 1, "2026-03-02 05:40", {330: HOSTILE}),
    }
    detector = find("robust-z")(length=100).fit(history)
    return detector.detect({"unit-1": frame(1000, 2, "2026-04-02 05:00", {330: HOSTILE, 630: "speed", 830: "speed"})})


def cards(result: Result) -> list[str]:
    page = render(result, title="Cards")
    return re.findall(r'<article class="card".*?</article>', page, flags=re.DOTALL)


def similar(card: str) -> str:
    return card[card.index('class="similar"') :]


def test_an_episode_of_the_history_is_shown_with_its_entity_time_likeness_and_picture(result):
    (card,) = [card for card in cards(result) if "10:" in card.split("</header>")[0]]
    shown = similar(card)
    assert "Similar before" in shown
    assert "<bdi>unit &lt;2&gt;</bdi>, Mon 2 Mar 2026, 11:" in shown
    assert re.search(r"\d+\u202f% similar, \d+\u202fmin, in the history", shown)
    assert shown.count("<svg") == 1
    assert '<path d="M' in shown
    assert "<bdi>&lt;script&gt;" in shown


def test_an_earlier_interval_is_shown_and_a_new_fault_has_none(result):
    first, second = (
        next(card for card in cards(result) if moment in card.split("</header>")[0]) for moment in ("15:", "18:")
    )
    assert "Nothing similar in the history, or in this entity before." in first
    assert "<svg" not in similar(first)
    assert "Thu 2 Apr 2026, 15:" in similar(second)
    assert "in this data" in similar(second)
    assert "unit" not in similar(second)  # the same entity


def test_a_model_of_an_earlier_version_says_nothing_about_the_past(result):
    parts = [
        replace(part, intervals=tuple(replace(found, similar=None) for found in part.intervals))
        for part in result.parts
    ]
    page = render(replace(result, parts=tuple(parts)), title="Cards")
    assert 'class="similar"' not in page
