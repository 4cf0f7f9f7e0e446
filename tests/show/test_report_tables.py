import base64
import csv
import io
import re
from dataclasses import replace

import pandas as pd

from tsadc.show.findings import read
from tsadc.show.report_tables import about_table, comparison_table, intervals


def download(result) -> list[dict[str, str]]:
    data = re.search(r'base64,([^"]+)"', intervals(read(result, ())))
    assert data
    return list(csv.DictReader(io.StringIO(base64.b64decode(data[1]).decode())))


def test_the_file_holds_every_interval_to_the_bit(result):
    worst = result.worst(len(result.intervals))
    rows = download(result)
    assert [float(row["score"]) for row in rows] == worst["score"].tolist()
    assert [float(row["severity"]) for row in rows] == worst["severity"].tolist()
    assert [row["entity"] for row in rows] == worst["entity"].tolist()
    assert [pd.Timestamp(row["start"]) for row in rows] == worst["start"].tolist()
    assert [pd.Timestamp(row["end"]) for row in rows] == worst["end"].tolist()


def test_the_file_contains_no_formulas(result):
    hostile = [
        replace(
            part, intervals=tuple(replace(found, variables={"=1+1": 1.0}, evidence="@x") for found in part.intervals)
        )
        for part in result.parts
    ]
    rows = download(replace(result, parts=tuple(hostile)))
    assert {row["variables"] for row in rows} == {'{"=1+1": 1.0}'}
    assert {row["evidence"] for row in rows} == {"'@x"}


def test_comparison_lines_up_and_marks_the_best_of_known_measures():
    table = pd.DataFrame({"detector": ["<a>", "b"], "AUROC": [0.9, 0.81234], "seconds": [12.0, 3.5], "runs": [1000, 2]})
    shown = comparison_table(table)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", shown)
    assert cells == ["&lt;a&gt;", "<strong>0.900</strong>", "12.0", "1,000", "b", "0.812", "3.5", "2"]


def test_comparison_shows_a_named_index_and_missing_numbers():
    table = pd.DataFrame({"paper_f1": [0.5, None]}, index=pd.Index(["x", "y"], name="detector"))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", comparison_table(table))
    assert cells == ["x", "<strong>0.500</strong>", "y", "\N{EN DASH}"]


def test_facts_given_by_the_user_take_precedence(result):
    shown = about_table(read(result, ()), {"Model": "m < n", "size": "mine"}, "9.9")
    assert "<dt>Model</dt><dd>m &lt; n</dd>" in shown
    assert re.findall("<dt>Size</dt><dd>(.*?)</dd>", shown) == ["mine"]
    assert "tsadc 9.9" in shown
    assert "Not scored" not in shown
