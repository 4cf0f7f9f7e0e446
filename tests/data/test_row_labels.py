"""Packs with a label for every row: what trains, what is scored, and what is refused. Small packs check the parsing;
the real ones, if present, check the counts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tsadc.data.catalogue import PROTOCOLS, draw
from tsadc.data.row_labels import TSB_DEV, read_histories, tsb_series
from tsadc.errors import DataError
from tsadc.windows import cut

ROWS = {"skab": 60, "gecco": 100, "batadal": 24}


def histories(name: str) -> dict[str, Any]:
    """Two entities with two variables. The history of entity b is one observation and a half; its test part is two
    observations and a third. Rows 5 to 7 and the last row are labelled; the second variable is partly missing."""
    length = ROWS[name]
    long = 2 * length + length // 3
    values = np.arange(2.0 * long, dtype=np.float32).reshape(long, 2)
    values[3:9, 1] = np.nan
    flags = np.zeros(long, dtype=bool)
    flags[[5, 6, 7, long - 1]] = True
    short = values[: length + length // 2]
    return {
        "variables": np.array(["x", "y"]),
        "entities": np.array(["b", "a"]),
        "length": np.array(length),
        "train/a": values,
        "test/a": short,
        "label/a": flags[: len(short)],
        "train/b": short,
        "test/b": values,
        "label/b": flags,
    }


@pytest.mark.parametrize("name", list(ROWS))
def test_an_entity_trains_on_its_history_and_is_scored_on_what_follows(tmp_path: Path, name: str) -> None:
    arrays, length = histories(name), ROWS[name]
    np.savez(tmp_path / f"{name}.npz", **arrays)
    task = draw(name, tmp_path, 0)
    for given, part in ((task.train, "train"), (task.test, "test")):
        assert [series.entity for series in given] == ["b", "a"]
        for series in given:
            np.testing.assert_array_equal(series.values, arrays[f"{part}/{series.entity}"])
            assert series.names == ("x", "y")
    assert task.history is task.validation is None
    # A third of an observation is too little to be scored, so the last label of b counts for rows only.
    assert task.answers.entities == ("b", "b", "a", "a")
    assert task.answers.labels.tolist() == [True, False, True, False]
    np.testing.assert_array_equal(task.answers.rows, np.concatenate([arrays["label/b"], arrays["label/a"]]))
    long = len(arrays["test/b"])
    assert [(event.start, event.stop) for event in task.answers.events] == [
        (5, 8),
        (long - 1, long),
        (long + 5, long + 8),
    ]
    assert not any(event.blamed.any() for event in task.answers.events)
    assert len({kind for kinds in task.answers.kinds for kind in kinds}) == 1
    assert PROTOCOLS[name].length == length
    assert PROTOCOLS[name].report == (0, 1, 2)


@pytest.mark.parametrize("name", list(ROWS))
def test_there_is_one_draw(tmp_path: Path, name: str) -> None:
    np.savez(tmp_path / f"{name}.npz", **histories(name))
    one, other = draw(name, tmp_path, 0), draw(name, tmp_path, 100)
    for before, after in zip(one.train + one.test, other.train + other.test, strict=True):
        np.testing.assert_array_equal(before.values, after.values)
    assert one.answers.kinds == other.answers.kinds


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"length": np.array(50)}, "should have observations of 60 rows, but its `length` is 50"),
        ({"train/a": np.zeros((60, 3))}, r"'train/a' of shape \(row, 2 variables\), but it has \(60, 3\)"),
        ({"label/a": np.zeros(7, bool)}, "one label, 0 or 1, for each of 90 rows in 'label/a'"),
        ({"label/a": np.full(90, 2)}, "one label, 0 or 1, for each of 90 rows in 'label/a'"),
    ],
)
def test_a_pack_whose_arrays_do_not_fit_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "skab.npz", **{**histories("skab"), **changed})
    with pytest.raises(DataError, match=message):
        read_histories(tmp_path, "skab.npz", 60, "fault")


@pytest.fixture
def tsb(tmp_path: Path) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    return {
        "names": np.array(["dev_B", "dev_A"]),
        "train_rows": np.array([10, 20]),
        "window": np.array([7, 100]),
        "values/dev_A": generator.standard_normal((50, 3)).astype(np.float32),
        "label/dev_A": np.arange(50) % 10 == 9,
        "values/dev_B": generator.standard_normal((30, 1)).astype(np.float32),
        "label/dev_B": np.arange(30) == 29,
    }


def test_each_series_of_tsb_is_a_task_of_its_own(tmp_path: Path, tsb: dict[str, Any]) -> None:
    np.savez(tmp_path / TSB_DEV, **tsb)
    first, second = tsb_series(tmp_path)
    assert (first.name, first.train_rows, first.window) == ("dev_B", 10, 7)
    assert (second.name, second.train_rows, second.window) == ("dev_A", 20, 100)
    assert second.series.names == ("v01", "v02", "v03")
    for task in (first, second):
        assert task.series.entity == task.train.entity == task.name
        np.testing.assert_array_equal(task.series.values, tsb[f"values/{task.name}"])
        np.testing.assert_array_equal(task.train.values, tsb[f"values/{task.name}"][: task.train_rows])
        np.testing.assert_array_equal(task.labels, tsb[f"label/{task.name}"])
        assert task.labels.dtype == bool


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"window": np.array([7])}, "one entry per series in `names`, `train_rows` and `window`"),
        ({"train_rows": np.array([30, 20])}, "should be 1 to 29, but is 30"),
        ({"label/dev_B": np.zeros(29)}, "one label, 0 or 1, for each of 30 rows in 'label/dev_B'"),
        ({"values/dev_B": np.zeros(30)}, r"'values/dev_B' of shape \(row, variable\), but it has \(30,\)"),
    ],
)
def test_a_pack_of_tsb_that_does_not_fit_is_refused(
    tmp_path: Path, tsb: dict[str, Any], changed: dict[str, Any], message: str
) -> None:
    np.savez(tmp_path / TSB_DEV, **{**tsb, **changed})
    with pytest.raises(DataError, match=message):
        list(tsb_series(tmp_path))


def test_the_series_of_tsb_that_are_not_of_smd_are_a_part(tmp_path: Path, tsb: dict[str, Any]) -> None:
    np.savez(tmp_path / TSB_DEV, **tsb)
    assert draw("tsb-dev", tmp_path, 0).parts == {}
    renamed = {key.replace("dev_A", "dev_SMD_A"): value for key, value in tsb.items()}
    np.savez(tmp_path / TSB_DEV, **{**renamed, "names": np.array(["dev_B", "dev_SMD_A"])})
    draw.cache_clear()
    task = draw("tsb-dev", tmp_path, 0)
    assert [series.name for series in task.series] == ["dev_B", "dev_SMD_A"]
    assert {name: inside.tolist() for name, inside in task.parts.items()} == {"1 series not of SMD": [True, False]}


def test_tsb_without_its_pack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no tsb_dev\.npz; set TSADC_DATA"):
        next(tsb_series(tmp_path))


def pack_or_skip(folder: Path, name: str) -> Path:
    if not (folder / name).is_file():
        pytest.skip(f"{folder} has no {name}")
    return folder


@pytest.mark.parametrize(
    ("name", "entities", "variables", "trained", "scored", "anomalous", "missing"),
    [
        ("skab", 34, 8, 238, 393, 254, 0.0),
        ("gecco", 1, 9, 1387, 1150, 69, 0.1754),
        ("batadal", 1, 43, 365, 261, 53, 0.0),
    ],
)
def test_the_real_packs_of_histories(
    shared_data: Path,
    name: str,
    entities: int,
    variables: int,
    trained: int,
    scored: int,
    anomalous: int,
    missing: float,
) -> None:
    task = draw(name, pack_or_skip(shared_data, f"{name}.npz"), 0)
    assert len(task.train) == len(task.test) == entities
    assert {len(series.names) for series in (*task.train, *task.test)} == {variables}
    assert len(cut(task.train, ROWS[name]).observations) == trained
    assert (len(task.answers.labels), task.answers.labels.sum()) == (scored, anomalous)
    holes = [np.isnan(series.values).mean() for series in task.test]
    assert np.mean(holes) == pytest.approx(missing, abs=5e-4)


def test_the_real_pack_of_tsb(shared_data: Path) -> None:
    tasks = list(tsb_series(pack_or_skip(shared_data, TSB_DEV)))
    origins = [task.name.split("_")[1] for task in tasks]
    assert (len(tasks), origins.count("SMAP"), origins.count("MSL"), origins.count("SMD")) == (32, 15, 8, 9)
    for task in tasks:
        assert f"_tr_{task.train_rows}_1st_{int(task.labels.argmax())}" in task.name
        assert 0 < task.labels.mean() < 0.2
        assert np.isfinite(task.series.values).all()
    assert list(draw("tsb-dev", shared_data, 0).parts) == ["23 series not of SMD"]
