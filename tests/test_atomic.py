"""Files and folders appear whole or not at all."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tsadc.atomic import locked, new_folder, refuse_existing, replaced_folder, write_file
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


def test_an_address_is_no_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refusal = "s3://bucket/model is an address, but this is written to a disk of this machine; name a folder, and copy"
    with pytest.raises(OutputError, match=refusal):
        refuse_existing(Path("s3://bucket/model"))
    for write in (new_folder, replaced_folder):
        with pytest.raises(OutputError, match=refusal), write(Path("s3://bucket/model")):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="file is a file, so no folder can be made in it; choose another place"):
        write_file(tmp_path / "file" / "deep" / "below", b"x")


def test_files_and_folders_are_synced_before_and_after_each_rename(tmp_path, monkeypatch):
    """A rename may reach the disk before the data; then a power failure leaves an empty file under the final name."""
    events, sync, replace, rename = [], os.fsync, os.replace, os.rename

    def name_of(path):
        return "temporary" if str(path).endswith(".partial") else str(Path(path).relative_to(tmp_path))

    def fsync(handle):
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        inside = next((parent for parent in (path, *path.parents) if parent.name.endswith(".partial")), None)
        events.append(("sync", str(path.relative_to(inside)) if inside else f"/{path.relative_to(tmp_path)}"))
        sync(handle)

    monkeypatch.setattr("os.fsync", fsync)
    monkeypatch.setattr("os.replace", lambda a, b: (events.append(("rename", name_of(b))), replace(a, b)))
    monkeypatch.setattr("os.rename", lambda a, b: (events.append(("rename", name_of(b))), rename(a, b)))
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are named by /proc")
    write_file(tmp_path / "file", b"x")
    assert events == [("sync", "."), ("rename", "file"), ("sync", "/.")]
    events.clear()
    with new_folder(tmp_path / "model") as folder:
        (folder / "deep").mkdir()
        (folder / "a").write_text("x")
        (folder / "deep" / "b").write_text("x")
    assert events == [
        *[("sync", name) for name in ("a", ".", "deep/b", "deep")], ("rename", "model"), ("sync", "/.")
    ]  # fmt: skip


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "demo"
    for content in ("first", "second"):
        with replaced_folder(path) as folder:
            (folder / content).touch()
            if content == "second":
                assert [file.name for file in path.iterdir()] == ["first"]
        assert [file.name for file in path.iterdir()] == [content]
        assert list(tmp_path.iterdir()) == [path]


def test_what_killed_processes_left_is_swept_after_a_day(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    names = {
        f".model.{ended.pid}-0123abcd.partial": True,
        ".model.0123abcd.partial": True,  # of an earlier version
        f".model.{os.getpid()}-0123abcd.partial": False,
        ".model.notes.partial": False,
        f".other.{ended.pid}-0123abcd.partial": False,
    }
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights").touch()
        os.utime(tmp_path / name, (time.time() - 90_000,) * 2)
    young = tmp_path / f".model.{ended.pid}-aaaaaaaa.partial"
    young.touch()
    write_file(tmp_path / "model", b"x")
    kept = {name for name, swept in names.items() if not swept}
    assert {path.name for path in tmp_path.iterdir()} == {*kept, "model", young.name}


def test_a_lock_is_held_by_one_process_and_leaves_nothing(tmp_path):
    path = tmp_path / "deep" / "lock"
    second = "import pathlib, tsadc.atomic\n"
    second += f"with tsadc.atomic.locked(pathlib.Path({str(path)!r}), 'busy'): pass"
    with locked(path, "busy"):
        done = subprocess.run([sys.executable, "-c", second], capture_output=True, text=True, check=False)
        assert done.stderr.splitlines()[-1] == "tsadc.errors.OutputError: busy"
    assert list(path.parent.iterdir()) == []
    assert subprocess.run([sys.executable, "-c", second], check=False).returncode == 0


def test_what_a_process_killed_in_a_swap_left_is_swept_later(tmp_path):
    path = tmp_path / "demo"
    (path / "old").mkdir(parents=True)
    killed = f"""
import os, pathlib, tsadc.atomic as atomic
atomic.shutil.rmtree = lambda *_, **__: os._exit(9)  # the two have changed places, and the old one is to be removed
with atomic.replaced_folder(pathlib.Path({str(path)!r})) as folder:
    (folder / "new").touch()
"""
    assert subprocess.run([sys.executable, "-c", killed], check=False).returncode == 9
    assert [file.name for file in path.iterdir()] == ["new"]
    [left] = tmp_path.glob(".demo.*.partial")
    os.utime(left, (time.time() - 90_000,) * 2)
    with replaced_folder(path) as folder:
        (folder / "newer").touch()
    assert [file.name for file in path.iterdir()] == ["newer"]
    assert list(tmp_path.iterdir()) == [path]
