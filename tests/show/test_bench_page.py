import base64
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmark import HOSTILE, record, records
from pages import Page, browser, dump
from tsadc.bench.published import Published, PublishedMethod
from tsadc.bench.summary import summarise
from tsadc.show.bench_export import comma_separated
from tsadc.show.bench_page import failures, listing, matrix, provenance, published_table, render

METRICS = ("auroc", "ap", "delay", "vus_pr")


def page() -> str:
    return render(records(), title="A benchmark & more", note="what it is about", metrics=METRICS)


def test_the_page_says_who_leads_and_what_failed() -> None:
    read = Page(page())
    assert "tsadc leads or ties by AUROC on 3 of 3 data sets and splits. Tied with it: ridge on 2." in read.text
    assert "A benchmark & more" in read.text
    assert "Failures" in read.text
    assert "Detectors with a network come first, then those without" in read.text
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


def test_metrics_without_values_are_left_out() -> None:
    assert [one["value"] for one in Page(page()).of("option")] == ["auroc", "ap", "delay"]
    assert page() == page()


def verdict(*made: dict[str, Any], metrics: Sequence[str] = ("auroc",), **more: str) -> str:
    """Return the text between the heading and the first tile."""
    text = Page(render(made, title="THE TITLE", metrics=metrics, **more)).text
    return text.split("THE TITLE")[2].partition("Jobs")[0]


def sure(detector: str, data: str, auroc: float) -> dict[str, Any]:
    """Return a record whose interval is 0.01 to both sides."""
    return record(detector, data, 0, auroc, auroc_low=auroc - 0.01, auroc_high=auroc + 0.01)


def test_a_detector_without_overlap_has_the_highest_value() -> None:
    made = [sure("ridge", data, 0.9) for data in ("plant", "ludb", "cinc")]
    made += [sure("pca", "plant", 0.95), sure("pca", "ludb", 0.8), sure("pca", "cinc", 0.8)]
    text = verdict(*made)
    assert "ridge has the highest AUROC on 2 of 3 data sets." in text
    assert "tied" not in text.lower()


def test_overlapping_intervals_are_tied() -> None:
    made = [sure("ridge", data, 0.9) for data in ("plant", "ludb", "cinc")]
    made += [sure("pca", data, 0.89) for data in ("plant", "ludb", "cinc")]
    made += [sure("random", data, 0.5) for data in ("plant", "ludb", "cinc")]
    text = verdict(*made)
    assert "ridge and pca are tied by AUROC on 3 of 3 data sets." in text
    assert "Tied means that the 90 % intervals overlap on a data set." in text
    made[3] = sure("pca", made[3]["dataset"], 0.7)
    text = verdict(*made)
    assert "ridge leads or ties by AUROC on 3 of 3 data sets. Tied with it: pca on 2." in text


def test_detectors_that_lead_equally_often_are_tied() -> None:
    made = [sure("ridge", "plant", 0.9), sure("pca", "plant", 0.7)]
    made += [sure("ridge", "ludb", 0.7), sure("pca", "ludb", 0.9)]
    assert "pca and ridge are tied: each leads or ties by AUROC on 1 of 2 data sets." in verdict(*made)
    many = [sure(name, "plant", 0.5) for name in ("pca", "ridge", "random", "bands", "robust-z", "mahalanobis")]
    text = verdict(*many)
    assert "bands, mahalanobis, pca, random and 2 more are tied by AUROC on the only data set." in text


def test_without_intervals_only_equal_means_are_tied() -> None:
    made = [record("ridge", "plant", 0, 0.9), record("pca", "plant", 0, 0.88), record("random", "plant", 0, 0.9)]
    text = verdict(*made, metrics=("ap",))
    assert "random and ridge are tied by AP on the only data set." in text


def test_only_data_sets_with_values_of_all_detectors_count() -> None:
    made = [sure("ridge", data, 0.9) for data in ("plant", "ludb", "cinc")]
    other = sure("pca", "plant", 0.95)
    assert "pca has the highest AUROC on 1 of 1 data sets with values of all detectors." in verdict(*made, other)
    apart = verdict(made[1], other)
    assert "No detector leads: there is no data set on which all detectors have AUROC." in apart
    assert "highest" not in apart


def test_the_verdict_is_by_the_first_metric_of_which_a_higher_value_is_better() -> None:
    made = [sure("ridge", "plant", 0.9) | {"fit_seconds": 1.0}, sure("pca", "plant", 0.8) | {"fit_seconds": 5.0}]
    assert "ridge has the highest AUROC" in verdict(*made, metrics=("fit_seconds", "delay", "auroc"))
    assert "highest" not in verdict(*made, metrics=("fit_seconds", "delay"))


def test_jobs_that_were_not_run_are_counted_in_the_summary() -> None:
    some = record("ridge", "plant", 0, 0.9)
    assert "334 of 408 jobs not run." in verdict(some, lacking="334 of 408 jobs not run.")
    text = Page(render([some], title="x", metrics=["auroc"], lacking="2 of 3 jobs not run.")).text
    assert text.count("2 of 3 jobs not run.") == 1
    assert "see the note above" in text
    assert "all jobs have results" not in text
    assert "all jobs have results" in Page(render([some], title="x", metrics=["auroc"])).text


def test_the_plan_goes_by_its_title() -> None:
    text = Page(page()).text
    assert "Plan" + "A benchmark & more" + "Records" in text
    assert text.count("what it is about") == 1


def test_the_page_says_if_everything_failed() -> None:
    read = Page(render(records()[-1:], title="x", metrics=METRICS))
    assert "Nothing was measured: all jobs failed." in read.text


def lines(text: str) -> list[str]:
    return [re.sub(r"<[^>]*>", "|", line) for line in re.findall(r"<tr.*?</tr>", text, re.DOTALL)]


def test_the_best_of_each_data_set_is_bold() -> None:
    text = matrix(summarise(records()), "auroc")
    assert re.findall(r"<strong>([\d.]+)<", text) == ["0.950", "0.905", "0.885"]
    assert "\N{PLUS-MINUS SIGN}0.007" in text
    assert "failed" in lines(text)[-1]
    assert "<strong>" not in matrix(summarise(records()), "delay")


def test_values_by_chance_are_in_the_table_and_those_of_flagging_all_below_it() -> None:
    """With p = 0.25 and q = 0.5 as the records have them, F1 by chance is 2 * 0.125 / 0.75."""
    some = summarise(records())
    assert set(re.findall(r'class="chance"[^>]*>([^<]*)<', matrix(some, "auroc"))) == {"(0.500)"}
    assert set(re.findall(r'class="chance"[^>]*>([^<]*)<', matrix(some, "f1"))) == {"(0.333)"}
    assert "With everything flagged" not in matrix(some, "auroc") + matrix(some, "ap")
    assert "With everything flagged: ludb 0.400, plant eta=0 0.400, plant eta=0.2 0.400." in matrix(some, "f1")


def test_published_figures_stand_beside_ours() -> None:
    rows = (PublishedMethod(HOSTILE, ("ridge",), {"A": (0.5,)}), PublishedMethod("theirs", (), {}))
    some = Published("A table", "Other data.", {"A": ("plant eta=0.2",)}, {"F1": "auroc"}, rows)
    (mean,) = (one.mean("auroc") for one in summarise(records()) if (one.label, one.data) == ("ridge", "plant eta=0.2"))
    text = published_table(some, summarise(records()))
    head, first, _ = lines(text)
    assert re.split(r"\|+", head)[1:-1] == ["method", "ours", "A", "ours: plant eta=0.2"]
    assert re.split(r"\|+", first)[-4:-1] == ["ridge", "0.500", f"{mean:.3f}"]
    assert HOSTILE not in text
    assert re.findall(r'data-value="([^"]*)"', text) == ["0.5", f"{float(f'{mean:.3f}'):g}", "NaN", "NaN"]
    assert "Other data." in text
    assert lines(published_table(Published("A figure", "No numbers.", {}, {}, ()), [])) == []


def test_every_result_is_listed_and_downloaded() -> None:
    some = summarise(records())
    text = listing(some, ["auroc", "delay"])
    assert len(lines(text)) == 1 + len(some)
    assert 'data-filter="plant eta=0.2 ridge"' in text
    (data,) = re.findall(r"base64,([^\"]*)", text)
    assert base64.b64decode(data).decode() == comma_separated(some, ["auroc", "delay"])
    assert "256" in next(line for line in lines(text) if "plant eta=0.2" in line)  # MiB


def test_failures_say_why_and_names_are_harmless() -> None:
    text = failures(records())
    assert text is not None
    assert "MemoryError: &lt;b&gt;too much" in text
    assert failures(records()[:-1]) is None
    assert HOSTILE not in matrix(summarise(records()), "auroc") + listing(summarise(records()), ["auroc"])


def test_provenance_names_what_made_the_numbers() -> None:
    text = provenance(records(), "a plan")
    for words in ("tsadc 1.2.3 at commit abc", "python 3.11", "a processor, 2 cores, 2 GiB", "seeds 0, 1", "a plan"):
        assert words in text
    assert "2026-01-01T00:00:00+00:00 to 2026-01-02T00:00:00+00:00" in text
    old = [{name: value for name, value in one.items() if name not in ("machine", "made")} for one in records()]
    assert provenance(old, "").count("not recorded") == 2


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
        const head = [...table.querySelectorAll("th button")].find((one) => one.textContent === "AUROC");
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
