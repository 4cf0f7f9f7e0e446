"""SMD in its text layout. The expected counts of the 19 machines were counted from the labels themselves."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tsadc.data import prepare, smd
from tsadc.data.smd import SMD, shifts
from tsadc.errors import ConfigError, DataError
from tsadc.series import Truth

# Anomalous observations of 600 rows; every one of these machines has 39 in its train and 39 in its test part.
ANOMALOUS = {
    "machine-1-2": 8,
    "machine-1-3": 13,
    "machine-1-4": 12,
    "machine-1-5": 7,
    "machine-1-6": 29,
    "machine-1-7": 17,
    "machine-1-8": 16,
    "machine-2-1": 14,
    "machine-2-2": 13,
    "machine-2-3": 9,
    "machine-2-4": 19,
    "machine-2-5": 18,
    "machine-2-7": 20,
    "machine-2-8": 1,
    "machine-3-2": 10,
    "machine-3-3": 26,
    "machine-3-4": 9,
    "machine-3-5": 10,
    "machine-3-10": 15,
}


def write_machine(root: Path, name: str, train, test, labels, blamed: str = "") -> None:
    for part in smd.PARTS:
        (root / part).mkdir(parents=True, exist_ok=True)
    for part, values in (("train", train), ("test", test)):
        np.savetxt(root / part / f"{name}.txt", values, fmt="%.6f", delimiter=",")
    (root / "test_label" / f"{name}.txt").write_text("\n".join(str(int(flag)) for flag in labels) + "\n")
    (root / "interpretation_label" / f"{name}.txt").write_text(blamed)


def small(root: Path, name: str = "machine-1-1") -> Path:
    generator = np.random.default_rng(0)
    labels = np.zeros(25)
    labels[8:12] = labels[22:25] = 1
    write_machine(root, name, generator.random((21, 38)), generator.random((25, 38)), labels, "8-12:1,3\n22-25:38\n")
    return root


def test_both_parts_are_cut_and_labelled_by_their_points(tmp_path):
    prepared = prepare("smd", small(tmp_path / "raw"), tmp_path / "out", length=10)
    labels = prepared.labels["machine-1-1"]
    assert [(label.part, label.start) for label in labels] == [("train", 0), ("train", 10), ("test", 0), ("test", 10)]
    assert [label.kinds for label in labels] == [(), (), ("incident",), ("incident",)]
    # Rows 8 to 11 of the test part, after 20 rows of history; rows 22 to 24 lie after the last whole observation.
    assert prepared.truth["machine-1-1"] == (Truth("machine-1-1", 28, 32, "incident", ("v01", "v03")),)
    written = np.loadtxt(tmp_path / "raw" / "test" / "machine-1-1.txt", delimiter=",")
    np.testing.assert_array_equal(prepared.values("machine-1-1")[2], written[:10].astype(np.float32))


def test_the_official_folder_may_be_inside(tmp_path):
    small(tmp_path / "ServerMachineDataset")
    assert [record.name for record in SMD().records(tmp_path)] == ["machine-1-1"]


def test_machines_come_in_the_order_of_their_numbers_and_can_be_left_out(tmp_path):
    for name in ("machine-3-10", "machine-3-9", "machine-1-1"):
        small(tmp_path, name)
    assert [record.name for record in SMD().records(tmp_path)] == ["machine-1-1", "machine-3-9", "machine-3-10"]
    kept = SMD(leave_out=("machine-3-9",)).records(tmp_path)
    assert [record.name for record in kept] == ["machine-1-1", "machine-3-10"]
    with pytest.raises(DataError, match=r"no machine-9-9\.txt to leave out"):
        SMD(leave_out=("machine-9-9",)).records(tmp_path)


def test_a_run_blames_what_every_interval_touching_it_blames(tmp_path):
    labels = np.zeros(20)
    labels[2:6] = labels[12:14] = 1
    write_machine(tmp_path, "machine-1-1", np.zeros((10, 38)), np.zeros((20, 38)), labels, "1-4:2\n5-7:9\n8-10:4\n")
    pieces = list(SMD(length=20).read(SMD().records(tmp_path)[0]).pieces)
    assert [(span.start, span.stop, span.variables) for span in pieces[0].spans] == [
        (2, 6, ("v02", "v09")),
        (12, 14, ()),
    ]


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("train", "1,2,3\n", r"train/machine-1-1\.txt should have 38 columns, but has 3"),
        ("train", ",".join(["x"] * 38), r"train/machine-1-1\.txt should hold only numbers"),
        ("test_label", "0\n1\n", r"test_label/machine-1-1\.txt should hold 25 lines of 0 or 1"),
        ("interpretation_label", "8-12;1\n", r"interpretation_label/machine-1-1\.txt should read like"),
        ("interpretation_label", "8-12:39\n", r"interpretation_label/machine-1-1\.txt names rows or variables"),
        ("interpretation_label", "8-90:1\n", r"interpretation_label/machine-1-1\.txt names rows or variables"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, part, content, message):
    small(tmp_path / "raw")
    (tmp_path / "raw" / part / "machine-1-1.txt").write_text(content)
    with pytest.raises(DataError, match=message):
        prepare("smd", tmp_path / "raw", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_file_that_breaks_off_is_named_with_its_line(tmp_path):
    file = small(tmp_path) / "train" / "machine-1-1.txt"
    file.write_text(file.read_text()[:-100])
    with pytest.raises(DataError, match=r"machine-1-1\.txt breaks off or has empty fields in line 21"):
        SMD().read(SMD().records(tmp_path)[0])


def test_missing_parts_are_named(tmp_path):
    small(tmp_path)
    (tmp_path / "test_label" / "machine-1-1.txt").unlink()
    with pytest.raises(DataError, match=r"There is no file .*test_label"):
        SMD().read(SMD().records(tmp_path)[0])
    with pytest.raises(DataError, match="should hold ServerMachineDataset"):
        SMD().records(tmp_path / "train")


def test_settings_are_checked(tmp_path):
    with pytest.raises(ConfigError, match="length"):
        prepare("smd", tmp_path, tmp_path / "out", length=0)


def test_the_mini_files(native, tmp_path):
    prepared = prepare("smd", native / "smd_txt_mini", tmp_path / "out", length=100)
    assert {entity: len(labels) for entity, labels in prepared.labels.items()} == {"machine-1-3": 10, "machine-1-7": 20}
    (truth,) = prepared.truth["machine-1-3"]
    assert (truth.start, truth.stop, truth.variables) == (500 + 392, 500 + 416, ("v12", "v15"))


@pytest.mark.slow
def test_every_machine_gives_its_counts(shared_data, tmp_path):
    """From the text that the data's own script writes."""
    script = shared_data / "unpack-smd"
    if not script.is_file():
        pytest.skip("no unpack-smd here: it lies in the folder that TSADC_DATA names")
    try:
        subprocess.run([sys.executable, str(script), str(tmp_path / "raw")], check=True, capture_output=True)
        prepared = prepare("smd", tmp_path / "raw", tmp_path / "out")
        assert {machine: int(prepared.anomalous(machine).sum()) for machine in prepared.entities} == ANOMALOUS
        for labels in prepared.labels.values():
            assert [label.part for label in labels] == ["train"] * 39 + ["test"] * 39
        assert (len(prepared.entities), len(prepared), sum(ANOMALOUS.values())) == (19, 1482, 266)
        most = [(one.machine, round(one.shifted, 2)) for one in shifts(prepared)[:5]]
        assert most == [
            ("machine-2-8", 0.39),
            ("machine-3-5", 0.37),
            ("machine-1-6", 0.34),
            ("machine-2-5", 0.18),
            ("machine-2-2", 0.18),
        ]
    finally:
        for folder in ("raw", "out"):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)  # 400 MB


def test_a_whole_machine_from_its_text(shared_data, tmp_path):
    machine = "machine-1-3"
    with np.load(shared_data / "smd19.npz") as pack:
        train, test, labels = (pack[f"{machine}_{part}"] for part in ("train", "test", "test_label"))
        write_machine(
            tmp_path / "raw", machine, train / 1e6, test / 1e6, labels, str(pack[f"{machine}_interpretation_label"])
        )
    prepared = prepare("smd", tmp_path / "raw", tmp_path / "out")
    assert len(prepared) == 78
    assert prepared.anomalous(machine).sum() == ANOMALOUS[machine]
    assert prepared.about["left_out"] == {"rows after the last whole observation": 23702 + 23703 - 78 * 600}
    expected = np.concatenate([train[: 39 * 600], test[: 39 * 600]]).reshape(78, 600, 38) / 1e6
    np.testing.assert_array_equal(prepared.values(machine), expected.astype(np.float32))
    flags = np.zeros(78 * 600, dtype=bool)
    for truth in prepared.truth[machine]:
        flags[truth.start : truth.stop] = True
    np.testing.assert_array_equal(flags[39 * 600 :], labels[: 39 * 600].astype(bool))
    assert not flags[: 39 * 600].any()
