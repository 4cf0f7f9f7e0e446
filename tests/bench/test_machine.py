import importlib.metadata
import mmap
import os
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tsadc.bench import machine
from tsadc.bench.machine import circumstances, commit, peak, reset_peak


def test_the_commit_is_named_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    commit.cache_clear()
    found = commit()
    assert found is None or len(found.rstrip("+")) == 12
    commit.cache_clear()
    monkeypatch.setenv("PATH", "")
    assert commit() is None
    commit.cache_clear()


def test_versions_are_those_installed() -> None:
    found = circumstances()
    assert found["version"] == importlib.metadata.version("tsadc")
    assert f"python {platform.python_version()}, torch {importlib.metadata.version('torch')}" in found["packages"]
    assert f"{os.cpu_count()} core" in found["machine"]


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells")
def test_the_peak_is_of_what_came_since() -> None:
    size = 2**28
    held = mmap.mmap(-1, size)  # not by the allocator, which may keep what was freed
    held.write(bytes([1]) * size)
    high = peak()
    held.close()
    reset_peak()
    assert high is not None
    assert high - peak() > 2**27


def test_other_systems_do_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PROCESSES", tmp_path)
    machine.machine.cache_clear()
    assert "GiB" not in machine.machine()
    assert peak() is None
    reset_peak()
    machine.machine.cache_clear()


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_a_repository_that_it_is_installed_in_is_not_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*words: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        return subprocess.run(
            ["git", *named, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    file = tmp_path / ".venv" / "lib" / "tsadc" / "bench" / "machine.py"
    file.parent.mkdir(parents=True)
    file.touch()
    (tmp_path / "theirs.py").touch()
    git("init", "-q")
    git("add", "theirs.py")
    git("commit", "-q", "-m", "theirs")
    monkeypatch.setattr(machine, "__file__", str(file))
    commit.cache_clear()
    assert commit() is None
    git("add", str(file))
    git("commit", "-q", "-m", "ours")
    commit.cache_clear()
    assert commit() == git("rev-parse", "--short=12", "HEAD")
    file.write_text("changed")
    commit.cache_clear()
    assert commit() == git("rev-parse", "--short=12", "HEAD") + "+"
    commit.cache_clear()
