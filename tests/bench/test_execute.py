import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark import own_data
from tsadc.bench import execute as execution
from tsadc.bench.execute import execute, network_size, run
from tsadc.bench.job import Job
from tsadc.bench.own import Own
from tsadc.data import ContaminationSpec, contaminate
from tsadc.data.catalogue import draw
from tsadc.data.manifest import save
from tsadc.data.prepared import ABOUT, ARRAYS, load
from tsadc.data.task import Task
from tsadc.detectors import find
from tsadc.errors import DataError
from tsadc.evaluate.ranking import auroc, average_precision

HERE = Path(".")
QUICK = {"training": {"epochs": 1}}


@pytest.mark.usefixtures("tiny")
def test_a_record_holds_what_the_detector_is_worth() -> None:
    [(job, record, arrays)] = run([Job("tiny", "robust-z", 1)], HERE)
    task = draw("tiny", HERE, 1)
    detector = find("robust-z")(length=60, seed=1).fit(task.train).set_threshold(method="balanced")
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
    assert record["auroc_low"] <= record["auroc"] <= record["auroc_high"]
    assert record["seed"] == job.seed == 1
    assert json.loads(json.dumps(record)) == record


@pytest.mark.usefixtures("tiny")
def test_adapting_one_job_leaves_the_other_of_its_training_alone() -> None:
    alone = [record for name in ("tiny", "tiny-adapted") for _, record, _ in run([Job(name, "robust-z", 0)], HERE)]
    jobs = [Job(name, "robust-z", 0) for name in ("tiny-adapted", "tiny")]
    assert len({job.training for job in jobs}) == 1
    together = [record for _, record, _ in run(jobs, HERE)]
    assert [record["ap"] for record in together] == [record["ap"] for record in reversed(alone)]
    assert alone[0]["ap"] != alone[1]["ap"]


@pytest.mark.usefixtures("tiny")
def test_a_failure_is_a_record_with_its_error() -> None:
    both = list(run([Job(n, "random", 0) for n in ("tiny-broken", "tiny")], HERE))
    records = [record for _, record, _ in both]
    assert records[0]["error"].startswith("DataError: Expected scores of the 19 labelled observations in their order")
    assert records[0]["error_at"].startswith("measure.py:")
    assert "auroc" not in records[0]
    assert both[0][2] == {}
    assert "error" not in records[1]  # the training was not at fault


@pytest.mark.usefixtures("tiny")
def test_data_that_fails_leaves_the_other_jobs_of_its_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Job.task

    def some(job: Job, raw: Path) -> Task:
        if job.dataset == "tiny-adapted":
            raise DataError("no history")
        return plain(job, raw)

    monkeypatch.setattr(Job, "task", some)
    records = [record for _, record, _ in run([Job(n, "random", 0) for n in ("tiny-adapted", "tiny")], HERE)]
    assert records[0]["error"] == "DataError: no history"
    assert "error" not in records[1]
    assert records[1]["prevalence"] == 0.4


@pytest.mark.usefixtures("tiny")
def test_an_interruption_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(execution, "execute", interrupt)
    with pytest.raises(KeyboardInterrupt):
        next(run([Job("tiny", "random", 0)], HERE))


@pytest.mark.usefixtures("tiny")
def test_one_training_serves_both_scorings_as_if_each_were_alone(tmp_path: Path) -> None:
    jobs = [Job("tiny", "tsadc", 0, "tiny", {**QUICK, "scoring": scoring}) for scoring in ("own", "fused")]
    jobs.append(Job("tiny", "tsadc", 0, "tiny", {**QUICK, "inference": {"residuals": ["imputation"]}}))
    alone = [result for job in jobs for result in run([job], HERE)]
    together = list(run(jobs, HERE, tmp_path))
    assert [record["shared_seconds"] > 0 for _, record, _ in together] == [False, True, True]
    for (_, record, scores), (_, other, others) in zip(alone, together, strict=True):
        np.testing.assert_array_equal(scores["score"], others["score"])
        assert (record["threshold"], record["ap"]) == (other["threshold"], other["ap"])
    assert len({record["threshold"] for _, record, _ in together}) == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
@pytest.mark.filterwarnings("ignore:Most observations")  # the data is tiny
def test_a_damaged_training_is_begun_anew(tmp_path: Path) -> None:
    file = tmp_path / "training.safetensors"
    file.write_bytes(b"no training")
    job = Job("tiny", "usad", 0, overrides=QUICK)
    first, _ = execute(job, job.task(HERE), file)
    again, _ = execute(job, job.task(HERE), file)
    assert first["shared_seconds"] == 0
    assert again["fit_seconds"] >= again["shared_seconds"] > 0
    assert again["auroc"] == first["auroc"]


@pytest.mark.usefixtures("tiny")
def test_a_limit_takes_as_many_observations(monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []
    plain = find("robust-z").fit
    monkeypatch.setattr(find("robust-z"), "fit", lambda self, X, **k: trained.append(X) or plain(self, X, **k))
    job = Job("tiny", "robust-z", 0, observations=7)
    execute(job, job.task(HERE))
    assert sum(map(len, trained[0])) == 7 * 60


def test_a_network_is_measured_on_padded_data(tmp_path: Path) -> None:
    """The last quarter of every observation was not measured."""
    folder, manifest = own_data(tmp_path)
    for file in (folder / ARRAYS).iterdir():
        values = np.load(file)
        values[:, 15:] = np.nan
        np.save(file, values)
    about = json.loads((folder / ABOUT).read_text())
    (folder / ABOUT).write_text(json.dumps(about | {"coverage": 0.75}))
    save(contaminate(load(folder), ContaminationSpec(eta=0.1, shares=(0.4, 0.2, 0.4))), manifest)
    job = Job("mine", "usad", 0, overrides=QUICK, observations=9, own=Own(folder, manifest))
    [(_, record, _)] = run([job], tmp_path)
    assert "error" not in record
    assert record["flops"] > 0


@pytest.mark.usefixtures("tiny")
def test_without_a_whole_observation_nothing_is_counted() -> None:
    job = Job("tiny", "usad", 0, overrides=QUICK)
    task = job.task(HERE)
    detector = find("usad")(config=job.config()).fit(task.train)
    known = sum(weights.numel() for weights in detector.network_.parameters())
    short = tuple(replace(series, values=series.values[:50]) for series in task.test)
    assert network_size(detector, short) == {"parameters": known, "flops": None}


@pytest.mark.usefixtures("tiny")
def test_a_training_that_was_killed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("tiny", "usad", 0, overrides={"training": {"epochs": 3}})
    [(_, whole, arrays)] = run([job], HERE)
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
        list(run([job], HERE, tmp_path))
    assert list(tmp_path.iterdir()) == [epochs[0]]
    [(_, again, same)] = run([job], HERE, tmp_path)
    assert len(epochs) == 3  # two before, one since
    np.testing.assert_array_equal(same["score"], arrays["score"])
    assert again["auroc"] == whole["auroc"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("tiny")
def test_a_label_is_kept_and_decides_nothing() -> None:
    [(_, named, _)] = run([Job("tiny", "random", 0, label="a name")], HERE)
    [(_, plain, _)] = run([Job("tiny", "random", 0)], HERE)
    assert (named["label"], plain["label"]) == ("a name", "random")
    assert (named["settings"], named["code"]) == (plain["settings"], plain["code"])


@pytest.mark.usefixtures("tiny")
def test_rows_are_measured_where_they_are_asked_for() -> None:
    [(_, record, arrays)] = run([Job("tiny", "robust-z", 0, by_row=("vus_pr", "ndcg"))], HERE)
    [(_, plain, few)] = run([Job("tiny", "robust-z", 0)], HERE)
    assert record["settings"] == plain["settings"]
    assert "vus_pr" not in plain
    assert set(arrays) - set(few) == {
        "row_score",
        "row_flag",
        "row_label",
        "row_ends",
        "row_window",
        "event_blamed",
        "event_weight",
    }
    task = draw("tiny", HERE, 0)
    assert arrays["row_label"].tolist() == task.answers.rows.tolist()
    assert arrays["row_ends"].tolist() == [600, 1200]
    assert record["series"] == 2
    assert 0 < record["vus_pr"] < 1
    assert record["events"] == len(task.answers.events)
    assert arrays["event_blamed"].tolist() == [event.blamed.tolist() for event in task.answers.events]
    assert 0 < record["ndcg"] <= 1


@pytest.mark.usefixtures("tiny")
def test_a_record_says_what_it_took() -> None:
    [(_, record, _)] = run([Job("tiny", "usad", 0, overrides=QUICK)], HERE)
    detector = find("usad")(config=Job("tiny", "usad", 0, overrides=QUICK).config()).fit(draw("tiny", HERE, 0).train)
    assert record["parameters"] == sum(one.numel() for one in detector.network_.parameters())
    assert record["fit_cpu_seconds"] > 0
    assert record["shared_seconds"] == 0
    [(_, cheap, _)] = run([Job("tiny", "robust-z", 0)], HERE)
    assert (cheap["parameters"], cheap["flops"]) == (None, None)
