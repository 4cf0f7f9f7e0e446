import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import tsadc, untouched
from tsadc.bench.story import make_story
from tsadc.cli import demo
from tsadc.data.plant import Plant
from tsadc.detectors.store import load
from tsadc.errors import OutputError
from tsadc.io.read import read
from tsadc.show.story_page import render

SMALL = Plant.Config(entities=2, variables=4, rows=1800, length=60)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("somewhere") / "new" / "demo"
    return out, demo.run(out, plant=SMALL, epochs=1)


@pytest.mark.slow
def test_the_second_act_audits_cleans_and_labels(tmp_path: Path) -> None:
    made = make_story(SMALL)
    sure = np.array([found.probability >= 0.5 for found in made.audit.suspects])
    assert sure.any()
    assert made.confirmed[sure].mean() > 0.5
    assert abs(made.audit.share - made.true_share) < 0.1
    changed = sum(
        int((~np.isclose(a.values, b.values, rtol=0, atol=0, equal_nan=True)).sum())
        for a, b in zip(made.history, made.cleaned, strict=True)
    )
    assert changed == made.corrections["cells"].sum() > 0
    assert list(made.precision) == ["as it is", "without suspects", "without true anomalies"]
    assert min(made.precision.values()) > 0.5
    assert 1 <= len(made.questions) <= 5
    assert made.verdicts["answers"].tolist() == ["before", "after"]
    assert (made.verdicts["anomalies found"] <= made.verdicts["anomalies"]).all()
    page = render(made, title="A story")
    assert made.questions[0].entity in page
    assert f"{made.verdicts['AP'].iloc[1]:.3f}" in page


def test_the_folder_holds_reports_models_and_data(shown: tuple[Path, str]) -> None:
    out, _ = shown
    assert {file.name for file in out.iterdir()} == {
        "report.html", "report-tsadc.html", "model", "model-tsadc", "history", "new",
    }  # fmt: skip
    assert [file.name for file in out.parent.iterdir()] == ["demo"]
    assert (load(out / "model").name, load(out / "model-tsadc").name) == ("ensemble", "tsadc")
    for part in ("history", "new"):
        assert {file.name for file in (out / part).iterdir()} == {"unit-1.csv", "unit-2.csv"}


def test_the_report_shows_the_ensembles_intervals_with_what_tsadc_expected(shown: tuple[Path, str]) -> None:
    out, _ = shown
    series = Plant(SMALL).split().test.series
    for page, model in (("report.html", "model"), ("report-tsadc.html", "model-tsadc")):
        text = (out / page).read_text()
        assert "The simulated plant" in text
        number = len(load(out / model).detect(series).intervals)
        assert f"<strong>{number} unusual intervals</strong>" in text
        assert ("expected by TSAD-C" in text) == (page == "report.html")
        assert 'class="expected"' in text


def test_the_data_is_the_plants(shown: tuple[Path, str]) -> None:
    out, _ = shown
    split = Plant(SMALL).split()
    for part, series in (("history", split.train), ("new", split.test.series)):
        for one in series:
            (found,) = read(out / part / f"{one.entity}.csv")
            assert found.names == one.names
            assert found.clock == one.clock
            np.testing.assert_allclose(found.values, one.values, rtol=1e-5)


def test_the_model_can_be_used_on_the_files(shown: tuple[Path, str], tmp_path: Path) -> None:
    out, _ = shown
    files = sorted((out / "new").iterdir())
    answer = tsadc("detect", *files, "--model", out / "model", "--out", tmp_path / "found")
    assert (answer.code, answer.err) == (0, "")
    observations = pd.read_csv(tmp_path / "found" / "observations.csv")
    expected = load(out / "model").decision_function(Plant(SMALL).split().test.series)
    np.testing.assert_allclose(observations["score"], expected, rtol=0.01, atol=0.01)  # files round


def test_the_verdict_compares_with_the_truth(shown: tuple[Path, str]) -> None:
    out, verdict = shown
    assert "Compared with the simulator's labels (60 observations, 25% anomalous):" in verdict
    for name in ("The ensemble: ", "TSAD-C: ", "ensemble  ", "tsadc  ", "robust-z", "random", "flag everything"):
        assert name in verdict
    named = {str(out / name) for name in ("report.html", "report-tsadc.html", "model", "model-tsadc", "history", "new")}
    assert named == set(re.findall(rf"{re.escape(str(out))}/[\w.-]*\w", verdict))


def test_an_earlier_demonstration_is_replaced_and_nothing_else(shown: tuple[Path, str]) -> None:
    out, verdict = shown
    weights = (out / "model" / "model.safetensors").read_bytes()
    (out / "report.html").write_text("old")
    for name in ("report-tsadc.html", "model-tsadc"):  # version 0.2.0 did not write them
        (out / name).rename(out.parent / name)
    assert demo.run(out, plant=SMALL, epochs=1) == verdict
    assert (out / "report.html").read_text() != "old"
    assert (out / "model" / "model.safetensors").read_bytes() == weights
    (out / "thesis.txt").write_text("years of work")
    with untouched(out.parent), pytest.raises(OutputError, match="is not an earlier demo"):
        demo.run(out, plant=SMALL, epochs=1)
    (out / "thesis.txt").unlink()


def test_a_folder_that_looks_a_little_alike_is_kept(tmp_path: Path) -> None:
    (tmp_path / "demo" / "model").mkdir(parents=True)
    with untouched(tmp_path), pytest.raises(OutputError, match="is not an earlier demo"):
        demo.run(tmp_path / "demo", plant=SMALL, epochs=1)


def test_an_interrupt_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(now: object) -> None:
        raise KeyboardInterrupt

    with untouched(tmp_path), pytest.raises(KeyboardInterrupt):
        demo.run(tmp_path / "demo", interrupt, plant=SMALL, epochs=1)


def test_the_command_says_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "run", lambda out, progress, story: f"{out} it is")
    answer = tsadc("demo", "--out", tmp_path / "demo")
    assert (answer.code, answer.out) == (0, f"{tmp_path / 'demo'} it is\n")
