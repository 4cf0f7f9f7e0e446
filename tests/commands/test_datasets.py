"""`tsadc data`: the list, and a data set prepared from files in its official layout."""

from pathlib import Path

import numpy as np

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
    fitted = tsadc(
        "fit", out / "observations", "--out", tmp_path / "model", "--length", 50, "--preset", "tiny", "--epochs", 1
    )
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
