import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from terminal import ALONE, QUICK, faulty, frame, tsadc, untouched
from tsadc.atomic import locked
from tsadc.cli.workflow import (
    detect_to,
    explain_threshold,
    facts,
    fit_model,
    requested_settings,
    rethreshold,
    verdict,
)
from tsadc.detectors import find
from tsadc.detectors.store import load
from tsadc.detectors.threshold import Contamination
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ConfigError, OutputError
from tsadc.io.read import read
from tsadc.show.words import number

NOTHING: dict[str, Any] = {"length": None, "contamination": None, "seed": None, "training": {"epochs": None}}
SLOWLY = (*QUICK, "--set", "training.patience=0", "--epochs")


def test_settings_of_a_preset() -> None:
    tiny = requested_settings("tsadc", "tiny", None, [], NOTHING)
    assert (tiny.length, tiny.contamination, tiny.seed, tiny.training.epochs) == (600, "auto", 0, 5)
    assert requested_settings("tsadc", "default", None, [], NOTHING).training.epochs == 12
    assert requested_settings("tsadc", "paper", None, [], NOTHING).training.epochs == 100


def test_a_file_goes_over_the_preset_assignments_over_the_file_and_options_over_all(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    training = "[training]\nepochs = 11\nbatch = 11\npatience = 11\n"
    file.write_text("length = 111\nseed = 11\ncontamination = 0.11\n" + training)
    assignments = ["seed=22", "contamination=0.22", "training.epochs=22", "training.batch=22"]
    given = {**NOTHING, "contamination": 0.33, "training": {"epochs": 33}}
    chosen = requested_settings("tsadc", "tiny", file, assignments, given)
    assert (chosen.length, chosen.seed, chosen.contamination) == (111, 22, 0.33)
    assert (chosen.training.epochs, chosen.training.batch, chosen.training.patience) == (33, 22, 11)
    assert chosen.decontaminator == requested_settings("tsadc", "tiny", None, [], NOTHING).decontaminator


def test_settings_refuse_an_unknown_preset() -> None:
    with pytest.raises(ConfigError, match="one of default, paper, tiny, but got 'tniy'"):
        requested_settings("tsadc", "tniy", None, [], NOTHING)


def test_settings_under_an_old_name_are_refused_with_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[scoring]\nmasks = 3\n")
    with pytest.raises(ConfigError, match="`scoring` as a section is now called `inference`"):
        requested_settings("tsadc", "default", file, [], NOTHING)
    with pytest.raises(ConfigError, match=r"`head` is now called `scoring` \(fused or own\)"):
        requested_settings("tsadc", "default", None, ["head=paper"], NOTHING)


def test_the_old_name_of_a_detector_gives_one_notice_and_its_settings(
    history: tuple[Path, Path], tmp_path: Path
) -> None:
    words = ("--detector", "views", "--length", "40", "--set", "kernels=8")
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *words)
    assert answer.code == 0
    assert answer.err.count("The detector `views` is now called `ensemble`") == 1


def test_options_reach_the_model(history: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("seed = 3\n[inference]\nmasks = 3\n")
    words = ("--config", file, "--set", "training.batch=8", "--contamination", "0.2", "--length", "50")
    assert tsadc("fit", *history, "--out", tmp_path / "model", *QUICK, *words).code == 0
    made = json.loads((tmp_path / "model" / "config.json").read_text())["settings"]
    assert (made["seed"], made["contamination"], made["length"]) == (3, 0.2, 50)
    assert (made["inference"]["masks"], made["training"]["batch"], made["training"]["epochs"]) == (3, 8, 1)


@pytest.mark.parametrize(("name", "chosen"), [("ridge", ("--detector", "ridge")), ("ensemble", ())])
def test_a_detector_can_be_chosen_by_name_and_the_ensemble_is_the_default(
    history: tuple[Path, Path], tmp_path: Path, name: str, chosen: tuple[str, ...]
) -> None:
    faulty().to_csv(tmp_path / "left.csv", index=False)
    model = tmp_path / "model"
    answer = tsadc("fit", *history, "--out", model, *chosen, "--length", "40")
    assert answer.code == 0
    assert "Trained on 30 observations of 40 rows, 4 variables, 2 entities.\n" in answer.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["left.csv", "model"]
    assert type(load(model)) is find(name)
    assert tsadc("info", model).out.splitlines()[0].split()[:2] == ["model", f"{name},"]
    found = tsadc(
        "detect", tmp_path / "left.csv", "--model", model, "--out", tmp_path / "found", "--report", tmp_path / "r.html"
    )
    assert found.code == 0
    worst = pd.read_csv(tmp_path / "found" / "intervals.csv").sort_values("score").iloc[-1]
    assert worst["start"] < "2026-01-01T05:29" < "2026-01-01T05:30" <= worst["end"]
    assert worst["variables"].startswith('{"b"')


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--detector gdnn", "There is no detector 'gdnn'; did you mean `gdn`"),
        ("--detector ridge --preset paper", "The preset 'paper' does not apply to ridge, which has no network;"),
        ("--detector ridge --set scoring=own", "`scoring` does not apply to ridge, which has no network;"),
        (
            "--epochs 3",
            "`training` (--epochs) does not apply to ensemble, which has no network; leave it out, or add --detector "
            "tsadc.",
        ),
        ("--set training.epoch=3", "`training` (--epochs) does not apply to ensemble"),
        ("--set inference.masks=3", "`inference` does not apply to ensemble, which has no network"),
        ("--preset tiny", "The preset 'tiny' does not apply to ensemble, which has no network; leave it out"),
        ("--preset tniy", "This detector has only the preset `default`, but got 'tniy'."),
        ("--set ensemble.kernels=8", "`ensemble` is a section of detectors with a network only"),
        ("--set contaminaton=0.1", "There is no setting `contaminaton`; did you mean `contamination`"),
    ],
)
def test_what_a_detector_does_not_have_is_told(
    history: tuple[Path, Path], tmp_path: Path, words: str, complaint: str
) -> None:
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *words.split())
    assert answer.code == 2
    assert complaint in answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_contamination_is_stated_or_estimated(history: tuple[Path, Path], tmp_path: Path) -> None:
    for words, asked in ((("--contamination", "auto"), "auto"), (("--contamination", "0.2"), 0.2)):
        out = tmp_path / f"model-{asked}"
        answer = tsadc("fit", *history, "--out", out, *QUICK, *words)
        made = json.loads((out / "config.json").read_text())
        assert made["settings"]["contamination"] == asked
        assert made["contamination"]["stated"] is (asked != "auto")
        assert f"Contamination {Contamination(**made['contamination'])}." in answer.out.splitlines()
    scores = load_file(out / "model.safetensors")
    # A fifth of the six that were set aside says too little: all training scores count, each once.
    assert made["threshold"] == np.quantile(scores["decision_scores"], 0.8)
    assert "(method quantile)" in answer.out


def test_an_estimate_that_says_nothing_is_doubted_where_it_is_printed(
    history: tuple[Path, Path], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ceiling = Contamination(0.5, 0.4, 0.5, False)
    assert ceiling.doubt
    assert "An estimate of" not in tsadc("info", model).out
    monkeypatch.setattr(Contamination, "find", lambda *given: ceiling)
    words = ("--detector", "robust-z", "--length", "40")
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *words)
    assert f"Contamination {ceiling}. {ceiling.doubt}" in answer.out.splitlines()
    assert facts(load(tmp_path / "model"))["contamination"] == f"{ceiling}. {ceiling.doubt.rstrip('.')}"
    told = " ".join(tsadc("info", tmp_path / "model").out.split())
    assert "is the upper limit and says nothing" in told


def test_detect_takes_another_threshold_and_leaves_the_model(model: Path, tmp_path: Path) -> None:
    faulty().to_csv(tmp_path / "left.csv", index=False)
    flagged, thresholds = {}, set()
    alarms = ("threshold.method=alarms", "threshold.alarms=12/day")
    for words in ((), alarms, ("contamination=0.4",)):
        out = tmp_path / f"found{len(flagged)}"
        given = [word for setting in words for word in ("--set", setting)]
        with untouched(model):
            assert tsadc("detect", tmp_path / "left.csv", "--model", model, "--out", out, *given).code == 0
        flagged[words] = pd.read_csv(out / "observations.csv")["anomalous"].sum()
        expected = rethreshold(load(model), words, {})
        thresholds.add(expected.threshold_)
        assert flagged[words] == expected.predict({"left": faulty()}).sum()
        assert pd.read_csv(out / "observations.csv")["score"].tolist() == pytest.approx(
            load(model).decision_function({"left": faulty()}).tolist()
        )
    assert len(thresholds) == 3
    assert 0 < flagged[()] < flagged[alarms]


def test_detect_uses_the_stored_threshold(model: Path, tmp_path: Path) -> None:
    edited = tmp_path / "model"
    shutil.copytree(model, edited)
    config = json.loads((edited / "config.json").read_text())
    (edited / "config.json").write_text(json.dumps({**config, "threshold": 99.0}))
    faulty().to_csv(tmp_path / "left.csv", index=False)
    answer = tsadc("detect", tmp_path / "left.csv", "--model", edited, "--out", tmp_path / "found")
    assert answer.out.startswith("No unusual interval (threshold 99.000).")
    assert not pd.read_csv(tmp_path / "found" / "observations.csv")["anomalous"].any()


def test_a_report_needs_no_folder_of_tables(model: Path, tmp_path: Path) -> None:
    faulty().to_csv(tmp_path / "left.csv", index=False)
    report = tmp_path / "report.html"
    answer = tsadc("detect", tmp_path / "left.csv", "--model", model, "--report", report)
    assert answer.code == 0
    assert answer.out.splitlines()[-1] == f"The report is {report}."
    assert report.read_text().startswith("<!doctype html>")
    assert {file.name for file in tmp_path.iterdir()} == {"left.csv", "report.html"}
    assert tsadc("detect", tmp_path / "left.csv", "--model", model).refusal == (
        "Nothing would be written: give --out FOLDER for tables, --report FILE for a page, or --json to print them."
    )


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("length=50", "`length` cannot be changed without training again; here --set takes `contamination` and"),
        ("event.merge=0", "`event.merge` must be at least 1 row"),
        ("lenght=50", "There is no setting `lenght`; did you mean `length`"),
        ("threshold=5", "`threshold` is a section with settings of its own, but got 5"),
        ("threshold.method=best", "`threshold.method` must be one of"),
        ("threshold.shar=0.1", "There is no setting `threshold.shar`; did you mean `threshold.share`"),
        ("contamination=0.9", "`contamination` must be between 0 and 0.5"),
    ],
)
def test_detect_takes_settings_of_threshold_and_events_only(
    model: Path, tmp_path: Path, word: str, expected: str
) -> None:
    frame().to_csv(tmp_path / "new.csv", index=False)
    words = ("detect", tmp_path / "new.csv", "--model", model, "--out", tmp_path / "found", "--set", word)
    assert expected in tsadc(*words).refusal
    assert not (tmp_path / "found").exists()


def test_a_report_is_told_how_the_threshold_was_chosen() -> None:
    detector = find("robust-z")(length=40, contamination=0.2).fit(frame())
    told = facts(detector)
    assert told["contamination"] == "20 % (stated)"
    assert told["threshold"] == f"{number(detector.threshold_)}, {explain_threshold(detector)}"
    above = detector.normal_.above(detector.threshold_)
    assert explain_threshold(detector) == (
        f"about {7 * 36 * above:.2g} false alarms a week expected per entity (method quantile)"
    )


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_a_stopped_run_resumed_gives_the_same_model(
    history: tuple[Path, Path], tmp_path: Path, whole: Path, stop: signal.Signals
) -> None:
    out = tmp_path / "model"
    command = ["fit", *map(str, history), "--out", str(out), *SLOWLY, "12"]
    running = subprocess.Popen(
        [sys.executable, "-m", "tsadc", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ALONE
    )
    assert running.stdout is not None
    assert any(line.startswith("epoch 2/12") for line in running.stdout)
    running.send_signal(stop)
    _, complaint = running.communicate()
    assert not out.exists()
    if stop == signal.SIGINT:
        assert running.returncode == 130
        assert complaint.startswith("tsadc: interrupted; add --resume to the same command to continue")
        assert len(complaint.splitlines()) == 1
    else:
        (tmp_path / "model.partial" / "lock").unlink()  # which the next run would remove
    with untouched(tmp_path):
        assert "model.partial holds an unfinished run: continue it with --resume" in tsadc(*command).refusal
        assert "training.epochs was 12 and is now 13" in tsadc(*command[:-1], "13", "--resume").refusal
        assert "seed was 0 and is now 1" in tsadc(*command, "--seed", "1", "--resume").refusal
        assert "belongs to another run" in tsadc("fit", *history[:1], *command[3:], "--resume").refusal
    answer = tsadc(*command, "--resume")
    assert answer.code == 0
    assert answer.out.startswith("epoch ")
    assert not answer.out.startswith("epoch 1/")
    assert (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


@pytest.fixture(scope="module")
def whole(history: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a run that nobody stopped."""
    out = tmp_path_factory.mktemp("whole") / "model"
    assert tsadc("fit", *history, "--out", out, *SLOWLY, "12").code == 0
    return out


def test_the_same_command_gives_the_same_bytes(history: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert tsadc("fit", *history, "--out", out, *QUICK, "--resume").code == 0  # of which there is nothing
    assert (out / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()


def test_resume_has_no_effect_without_a_network(history: tuple[Path, Path], tmp_path: Path) -> None:
    command = ("fit", *history, "--length", "40", "--resume", "--out", tmp_path / "model")
    answer = tsadc(*command)
    assert answer.code == 0
    assert answer.err == (
        "tsadc: note: --resume has no effect: ensemble has no network to train, so it starts and ends in one go.\n"
    )


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_the_unfinished_run_of_a_network_is_kept_when_another_detector_is_fitted(
    history: tuple[Path, Path], tmp_path: Path, resume: list[str]
) -> None:
    (tmp_path / "model.partial").mkdir()
    (tmp_path / "model.partial" / "training.safetensors").touch()
    with untouched(tmp_path):
        refusal = tsadc("fit", *history, "--length", "40", "--out", tmp_path / "model", *resume).refusal
    assert refusal.endswith(
        "model.partial holds an unfinished run: continue it with --resume and the --detector that it was started with, "
        "or remove it to start again."
    )


def test_a_run_that_fails_before_its_first_epoch_leaves_nothing(
    history: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(now: object) -> None:
        raise KeyboardInterrupt

    config = requested_settings("tsadc", "tiny", None, [], {"length": 40})
    with untouched(tmp_path), pytest.raises(KeyboardInterrupt):
        fit_model(TSADC(config=config), read(history), tmp_path / "model", progress=interrupt)


def test_a_folder_called_partial_that_is_somebody_elses_stays(history: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "model.partial").mkdir()
    (tmp_path / "model.partial" / "thesis.txt").write_text("years of work")
    with untouched(tmp_path / "model.partial"):
        assert tsadc("fit", *history, "--out", tmp_path / "model", *QUICK).code == 0


@pytest.mark.slow
def test_two_processes_train_one_model_and_one_of_them_speaks(history: tuple[Path, Path], tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "tsadc"]
    command = ["fit", *map(str, history), "--out", "model", *QUICK]
    done = subprocess.run(
        [*launcher, *command], capture_output=True, text=True, cwd=tmp_path, env=ALONE, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 1/1") == 1
    assert done.stdout.count("The model is in model.") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["model"]
    assert tsadc("detect", *history, "--model", tmp_path / "model", "--out", tmp_path / "found").code == 0


def test_a_report_inside_the_folder_appears_with_it(history: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    out = tmp_path / "found"
    answer = tsadc("detect", history[0], "--model", model, "--out", out, "--report", out / "pages" / "report.html")
    assert answer.code == 0
    assert {file.name for file in out.iterdir()} == {"intervals.csv", "timeline.csv", "observations.csv", "pages"}
    assert [file.name for file in (out / "pages").iterdir()] == ["report.html"]
    assert [file.name for file in tmp_path.iterdir()] == ["found"]


def test_an_existing_report_is_replaced_and_new_folders_are_made(
    history: tuple[Path, Path], model: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.html"
    report.write_text('<!doctype html>\n<meta name="generator" content="tsadc">old')
    out = tmp_path / "deep" / "down" / "found"
    assert tsadc("detect", history[0], "--model", model, "--out", out, "--report", report).code == 0
    assert report.read_text().startswith("<!doctype html>")
    assert (out / "intervals.csv").exists()


def test_variables_the_model_does_not_know_are_left_out_with_a_note(
    history: tuple[Path, Path], model: Path, tmp_path: Path
) -> None:
    (tmp_path / "more").mkdir()
    more = tmp_path / "more" / "left.csv"
    pd.read_csv(history[0]).assign(humidity=1.5).to_csv(more, index=False)
    for file, out in ((history[0], "plain"), (more, "extra")):
        answer = tsadc("detect", file, "--model", model, "--out", tmp_path / out)
        assert answer.code == 0
    assert answer.err == "tsadc: note: 'left' has extra variables, which were left out: humidity.\n"
    assert (tmp_path / "extra" / "timeline.csv").read_text() == (tmp_path / "plain" / "timeline.csv").read_text()


def test_a_constant_variable_is_noted(tmp_path: Path) -> None:
    frame().assign(c=5.0).to_csv(tmp_path / "still.csv", index=False)
    answer = tsadc("fit", tmp_path / "still.csv", "--out", tmp_path / "model", *QUICK)
    assert answer.code == 0
    assert answer.err == (
        "tsadc: note: Constant throughout the history: c; any change will count as unusual, if the detector judges "
        "it.\n"
        "tsadc: note: Not judged, as it has at most 10 different values in the history: c.\n"
    )


def test_a_report_that_cannot_be_written_is_refused_before_detection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = find("robust-z")(length=40).fit(frame())
    monkeypatch.setattr(detector, "detect", lambda *_, **__: pytest.fail("detection started"))
    (tmp_path / "file").write_text("")
    for report, words in ((tmp_path, "is a folder"), (tmp_path / "file" / "x.html", "is not a folder")):
        for out in (None, tmp_path / "out"):
            with pytest.raises(OutputError, match=words):
                detect_to(detector, (), out, report, title="x")


def test_verdict_names_the_worst_three_and_counts_in_words() -> None:
    result = find("robust-z")(length=40).fit(frame()).detect(faulty())
    found = result.intervals
    words = verdict(found, 1, result.threshold, "By chance.").splitlines()
    assert words[0] == f"{len(found)} unusual intervals{'. The worst three' if len(found) > 3 else ''}:"
    assert len(words) == 2 + 2 * min(3, len(found))
    assert words[-1] == "By chance."
    assert words[2] == "    b 6.2; usually \N{MINUS SIGN}1.1 to 1.1. High for 30 min."
    one = verdict(result.worst(1), 1, result.threshold, "By chance.")
    assert one.splitlines()[0] == "1 unusual interval:"
    many = pd.concat([found] * 4).assign(entity=["a", "b"] * (2 * len(found)))
    assert verdict(many, 3, 1, "By chance.").startswith(
        f"{len(many)} unusual intervals in 2 of 3 entities. The worst three:\n"
    )
    assert "  b 9" in one
    none = verdict(found.iloc[:0], 1, result.threshold, "By chance.")
    assert none == f"No unusual interval (threshold {result.threshold:.3f}).\nBy chance."


def test_events_can_be_joined_otherwise_without_training(tmp_path: Path) -> None:
    detector = find("robust-z")(length=40).fit(frame())
    detector.save(tmp_path / "model")
    data = faulty()
    data.loc[350:354, "b"] += 6  # 20 rows after the first fault
    data.to_csv(tmp_path / "new.csv", index=False)
    found = {}
    for merge in (1, 39):
        out = tmp_path / f"found{merge}"
        words = ("--model", tmp_path / "model", "--out", out, "--set", f"event.merge={merge}")
        assert tsadc("detect", tmp_path / "new.csv", *words).code == 0
        found[merge] = pd.read_csv(out / "intervals.csv")
        again = rethreshold(load(tmp_path / "model"), [f"event.merge={merge}"], {})
        assert again.threshold_ == detector.threshold_
    spans = {merge: list(zip(table["start"], table["end"], strict=True)) for merge, table in found.items()}
    assert len(spans[39]) < len(spans[1])
    both = rethreshold(load(tmp_path / "model"), ["event.merge=39", "threshold.method=tail", "threshold.share=0.2"], {})
    assert both.settings_.event.merge == 39
    assert both.threshold_ < detector.threshold_


def test_one_training_observation_lies_above_the_threshold(tmp_path: Path) -> None:
    detector = find("robust-z")(length=40, threshold__method="tail", threshold__share=0.001)
    data = frame(rows=2400)
    data.loc[400:439, "b"] += 60
    said = fit_model(detector, read(_written(data, tmp_path / "pump.csv")), tmp_path / "model")
    assert detector.labels_.sum() == 1
    assert ". 1 training observation lies above it.\n" in said


def _written(data: pd.DataFrame, file: Path) -> Path:
    data.to_csv(file, index=False)
    return file


def test_without_timestamps_rows_are_told(model: Path, tmp_path: Path) -> None:
    faulty().drop(columns="time").to_csv(tmp_path / "rows.csv", index=False)
    answer = tsadc("detect", tmp_path / "rows.csv", "--model", model, "--out", tmp_path / "found")
    assert answer.code == 0
    assert "row 3" in answer.out
    assert pd.read_csv(tmp_path / "found" / "timeline.csv")["time"].tolist() == list(range(600))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(history: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0o500)
    assert "cannot be written" in tsadc("detect", history[0], "--model", model, "--out", locked / "found").refusal
    assert str(locked) in tsadc("fit", history[0], "--out", locked / "model", *QUICK).refusal


def test_a_full_disk_leaves_nothing(
    history: tuple[Path, Path], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_csv", full)
    with untouched(tmp_path):
        answer = tsadc("detect", history[0], "--model", model, "--out", tmp_path / "found")
    assert answer.refusal == f"{tmp_path / 'found'} cannot be written: No space left on device; choose another place."


def test_a_model_moves_with_its_folder(history: tuple[Path, Path], model: Path, tmp_path: Path) -> None:
    shutil.copytree(model, tmp_path / "elsewhere")
    for place, out in ((model, "here"), (tmp_path / "elsewhere", "there")):
        assert tsadc("detect", history[0], "--model", place, "--out", tmp_path / out).code == 0
    assert (tmp_path / "here" / "timeline.csv").read_bytes() == (tmp_path / "there" / "timeline.csv").read_bytes()


def test_an_interrupted_run_promises_to_go_on_only_after_an_epoch(
    history: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*given: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tsadc.cli.workflow.fit_model", interrupt)
    (tmp_path / "model.partial").mkdir()
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *QUICK)
    assert (answer.code, answer.err) == (
        130,
        "tsadc: interrupted; nothing was saved, so start again with the same command.\n",
    )
    (tmp_path / "model.partial" / "training.safetensors").touch()
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *QUICK)
    assert answer.err.startswith("tsadc: interrupted; add --resume to the same command to continue")


def test_a_report_replaces_nothing_but_a_report(model: Path, history: tuple[Path, Path], tmp_path: Path) -> None:
    data = tmp_path / "day.csv"
    shutil.copyfile(history[0], data)
    shutil.copytree(model, tmp_path / "model")
    other = tmp_path / "page.html"
    other.write_text("<!doctype html>\n<title>thesis</title>")
    for report in (data, tmp_path / "model" / "config.json", other):
        with untouched(tmp_path):
            refusal = tsadc("detect", data, "--model", tmp_path / "model", "--report", report).refusal
        assert refusal == f"{report} exists and is not a report of tsadc, so it is not replaced; choose another name."
    report = tmp_path / "report.html"
    for _ in range(2):
        assert tsadc("detect", data, "--model", model, "--report", report).code == 0
    report.write_text(report.read_text().replace('<meta name="generator" content="tsadc">', ""))  # as 0.2.0 wrote it
    assert tsadc("detect", data, "--model", model, "--report", report).code == 0
    assert 'name="generator"' in report.read_text()


def test_a_report_elsewhere_appears_only_with_its_folder(
    model: Path, history: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.rename", fail)  # of the folder; a file takes its place by os.replace
    options = ("--out", tmp_path / "found", "--report", tmp_path / "report.html")
    assert "No space left" in tsadc("detect", history[0], "--model", model, *options).refusal
    assert list(tmp_path.iterdir()) == []


def test_two_processes_cannot_fit_one_model(history: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "model"
    with locked(tmp_path / "model.partial" / "lock", "busy"):
        refusal = tsadc("fit", *history, "--out", out, "--length", 40).refusal
    assert refusal == f"Another `tsadc fit` is writing {out}; wait until it is done, or choose another --out."
    assert tsadc("fit", *history, "--out", out, "--length", 40).code == 0
    assert list(tmp_path.iterdir()) == [out]


def test_a_signal_ends_a_command_with_a_sentence_and_nothing_half_written(
    model: Path, history: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminate(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(1)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("tsadc.cli.workflow.write_tables", terminate)
    answer = tsadc("detect", history[0], "--model", model, "--out", tmp_path / "found")
    assert (answer.code, answer.err) == (143, "tsadc: terminated before it was done; run the same command again.\n")
    with monkeypatch.context() as interrupted:
        interrupted.setattr("tsadc.cli.workflow.write_tables", mock.Mock(side_effect=KeyboardInterrupt))
        answer = tsadc("detect", history[0], "--model", model, "--out", tmp_path / "found")
    assert (answer.code, answer.err) == (130, "tsadc: interrupted before it was done; run the same command again.\n")
    monkeypatch.setattr("tsadc.cli.workflow.fit_model", terminate)
    answer = tsadc("fit", *history, "--out", tmp_path / "model", *QUICK)
    expected = "tsadc: terminated; nothing was saved, so start again with the same command.\n"
    assert (answer.code, answer.err) == (143, expected)
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_file_whose_name_is_not_utf_8_gets_a_report(model: Path, history: tuple[Path, Path], tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"day\xff\x1b[31m.csv")
    try:
        shutil.copyfile(history[0], data)
    except OSError:
        pytest.skip("the file system knows UTF-8 only")
    options = ("--out", tmp_path / "found", "--report", tmp_path / "report.html")
    answer = tsadc("detect", data, "--model", model, *options)
    assert answer.code == 0, answer.err
    assert "\x1b" not in answer.out + answer.err
    assert set(pd.read_csv(tmp_path / "found" / "observations.csv")["entity"]) == {"day\\xff\x1b[31m"}
