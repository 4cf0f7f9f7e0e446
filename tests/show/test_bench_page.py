import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmark import HOSTILE, record, records
from pages import Page, browser, dump
from tsadc.bench.published import Published, PublishedMethod
from tsadc.show.bench_page import render

METRICS = ("auroc", "ap", "delay", "vus_pr")


def page() -> str:
    return render(records(), title="A benchmark & more", note="what it is about", metrics=METRICS)


def test_the_page_says_what_was_best_and_what_failed() -> None:
    read = Page(page())
    assert "tsadc has the highest auroc on 3 of 3 data sets and splits." in read.text
    assert "A benchmark & more" in read.text
    assert "Failures" in read.text
    assert "Rows with a network come first, then those without; among each the highest mean" in read.text
    assert [link["href"] for link in read.of("a")][:6] == [
        "#summary",
        "#ranks",
        "#curves",
        "#results",
        "#failures",
        "#about",
    ]
    assert not read.of("script")[1:]
    assert HOSTILE not in page()


def test_metrics_that_nobody_has_are_left_out() -> None:
    assert [one["value"] for one in Page(page()).of("option")] == ["auroc", "ap", "delay"]
    assert page() == page()


def verdict(*some: dict[str, Any], metrics: Sequence[str] = ("auroc",), **more: str) -> str:
    """The words between the heading and the first tile."""
    text = Page(render(some, title="THE TITLE", metrics=metrics, **more)).text
    return text.split("THE TITLE")[2].partition("Jobs")[0]


def test_all_rows_that_are_best_as_often_are_named() -> None:
    some = [record(name, data, 0, 0.5) for data in ("plant", "ludb") for name in ("ridge", "pca", "random")]
    some += [record("ridge", "cinc", 0, 0.5), record("pca", "cinc", 0, 0.5), record("random", "cinc", 0, 0.4)]
    assert "pca and ridge each have the highest auroc on 3 of 3 data sets." in verdict(*some)
    assert "pca, random and ridge have the highest auroc on the only data set." in verdict(*some[:3])


def test_only_data_sets_that_every_row_has_a_number_of_count() -> None:
    some = [record("ridge", data, 0, 0.9) for data in ("plant", "ludb", "cinc")]
    other = record("pca", "plant", 0, 0.95)
    assert "pca has the highest auroc on 1 of 1 data sets that every row has a number of." in verdict(*some, other)
    apart = verdict(some[1], other)
    assert "No row is called the best: there is no data set on which every row has its auroc." in apart
    assert "highest" not in apart


def test_the_verdict_is_by_the_first_metric_of_which_more_is_better() -> None:
    some = [record("ridge", "plant", 0, 0.9, fit_seconds=1.0), record("pca", "plant", 0, 0.8, fit_seconds=5.0)]
    assert "ridge has the highest auroc" in verdict(*some, metrics=("fit_seconds", "delay", "auroc"))
    assert "highest" not in verdict(*some, metrics=("fit_seconds", "delay"))


def test_what_was_not_run_is_said_in_the_head() -> None:
    some = record("ridge", "plant", 0, 0.9)
    assert "334 of 408 jobs not run." in verdict(some, lacking="334 of 408 jobs not run.")
    text = Page(render([some], title="x", metrics=["auroc"], lacking="2 of 3 jobs not run.")).text
    assert text.count("2 of 3 jobs not run.") == 2
    assert "every job has its numbers" not in text
    assert "every job has its numbers" in Page(render([some], title="x", metrics=["auroc"])).text


def test_the_plan_goes_by_its_title() -> None:
    text = Page(page()).text
    assert "Plan" + "A benchmark & more" + "Records" in text
    assert text.count("what it is about") == 1


def test_where_everything_failed_that_is_said() -> None:
    read = Page(render(records()[-1:], title="x", metrics=METRICS))
    assert "Nothing was measured: every job failed." in read.text


def acting(script: str, shown: str = "") -> str:
    """The page, after which `script` acts. Its policy lets no second script in, so it is lifted here."""
    lifted = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", shown or page())
    return lifted.replace("</body>", f"<script>{script}</script></body>")


@browser
def test_the_script_runs_and_shows_one_metric(tmp_path: Path) -> None:
    dumped = dump(page(), tmp_path)
    assert dumped.root.get("data-ready") == "true"
    assert "data-error" not in dumped.root
    assert dumped.root.get("class") == "one-metric"
    assert dumped.sort_buttons > 10


@browser
def test_tables_are_filtered_and_sorted(tmp_path: Path) -> None:
    script = """
        const filter = document.getElementById("filter"), root = document.documentElement.dataset;
        filter.value = "plant RIDGE";
        filter.dispatchEvent(new Event("input"));
        root.shown = document.getElementById("shown").textContent;
        filter.value = "";
        filter.dispatchEvent(new Event("input"));
        const table = document.querySelector("#results table");
        const first = () => table.tBodies[0].rows[0].cells[1].textContent;
        const head = [...table.querySelectorAll("th button")].find((one) => one.textContent === "auroc");
        const last = () => [...table.tBodies[0].rows].at(-1).cells[1].textContent;
        head.click();
        root.highest = first();
        root.empty = last();
        head.click();
        root.lowest = first();
        root.emptyStill = last();
        const metric = document.getElementById("metric");
        metric.value = "ap";
        metric.dispatchEvent(new Event("change"));
        root.visible = [...document.querySelectorAll("[data-metric]")].filter((one) => !one.hidden)
            .map((one) => one.dataset.metric).join(" ");
    """
    root = dump(acting(script), tmp_path).root
    assert root["data-shown"] == "2 of 10 results"
    assert root["data-highest"] == "tsadc"
    assert root["data-lowest"] == HOSTILE
    assert root["data-empty"] == root["data-empty-still"] == "random"
    assert set(root["data-visible"].split()) == {"ap"}


@browser
def test_text_beside_published_figures_stays_on_its_line(tmp_path: Path) -> None:
    rows = tuple(PublishedMethod(f"A method with a long name {i}", ("ridge",), {"A": (0.5,) * 8}) for i in range(2))
    others = Published("A table", "Other data.", {"A": ("ludb",)}, {f"F{i}": "auroc" for i in range(8)}, rows)
    script = """
        const range = document.createRange();
        range.selectNodeContents(document.querySelector("#published td"));
        document.documentElement.dataset.lines = range.getClientRects().length;
    """
    shown = render(records(), title="x", metrics=METRICS, others=others)
    assert dump(acting(script, shown), tmp_path).root["data-lines"] == "1"
