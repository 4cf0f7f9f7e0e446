"""The section "Data" of the report."""

import re

import numpy as np
import pandas as pd

from tsadc.io.doctor import examine
from tsadc.show.report_data import data_section


def frame() -> pd.DataFrame:
    generator = np.random.default_rng(0)
    columns = {"flow [l/min]": generator.normal(30, 2, 1000), "<b>": generator.normal(0, 1, 1000)}
    data = pd.DataFrame(columns, index=pd.date_range("2026-01-01", periods=1000, freq="1min"))
    data.iloc[:50, 0] = -200
    return data


def test_findings_and_variables() -> None:
    html = data_section(examine(frame()))
    assert "1 finding:" in html
    assert '<span class="tag warn">Warning</span>' in html
    assert "<code>--missing -200</code>" in html
    assert html.count("<tr>") == 3
    assert html.count("<svg") == 2
    assert 'data-value="-200"' in html
    assert "2026-01-01 16:39" in html


def test_names_from_files_are_escaped() -> None:
    html = data_section(examine(frame()))
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_columns_without_content_are_left_out() -> None:
    with_unit = data_section(examine(frame()))
    without = data_section(examine(frame().rename(columns={"flow [l/min]": "flow"})))
    assert ">Unit</th>" in with_unit
    assert ">Unit</th>" not in without
    assert len(re.findall("<th ", without)) == 13


def test_clean_data() -> None:
    assert "No problems were found." in data_section(examine(frame().iloc[50:]))
