import json
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from tsadc.data import CATALOGUE, load, prepare
from tsadc.data.catalogue import find
from tsadc.data.dataset import Card, DataSet, Extract, Piece, Record, Span
from tsadc.errors import ConfigError, DataError, OutputError


@dataclass(frozen=True)
class Toy(DataSet):
    """Text files of numbers."""

    length: int = 2
    card: ClassVar[Card] = Card("toy", "Toy", "none", "", "", "*.txt", ("a",), 1.0, 2, "file", "n", ("odd",))

    def records(self, raw):
        return [Record(file.stem[0], file.stem, (file,)) for file in sorted(raw.glob("*.txt"))]

    def read(self, record):
        text = record.files[0].read_text()
        if not text.replace(" ", "").isdigit():
            raise DataError(f"{record.files[0]} should hold digits.")
        values = np.array(text.split(), dtype=float).reshape(-1, self.length, 1)
        pieces = [Piece(one, i * self.length, (Span(0, 1, "odd"),) * bool(one[0] % 2)) for i, one in enumerate(values)]
        return Extract(pieces, Counter({"nothing": 1}))


@pytest.fixture
def raw(tmp_path, monkeypatch):
    monkeypatch.setitem(CATALOGUE, "toy", Toy)
    folder = tmp_path / "raw"
    folder.mkdir()
    for name, text in (("a1", "1 2 4 6"), ("a2", "3 3"), ("b1", "8 8")):
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_records_of_an_entity_come_together(raw, tmp_path):
    prepared = prepare("toy", raw, tmp_path / "out")
    assert prepared.values("a")[:, :, 0].tolist() == [[1, 2], [4, 6], [3, 3]]
    assert [label.record for label in prepared.labels["a"]] == ["a1", "a1", "a2"]
    assert [label.kinds for label in prepared.labels["a"]] == [("odd",), (), ("odd",)]
    assert prepared.about["left_out"] == {"nothing": 3}
    assert sorted(prepared.about["sources"]) == ["a1.txt", "a2.txt", "b1.txt"]


def test_the_same_files_give_the_same_folder(raw, tmp_path):
    one, two = (prepare("toy", raw, tmp_path / name) for name in ("one", "two"))
    for file in ("about.json", "labels.json", "observations/a.npy"):
        assert (one.folder / file).read_bytes() == (two.folder / file).read_bytes()
    assert str(tmp_path) not in (one.folder / "about.json").read_text()


def test_a_bad_record_stops_it_or_is_left_out(raw, tmp_path):
    (raw / "a2.txt").write_text("x")
    with pytest.raises(DataError, match=r"a2\.txt should hold digits"):
        prepare("toy", raw, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.warns(UserWarning, match=r"1 of 3 records were left out: .*a2\.txt should hold digits\."):
        prepared = prepare("toy", raw, tmp_path / "out", skip_bad=True)
    assert len(prepared.labels["a"]) == 2
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    assert list(about["skipped"]) == ["a2"]
    assert "a2.txt" not in about["sources"]


def test_nothing_usable_is_refused(raw, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no files of Toy; expected \*\.txt"):
        prepare("toy", tmp_path / "empty", tmp_path / "out")
    for file in raw.iterdir():
        file.write_text("x")
    with (
        pytest.raises(DataError, match=r"in 3 records; the first bad record: .*a1\.txt should hold digits\.$"),
        warnings.catch_warnings(),
    ):
        prepare("toy", raw, tmp_path / "out", skip_bad=True)
    assert not (tmp_path / "out").exists()


def test_names_and_options_are_checked(raw, tmp_path):
    assert find("smd", "prepare") is CATALOGUE["smd"]
    assert len(prepare("TOY", raw, tmp_path / "upper")) == 4
    with pytest.raises(ConfigError, match="There is no data set 'icbep' to prepare; did you mean `icbeb`"):
        prepare("icbep", raw, tmp_path / "out")
    with pytest.raises(ConfigError, match="'smd-causal' is for benchmarks only and is not prepared; choose from `smd`"):
        prepare("smd-causal", raw, tmp_path / "out")
    with pytest.raises(ConfigError, match="There is no setting `lenght`; did you mean `length`"):
        prepare("toy", raw, tmp_path / "out", lenght=3)


def test_an_existing_folder_is_kept(raw, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        prepare("toy", raw, tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "file"), [("tusz", "aaa_s001_t000.edf"), ("dodh", "night.h5"), ("sleepedf", "SC4001E0-PSG.edf")]
)
def test_a_recording_in_two_folders_is_refused(tmp_path, name, file):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("")
    with pytest.raises(DataError, match=r"are records of the same name; keep one of them\."):
        prepare(name, tmp_path, tmp_path / "out", skip_bad=True)


def test_an_observation_without_any_value_is_left_out(raw, tmp_path, monkeypatch):
    monkeypatch.setattr(Toy, "read", lambda self, record: Extract([Piece(np.full((2, 1), v)) for v in (1.0, np.nan)]))
    prepared = prepare("toy", raw, tmp_path / "out")
    assert {entity: len(labels) for entity, labels in prepared.labels.items()} == {"a": 2, "b": 1}
    assert prepared.about["left_out"] == {"nothing measured": 3}


def test_all_that_is_left_out_is_listed(raw, tmp_path):
    (raw / "a1.txt").write_text("x")
    (raw / "a2.txt").write_text("x")
    with pytest.warns(UserWarning, match=r"2 of 3 records were left out: .*a1\.txt should .*a2\.txt should hold"):
        prepare("toy", raw, tmp_path / "out", skip_bad=True)


def test_a_file_in_the_place_of_a_folder(raw, tmp_path):
    with pytest.raises(DataError, match=r"a1\.txt is a file, but the folder that holds it was expected"):
        prepare("tusz", raw / "a1.txt", tmp_path / "out")
    with pytest.raises(DataError, match=r"a1\.txt is a file, but the folder of a prepared data set was expected"):
        load(raw / "a1.txt")
