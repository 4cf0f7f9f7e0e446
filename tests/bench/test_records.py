import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsadc.bench import records
from tsadc.bench.job import Job, Record
from tsadc.bench.records import Store, current, exclusive, job_of, load, scores_file, stale
from tsadc.bench.run import run_and_keep
from tsadc.errors import DataError, OutputError

HERE = Path(".")
HOLDING = """
import sys
from pathlib import Path
from tsadc.bench.records import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def store(tiny: None, tmp_path: Path) -> Store:
    return Store(tmp_path / "out")


def run_one(job: Job, store: Store) -> Record:
    [(_, record)] = run_and_keep([job], HERE, store)
    return record


def test_a_record_is_kept_and_found_again(store: Store) -> None:
    job = Job("tiny", "random", 1, overrides={"contamination": 0.2})
    assert not current(None, job, HERE)
    record = run_one(job, store)
    assert current(record, job, HERE)
    assert load(store.out) == [record]
    assert job_of(record) == job
    with np.load(scores_file(store.out, record), allow_pickle=False) as arrays:
        assert arrays["score"].shape == (20,)
        assert arrays["anomalous"].mean() == 0.4
        assert arrays["entity"].tolist() == ["unit-1"] * 10 + ["unit-2"] * 10
        np.testing.assert_array_equal(arrays["chance_score"], arrays["score"].astype(np.float32))
        assert [bool(kinds) for kinds in arrays["kinds"]] == arrays["anomalous"].tolist()


def test_each_data_set_has_one_file_with_sorted_lines(store: Store) -> None:
    jobs = [
        Job("tiny", "random", 1),
        Job("tiny", "random", 0, split={"eta": 0.2}),
        Job("tiny", "random", 0, observations=9),
        Job("tiny-adapted", "random", 0),
        Job("tiny", "random", 0),
    ]
    for job in jobs:
        assert job_of(run_one(job, store)) == job
    run_one(jobs[0], store)
    assert sorted(file.name for file in store.out.glob("*.jsonl")) == ["tiny-adapted.jsonl", "tiny.jsonl"]
    lines = [json.loads(line) for line in (store.out / "tiny.jsonl").read_text().splitlines()]
    assert [job_of(line) for line in lines] == [jobs[4], jobs[0], jobs[2], jobs[1]]


def test_a_record_is_stale_once_settings_code_or_data_change(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("tiny", "random", 0)
    record = run_one(job, store)
    assert not stale(record, job)
    for name in ("settings", "code", "source"):
        assert not current(record | {name: "another"}, job, HERE)
    assert stale(record | {"settings": "another"}, job)
    assert stale(record | {"code": ""}, job)
    monkeypatch.setattr(records, "code_hash", lambda job: "changed")
    assert stale(record, job)


def test_a_failure_is_current_and_keeps_no_scores(store: Store) -> None:
    job = Job("tiny-broken", "random", 0)
    record = run_one(job, store)
    assert "error" in record
    assert current(record, job, HERE)
    assert not scores_file(store.out, record).exists()


@pytest.mark.parametrize("content", ["{", "null", "[]", "{}", '{"dataset": "x", "auroc": 0.5}'])
def test_a_line_that_is_no_record_is_named(store: Store, content: str) -> None:
    with pytest.raises(DataError, match="There is no folder"):
        load(store.out)
    run_one(Job("tiny", "random", 0), store)
    with (store.out / "tiny.jsonl").open("a") as file:
        file.write(content + "\n")
    with pytest.raises(DataError, match=r"tiny\.jsonl, line 2, is not a record; delete the line"):
        load(store.out)


def test_metrics_of_rows_that_are_missing_make_a_record_incomplete(store: Store) -> None:
    job = Job("tiny", "random", 0)
    record = run_one(job, store)
    wanted = replace(job, by_row=("vus_pr", "ndcg"))
    assert not current(record, wanted, HERE)
    more = run_one(wanted, store)
    assert current(more, wanted, HERE)
    assert current(more, job, HERE)
    assert more["auroc"] == record["auroc"]
    assert not current(more, replace(job, by_row=("vus_pr", "another")), HERE)


def test_a_second_run_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    out = tmp_path / "below" / "out"
    with exclusive(out):
        with pytest.raises(OutputError) as caught, exclusive(out):
            pass
        assert str(caught.value) == (
            f"Another `tsadc bench run` writes into {out}; wait until it is done, or choose another --out."
        )
        with exclusive(tmp_path / "other"):
            pass
    with pytest.raises(KeyError), exclusive(out):
        raise KeyError
    with exclusive(out):
        pass


def test_a_run_that_was_killed_blocks_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="Another `tsadc bench run` writes into"), exclusive(tmp_path):
            pass
        other.kill()
    with exclusive(tmp_path):
        pass


@pytest.mark.parametrize("place", ["out", "out/below"])
def test_a_file_is_no_folder(place: str, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(OutputError, match=f"{place} cannot be written: "), exclusive(tmp_path / place):
        pass
