import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tsadc.bench.cell import Cell
from tsadc.bench.records import Store, cell_of, load
from tsadc.bench.run import run_and_keep
from tsadc.errors import DataError, OutputError

HERE = Path(".")


@pytest.fixture
def store(tiny: None, tmp_path: Path) -> Store:
    return Store(tmp_path / "out", tmp_path / "cache")


def test_a_record_is_kept_and_found_again(store: Store) -> None:
    cell = Cell("tiny", "random", 1, overrides={"contamination": 0.2})
    assert store.current(cell, HERE) is None
    [(_, record)] = run_and_keep([cell], HERE, store)
    assert store.current(cell, HERE) == record
    assert load(store.out) == [record]
    assert cell_of(record) == cell
    assert [file.name for file in store.file(cell).parent.iterdir()] == ["seed-1.json"]
    with np.load(store.cache / f"{record['hash']}.npz", allow_pickle=False) as arrays:
        assert arrays["score"].shape == (20,)
        assert arrays["anomalous"].mean() == 0.4
        assert arrays["entity"].tolist() == ["unit-1"] * 10 + ["unit-2"] * 10
        np.testing.assert_array_equal(arrays["chance_score"], arrays["score"].astype(np.float32))
        assert [bool(kinds) for kinds in arrays["kinds"]] == arrays["anomalous"].tolist()


def test_other_settings_are_another_record(store: Store) -> None:
    cells = [
        Cell("tiny", "tsadc", 0),
        Cell("tiny", "tsadc", 0, "tiny"),
        Cell("tiny", "tsadc", 0, "tiny", {"hidden": 0.2}),
    ]
    assert [store.file(cell).parent.name for cell in cells[:2]] == ["tsadc", "tsadc-tiny"]
    assert store.file(cells[2]).parent.name.startswith("tsadc-tiny+")
    assert len({store.file(cell) for cell in cells}) == 3


def test_a_record_of_something_else_is_made_anew(store: Store) -> None:
    cell = Cell("tiny", "random", 0)
    list(run_and_keep([cell], HERE, store))
    record = json.loads(store.file(cell).read_text())
    store.keep(cell, record | {"hash": "0"}, {})
    assert store.current(cell, HERE) is None
    store.file(cell).write_text("{")
    assert store.current(cell, HERE) is None


def test_a_failure_counts_until_it_is_to_be_retried(store: Store) -> None:
    cell = Cell("tiny-broken", "random", 0)
    [(_, record)] = run_and_keep([cell], HERE, store)
    assert store.current(cell, HERE) == record
    assert store.current(cell, HERE, retry=True) is None
    assert not store.cache.exists()


def test_what_cannot_be_read_or_written_is_named(store: Store) -> None:
    with pytest.raises(DataError, match="There is no folder"):
        load(store.out)
    store.out.write_text("a file")
    with pytest.raises(OutputError, match=r"seed-0\.json cannot be written"):
        list(run_and_keep([Cell("tiny", "random", 0)], HERE, store))
    store.out.unlink()
    list(run_and_keep([Cell("tiny", "random", 0)], HERE, store))
    store.file(Cell("tiny", "random", 0)).write_text("{")
    with pytest.raises(DataError, match=r"seed-0\.json is damaged; delete it"):
        load(store.out)


@pytest.mark.parametrize("content", ["null", "[]", "{}", '{"hash": "x", "auroc": 0.5}'])
def test_what_is_no_record_is_damaged_and_made_anew(store: Store, content: str) -> None:
    cell = Cell("tiny", "random", 0)
    list(run_and_keep([cell], HERE, store))
    store.file(cell).write_text(content)
    with pytest.raises(DataError, match=r"seed-0\.json is damaged; delete it"):
        load(store.out)
    assert store.current(cell, HERE) is None


def test_measures_of_rows_that_are_missing_are_made(store: Store) -> None:
    cell = Cell("tiny", "random", 0)
    [(_, record)] = run_and_keep([cell], HERE, store)
    asked = replace(cell, by_row=("vus_pr", "ndcg"))
    assert store.current(asked, HERE) is None
    [(_, more)] = run_and_keep([asked], HERE, store)
    assert store.current(asked, HERE) == store.current(cell, HERE) == more
    assert more["auroc"] == record["auroc"]
    assert store.current(replace(cell, by_row=("vus_pr", "another")), HERE) is None


def test_splits_have_folders_of_their_own(store: Store) -> None:
    cells = [Cell("tiny", "random", 0, split=split) for split in ({}, {"eta": 0.1}, {"eta": 0.2})]
    assert [store.file(cell).parents[1].name for cell in cells] == ["tiny", "tiny+eta=0.1", "tiny+eta=0.2"]
    few = Cell("tiny", "random", 0, observations=9)
    assert store.file(few).parent.name.startswith("random+")
    for cell in (cells[1], few):
        [(_, record)] = run_and_keep([cell], HERE, store)
        assert cell_of(record) == cell
