import csv
import io

from benchmark import failed, record
from tsadc.bench.summary import summarise
from tsadc.show.bench_export import comma_separated, escape, latex

RECORDS = [
    record("ridge", "plant", 0, 0.6, label="a_b & 5 %"),
    record("ridge", "plant", 1, 0.8, label="a_b & 5 %"),
    failed("random", "plant", 0),
    record("random", "ludb", 0, 0.5, split={"eta": 0.1}),
]


def test_csv_has_a_line_for_each_label_and_data_set() -> None:
    lines = list(csv.DictReader(io.StringIO(comma_separated(summarise(RECORDS), ["auroc"]))))
    assert [(line["data"], line["eta"], line["detector"]) for line in lines] == [
        ("ludb", "0.1", "random"),
        ("plant", "", "a_b & 5 %"),
        ("plant", "", "random"),
    ]
    assert (lines[1]["auroc"], lines[1]["auroc_sd"], lines[1]["seeds"]) == ("0.7", "0.141421", "0 1")
    assert (lines[2]["auroc"], lines[2]["failed"]) == ("", "1")
    assert (lines[1]["fit_seconds"], lines[1]["flops"]) == ("2", "")
    assert (lines[1]["auroc_random"], lines[1]["auroc_all_positive"]) == ("0.5", "0.5")
    costs = next(csv.DictReader(io.StringIO(comma_separated(summarise(RECORDS[:2]), ["fit_seconds", "paper_recall"]))))
    assert (costs["fit_seconds"], costs["paper_recall_random"], costs["paper_recall_all_positive"]) == ("2", "0.5", "1")
    assert list(costs).count("fit_seconds") == 1


def test_latex_is_escaped_and_the_best_is_bold() -> None:
    text = latex(summarise(RECORDS), ["auroc", "ap"])
    assert text.count(r"\begin{tabular}{lrr}") == 2
    assert r" & ludb eta=0.1 & plant \\" in text
    assert r"a\_b \& 5 \% & -- & \textbf{0.700} {\small$\pm$0.141} \\" in text
    assert r"random & \textbf{0.500} & -- \\" in text
    assert r"\textbf" not in latex(summarise(RECORDS), ["fit_seconds"])
    assert escape(r"\{~^#$}") == r"\textbackslash{}\{\textasciitilde{}\textasciicircum{}\#\$\}"
