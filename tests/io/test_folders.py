"""A folder appears whole or not at all."""

import pytest

from tsadc.errors import OutputError
from tsadc.io.folders import new_folder


def test_a_new_folder_appears_when_all_is_written_and_not_before(tmp_path):
    path = tmp_path / "deep" / "down" / "model"
    with new_folder(path) as temporary:
        (temporary / "part").write_text("x")
        assert not path.exists()
    assert [p.name for p in path.iterdir()] == ["part"]
    assert [p.name for p in path.parent.iterdir()] == ["model"]
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [KeyError("x"), KeyboardInterrupt(), OutputError("as it was")])
def test_nothing_is_left_of_a_folder_that_failed(tmp_path, error):
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
        pytest.raises(OutputError, match=r"model cannot be written: No space left on device\."),
        new_folder(tmp_path / "model"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["file/model", "x" * 300, "broken"])
def test_a_place_that_cannot_be_written_is_named(tmp_path, name):
    (tmp_path / "file").write_text("x")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OutputError, match="cannot be written: "), new_folder(tmp_path / name):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken", "file"]


def test_an_existing_folder_is_never_overwritten(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="exists already"), new_folder(tmp_path / "out"):
        pass
