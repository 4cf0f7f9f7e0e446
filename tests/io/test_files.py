import os
from pathlib import Path

import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.files import ending, entity_names, expand, stem

ENDINGS = (".csv", ".csv.gz", ".hea", ".mat")


def make(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")


def found(folder: Path, paths: object = None) -> list[str]:
    return [str(file.relative_to(folder)) for file in expand(paths or folder, ENDINGS)]


def test_a_folder_stands_for_its_files_sorted_and_not_for_what_is_below_or_hidden(tmp_path):
    make(tmp_path, "b.csv", "a.csv", "C.CSV", "z.csv.gz", ".hidden.csv", "sub/d.csv")
    assert found(tmp_path) == ["C.CSV", "a.csv", "b.csv", "z.csv.gz"]
    assert found(tmp_path, [tmp_path / "sub", tmp_path / "b.csv"]) == ["sub/d.csv", "b.csv"]


def test_a_pattern_stands_for_what_it_matches(tmp_path):
    make(tmp_path, "b1.csv", "a1.csv", "a2.csv", "sub/a3.csv", "sub.csv/x.csv")
    assert found(tmp_path, tmp_path / "a*.csv") == ["a1.csv", "a2.csv"]
    assert found(tmp_path, str(tmp_path / "*" / "*.csv")) == ["sub/a3.csv", "sub.csv/x.csv"]
    assert found(tmp_path, tmp_path / "**" / "a?.csv") == ["a1.csv", "a2.csv", "sub/a3.csv"]


def test_a_name_that_looks_like_a_pattern_is_a_name_where_there_is_such_a_file(tmp_path):
    make(tmp_path, "a[1].csv", "a1.csv")
    assert found(tmp_path, tmp_path / "a[1].csv") == ["a[1].csv"]


def test_files_of_other_kinds_are_left_out_with_a_notice(tmp_path):
    make(tmp_path, "a.csv", "b.xlsx", "c.xlsx", "LICENSE")
    with pytest.warns(TsadcNotice, match=r"has files that were not read: 2 \.xlsx, 1 LICENSE\."):
        assert found(tmp_path) == ["a.csv"]


def test_the_signals_beside_a_wfdb_header_are_read_through_it(tmp_path):
    make(tmp_path, "r1.hea", "r1.mat", "r2.hea", "r2.dat", "r3.mat")
    assert found(tmp_path) == ["r1.hea", "r2.hea", "r3.mat"]


def test_a_file_that_is_named_is_taken_whatever_it_is(tmp_path):
    assert expand([tmp_path / "none.xyz"], ENDINGS) == [tmp_path / "none.xyz"]


def refusal(paths: object) -> str:
    with pytest.raises(DataError) as caught:
        expand(paths, ENDINGS)
    assert str(caught.value).endswith(".")
    return str(caught.value)


def test_nothing_usable_is_said_in_one_sentence(tmp_path):
    assert refusal(tmp_path) == (
        f"The folder {tmp_path} has no file that can be read (with the ending .csv, .csv.gz, .hea, .mat)."
    )
    make(tmp_path, "notes.txt", "sub/a.csv")
    assert refusal(tmp_path).endswith(f"; name its subfolders, or use a pattern such as {tmp_path}/*/*.csv.")
    assert refusal(tmp_path / "*.txt").startswith(f"The pattern {tmp_path}/*.txt matches no file that can be read")
    assert refusal(tmp_path / "*.parquet") == f"No file matches {tmp_path}/*.parquet; check the pattern."
    assert refusal(Path("s3://plant/2026/*.parquet")) == (
        "s3://plant/2026/*.parquet is an address, which only `tsadc fit` and `tsadc detect` with --engine ray read; "
        "copy the files to this machine first."
    )
    assert refusal([]).startswith("No data file was given; name a file")


def test_a_file_given_twice_is_named(tmp_path):
    make(tmp_path, "a.csv", "b.csv")
    assert refusal([tmp_path, tmp_path / "b.csv"]) == f"The data file {tmp_path}/b.csv was given twice; name it once."


def test_entities_are_named_by_what_comes_before_the_ending():
    files = [Path("x/pump.1.csv"), Path("fan.csv.gz"), Path("y/fan.parquet"), Path("z/motor.GZ")]
    assert [ending(file) for file in files] == [".csv", ".csv.gz", ".parquet", ".gz"]
    assert [stem(file) for file in files] == ["pump.1", "fan", "fan", "motor"]
    assert entity_names(files) == ["pump.1", "fan.csv.gz", "y/fan.parquet", "motor"]


def test_a_name_that_is_not_utf_8_becomes_text_that_can_be_written(tmp_path):
    try:
        path = tmp_path / os.fsdecode(b"pump\xff.csv")
        path.write_text("a\n1\n")
    except OSError:
        pytest.skip("the file system knows UTF-8 only")
    assert stem(path) == "pump\\xff"
    assert entity_names([path, tmp_path / "deep" / path.name])[1].endswith("deep/pump\\xff.csv")
