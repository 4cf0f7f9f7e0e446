"""What a record was made with and on, and what it took."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

PROCESSES = Path("/proc")  # as Linux has it
PROCESS = PROCESSES / "self"
PACKAGES = ("tsadc", "torch", "numpy", "scipy", "scikit-learn")


def circumstances() -> dict[str, Any]:
    """Versions, the commit, the machine and the time."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "versions": {"python": platform.python_version(), **versions},
        "commit": commit(),
        "machine": machine(),
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@lru_cache(maxsize=1)
def machine() -> dict[str, Any]:
    """Processor, cores and memory in bytes, as far as the system tells."""
    named = [line.partition(":")[2].strip() for line in _lines("cpuinfo") if line.startswith("model name")]
    total = next((int(line.split()[1]) * 1024 for line in _lines("meminfo") if line.startswith("MemTotal")), None)
    return {
        "processor": named[0] if named else platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory": total,
        "system": f"{platform.system()} {platform.machine()}",
    }


def forget_peak() -> None:
    """From here on `peak` is of what comes, where the system can do that."""
    try:
        (PROCESS / "clear_refs").write_text("5")
    except OSError:
        return


def peak() -> int | None:
    """The most bytes that this process has held, None where the system does not tell."""
    lines = (line for line in _lines("self/status") if line.startswith("VmHWM"))
    return next((int(line.split()[1]) * 1024 for line in lines), None)


def _lines(name: str) -> list[str]:
    try:
        return (PROCESSES / name).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


@lru_cache(maxsize=1)
def commit() -> str | None:
    """The commit of the code, with a plus sign if files were changed since; None where no repository knows it: it may
    be installed inside of somebody else's."""
    file = Path(__file__)
    asked = (
        ["ls-files", "--error-unmatch", str(file)],
        ["rev-parse", "--short=12", "HEAD"],
        ["status", "--porcelain", "--untracked-files=no", "."],
    )
    try:
        _, name, changed = (
            subprocess.run(
                ["git", *words], cwd=file.parents[1], capture_output=True, text=True, check=True, timeout=20
            ).stdout
            for words in asked
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return name.strip() + ("+" if changed.strip() else "")
