import pytest

from benchmark import failed, record
from tsadc.bench.summary import Grid, complete, data_of, labels_of, summarise
from tsadc.errors import DataError

SOME = [
    record("ridge", "plant", 1, 0.8),
    record("ridge", "plant", 0, 0.6),
    failed("ridge", "plant", 2),
    record("random", "plant", 0, 0.5),
    record("ridge", "ludb", 0, 0.9, split={"eta": 0.1}),
    record("ridge", "ludb", 0, 0.7, split={"eta": 0.2}),
    record("random", "ludb", 0, 0.4, split={"eta": 0.1}),
    record("tsadc", "mine", 100, 0.9),
]


def test_seeds_are_put_together() -> None:
    found = {(one.label, one.data): one for one in summarise(SOME)}
    ridge = found["ridge", "plant"]
    assert [one["seed"] for one in ridge.records] == [0, 1, 2]
    assert ridge.mean("auroc") == pytest.approx(0.7)
    assert ridge.deviation("auroc") == pytest.approx(0.02**0.5)
    assert len(ridge.fine) == 2
    assert found["random", "plant"].deviation("auroc") is None
    assert found["ridge", "ludb eta=0.1"].split == {"eta": 0.1}


def test_data_is_in_the_order_of_the_catalogue_and_labels_by_their_mean() -> None:
    every = summarise(SOME)
    assert data_of(every) == ["ludb eta=0.1", "ludb eta=0.2", "plant"]
    assert labels_of(every) == ["ridge", "random"]
    assert labels_of(summarise([*SOME, record("tsadc", "plant", 0, 0.1)])) == ["tsadc", "ridge", "random"]


def test_a_grid_finds_what_a_table_needs() -> None:
    found = Grid(summarise(SOME))
    assert found.get("ridge", "plant").mean("auroc") == pytest.approx(0.7)
    assert (found.get("nobody", "plant").records, found.get("nobody", "plant").mean("auroc")) == ((), None)
    assert found.best("plant", "auroc") == pytest.approx(0.7)
    assert found.best("nowhere", "auroc") is None
    assert len(found.whole("plant").records) == sum(len(one.records) for one in found.of("plant")) == 4


def test_seeds_for_choosing_stay_apart() -> None:
    assert [one.data for one in summarise(SOME, choosing=True)] == ["mine"]
    with pytest.raises(DataError, match="no records of seeds for choosing"):
        summarise(SOME[:2], choosing=True)


def test_splits_of_one_data_set_are_one_case() -> None:
    cases, names, table = complete(summarise(SOME), "auroc")
    assert (cases, names) == (["ludb", "plant"], ["ridge"])
    assert table == [[pytest.approx(0.8)], [pytest.approx(0.7)]]


def test_a_label_stands_for_its_job() -> None:
    assert labels_of(summarise([record("ridge", "plant", 0, 0.5, label="a name")])) == ["a name"]


def test_a_data_set_without_the_metric_does_not_count() -> None:
    """It scores rows only. A data set on which every job failed still counts, so that no label is complete."""
    rows = [record(name, "tsb-dev", 0, 0.0) | {"auroc": None} for name in ("ridge", "random")]
    both = [record(name, data, 0, 0.5) for name in ("ridge", "random") for data in ("plant", "cinc")]
    assert complete(summarise([*both, *rows]), "auroc") == complete(summarise(both), "auroc")
    assert complete(summarise(both), "auroc")[1:] == (["random", "ridge"], [[0.5, 0.5], [0.5, 0.5]])
    assert complete(summarise([*both, failed("ridge", "tsb-dev", 0)]), "auroc")[1] == []
