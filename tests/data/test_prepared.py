import json

import numpy as np
import pytest

from tsadc.data.prepared import load
from tsadc.errors import DataError
from tsadc.series import Truth
from tsadc.windows import cut

KINDS = {"one": [(), ("spike",), ("spike", "drift"), ()], "two": [("drift",), ()]}


def test_a_round_trip_keeps_values_and_labels(prepared_of):
    prepared = prepared_of(KINDS)
    assert prepared.entities == ("one", "two")
    assert len(prepared) == 6
    assert prepared.kinds == ("drift", "spike")
    assert prepared.values("two").tolist() == np.stack([np.full((4, 2), 1000.0), np.full((4, 2), 1001.0)]).tolist()
    assert [label.kinds for label in prepared.labels["one"]] == [(), ("spike",), ("drift", "spike"), ()]
    assert prepared.anomalous("one").tolist() == [False, True, True, False]
    assert prepared.truth["two"] == (Truth("two", 1, 4, "drift", ("b",)),)


def test_series_carry_the_chosen_observations_and_no_labels(prepared_of):
    prepared = prepared_of(KINDS)
    series = prepared.series({"one": [1, 3], "two": [0]})
    assert [one.entity for one in series] == ["one", "two"]
    assert series[0].values[:, 0].tolist() == [1, 1, 1, 1, 3, 3, 3, 3]
    assert not hasattr(series[0], "labels")


def test_whole_entities_stay_on_disk(prepared_of):
    prepared = prepared_of(KINDS)
    assert isinstance(prepared.series()[0].values.base, np.memmap)


def test_cutting_the_series_gives_the_observations_back(prepared_of):
    prepared = prepared_of(KINDS)
    chosen = {"one": [0, 2, 3], "two": [1]}
    pieces = cut(prepared.series(chosen), prepared.length).observations
    lazily = prepared.observations(chosen)
    assert len(pieces) == len(lazily) == 4
    for i in range(4):
        np.testing.assert_array_equal(pieces.read(i), lazily.read(i))


def test_truth_moves_with_the_observations(prepared_of):
    labelled = prepared_of(KINDS).labelled({"one": [0, 2]})
    assert set(labelled.truth) == {Truth("one", 5, 8, "spike", ("b",)), Truth("one", 5, 8, "drift", ("b",))}


def test_an_anomaly_keeps_the_rows_that_remain_of_it(prepared_of):
    prepared = prepared_of({"one": [(), (), (), ()]})
    prepared.truth["one"] = (Truth("one", 2, 15, "drift", ()),)
    assert prepared.labelled({"one": [0, 1, 2, 3]}).truth == (Truth("one", 2, 15, "drift", ()),)
    assert prepared.labelled({"one": [0, 1, 3]}).truth == (Truth("one", 2, 11, "drift", ()),)
    prepared.truth["one"] = (Truth("one", 0, 2, "drift", ()), Truth("one", 13, 16, "drift", ()))
    assert prepared.labelled({"one": [3]}).truth == (Truth("one", 1, 4, "drift", ()),)


def test_the_fingerprint_covers_values_and_labels(prepared_of):
    one, same = prepared_of(KINDS), prepared_of(KINDS)
    other = prepared_of({**KINDS, "two": [("spike",), ()]})
    assert one.fingerprint("one") == same.fingerprint("one") == other.fingerprint("one")
    assert one.fingerprint("two") == same.fingerprint("two") != other.fingerprint("two")


@pytest.mark.parametrize("name", ["about.json", "labels.json"])
def test_damaged_files_are_named(prepared_of, name):
    prepared = prepared_of(KINDS)
    file = prepared.folder / name
    file.write_text(file.read_text()[:20])
    with pytest.raises(DataError, match=name):
        load(prepared.folder)


def test_what_is_no_data_set_is_refused(prepared_of, tmp_path):
    with pytest.raises(DataError, match="There is no folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"has no about\.json"):
        load(tmp_path / "empty")
    prepared = prepared_of(KINDS)
    about = json.loads((prepared.folder / "about.json").read_text())
    (prepared.folder / "about.json").write_text(json.dumps(about | {"format": 99}))
    with pytest.raises(DataError, match="upgrade tsadc"):
        load(prepared.folder)


def test_a_truncated_array_is_named(prepared_of):
    prepared = prepared_of(KINDS)
    file = prepared.folder / "observations" / "one.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(DataError, match=r"one\.npy is missing or truncated"):
        prepared.values("one")


@pytest.mark.parametrize("entity", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b"])
def test_an_entity_that_leads_elsewhere_is_refused(prepared_of, entity):
    prepared = prepared_of(KINDS)
    noted = json.loads((prepared.folder / "labels.json").read_text())
    noted[entity] = noted.pop("two")
    (prepared.folder / "labels.json").write_text(json.dumps(noted))
    with pytest.raises(DataError, match=r"labels\.json names an entity .*, which cannot be the name of a file"):
        load(prepared.folder)
