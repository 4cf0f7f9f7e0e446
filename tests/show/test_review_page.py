"""The page of `tsadc review`: one card per question, hostile names escaped, and a script that runs."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pages import CHROMIUM, Page, dump
from tsadc.detectors.feedback import Judged
from tsadc.show.review_page import render
from tsadc.show.stored_results import Stored, StoredResults

MINUTE = 60 * 10**9
HOSTILE = "<script>alert(1)</script>"


def stored(name: str, start: int, end: int, *, dated: bool = True) -> Stored:
    unit = MINUTE if dated else 1
    own = Judged(name, HOSTILE, start * unit, end * unit, dated, 5.0, {"level": 5.0})
    return Stored(
        own, "m", str(start), str(end), 99.5, 2.0, "level", "flow 8; usually 1 to 3.", {"flow": 0.8, HOSTILE: 0.2}
    )


def results() -> StoredResults:
    timeline = pd.DataFrame({"entity": HOSTILE, "ticks": np.arange(300) * MINUTE, "score": np.arange(300) % 50.0})
    return StoredResults(Path("found"), (stored("bcdfghjk", 100, 130), stored("kjhgfdcb", 200, 201)), timeline)


def text() -> str:
    found = results()
    return render(found, found.intervals, title="Review", model="ensemble-12345678")


def test_every_question_has_its_interval_its_reason_and_three_answers() -> None:
    page = Page(text())
    assert len(page.of("article", "card")) == 2
    assert [a["data-verdict"] for a in page.of("button") if "data-verdict" in a] == ["true", "false", "planned"] * 2
    assert "Thu 1 Jan 1970, 01:40 – 02:10" in page.text
    assert "30 min" in page.text
    assert "flow 8; usually 1 to 3." in page.text


def test_nothing_is_requested_and_names_are_escaped() -> None:
    assert HOSTILE not in text()
    assert not re.search(r"https?://|@import|url\(", text())


def test_rows_without_dates_and_times_with_an_offset_are_shown_as_they_are() -> None:
    assert stored("a", 5, 9, dated=False).when == "rows 5 to 9"
    assert stored("a", 5, 9, dated=False).duration == "4 rows"
    own = stored("a", 5, 9)
    zoned = Stored(own.judged, "m", "2026-01-01T05:00:00+09:00", "2026-01-01T06:00:00+09:00", 1, 1, "", "", {})
    assert zoned.when == "2026-01-01T05:00:00+09:00 to 2026-01-01T06:00:00+09:00"


def test_scores_around_an_interval_say_where_it_is() -> None:
    scores, first, last = results().scores_around(results().intervals[0])
    assert (len(scores), first, last) == (40 + 30 + 40, 40, 70)
    assert scores[first] == 0


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here to run the page's script")
def test_the_script_runs_and_keys_answer(tmp_path: Path) -> None:
    press = 'for (const key of ["y", "n"]) document.dispatchEvent(new KeyboardEvent("keydown", { key }));'
    say = 'document.documentElement.dataset.said = document.getElementById("count").textContent;'
    lifted = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text())
    page = dump(lifted.replace("</body>", f"<script>{press}{say}</script></body>"), tmp_path)
    assert "data-error" not in page.root
    assert page.root["data-said"] == "2 of 2 answered."
