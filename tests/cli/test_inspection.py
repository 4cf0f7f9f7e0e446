import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from terminal import frame, tsadc
from tsadc.cli.histogram import histogram
from tsadc.cli.inspection import about_data, about_model, is_model
from tsadc.detectors import find
from tsadc.detectors.base import Detector
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.store import FORMAT
from tsadc.detectors.threshold import Contamination, Normal
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import DataError, ModelFileError
from tsadc.io.doctor import examine
from tsadc.io.read import read
from tsadc.series import Clock, Series

TINY = TSADC(config=TSADC.Config.tiny())


def described(series: Sequence[Series], detector: Detector) -> list[tuple[str, str]]:
    return about_data(series, examine(series), detector)


def write(data: pd.DataFrame, file: Path) -> Path:
    data.to_csv(file, index=False)
    return file


def test_a_model_in_words(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    about = dict(about_model(model))
    training = config["provenance"]["training"]
    assert list(about) == [
        "model", "name", "variables", "sampling", "observation", "contamination", "threshold", "entities", "trained on",
        "seed", "training", "scores",
    ]  # fmt: skip
    assert about["model"] == f"tsadc, format {FORMAT}, made by tsadc {config['provenance']['versions']['tsadc']}"
    assert about["variables"] == "4: a, b, c, d"
    assert about["sampling"] == "every 1 min"
    assert about["observation"] == "40 rows"
    found = config["contamination"]
    ends = f"{100 * found['low']:.1f} to {100 * found['high']:.1f} %"
    assert about["contamination"] == f"{100 * found['share']:.1f} % (estimated; 90% interval {ends})"
    scores = load_file(model / "model.safetensors")["decision_scores"]
    above = Normal.of(scores, Contamination(**found)).above(config["threshold"])
    assert about["threshold"] == (
        f"{config['threshold']:.4f}, about {36 * above:.2g} false alarms a day expected per entity (method alarms; "
        "1/week was wanted, but 30 normal observations of history cannot promise fewer)"
    )
    assert about["scores"].splitlines() == histogram(scores, config["threshold"])
    assert about["entities"] == "2: left, right"
    assert about["trained on"].startswith("1200 rows, 30 observations, data digest ")
    assert about["seed"] == "0"
    assert about["training"].startswith(f"1 epoch, best 1 (validation loss {training['epochs'][0]['validation']:.4f})")


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_a_model_with_damaged_weights_is_not_described(model: Path, tmp_path: Path, damage: str) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.unlink()
    if damage == "truncated":
        weights.write_bytes(data[:-10])
    with pytest.raises(ModelFileError, match="no readable" if damage == "missing" else "truncated"):
        about_model(folder)


def test_a_model_that_was_not_trained_by_epochs(tmp_path: Path) -> None:
    find("robust-z")(length=40).fit(frame().drop(columns="time").to_numpy()).save(tmp_path / "model")
    about = dict(about_model(tmp_path / "model"))
    assert about["model"].startswith("robust-z, ")
    assert about["sampling"] == "no timestamps, rows are counted"
    assert about["threshold"].endswith("of normal observations expected above it (method alarms)")
    assert "training" not in about


def test_a_terminal_shows_the_scores_and_the_threshold(model: Path) -> None:
    answer = tsadc("info", model)
    lines = [line.rstrip() for line in answer.out.splitlines()]
    (mark,) = [line for line in lines if " -----" in line]
    above = (
        load_file(model / "model.safetensors")["decision_scores"]
        > json.loads((model / "config.json").read_text())["threshold"]
    )
    assert mark.endswith(f" {above.sum()} above")
    counts = [int(line.split()[-1]) for line in lines[lines.index(mark) + 1 :]]
    assert sum(counts) == above.sum()


def test_a_model_with_gaps_is_refused(model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    del config["provenance"]["data"]["rows"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelFileError, match="incomplete or damaged"):
        about_model(folder)


def test_data_in_words(tmp_path: Path) -> None:
    data = frame(100)
    data.loc[10:19, list("abcd")] = np.nan
    data = data.assign(c=np.nan, d=7.0)
    data.loc[10:19, "d"] = np.nan
    about = dict(described(read([write(data, tmp_path / "pump.csv")]), TINY))
    assert about["entities"] == "1: pump"
    assert about["rows"] == "100"
    assert about["variables"] == "4: a, b, c, d"
    assert about["pump"] == "2026-01-01 00:00:00 to 2026-01-01 01:40:00, 100 rows (10 empty), every 1 min"
    assert about["not measured"] == f"{(3 * 10 + 100) / 400:.2%} of all cells"
    assert about["without any value"] == "c"
    assert about["constant"] == "d"


def test_data_without_faults(tmp_path: Path) -> None:
    files = [write(frame(50, seed).drop(columns="time"), tmp_path / f"{name}.csv") for seed, name in enumerate("xy")]
    about = dict(described(read(files), TINY))
    assert about["entities"] == "2: x, y"
    assert about["rows"] == "100"
    assert about["y"] == "50 rows (0 empty), no timestamps, rows are counted"
    assert about["not measured"] == "0.00% of all cells"
    assert (about["without any value"], about["constant"]) == ("none", "none")


@pytest.mark.filterwarnings("ignore:.*has no value in any variable")
def test_variables_are_matched_as_a_fit_would(tmp_path: Path) -> None:
    named, bare = write(frame(50), tmp_path / "x.csv"), tmp_path / "y.npy"
    np.save(bare, np.full((50, 4), np.nan))
    assert dict(described(read([named, bare]), TINY))["not measured"] == "50.00% of all cells"
    with pytest.raises(DataError, match="'x' lacks 4 of the 4 expected variables: variable_0"):
        described(read([bare, named]), TINY)


def test_a_folder_is_a_model_or_holds_data(model: Path, tmp_path: Path) -> None:
    file = write(frame(50), tmp_path / "x.csv")
    assert is_model(model)
    assert not is_model(tmp_path)
    assert not is_model(file)
    answer = tsadc("info", tmp_path)
    assert answer.code == 0
    assert answer == tsadc("info", file)
    assert "not possible: Training needs at least 5 observations of 600 rows" in " ".join(answer.out.split())


def test_what_a_fit_will_cost(tmp_path: Path) -> None:
    file = write(frame(400), tmp_path / "x.csv")
    answer = tsadc("info", file, "--length", 40, "--detector", "tsadc", "--preset", "tiny")
    words = " ".join(answer.out.split())
    assert answer.code == 0
    assert re.search(
        r"10 observations of 40 rows, at most 0:0\d:\d\d for 5 epochs on this machine, about \d+ MB", words
    )


def test_what_a_fit_without_a_network_will_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(frame(4000), tmp_path / "x.csv")
    fitted: list[object] = []
    seconds = iter([10.0, 12.0])
    monkeypatch.setattr(Ensemble, "fit", lambda self, X: fitted.append(X.shape))
    monkeypatch.setattr("time.perf_counter", lambda: next(seconds))
    about = dict(described(read(file), Ensemble(length=40)))
    assert fitted == [(32, 40, 4)]
    assert about["fit ensemble"] == "100 observations of 40 rows, about 0:00:07 on this machine"  # 2 s for 32


def test_the_cost_of_other_networks_is_not_guessed(tmp_path: Path) -> None:
    about = dict(described(read(write(frame(400), tmp_path / "x.csv")), find("gdn")(length=40)))
    assert about["fit gdn"].startswith("10 observations of 40 rows; the time is estimated only for tsadc")


def test_many_names_are_cut_short(tmp_path: Path) -> None:
    wide = pd.DataFrame(np.random.default_rng(0).random((9, 12)), columns=[f"v{i}" for i in range(12)])
    assert dict(described(read([write(wide, tmp_path / "wide.csv")]), TINY))["variables"] == (
        "12: v0, v1, v2, v3, v4, v5, v6, v7 and 4 more"
    )


def test_info_refuses_what_a_fit_refuses(tmp_path: Path) -> None:
    for name, step in (("x", "1min"), ("y", "5s")):
        write(frame(400).assign(time=pd.date_range("2026-01-01", periods=400, freq=step)), tmp_path / f"{name}.csv")
    assert dict(described(read(tmp_path), TINY))["fit tsadc"] == (
        "not possible: 'y' is sampled every 5s, but 1min was expected; resample it with --every 1min (in "
        "Python: Reading(every='1min') for files, .resample('1min').mean() for data frames)."
    )
    empty = write(frame(400).assign(b=np.nan), tmp_path / "z.csv")
    assert dict(described(read(empty), TINY))["fit tsadc"] == (
        "not possible: b has no values in the history; leave it out with --columns (in Python: Reading(columns=...))."
    )


def test_a_pace_without_a_start_is_shown() -> None:
    series = Series(np.zeros((50, 2)), ("a", "b"), Clock(pace=3_906_250), "x")
    assert dict(described([series], TINY))["x"] == "50 rows (0 empty), every 3.90625 ms, no start time"
