"""`tsadc data`: the list, and a data set prepared from files in its official layout."""

from pathlib import Path

import numpy as np
from scipy.io import savemat

from terminal import tsadc, untouched
from tsadc.data import CATALOGUE, load


def write_smd(raw: Path, rows: int = 250) -> None:
    generator = np.random.default_rng(0)
    for machine in ("machine-1-1", "machine-3-2"):
        for part in ("train", "test"):
            file = raw / "ServerMachineDataset" / part / f"{machine}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.savetxt(file, generator.random((rows, 38)), fmt="%.6f", delimiter=",")
        labels = np.zeros(rows, dtype=int)
        labels[110:130] = 1
        for part, text in (("test_label", "\n".join(map(str, labels))), ("interpretation_label", "110-130:1,5")):
            file = raw / "ServerMachineDataset" / part / f"{machine}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n")


def test_every_data_set_is_listed_with_how_to_get_it() -> None:
    answer = tsadc("data", "list")
    words = " ".join(answer.out.split())
    assert answer.code == 0
    for name, dataset in CATALOGUE.items():
        assert name in words
        assert dataset.card.title.split()[0] in words
    assert words.count("Licence:") == words.count("Expected under --raw:") == len(CATALOGUE)


def test_smd_from_its_text_files(tmp_path: Path) -> None:
    write_smd(tmp_path / "raw")
    out = tmp_path / "smd"
    answer = tsadc("data", "prepare", "smd", "--raw", tmp_path / "raw", "--out", out, "--set", "length=50")
    assert answer.code == 0, answer.err
    assert f"Wrote 20 observations of 2 entities to {out}." in answer.out
    assert "machine-3-2" in answer.out
    assert "2 of the 28 entities of the whole archive are here." in answer.out
    prepared = load(out)
    assert sum(prepared.anomalous(entity).sum() for entity in prepared.entities) == 2
    assert answer.out.rstrip().endswith(f"tsadc fit {out / 'observations'} --length 50 --out MODEL")
    fitted = tsadc("fit", out / "observations", "--out", tmp_path / "model", "--length", 50)
    assert fitted.code == 0, fitted.err


def test_a_wrong_name_a_wrong_folder_and_an_existing_one(tmp_path: Path) -> None:
    write_smd(tmp_path / "raw")
    (tmp_path / "there").mkdir()
    with untouched(tmp_path):
        wrong = tsadc("data", "prepare", "smdd", "--raw", tmp_path / "raw", "--out", tmp_path / "out")
        empty = tsadc("data", "prepare", "smd", "--raw", tmp_path / "there", "--out", tmp_path / "out")
        there = tsadc("data", "prepare", "smd", "--raw", tmp_path / "raw", "--out", tmp_path / "there")
        unknown = tsadc(
            "data", "prepare", "smd", "--raw", tmp_path / "raw", "--out", tmp_path / "out", "--set", "lenght=5"
        )
    assert [answer.code for answer in (wrong, empty, there, unknown)] == [2, 2, 2, 2]
    assert "did you mean `smd`" in wrong.err
    assert "ServerMachineDataset" in empty.err
    assert "exists already" in there.err
    assert "did you mean `length`" in unknown.err


def test_shifts_are_of_what_was_prepared(tmp_path: Path) -> None:
    """Of machines that could not be read, or are left out on request, nothing is read a second time."""
    raw = tmp_path / "raw"
    write_smd(raw)
    (raw / "ServerMachineDataset" / "train" / "machine-1-1.txt").write_text("not,numbers\n")
    words = ("data", "prepare", "smd", "--raw", raw, "--set", "length=50", "--out")
    skipped = tsadc(*words, tmp_path / "skipped", "--skip-bad")
    left_out = tsadc(*words, tmp_path / "left-out", "--set", 'leave_out=["machine-1-1"]')
    alone = tsadc(*words, tmp_path / "alone", "--set", "leave_out=machine-1-1")
    for answer in (skipped, left_out, alone):
        assert answer.code == 0, answer.err
        table = answer.out.split("Shift of each machine's test part")[1]
        assert "machine-3-2" in table
        assert "machine-1-1" not in table


def write_ecg(raw: Path, seconds: dict[str, int]) -> None:
    """CPSC2018's structs: twelve leads at 500 Hz; the first record is normal, the others have atrial fibrillation."""
    raw.mkdir()
    generator = np.random.default_rng(0)
    for name, length in seconds.items():
        struct = {"data": generator.normal(size=(12, 500 * length)), "age": 50.0, "sex": "Male"}
        savemat(raw / f"{name}.mat", {"ECG": struct})
    (raw / "REFERENCE.csv").write_text("".join(f"{name},{min(i, 1) + 1},,\n" for i, name in enumerate(seconds)))


def test_the_fit_that_suits_padded_records_is_printed(tmp_path: Path) -> None:
    write_ecg(tmp_path / "raw", {f"A{i:04d}": seconds for i, seconds in enumerate((12, 6, 20, 9, 12, 30))})
    out = tmp_path / "icbeb"
    answer = tsadc("data", "prepare", "icbeb", "--raw", tmp_path / "raw", "--out", out, "--set", "length=2000")
    assert answer.code == 0, answer.err
    # Six of twenty seconds.
    command = f"tsadc fit {out / 'observations'} --length 2000 --set coverage=0.3 --out MODEL"
    assert answer.out.rstrip().endswith(command)


def test_observations_are_not_cut_across_their_borders(tmp_path: Path) -> None:
    write_smd(tmp_path / "raw")
    out, model = tmp_path / "smd", tmp_path / "model"
    assert tsadc("data", "prepare", "smd", "--raw", tmp_path / "raw", "--out", out, "--set", "length=50").code == 0
    other = tmp_path / "other.npy"
    np.save(other, np.random.default_rng(0).normal(size=(400, 38)))
    assert tsadc("fit", other, "--out", model, "--length", 40).code == 0
    with untouched(tmp_path):
        refused = [
            tsadc("fit", out / "observations", "--out", tmp_path / "m", "--length", 40),
            tsadc("info", out / "observations"),
            tsadc("detect", out / "observations", "--model", model, "--out", tmp_path / "found"),
        ]
    for answer, length in zip(refused, (40, 600, 40), strict=True):
        assert answer.refusal == (
            "'machine-1-1' holds observations of 50 rows, which must not be cut across, but the length is "
            f"{length}; fit with --length 50."
        )
    assert tsadc("info", out / "observations", "--length", 50).code == 0
