"""What a user can get wrong: one sentence, exit code 2, nothing written."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from terminal import QUICK, frame, tsadc, untouched
from tsadc.detectors.store import FORMAT

LONG = "x" * 300


def text(data: pd.DataFrame) -> str:
    return data.to_csv(index=False)


def put(row: int, column: str, value: object) -> str:
    data = frame().astype({column: object})
    data.loc[row, column] = value
    return text(data)


def times(change: Callable[[pd.Series], pd.Series]) -> str:
    data = frame()
    return text(data.assign(time=change(data["time"])))


def moved(column: pd.Series, row: int, to: str) -> pd.Series:
    column = column.copy()
    column[row] = pd.Timestamp(to)
    return column


FILES: dict[str, tuple[str, str]] = {
    "empty": ("", "is empty"),
    "blank lines": ("\n\n\n", "is empty"),
    "header only": ("time,a,b\n", "has a header but no rows"),
    "no header": (frame().drop(columns="time").to_csv(index=False, header=False), "has no header"),
    "only the time": (text(frame()[["time"]]), "no column of numbers besides the time"),
    "ragged": ("a,b\n1,2\n1,2,3\n", "not a well-formed CSV"),
    "two of a name": (frame().to_csv(index=False, header=["time", "a", "b", "a", "d"]), "two columns named 'a'"),
    "text in a column": (put(7, "b", "broken"), "column 'b' should hold numbers, but row 7"),
    "decimal comma": (put(7, "b", "1,5"), "column 'b' should hold numbers, but row 7"),
    "infinite": (put(5, "c", "inf"), "column 'c' is infinite at row 5"),
    "minus infinity": (put(5, "c", "-inf"), "column 'c' is infinite at row 5"),
    "absurdly large": (
        put(5, "c", "1e200"),
        "c holds values that no sensor measures, such as 1e+200 in c; fix it with --missing 1e+200.",
    ),
    "variable without values": (
        text(frame().assign(c=np.nan)),
        "c has no values in the history; fix it with --exclude c.",
    ),
    "no values": (text(frame().assign(a=np.nan, b=np.nan, c=np.nan, d=np.nan)), "no value"),
    "all constant": (text(frame().assign(a=1.0, b=2.0, c=3.0, d=4.0)), "Every variable of the history is constant"),
    "shorter than an observation": (
        text(frame(30)),
        "but the history of 30 rows in 1 series gives 1",
    ),
    "one row": (text(frame(1)), "single row"),
    "four observations": (
        text(frame(160)),
        "but the history of 160 rows in 1 series gives 4",
    ),
    "time twice": (times(lambda t: moved(t, 9, "2026-01-01 00:08")), "twice, at rows 8 and 9"),
    "unsorted": (times(lambda t: t[::-1].set_axis(t.index)), "should be sorted by time, but row 1"),
    "irregular": (times(lambda t: moved(t, 9, "2026-01-01 00:09:30")), "row 9"),
    "no time at a row": (times(lambda t: t.where(t.index != 4)), "no time at row 4"),
    "not a time": (put(4, "time", "noon"), "'noon' at row 4"),
    "a leap of years": (times(lambda t: moved(t, 599, "2099-01-01")), "row 599"),
}


@pytest.mark.parametrize(("content", "sentence"), FILES.values(), ids=FILES)
def test_fit_refuses_a_file(content: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text(content)
    with untouched(tmp_path):
        assert sentence in tsadc("fit", file, "--out", tmp_path / "model", *QUICK).refusal


def test_fit_refuses_a_file_without_numbers_after_a_note(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_text("time,a,b\n" + "".join(f"2026-01-01 00:{i:02},on,off\n" for i in range(60)))
    with untouched(tmp_path):
        answer = tsadc("fit", file, "--out", tmp_path / "model", *QUICK)
    *notes, refusal = answer.err.splitlines()
    assert answer.code == 2
    assert all(note.startswith("tsadc: note: ") for note in notes)
    assert "has no column of numbers besides the time" in refusal


def test_fit_refuses_what_is_no_table(history: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "binary.csv").write_bytes(b"a,b\n1,\xff\x01\n")
    (tmp_path / "binary.parquet").write_bytes(bytes(range(256)))
    (tmp_path / "data.docx").write_bytes(b"PK")
    (tmp_path / "empty.parquet").touch()
    other = tmp_path / "other.csv"
    pd.read_csv(history[0]).rename(columns={"c": "cc"}).to_csv(other, index=False)
    slow = tmp_path / "slow.csv"
    data = pd.read_csv(history[0])
    data.assign(time=pd.date_range("2026-01-01", periods=len(data), freq="5min")).to_csv(slow, index=False)
    cases: dict[tuple[Path, ...], str] = {
        (tmp_path / "nothing.csv",): "There is no file",
        (tmp_path / "folder",): "has no file that can be read",
        (tmp_path / "binary.csv",): "is not text",
        (tmp_path / "binary.parquet",): "is not a readable Parquet file",
        (tmp_path / "empty.parquet",): "is not a readable Parquet file",
        (tmp_path / "data.docx",): "because the ending determines the format",
        (history[0], history[0]): "was given twice",
        (history[0], other): "other.csv has other variables than",
        (history[0], slow): "left is sampled every 1min, but slow every 5min; fix it with --every 5min.",
    }
    with untouched(tmp_path):
        for files, sentence in cases.items():
            assert sentence in tsadc("fit", *files, "--out", tmp_path / "model", *QUICK).refusal


SETTINGS = {
    "--contamination 0": "`contamination` must be between 0 and 0.5",
    "--contamination 0.5": "`contamination` must be between 0 and 0.5",
    "--contamination -0.1": "`contamination` must be between 0 and 0.5",
    "--contamination nan": "`contamination` must be a finite number or 'auto', but got nan",
    "--contamination much": "`contamination` must be a finite number or 'auto', but got 'much'",
    "--set threshold.method=best": "`threshold.method` must be one of 'auto', 'alarms', 'balanced', 'tail'",
    "--set threshold=3": "`threshold` is a section with settings of its own",
    "--alarms 99/day": "`threshold.alarms` must be below",
    "--set threshold.share=0.1": "only applies to `threshold.method=tail`, but the method is alarms",
    "--contamination 0.1 --set threshold.share=0.01": "`threshold.share` only applies to `threshold.method=tail`",
    "--config idle.toml": "`threshold.share` only applies to `threshold.method=tail`",
    "--length 4": "`length` must be at least 8",
    "--epochs 0": "`training.epochs` must be at least 1",
    "--seed -1": "`seed` must be",
    "--preset tniy": "one of default, paper, tiny, but got 'tniy'",
    "--set training.epoch=3": "no setting `training.epoch`; did you mean `training.epochs`",
    "--set contaminaton=0.1": "no setting `contaminaton`; did you mean `contamination`",
    "--set training.batch=many": "`training.batch` must be a whole number, but got 'many'",
    "--set inference=3": "`inference` is a section",
    "--set length": "A setting is written as name=value or section.name=value, but got 'length'",
    "--set scoring=mine": "`scoring` must be one of",
    "--config nothing.toml": "There is no settings file nothing.toml",
    "--config broken.toml": "broken.toml is not valid TOML",
    "--config wrong.toml": "no setting `training.epoch`; did you mean `training.epochs`",
    "--config .": ". is a folder, but a settings file in TOML was expected; name the file.",
}


@pytest.mark.parametrize(("words", "sentence"), SETTINGS.items(), ids=SETTINGS)
def test_fit_refuses_a_setting(
    words: str, sentence: str, history: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "idle.toml").write_text("[threshold]\nshare = 0.1\n")
    (tmp_path / "broken.toml").write_text("[training\n")
    (tmp_path / "wrong.toml").write_text("[training]\nepoch = 3\n")
    monkeypatch.chdir(tmp_path)
    with untouched(tmp_path):
        assert sentence in tsadc("fit", *history, "--out", "model", *QUICK, *words.split()).refusal


def test_training_that_diverges_is_refused_and_leaves_nothing(history: tuple[Path, Path], tmp_path: Path) -> None:
    wild = ("--set", "training.learning_rate=1e35", "--set", "training.warmup_epochs=0")
    with untouched(tmp_path):
        assert "lower the learning rate" in tsadc("fit", *history, "--out", tmp_path / "model", *QUICK, *wild).refusal


@pytest.mark.parametrize("command", ["fit", "detect", "adapt", "demo"])
@pytest.mark.parametrize("out", ["folder", "file", "file/below", ".", "..", "", LONG])
def test_a_place_that_cannot_be_written_is_refused(
    command: str, out: str, history: tuple[Path, Path], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    (here / "folder").mkdir(parents=True)
    (here / "file").touch()
    monkeypatch.chdir(here)
    new = tmp_path / "new.csv"  # an entity that the model does not know, so that nothing else is said
    new.write_bytes(history[0].read_bytes())
    rest = {"fit": [*history, *QUICK], "demo": [], "adapt": [new, "--model", model]}
    with untouched(tmp_path):
        assert (out or ".") in tsadc(command, *rest.get(command, [history[0], "--model", model]), "--out", out).refusal


@pytest.mark.parametrize("report", ["folder", "file/report.html", "found"])
def test_a_report_that_cannot_be_written_is_refused(
    report: str, history: tuple[Path, Path], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    words = ("--model", model, "--out", "found", "--report", report)
    with untouched(tmp_path):
        assert report in tsadc("detect", history[0], *words).refusal


@pytest.mark.parametrize("command", ["detect", "adapt"])
def test_data_that_does_not_suit_the_model_is_refused(command: str, model: Path, tmp_path: Path) -> None:
    data = frame()
    often = data.assign(time=pd.date_range("2026-01-01", periods=len(data), freq="1s"))
    cases = {
        "renamed": (data.rename(columns={"c": "C"}), "c; did you mean 'C'?"),
        "lacking_most": (data[["time", "a"]], "'lacking_most' lacks 3 of the 4 expected variables: b, c, d"),
        "often": (often, "sampled every 1s, but 1min was expected"),
        "infinite": (data.assign(b=np.inf), "column 'b' is infinite at row 0"),
    }
    for name, (wrong, _) in cases.items():
        wrong.to_csv(tmp_path / f"{name}.csv", index=False)
    with untouched(tmp_path):
        for name, (_, sentence) in cases.items():
            words = (tmp_path / f"{name}.csv", "--model", model, "--out", tmp_path / "out")
            assert sentence in tsadc(command, *words).refusal


def test_too_little_to_detect_in_is_said(model: Path, tmp_path: Path) -> None:
    frame(19).to_csv(tmp_path / "short.csv", index=False)
    with untouched(tmp_path):
        answer = tsadc("detect", tmp_path / "short.csv", "--model", model, "--out", tmp_path / "found")
    assert answer.code == 0
    assert "at least half of its 40 rows have values, but 'short' has 19 rows" in answer.out


@pytest.fixture
def broken(model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(model, tmp_path / "broken"))


def refused(model: Path, data: Path, *, info: bool = True) -> set[str]:
    """What each command says of a model that it cannot use."""
    sentences = set()
    with untouched(model.parent):
        for command in ("detect", "adapt"):
            sentences.add(tsadc(command, data, "--model", model, "--out", model.parent / "out").refusal)
        if info:
            sentences.add(tsadc("info", model).refusal)
    return sentences


def test_a_model_that_is_not_there_is_refused(history: tuple[Path, Path], tmp_path: Path) -> None:
    for path, came in ((tmp_path / "nothing", "There is no folder {}"), (history[0], "{} is a file")):
        said = f"{came.format(path)}, but a model folder was expected; name one that `tsadc fit` wrote."
        assert refused(path, history[0], info=False) == {said}


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_model_is_refused(share: float, broken: Path, history: tuple[Path, Path]) -> None:
    arrays = broken / "model.safetensors"
    data = arrays.read_bytes()
    arrays.write_bytes(data[: int(share * len(data))])
    (sentence,) = refused(broken, history[0], info=False)
    assert "is truncated or does not belong to its config.json" in sentence
    arrays.write_bytes(data)
    config = broken / "config.json"
    config.write_text(config.read_text()[: int(share * len(config.read_text()))])
    (sentence,) = refused(broken, history[0])
    assert "is truncated or not JSON" in sentence


def test_half_a_model_is_refused(broken: Path, history: tuple[Path, Path]) -> None:
    (broken / "model.safetensors").unlink()
    (sentence,) = refused(broken, history[0], info=False)
    assert "no readable model.safetensors" in sentence
    (broken / "config.json").rename(broken / "model.safetensors")
    (sentence,) = refused(broken, history[0])
    assert "is not a model: it has no config.json; name a folder that `tsadc fit` wrote" in sentence


@pytest.mark.parametrize("content", ["[]", "3", "null", "{}", '{"format": "1", "detector": "tsadc"}', '{"format": 1}'])
def test_a_foreign_model_is_refused(content: str, broken: Path, history: tuple[Path, Path]) -> None:
    (broken / "config.json").write_text(content)
    (sentence,) = refused(broken, history[0])
    assert "was not written by tsadc" in sentence


def test_a_newer_model_is_refused(broken: Path, history: tuple[Path, Path]) -> None:
    change(broken, "format", 99)
    (sentence,) = refused(broken, history[0])
    assert sentence.endswith(f"has model format 99, but this version reads up to {FORMAT}; upgrade tsadc.")


KEYS = ("arrays", "clock", "contamination", "detector", "provenance", "scaler", "settings", "threshold", "variables")


@pytest.mark.parametrize("value", [None, 3, ["x"], {"x": 1}], ids=json.dumps)
@pytest.mark.parametrize("key", KEYS)
def test_a_damaged_model_is_refused_or_used_but_never_crashes(
    key: str, value: object, broken: Path, history: tuple[Path, Path]
) -> None:
    change(broken, key, value)
    with untouched(broken):
        for words in (("info", broken), ("detect", history[0], "--model", broken, "--out", broken.parent / "out")):
            answer = tsadc(*words)
            assert answer.code == 0 or str(broken) in answer.refusal


@pytest.mark.parametrize("key", KEYS)
def test_an_incomplete_model_is_refused(key: str, broken: Path, history: tuple[Path, Path]) -> None:
    config = json.loads((broken / "config.json").read_text())
    del config[key]
    (broken / "config.json").write_text(json.dumps(config))
    assert all(str(broken) in sentence for sentence in refused(broken, history[0], info=key != "arrays"))


def change(model: Path, key: str, value: object) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, key: value}))


def test_info_refuses_like_the_others(model: Path, history: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    said = f"There is neither a file nor a folder {tmp_path / 'nothing'}; name a model that `tsadc fit` wrote, or data."
    assert tsadc("info", tmp_path / "nothing").refusal == said
    assert "is empty" in tsadc("info", tmp_path / "empty.csv").refusal
    assert f"{model} has no file that can be read" in tsadc("info", history[0], model).refusal


def test_a_file_that_may_not_be_read_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*given: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "x.csv").write_text(text(frame()))
    monkeypatch.setattr("os.access", lambda *given, **more: False)
    monkeypatch.setattr("tsadc.io.delimited.form_of", denied)
    expected = f"{tmp_path / 'x.csv'} cannot be read: permission denied."
    assert tsadc("info", tmp_path / "x.csv").refusal == expected
    assert tsadc("fit", tmp_path / "x.csv", "--out", tmp_path / "model").refusal == expected


def test_too_little_memory_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object, **more: object) -> None:
        raise MemoryError("Unable to allocate 9 TiB")

    (tmp_path / "x.csv").write_text(text(frame()))
    monkeypatch.setattr("tsadc.io.delimited.form_of", full)
    assert tsadc("info", tmp_path / "x.csv").refusal == "There is not enough memory: Unable to allocate 9 TiB."
