import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmark import own_data
from tsadc.bench.execute import run
from tsadc.bench.job import Job, identity
from tsadc.bench.own import Own, parts
from tsadc.data.prepared import ARRAYS
from tsadc.errors import ConfigError, DataError


@pytest.fixture
def own(tmp_path: Path) -> Own:
    return Own(*own_data(tmp_path))


def test_a_manifest_says_what_trains_and_what_is_scored(own: Own) -> None:
    manifest = json.loads(own.manifest.read_text())
    task = parts(own)
    for given, part in ((task.train, "train"), (task.validation, "validation"), (task.test, "test")):
        assert [one.entity for one in given] == list(manifest["parts"][part]["observations"])
        assert sum(len(one) for one in given) == 20 * manifest["parts"][part]["count"]
    assert task.answers.labels.sum() == manifest["parts"]["test"]["anomalous"] == 6
    assert task.answers.rows.sum() == 6 * 20
    assert own.protocol("mine").length == 20


def test_its_hash_stands_for_the_data(own: Own, tmp_path: Path) -> None:
    job = Job("mine", "robust-z", 0, own=own)
    known = identity(job, tmp_path)
    assert known["source"] == json.loads(own.manifest.read_text())["hash"][:16]
    assert str(tmp_path) not in json.dumps(known)
    [(_, record, _)] = run([job], tmp_path)
    assert record["auroc"] == 1.0
    assert {name: record[name] for name in known} == known


def test_data_that_is_not_the_manifests_is_a_failure(own: Own, tmp_path: Path) -> None:
    file = own.folder / ARRAYS / "a.npy"
    np.save(file, np.load(file) + 1)
    parts.cache_clear()
    [(_, record, _)] = run([Job("mine", "robust-z", 0, own=own)], tmp_path)
    assert "does not hold the data that" in record["error"]
    own.manifest.write_text("{}")
    with pytest.raises(DataError, match=r"is not a manifest of tsadc.*; write it by `tsadc\.data\.manifest\.save`"):
        identity(Job("mine", "robust-z", 0, own=own), tmp_path)


def test_what_is_missing_is_told_with_how_to_make_it(own: Own, tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        _ = replace(own, manifest=tmp_path / "none.json").digest
    assert str(caught.value) == (
        f"There is no manifest {tmp_path / 'none.json'}, which says what trains and what is scored; write it by "
        "`tsadc.data.manifest.save`."
    )
    with pytest.raises(DataError, match=r"There is no folder .*none; .*`tsadc\.data\.prepare_own` writes\.$"):
        replace(own, folder=tmp_path / "none").protocol("mine")


@pytest.mark.parametrize("option", ["eta", "kappa"])
def test_what_a_manifest_sets_is_no_option(option: str, own: Own) -> None:
    with pytest.raises(
        ConfigError, match=rf"is set when its manifest is made, by `tsadc\.data\.ContaminationSpec\({option}="
    ) as caught:
        own.protocol("mine").check({option: 0.1})
    assert "your own data set mine" in str(caught.value)
