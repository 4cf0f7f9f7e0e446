from pathlib import Path

import pytest

from tsadc.bench.job import Job, essential, flat, identity, settings_hash, source_digest
from tsadc.detectors import find
from tsadc.detectors.threshold import Threshold
from tsadc.errors import ConfigError, DataError

HERE = Path(".")


@pytest.mark.usefixtures("tiny")
def test_other_settings_have_another_hash() -> None:
    jobs = [
        Job("tiny", "ridge", 0),
        Job("tiny", "ridge", 1),
        Job("tiny-adapted", "ridge", 0),
        Job("tiny", "robust-z", 0),
        Job("tiny", "ridge", 0, overrides={"lags": 2}),
        Job("tiny", "tsadc", 0),
        Job("tiny", "tsadc", 0, "paper"),
        Job("tiny", "ridge", 0, split={"eta": 0.2}),
        Job("tiny", "ridge", 0, split={"eta": 0.3}),
        Job("tiny", "ridge", 0, observations=10),
    ]
    hashes = [settings_hash(job) for job in jobs]
    assert len(set(hashes)) == len(jobs)
    assert hashes == [settings_hash(job) for job in jobs]


@pytest.mark.usefixtures("tiny")
def test_only_the_length_is_set_for_the_data() -> None:
    config = Job("tiny", "ridge", 3, overrides={"lags": 1}).config()
    balanced = Threshold.Config(method="balanced")
    assert config == find("ridge").Config(length=60, seed=3, lags=1, threshold=balanced)
    stated = Job("tiny", "ridge", 3, overrides={"threshold": {"method": "tail"}}).config()
    assert stated.threshold == Threshold.Config(method="tail")
    with pytest.raises(ConfigError, match="`length` comes with the data set"):
        Job("tiny", "ridge", 0, overrides={"length": 30}).config()
    with pytest.raises(ConfigError, match="This detector has only the preset `default`, but got 'paper'"):
        Job("tiny", "ridge", 0, "paper").config()
    with pytest.raises(ConfigError, match="There is no setting `lag`; did you mean `lags`"):
        Job("tiny", "ridge", 0, overrides={"lag": 1}).config()


def test_variants_name_what_was_changed() -> None:
    assert Job("tiny", "ridge", 0).variant == "ridge"
    assert Job("tiny", "tsadc", 0, "paper", {"b": 1, "a": {"d": 2, "c": "x"}}).variant == "tsadc:paper a.c=x a.d=2 b=1"
    assert flat({"a": {"b": {"c": 1}}, "d": 2}) == [("a.b.c", 1), ("d", 2)]


def test_the_source_is_known_by_its_content(tmp_path: Path) -> None:
    assert source_digest(tmp_path, "") == ""
    (tmp_path / "x.npz").write_bytes(b"abc")
    assert source_digest(tmp_path, "x.npz") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(DataError, match=r"has no y\.npz"):
        source_digest(tmp_path, "y.npz")


@pytest.mark.usefixtures("tiny")
def test_a_network_is_trained_alike_whatever_is_made_of_its_residuals() -> None:
    plain = Job("tiny", "tsadc", 0)
    same = (
        {"scoring": "own"},
        {"inference": {"masks": 3}},
        {"ensemble": {"kernels": 8}},
        {"threshold": {"method": "alarms"}},
    )
    assert {Job("tiny", "tsadc", 0, overrides=settings).training for settings in same} == {plain.training}
    others = [Job("tiny", "tsadc", 0, overrides=one) for one in ({"hidden": 0.3}, {"training": {"epochs": 2}})]
    others += [Job("tiny", "tsadc", 1), Job("tiny", "tsadc", 0, split={"eta": 0.2})]
    others += [Job("tiny", "tsadc", 0, observations=9), Job("tiny", "usad", 0)]
    assert len({job.training for job in (plain, *others)}) == 7
    assert (
        Job("tiny", "ridge", 0, overrides={"threshold": {"method": "alarms"}}).training
        != Job("tiny", "ridge", 0).training
    )


@pytest.mark.usefixtures("tiny")
def test_views_matter_where_they_choose_what_a_network_learns_from() -> None:
    names = [set(essential("usad", find("usad").Config.with_settings(selected=share))) for share in (1.0, 0.5)]
    assert names[1] - names[0] == {"ensemble"}


def test_columns_tell_splits_apart() -> None:
    assert Job("plant", "ridge", 0).data == "plant"
    assert Job("plant", "ridge", 0, split={"kappa": 2, "eta": 0.1}).data == "plant eta=0.1 kappa=2"


@pytest.mark.usefixtures("tiny")
def test_options_that_a_data_set_does_not_have_are_refused() -> None:
    with pytest.raises(ConfigError, match="The data set tiny has no option `kappa`; there is only `eta`"):
        identity(Job("tiny", "ridge", 0, split={"kappa": 1}), HERE)
    with pytest.raises(ConfigError, match="The data set tiny-adapted has no options, but got `eta`"):
        identity(Job("tiny-adapted", "ridge", 0, split={"eta": 0.1}), HERE)
    with pytest.raises(ConfigError, match=r"`eta` of the data set tiny must be a number from 0 to 0\.4, but got 0\.5"):
        identity(Job("tiny", "ridge", 0, split={"eta": 0.5}), HERE)
