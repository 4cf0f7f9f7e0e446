import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.bench import cell as cell_module
from tsadc.bench.cell import Cell, commit, flat, identity, measure, run, source_digest
from tsadc.bench.protocols import Answers, draw
from tsadc.detectors import find
from tsadc.errors import ConfigError, DataError
from tsadc.evaluate.ranking import auroc, average_precision

HERE = Path(".")


@pytest.mark.usefixtures("tiny")
def test_a_record_holds_what_the_detector_is_worth() -> None:
    [(cell, record, arrays)] = run([Cell("tiny", "robust-z", 1)], HERE)
    task = draw("tiny", HERE, 1)
    detector = find("robust-z")(length=60, seed=1).fit(task.train)
    scores, labels = detector.decision_function(task.test), task.answers.labels
    np.testing.assert_array_equal(arrays["score"], scores)
    np.testing.assert_array_equal(arrays["anomalous"], labels)
    assert record["auroc"] == pytest.approx(auroc(labels, scores), abs=1e-5)
    assert record["ap"] == pytest.approx(average_precision(labels, scores), abs=1e-5)
    hits = int((labels & (scores > detector.threshold_)).sum())
    assert record["f1"] == pytest.approx(2 * hits / (labels.sum() + (scores > detector.threshold_).sum()), abs=1e-5)
    assert (record["observations"], record["entities"], record["prevalence"]) == (20, 2, 0.4)
    assert record["all_positive_f1"] == pytest.approx(2 * 0.4 / 1.4, abs=1e-5)
    assert record["oracle_f1"] >= record["f1"]
    assert record["auroc_interval"][0] <= record["auroc"] <= record["auroc_interval"][1]
    assert record["settings"]["seed"] == cell.seed == 1
    assert record["train"]["observations"] == 20
    assert json.loads(json.dumps(record)) == record


def test_parts_views_and_kinds_are_measured_on_their_own() -> None:
    kinds = ((), ("x",), (), ("y",), ("x", "y"), ())
    answers = Answers(kinds, tuple("aaabbb"), {"b alone": np.array([False] * 3 + [True] * 3)})
    table = pd.DataFrame({"score": [0.0, 3.0, 2.0, 1.0, 4.0, 1.5], "left_score": [0.0, 1.0, 0.0, 1.0, 1.0, 0.0]})
    found = measure(table, answers, 1.8)
    assert found["auroc"] == pytest.approx(7 / 9, abs=1e-5)
    assert (found["precision"], found["recall"]) == (pytest.approx(2 / 3, abs=1e-5), pytest.approx(2 / 3, abs=1e-5))
    assert found["flagged"] == 0.5
    assert found["views"] == {"left": {"auroc": 1.0, "ap": 1.0}}
    assert found["kinds"]["x"] == {"observations": 2, "auroc": 1.0, "ap": 1.0}
    assert found["kinds"]["y"]["auroc"] == pytest.approx(4 / 6, abs=1e-5)
    assert found["parts"]["b alone"]["auroc"] == 0.5
    assert found["parts"]["b alone"]["observations"] == 3


@pytest.mark.usefixtures("tiny")
def test_cells_of_one_training_train_once_and_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [record for name in ("tiny", "tiny-adapted") for _, record, _ in run([Cell(name, "robust-z", 0)], HERE)]
    fitted = []
    plain = cell_module._fit
    monkeypatch.setattr(cell_module, "_fit", lambda cell, task: fitted.append(cell) or plain(cell, task))
    cells = [Cell(name, "robust-z", 0) for name in ("tiny-adapted", "tiny")]
    assert len({cell.training for cell in cells}) == 1
    together = [record for _, record, _ in run(cells, HERE)]
    assert len(fitted) == 1
    assert [one["ap"] for one in together] == [one["ap"] for one in reversed(alone)]
    assert alone[0]["ap"] != alone[1]["ap"]


@pytest.mark.usefixtures("tiny")
def test_a_failure_is_a_record_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [record for _, record, _ in run([Cell(n, "random", 0) for n in ("tiny-broken", "tiny")], HERE)]
    assert records[0]["error"]["type"] == "DataError"
    assert "scored 20 observations, but there are answers to 19" in records[0]["error"]["message"]
    assert "auroc" not in records[0]
    assert "error" not in records[1]  # the training was not at fault

    def fail(*_: object) -> None:
        raise MemoryError("too much")

    monkeypatch.setattr(cell_module, "_fit", fail)
    both = list(run([Cell(n, "random", 0) for n in ("tiny", "tiny-adapted")], HERE))
    assert [record["error"]["message"] for _, record, _ in both] == ["too much", "too much"]
    assert [arrays for _, _, arrays in both] == [{}, {}]


@pytest.mark.usefixtures("tiny")
def test_an_interruption_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cell_module, "_fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(run([Cell("tiny", "random", 0)], HERE))


@pytest.mark.usefixtures("tiny")
def test_the_hash_is_of_what_decides_the_numbers() -> None:
    cells = [
        Cell("tiny", "ridge", 0),
        Cell("tiny", "ridge", 1),
        Cell("tiny-adapted", "ridge", 0),
        Cell("tiny", "robust-z", 0),
        Cell("tiny", "ridge", 0, overrides={"lags": 2}),
        Cell("tiny", "tsadc", 0),
        Cell("tiny", "tsadc", 0, "paper"),
    ]
    hashes = [identity(cell, HERE)["hash"] for cell in cells]
    assert len(set(hashes)) == len(cells)
    assert hashes == [identity(cell, HERE)["hash"] for cell in cells]


@pytest.mark.usefixtures("tiny")
def test_only_the_length_is_set_for_the_data() -> None:
    config = Cell("tiny", "ridge", 3, overrides={"lags": 1}).config()
    assert config == find("ridge").Config(length=60, seed=3, lags=1)
    with pytest.raises(ConfigError, match="`length` comes with the data set"):
        Cell("tiny", "ridge", 0, overrides={"length": 30}).config()
    with pytest.raises(ConfigError, match="A preset is default, the only one here, but got 'paper'"):
        Cell("tiny", "ridge", 0, "paper").config()
    with pytest.raises(ConfigError, match="There is no setting `lag`; did you mean `lags`"):
        Cell("tiny", "ridge", 0, overrides={"lag": 1}).config()


def test_rows_tell_apart_what_was_changed() -> None:
    assert Cell("tiny", "ridge", 0).row == "ridge"
    assert Cell("tiny", "tsadc", 0, "paper", {"b": 1, "a": {"d": 2, "c": "x"}}).row == "tsadc:paper a.c=x a.d=2 b=1"
    assert flat({"a": {"b": {"c": 1}}, "d": 2}) == [("a.b.c", 1), ("d", 2)]


def test_the_source_is_known_by_its_content(tmp_path: Path) -> None:
    assert source_digest(tmp_path, "") == ""
    (tmp_path / "x.npz").write_bytes(b"abc")
    assert source_digest(tmp_path, "x.npz") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(DataError, match=r"has no y\.npz"):
        source_digest(tmp_path, "y.npz")


def test_the_commit_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    commit.cache_clear()
    found = commit()
    assert found is None or len(found.rstrip("+")) == 12
    commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert commit() is None
    commit.cache_clear()
