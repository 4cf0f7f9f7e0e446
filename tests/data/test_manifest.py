import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.data import ContaminationSpec, contaminate, load
from tsadc.data.manifest import describe, rebuild, save
from tsadc.errors import DataError, OutputError

PATIENTS = {f"p{i}": [()] * 6 + [("u",), ("v",)] for i in range(8)}
SPEC = ContaminationSpec(eta=0.2, kappa=1, seed=5, shares=(0.5, 0.25, 0.25))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0.15, 0.4), st.integers(1, 2), st.integers(0, 9))
def test_a_round_trip(prepared_of, tmp_path, eta, kappa, seed):
    draw = contaminate(
        prepared_of(PATIENTS), ContaminationSpec(eta=eta, kappa=kappa, seed=seed, shares=(0.5, 0.25, 0.25))
    )
    save(draw, tmp_path / "split.json")
    elsewhere = prepared_of(PATIENTS)
    again = rebuild(tmp_path / "split.json", elsewhere)
    assert again.parts == draw.parts
    assert again.spec == draw.spec
    assert again.kinds == draw.kinds
    for ours, theirs in zip(draw.series("train"), again.series("train"), strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)


def test_what_is_written_down(prepared_of):
    prepared = prepared_of(PATIENTS)
    draw = contaminate(prepared, SPEC)
    content = describe(draw)
    assert content["data_set"] == "smd"
    assert content["plan"]["eta"] == 0.2
    assert content["plan"]["seed"] == 5
    count, anomalous = draw.count("train")
    train = content["parts"]["train"]
    assert (train["count"], train["anomalous"], train["kinds"]) == (count, anomalous, {draw.kinds[0]: anomalous})
    assert content["content"]["p0"] == prepared.fingerprint("p0")
    assert describe(contaminate(prepared, SPEC)) == content


@pytest.fixture
def manifest(prepared_of, tmp_path):
    save(contaminate(prepared_of(PATIENTS), SPEC), tmp_path / "split.json")
    return tmp_path / "split.json"


def test_other_labels_are_noticed(prepared_of, manifest):
    other = prepared_of({**PATIENTS, "p3": [()] * 6 + [("u",), ("u",)]})
    with pytest.raises(DataError, match=r"does not hold the data that .*split\.json was drawn from: p3 differs"):
        rebuild(manifest, other)


def test_a_single_changed_value_is_noticed(prepared_of, manifest):
    prepared = prepared_of(PATIENTS)
    values = np.load(prepared.folder / "observations" / "p2.npy")
    values[0, 0, 0] += 1e-3
    np.save(prepared.folder / "observations" / "p2.npy", values)
    with pytest.raises(DataError, match="p2 differs, as it was prepared differently or changed since"):
        rebuild(manifest, load(prepared.folder))


def test_another_source_is_named(prepared_of, manifest):
    prepared = prepared_of({**PATIENTS, "p3": [()] * 7 + [("u",)]})
    prepared.about["sources"]["x.txt"] = "1"
    with pytest.raises(DataError, match=r"its source x\.txt is another file"):
        rebuild(manifest, prepared)


def test_other_data_is_noticed(prepared_of, manifest):
    with pytest.raises(DataError, match="is about the data set smd"):
        rebuild(manifest, prepared_of(PATIENTS, name="tusz"))
    with pytest.raises(DataError, match="is about observations of 4 rows and 2 variables"):
        rebuild(manifest, prepared_of(PATIENTS, length=5))
    with pytest.raises(DataError, match="needs the entity p7"):
        rebuild(manifest, prepared_of({name: one for name, one in PATIENTS.items() if name != "p7"}))


def test_a_changed_manifest_is_noticed(prepared_of, manifest):
    content = json.loads(manifest.read_text())
    content["plan"]["seed"] = 6
    manifest.write_text(json.dumps(content))
    with pytest.raises(DataError, match="was changed after it was written"):
        rebuild(manifest, prepared_of(PATIENTS))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "truncated or not JSON"), ("[]", "not a manifest"), ('{"format": 9, "hash": ""}', "upgrade")],
)
def test_what_is_no_manifest_is_refused(prepared_of, tmp_path, text, message):
    (tmp_path / "split.json").write_text(text)
    with pytest.raises(DataError, match=message):
        rebuild(tmp_path / "split.json", prepared_of(PATIENTS))
    with pytest.raises(DataError, match="There is no manifest"):
        rebuild(tmp_path / "nothing.json", prepared_of(PATIENTS))


def test_a_place_that_cannot_be_written_is_named(prepared_of, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"split\.json cannot be written"):
        save(contaminate(prepared_of(PATIENTS), SPEC), tmp_path / "file" / "split.json")
