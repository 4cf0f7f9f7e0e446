from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tsadc.data.catalogue import PROTOCOLS, draw, families, find, present
from tsadc.data.protocols import CHOOSING, rotation
from tsadc.data.task import Answers, Task
from tsadc.errors import ConfigError, DataError
from tsadc.series import Series

MACHINES = [f"machine-1-{i}" for i in range(1, 6)]


@pytest.fixture
def smd(tmp_path: Path) -> Path:
    """Five machines; the train part of machine i is 10 i + 1 everywhere, observation k of its test part 10 i + 5 + k.
    Point 700 of each test part is labelled, and of machine 1 point 10 as well; both parts end in rows that are no whole
    observation, with a label among them."""
    arrays = {}
    for i, name in enumerate(MACHINES):
        arrays[f"{name}_train"] = np.full((3 * 600 + 400, 38), (10 * i + 1) * 1_000_000, dtype=np.int32)
        rows = 10 * i + 5 + np.arange(2 * 600 + 350) // 600
        arrays[f"{name}_test"] = np.repeat((rows * 1_000_000).astype(np.int32)[:, None], 38, axis=1)
        flags = np.zeros(2 * 600 + 350, dtype=np.uint8)
        flags[[700, 1300] + ([10] if i == 1 else [])] = 1
        arrays[f"{name}_test_label"] = flags
        arrays[f"{name}_interpretation_label"] = np.array("700-701:2,5\n1300-1301:1")
    np.savez(tmp_path / "smd19.npz", **arrays)
    return tmp_path


def levels(series: Series) -> list[float]:
    """The value of each observation of a series, whose values must all be the same."""
    pieces = series.values.reshape(-1, 600 * 38)
    assert (pieces.min(axis=1) == pieces.max(axis=1)).all()
    return pieces[:, 0].tolist()


def test_causal_trains_on_train_parts_and_scores_test_parts(smd: Path) -> None:
    task = draw("smd-causal", smd, 0)
    assert [levels(one) for one in task.train] == [[10 * i + 1] * 3 for i in range(5)]
    assert [levels(one) for one in task.test] == [[10 * i + 5, 10 * i + 6] for i in range(5)]
    assert [one.entity for one in task.train] == [one.entity for one in task.test] == MACHINES
    assert task.history is None
    assert task.answers.labels.tolist() == [False, True, True, True, False, True, False, True, False, True]
    assert task.answers.entities == tuple(name for name in MACHINES for _ in range(2))
    blamed = [(event.start, event.stop, np.flatnonzero(event.blamed).tolist()) for event in task.answers.events]
    assert blamed == [
        (700, 701, [1, 4]),
        (1210, 1211, []),
        *((1200 * i + 700, 1200 * i + 701, [1, 4]) for i in range(1, 5)),
    ]
    np.testing.assert_array_equal(
        task.answers.parts["1 machines never chosen on"], np.isin(task.answers.entities, [MACHINES[1]])
    )


@pytest.mark.parametrize("name", ["smd-causal", "smd-audit", "smd-audit-all"])
def test_settings_are_chosen_on_every_other_machine(smd: Path, name: str) -> None:
    task = draw(name, smd, 100)
    for given in (task.train, task.test):
        assert [one.entity for one in given] == MACHINES[::2]
    assert task.answers.parts == {}


def test_an_audit_looks_back_over_the_recorded_period(smd: Path) -> None:
    audit, everything, causal = (draw(name, smd, 1) for name in ("smd-audit", "smd-audit-all", "smd-causal"))
    whole = [[10 * i + 1] * 3 + [10 * i + 5, 10 * i + 6] for i in range(5)]
    assert [levels(one) for one in audit.history] == whole
    assert [levels(one) for one in audit.train] == [levels(one) for one in causal.train]
    assert [levels(one) for one in everything.train] == whole
    assert everything.history is None
    assert audit.answers.kinds == everything.answers.kinds == causal.answers.kinds


def test_unseen_machines_are_in_no_training(smd: Path) -> None:
    task = draw("smd-unseen", smd, 1)
    assert [one.entity for one in task.test] == [MACHINES[1]]
    assert levels(task.history[0]) == [11] * 3
    assert [one.entity for one in task.train] == [MACHINES[i] for i in (0, 2, 3, 4)]
    drawn = [level for one in task.train for level in levels(one)[3:]]
    assert len(drawn) == 2  # of 14, an eighth
    assert set(drawn) <= {6.0, 26.0, 36.0, 46.0}
    assert all(levels(one)[:3] == [levels(one)[0]] * 3 for one in task.train)


def test_rotations_for_reporting_and_choosing_differ() -> None:
    assert [rotation(seed) for seed in (0, 1, 2, 3)] == [0, 1, 0, 1]
    assert [rotation(seed) for seed in (100, 101, 102)] == [2, 3, 2]
    assert all(max(one.report) < CHOOSING <= min(one.choose) for one in PROTOCOLS.values())


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean `smd-causal`"):
        find("smd-casual", "benchmark")
    simulated = {"plant", "plant-process", "plant-telemetry"}
    assert all(present(find(name, "benchmark"), tmp_path) for name in simulated)
    for name in sorted(set(PROTOCOLS) - simulated):
        assert not present(find(name, "benchmark"), tmp_path)
        with pytest.raises(DataError, match=rf"has no {PROTOCOLS[name].source}; set TSADC_DATA"):
            draw(name, tmp_path, 0)


def count(given: object, length: int) -> int:
    return len(given) if isinstance(given, np.ndarray) else sum(len(one) // length for one in given)  # type: ignore[attr-defined]


# Trained on, and scored: normal and anomalous. Of the train parts of SMD nothing is known.
REAL = {
    "smd-causal": (741, 475, 266),
    "smd-audit": (741, 475, 266),
    "smd-audit-all": (1482, 475, 266),
    "sleep": (138, 110, 285),
    "ludb": (16, 12, 76),
    "cinc": (13, 11, 34),
}


@pytest.mark.parametrize("name", list(REAL))
def test_the_counts_of_real_data(shared_data: Path, name: str) -> None:
    task = draw(name, shared_data, 0)
    labels = task.answers.labels
    length = PROTOCOLS[name].length
    assert (count(task.train, length), int((~labels).sum()), int(labels.sum())) == REAL[name]
    assert count(task.test, length) == len(labels)


def test_the_prevalence_of_smd(shared_data: Path) -> None:
    found = draw("smd-causal", shared_data, 0).answers
    assert len(set(found.entities)) == 19
    assert found.labels.mean() == pytest.approx(0.359, abs=5e-4)
    clean = set(np.array(found.entities)[found.parts["5 machines never chosen on"]])
    assert len(clean) == 5
    for name in ("smd-causal", "smd-audit", "smd-unseen"):
        for seed in PROTOCOLS[name].choose:
            assert not clean & set(draw(name, shared_data, seed).answers.entities)
    assert clean == set(draw("smd-unseen", shared_data, 1).answers.entities)


@pytest.mark.parametrize("seed", [0, 1, 100, 101])
def test_the_contamination_of_unseen_machines(shared_data: Path, seed: int) -> None:
    task = draw("smd-unseen", shared_data, seed)
    own = draw("smd-causal", shared_data, 0)
    trained = {one.entity for one in task.train}
    clean = sum(len(one) for one in own.train if one.entity in trained)
    total = sum(len(one) for one in task.train)
    assert 0.10 <= 1 - clean / total <= 0.15
    assert trained.isdisjoint(task.answers.entities)
    assert len(trained) + len(set(task.answers.entities)) == 19


@pytest.mark.parametrize(("name", "normal", "absent"), [("ludb", 12, set()), ("cinc", 11, {"STE"})])
def test_the_kinds_of_real_ecg(shared_data: Path, name: str, normal: int, absent: set[str]) -> None:
    kinds = Counter(kind for kinds in draw(name, shared_data, 0).answers.kinds for kind in kinds or ("normal",))
    assert kinds["normal"] == normal
    assert set(kinds) == {"normal", "AF", "I-AVB", "RBBB", "PVC", "STE"} - absent


@pytest.mark.parametrize(("name", "variables"), [("plant", 12), ("plant-process", 16), ("plant-telemetry", 33)])
def test_the_plant_has_every_kind(name: str, variables: int) -> None:
    task = draw(name, Path("."), 0)
    assert {len(series.names) for series in (*task.train, *task.test)} == {variables}
    fewer = draw(name, Path("."), 0, (("eta", 0.0), ("kappa", 1)))
    assert not np.array_equal(fewer.train[0].values, task.train[0].values, equal_nan=True)
    np.testing.assert_array_equal(fewer.test[0].values, task.test[0].values)
    assert isinstance(task, Task)
    assert isinstance(task.answers, Answers)
    assert len(task.answers.labels) == 600
    assert task.answers.labels.mean() == 0.25
    kinds = Counter(kind for kinds in task.answers.kinds for kind in kinds)
    assert sorted(kinds) == ["decoupled", "level shift", "quiet", "spike", "stuck", "waveform"]


def test_families_join_protocols_on_data_of_one_origin() -> None:
    found = families()
    together: dict[str, set[str]] = {}
    for name, family in found.items():
        together.setdefault(family, set()).add(name)
    assert {family: names for family, names in together.items() if len(names) > 1} == {
        "smd": {"smd-causal", "smd-audit", "smd-audit-all", "smd-unseen"},
        "ecg": {"ludb", "cinc"},
        "plant": {"plant", "plant-process", "plant-telemetry"},
    }
    assert set(found) == set(PROTOCOLS)
    assert all(family == name for family, (name, *others) in together.items() if not others)


NAMES = (
    "`smd-causal`, `smd-audit`, `smd-audit-all`, `smd-unseen`, `sleep`, `ludb`, `cinc`, `plant`, `skab`, `gecco`, "
    "`batadal`, `plant-process`, `plant-telemetry`, `tsb-dev`"
)


def test_an_ambiguous_name_lists_all_benchmark_data_sets() -> None:
    with pytest.raises(ConfigError) as caught:
        find("SMD", "benchmark")
    assert str(caught.value) == f"There is no data set 'SMD' to benchmark; there are {NAMES}."


@pytest.mark.parametrize("name", ["smd", "icbeb"])
def test_a_data_set_without_a_protocol_is_used_through_a_manifest(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find(name, "benchmark")
    assert str(caught.value) == (
        f"The data set {name!r} is not a benchmark; choose from {NAMES}, or prepare it and give "
        "its `folder` and `manifest`."
    )
