import re
from pathlib import Path

from benchmark import HOSTILE, records
from pages import Page, browser, dump
from tsadc.report.bench_page import render

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


def test_where_everything_failed_that_is_said() -> None:
    read = Page(render(records()[-1:], title="x", metrics=METRICS))
    assert "Nothing was measured: every cell failed." in read.text


def acting(script: str) -> str:
    """The page, after which `script` acts. Its policy lets no second script in, so it is lifted here."""
    lifted = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page())
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
        head.click();
        root.lowest = first();
        head.click();
        root.highest = first();
        const metric = document.getElementById("metric");
        metric.value = "ap";
        metric.dispatchEvent(new Event("change"));
        root.visible = [...document.querySelectorAll("[data-metric]")].filter((one) => !one.hidden)
            .map((one) => one.dataset.metric).join(" ");
    """
    root = dump(acting(script), tmp_path).root
    assert root["data-shown"] == "2 of 10 results"
    assert root["data-lowest"] == "random"
    assert root["data-highest"] == "tsadc"
    assert set(root["data-visible"].split()) == {"ap"}
