"""The page and the files of an audit."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tsadc
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.threshold import Contamination
from tsadc.show.audit_files import write_audit
from tsadc.show.audit_page import compared, headline, render, summary
from tsadc.show.words import likely

NAMES = ("=flow", "<b>level", "power")


@pytest.fixture(scope="module")
def audit() -> tsadc.Audit:
    values = np.random.default_rng(0).normal(size=(2000, 3))
    values[390:410, 1] += 12
    return tsadc.audit(RobustZ(length=20), tsadc.Series(values, NAMES, entity="=cmd()"))


def test_the_page_says_how_much_and_shows_each_interval_with_its_probability(audit: tsadc.Audit) -> None:
    text = render(audit, title="Audit of <x>", about={"model": "old"})
    assert "Audit of &lt;x&gt;" in text
    assert "<b>level" not in text
    assert f"<strong>{headline(audit)}</strong>" in text
    assert likely(audit.suspects[0].probability) in text
    assert 'href="review.csv"' in text
    assert text.count('class="card"') == len(audit.suspects)
    assert "severity" not in text.partition('class="card"')[2].partition("</header>")[0].replace('class="severity"', "")
    for key in ("models", "overview", "intervals", "variables", "table", "about"):
        assert f'<section id="{key}">' in text
        assert f'href="#{key}"' in text


def test_words_fit_what_was_found(audit: tsadc.Audit) -> None:
    certain = sum(suspect.probability >= 0.5 for suspect in audit.suspects)
    assert f"{certain} interval" in summary(audit)
    assert compared(audit).startswith("A model trained on everything flags ")
    clean = replace(
        audit,
        suspects=(),
        probabilities=np.zeros(40),
        contamination=Contamination(0.0, 0.0, 0.01, False),
    )
    assert headline(clean) == "No part stands out"
    assert "With only 40 observations, share and probabilities are rough." in summary(clean)
    assert compared(clean) == "Nothing has to be left out before training."
    assert compared(replace(audit, without=None)).startswith("Without the suspected intervals, too little is left")
    stated = replace(audit, contamination=Contamination(0.1, 0.1, 0.1, True))
    assert headline(stated) == "10\N{NARROW NO-BREAK SPACE}% of this history was stated to be anomalous"


def test_a_page_without_suspects_has_no_cards(audit: tsadc.Audit) -> None:
    part = replace(audit.result.parts[0], intervals=())
    calm = replace(audit, suspects=(), probabilities=np.zeros(100), result=replace(audit.result, parts=(part,)))
    text = render(calm, title="Audit", about={})
    assert 'class="card"' not in text
    assert 'class="verdict calm"' in text


def test_tables_are_inert_in_a_spreadsheet(audit: tsadc.Audit, tmp_path: Path) -> None:
    write_audit(audit, tmp_path, title="Audit", about={})
    with (tmp_path / "review.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["entity"] for line in lines} == {"'=cmd()"}
    assert lines[0]["variables"] == "<b>level"
    assert (lines[0]["start"], lines[0]["end"]) == ("390", "410")
    assert json.loads((tmp_path / "audit.json").read_text())["more_likely_anomalous"] == sum(
        line["decision"] == "drop" for line in lines
    )
