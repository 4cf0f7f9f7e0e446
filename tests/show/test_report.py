from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from pages import Page, browser, dump
from tsadc import show as report
from tsadc.detectors import find
from tsadc.errors import OutputError
from tsadc.show.findings import read
from tsadc.show.report import render
from tsadc.show.words import percent, severity


@pytest.fixture(scope="module")
def page(result, truth) -> str:
    table = pd.DataFrame({"detector": ["robust-z"], "AUROC": [0.75]})
    return render(result, title="A <b>title</b>", about={"k<": "v&"}, comparison=table, truth=truth)


def test_the_page_says_what_the_result_holds(page, result):
    read_page = Page(page)
    text = read_page.text
    worst = result.worst(len(result.intervals))
    assert f"{len(worst)} unusual intervals in both entities between 2 Mar 2026, 05:40 and 2 Mar 2026, 22:20." in text
    top = worst.iloc[0]
    blamed, share = next(iter(top["variables"].items()))
    assert f"mainly {blamed} ({' '.join(percent(share).split())}" in text
    assert len(read_page.of("article", "card")) == min(len(worst), 30)
    for _, row in worst.iterrows():
        assert severity(row["severity"]) in text
        assert f"{row['start']:%Y-%m-%d %H:%M}" in text
    assert " ".join(percent(read(result, ()).flagged_share).split()) in text


def test_every_link_within_the_page_arrives(page):
    read_page = Page(page)
    targets = {str(a["href"])[1:] for a in read_page.of("a") if str(a["href"]).startswith("#")}
    assert targets
    assert targets <= set(read_page.ids)


def test_names_cannot_break_out(page):
    read_page = Page(page)
    assert len(read_page.of("script")) == 1
    assert len(read_page.of("style")) == 1
    assert not read_page.of("img")
    assert not [a for _, a in read_page.seen if any(key.startswith("on") for key in a)]
    assert "<script>alert('x')</script>" in read_page.text
    assert "A <b>title</b>" in read_page.text
    assert "level <shift>" in read_page.text


def test_the_page_needs_nothing_else(page):
    assert not re.search(r"https?://|@import|url\(", page)
    read_page = Page(page)
    assert not [a for _, a in read_page.seen if "src" in a]
    assert not read_page.of("link")
    hrefs = {str(a["href"]) for _, a in read_page.seen if "href" in a}
    assert all(href.startswith(("#", "data:text/csv")) for href in hrefs)


def test_true_anomalies_are_drawn_and_counted(page):
    titles = [str(a.get("title", "")) for a in Page(page).of("i")]
    assert sum(title.startswith("True anomaly, ") for title in titles) == 2
    assert "True anomaly, level <shift>: flow; Mon 2 Mar 2026, 10:40 – 11:10" in titles
    assert "intervals overlap with 1 of 2" in Page(page).text


def test_gaps_stay_gaps(page):
    flow = page[page.index("<figcaption><bdi>flow</bdi>") :]
    for kind in ("measured", "expected"):
        drawn = re.search(rf'<path d="([^"]+)" class="{kind}">', flow)
        assert drawn
        assert drawn[1].count("M") == 2


def test_the_same_result_gives_the_same_page(result):
    assert render(result, title="x") == render(result, title="x")


def test_a_calm_page(calm):
    text = Page(render(calm, title="Calm")).text
    assert "Nothing unusual in unit-1 between" in text
    assert "No score is above the threshold" in text
    assert "Worst intervals" not in text


@pytest.mark.parametrize(("entities", "where"), [("ab", "either entity"), ("abc", "any of the 3 entities")])
def test_a_calm_page_of_several_entities(entities, where):
    history = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
    calm = find("robust-z")(length=100).fit(history).detect(dict.fromkeys(entities, 0.1 * history[:300]))
    assert f"Nothing unusual in {where} between" in Page(render(calm, title="Calm")).text


def test_undated_series(undated):
    text = Page(render(undated, title="Rows")).text
    assert "The worst: rows 440 – 460, mainly level & more (" in text
    assert "20 rows" in text


def test_a_detector_without_expectation(result):
    read_page = Page(
        render(replace(result, parts=tuple(replace(part, expected=None) for part in result.parts)), title="x")
    )
    assert not read_page.of("path", "expected")
    assert read_page.of("path", "measured")
    words = "The value that the detector expected."
    assert words not in read_page.text
    assert words in Page(render(result, title="x")).text


def test_expected_values_of_another_detector_are_attributed_to_it(result):
    text = Page(render(result, title="x", expected_by="<TSAD-C>")).text
    assert "expected by <TSAD-C>" in text
    assert "The value that <TSAD-C> expected." in text


def test_without_scores_nothing_is_claimed(calm):
    nothing = [np.full_like(part.step_scores, np.nan) for part in calm.parts]
    parts = (replace(part, step_scores=steps) for part, steps in zip(calm.parts, nothing, strict=True))
    blank = replace(calm, parts=tuple(parts))
    assert "Nothing could be scored" in Page(render(blank, title="x")).text


def test_cards_are_capped_and_the_page_says_so():
    generator = np.random.default_rng(0)
    history = generator.uniform(-1, 1, (4000, 3))
    test = generator.uniform(-1, 1, (8000, 3))
    test[20::80] = 30
    result = find("robust-z")(length=100, contamination=0.05).fit(history).detect(test)
    total = len(result.intervals)
    assert total >= 100
    read_page = Page(render(result, title="x"))
    assert len(read_page.of("article", "card")) == 30
    assert f"The 30 worst of {total} intervals" in read_page.text
    assert f"interval-{total}" in read_page.ids


def test_size_stays_bounded():
    generator = np.random.default_rng(0)
    times = pd.date_range("2026-01-01", periods=12_000, freq="1min")
    names = [f"sensor_{k}.pressure" for k in range(12)]

    def unit() -> pd.DataFrame:
        frame = pd.DataFrame(generator.normal(size=(12_000, 12)), columns=names, index=times)
        for start in range(100, 12_000, 400):
            frame.iloc[start : start + 30, generator.integers(12)] += 9
        return frame

    history = {f"unit-{k}": unit() for k in range(6)}
    result = find("robust-z")(length=120, contamination=0.1).fit(history).detect(history)
    assert len(render(result, title="x").encode()) < 1_500_000


def test_writing_replaces_a_file_whole(result, tmp_path):
    target = tmp_path / "deep" / "report.html"
    assert report.write(result, target, title="one") == target
    report.write(result, str(target), title="two")
    assert "<title>two</title>" in target.read_text()
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


def test_a_failed_write_leaves_the_old_file(result, tmp_path, monkeypatch):
    target = tmp_path / "report.html"
    report.write(result, target, title="old")
    before = target.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OutputError, match=r"report.html cannot be written: No space left on device"):
        report.write(result, target, title="x")
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_folder_is_refused(result, tmp_path):
    with pytest.raises(OutputError, match=r"needs a file name, but .* is a folder"):
        report.write(result, tmp_path, title="x")


def test_a_parent_that_is_a_file_is_refused(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        report.write(result, tmp_path / "file" / "report.html", title="x")


@browser
def test_the_script_runs(page, tmp_path):
    dumped = dump(page, tmp_path)
    assert dumped.root.get("data-ready") == "true"
    assert "data-error" not in dumped.root
    assert dumped.sort_buttons > 0
    assert dumped.visible_maps == 1


@browser
def test_hovering_shows_time_and_score(page, result, tmp_path):
    """Point at the middle of the first strip. The page's policy lets no second script in, so it is lifted here."""
    point = """<script>
        const chart = document.querySelector('[data-hover="score"]'), box = chart.getBoundingClientRect();
        chart.dispatchEvent(new PointerEvent("pointermove",
            {bubbles: true, clientX: box.left + box.width * 0.5005, clientY: box.top + 5}));
        document.getElementById("theme").click();
    </script></body>"""
    open_page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("</body>", point)
    dumped = dump(open_page, tmp_path)
    column = result.timeline["score"].to_numpy()[498:501]  # 1,000 rows in columns of 3
    assert dumped.tip == f"Mon 2 Mar 2026, 14:00\nscore up to {column.max():.4g}"
    assert dumped.root.get("data-theme") == "dark"


@browser
def test_no_foreign_script_may_run(page, tmp_path):
    dumped = dump(
        page.replace("</body>", "<script>document.documentElement.dataset.error = 'x'</script></body>"), tmp_path
    )
    assert dumped.root.get("data-ready") == "true"
    assert "data-error" not in dumped.root


def test_the_largest_numbers_there_are_can_be_drawn(tmp_path):
    """Their distance is no number: warnings, which are errors here, and NaN in the page."""
    history = np.random.default_rng(0).normal(size=(400, 2))
    new = history.copy()
    new[200:202, 0] = 1.7e308, -1.7e308
    found = find("robust-z")(length=20).fit({"pump": history}).detect({"pump": new})
    assert len(found.intervals) > 0
    page = report.write(found, tmp_path / "report.html", title="Extremes").read_text()
    drawn = page.split("</style>")[1].split("<script>")[0]
    assert "nan" not in drawn
    assert "inf" not in drawn.replace("info", "")
