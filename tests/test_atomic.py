"""Files and folders appear whole or not at all."""

import os
from pathlib import Path

import pytest

from tsadc.atomic import new_folder, write_file
from tsadc.errors import OutputError


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_file_is_written_and_replaced(tmp_path, usual_umask):
    path = tmp_path / "deep" / "down" / "file.json"
    for content in (b"first", b"second"):
        write_file(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, error):
    path = tmp_path / "file.json"
    path.write_text("old")

    def fail(*_):
        raise error

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else KeyboardInterrupt):
        write_file(path, b"new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_not_replaced_by_a_file(tmp_path):
    with pytest.raises(OutputError, match="is a folder, but a file is to be written there; choose another name"):
        write_file(tmp_path, b"x")


@pytest.mark.parametrize("name", ["file/below", "x" * 300])
def test_a_file_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match=rf"{Path(name).name} cannot be written: .+; choose another place\."):
        write_file(tmp_path / name, b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_new_folder_appears_when_all_is_written_and_not_before(tmp_path, usual_umask):
    path = tmp_path / "deep" / "down" / "model"
    with new_folder(path) as temporary:
        (temporary / "part").write_text("x")
        assert not path.exists()
    assert [p.name for p in path.iterdir()] == ["part"]
    assert [p.name for p in path.parent.iterdir()] == ["model"]
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), OutputError("unchanged")])
def test_a_failed_folder_is_removed(tmp_path, error):
    def fail() -> None:
        with new_folder(tmp_path / "model") as temporary:
            (temporary / "part").write_text("x")
            raise error

    with pytest.raises(type(error)) as caught:
        fail()
    assert caught.value is error
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_named(tmp_path):
    with (
        pytest.raises(OutputError, match=r"model cannot be written: No space left on device; choose another place\."),
        new_folder(tmp_path / "model"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file/model", "x" * 300, "broken"])
def test_a_folder_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="cannot be written: "), new_folder(tmp_path / name):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "file"]


def test_an_existing_folder_is_never_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="exists already"), new_folder(tmp_path / "out"):
        pass


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="file is a file, so no folder can be made in it; choose another place"):
        write_file(tmp_path / "file" / "deep" / "below", b"x")
