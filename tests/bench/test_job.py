import json
from pathlib import Path

import numpy as np
import pytest

from tsadc.bench import fitting
from tsadc.bench.cell import Cell
from tsadc.bench.job import run
from tsadc.data.catalogue import draw
from tsadc.data.task import Task
from tsadc.detectors import find
from tsadc.errors import DataError
from tsadc.evaluate.ranking import auroc, average_precision

HERE = Path(".")
QUICK = {"training": {"epochs": 1}}


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


@pytest.mark.usefixtures("tiny")
def test_cells_of_one_training_train_once_and_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = [record for name in ("tiny", "tiny-adapted") for _, record, _ in run([Cell(name, "robust-z", 0)], HERE)]
    fitted = []
    plain = fitting.fit
    monkeypatch.setattr(fitting, "fit", lambda cell, *rest: fitted.append(cell) or plain(cell, *rest))
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

    monkeypatch.setattr(fitting, "fit", fail)
    both = list(run([Cell(n, "random", 0) for n in ("tiny", "tiny-adapted")], HERE))
    assert [record["error"]["message"] for _, record, _ in both] == ["too much", "too much"]
    assert [arrays for _, _, arrays in both] == [{}, {}]


@pytest.mark.usefixtures("tiny")
def test_data_that_fails_leaves_the_other_cells_of_its_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Cell.task

    def some(cell: Cell, raw: Path) -> Task:
        if cell.data == "tiny-adapted":
            raise DataError("no history")
        return plain(cell, raw)

    monkeypatch.setattr(Cell, "task", some)
    records = [record for _, record, _ in run([Cell(n, "random", 0) for n in ("tiny-adapted", "tiny")], HERE)]
    assert records[0]["error"]["message"] == "no history"
    assert "error" not in records[1]
    assert records[1]["prevalence"] == 0.4


@pytest.mark.usefixtures("tiny")
def test_an_interruption_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitting, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(run([Cell("tiny", "random", 0)], HERE))


@pytest.mark.usefixtures("tiny")
def test_both_heads_are_those_of_detectors_trained_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [Cell("tiny", "tsadc", 0, "tiny", {**QUICK, "head": head}) for head in ("paper", "tsadc")]
    cells.append(Cell("tiny", "tsadc", 0, "tiny", {**QUICK, "inference": {"residuals": ["imputation"]}}))
    alone = [found for cell in cells for found in run([cell], HERE)]
    before = []
    plain = fitting.fit
    monkeypatch.setattr(fitting, "fit", lambda *given: before.append(plain(*given)) or before[-1])
    together = list(run(cells, HERE, tmp_path))
    assert [one.network_seconds > 0 for one in before] == [False, True, True]
    for (_, record, arrays), (_, other, others) in zip(alone, together, strict=True):
        np.testing.assert_array_equal(arrays["score"], others["score"])
        assert (record["hash"], record["threshold"], record["ap"]) == (other["hash"], other["threshold"], other["ap"])
    assert len({record["threshold"] for _, record, _ in together}) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_a_training_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("tiny", "usad", 0, overrides={"training": {"epochs": 3}})
    [(_, whole, arrays)] = run([cell], HERE)
    epochs = []

    def stop(self: object, path: Path) -> None:
        save(self, path)
        epochs.append(path)
        if len(epochs) == 2:
            raise KeyboardInterrupt

    from tsadc.nn import train

    save = train._Run.save
    monkeypatch.setattr(train._Run, "save", stop)
    with pytest.raises(KeyboardInterrupt):
        list(run([cell], HERE, tmp_path))
    assert list(tmp_path.iterdir()) == [epochs[0]]
    [(_, again, same)] = run([cell], HERE, tmp_path)
    assert len(epochs) == 3  # two before, one since
    np.testing.assert_array_equal(same["score"], arrays["score"])
    assert again["auroc"] == whole["auroc"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_a_label_is_kept_and_decides_nothing() -> None:
    [(_, named, _)] = run([Cell("tiny", "random", 0, label="a name")], HERE)
    [(_, plain, _)] = run([Cell("tiny", "random", 0)], HERE)
    assert named["label"] == "a name"
    assert "label" not in plain
    assert named["hash"] == plain["hash"]


@pytest.mark.usefixtures("tiny")
def test_rows_are_measured_where_they_are_asked_for() -> None:
    [(_, record, arrays)] = run([Cell("tiny", "robust-z", 0, by_row=("vus_pr",))], HERE)
    [(_, plain, few)] = run([Cell("tiny", "robust-z", 0)], HERE)
    assert record["hash"] == plain["hash"]
    assert "points" not in plain
    assert set(arrays) - set(few) == {
        "row_score",
        "row_flag",
        "row_label",
        "row_ends",
        "event_blamed",
        "event_weight",
    }
    task = draw("tiny", HERE, 0)
    assert arrays["row_label"].tolist() == task.answers.rows.tolist()
    assert arrays["row_ends"].tolist() == [600, 1200]
    assert record["points"]["series"] == 2
    assert 0 < record["points"]["vus_pr"] < 1
    assert record["points"]["events"] == len(task.answers.events)
    assert arrays["event_blamed"].tolist() == [event.blamed.tolist() for event in task.answers.events]
    assert 0 < record["points"]["ndcg"] <= 1


@pytest.mark.usefixtures("tiny")
def test_a_record_says_what_it_took() -> None:
    [(_, record, _)] = run([Cell("tiny", "usad", 0, overrides=QUICK)], HERE)
    detector = find("usad")(config=Cell("tiny", "usad", 0, overrides=QUICK).config()).fit(draw("tiny", HERE, 0).train)
    assert record["parameters"] == sum(one.numel() for one in detector.network_.parameters())
    assert record["fit_cpu_seconds"] > 0
    assert record["shared_seconds"] == 0
    [(_, cheap, _)] = run([Cell("tiny", "robust-z", 0)], HERE)
    assert (cheap["parameters"], cheap["flops"]) == (None, None)
    assert {"processor", "cores", "memory", "system"} == set(cheap["machine"])
