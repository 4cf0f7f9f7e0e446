"""The software and the machine that a record was made with, and the memory it took."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from tsadc.optional import versions

PROCESSES = Path("/proc")  # on Linux
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn")


def circumstances() -> dict[str, str | None]:
    """Return the versions, the commit, the machine and the time."""
    packages = [f"{name} {version}" for name, version in versions(PACKAGES).items()]
    return {
        "version": importlib.metadata.version("tsadc"),
        "commit": commit(),
        "packages": ", ".join([f"python {platform.python_version()}", *packages]),
        "machine": machine(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@lru_cache(maxsize=1)
def machine() -> str:
    """Return processor, cores, memory and system, as far as the system reports them."""
    models = [line.partition(":")[2].strip() for line in _lines("cpuinfo") if line.startswith("model name")]
    processor = models[0] if models else platform.processor() or platform.machine()
    memory = [f"{int(line.split()[1]) / 2**20:.0f} GiB" for line in _lines("meminfo") if line.startswith("MemTotal")]
    cores = os.cpu_count()
    parts = [processor, f"{cores} core{'' if cores == 1 else 's'}", *memory]
    return ", ".join([*parts, f"{platform.system()} {platform.machine()}"])


def reset_peak() -> None:
    """Reset the peak memory that `peak` reports, if the system supports it."""
    try:
        (PROCESSES / "self" / "clear_refs").write_text("5")
    except OSError:
        return


def peak() -> int | None:
    """Return the most bytes that this process has held, or None if the system does not report it."""
    lines = (line for line in _lines("self/status") if line.startswith("VmHWM"))
    return next((int(line.split()[1]) * 1024 for line in lines), None)


def _lines(name: str) -> list[str]:
    try:
        return (PROCESSES / name).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


@lru_cache(maxsize=1)
def commit() -> str | None:
    """Return the commit of the code, with a plus sign if files were changed since. Return None if this file is in no
    repository; the repository around it may be another project's."""
    file = Path(__file__)
    commands = (
        ["ls-files", "--error-unmatch", str(file)],
        ["rev-parse", "--short=12", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no", "."],
    )
    try:
        _, name, changed = (
            subprocess.run(
                ["git", *words], cwd=file.parents[1], capture_output=True, text=True, check=True, timeout=20
            ).stdout
            for words in commands
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return name.strip() + ("+" if changed.strip() else "")
