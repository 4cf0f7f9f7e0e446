import subprocess
import sys

import pytest

from tsadc.nn.runtime import allocator

# Blocks above 32 MB, which glibc always hands back: count how often their pages are faulted in.
SCRIPT = """
import resource
import sys
if sys.argv[1] == "keep":
    from tsadc.nn.runtime.allocator import keep_freed_memory
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    block = bytearray(40 << 20)
    block[::4096] = bytes(10240)
    del block
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(word: str) -> int:
    done = subprocess.run([sys.executable, "-c", SCRIPT, word], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="page faults are counted on Linux")
def test_freed_memory_is_used_again() -> None:
    assert faults("keep") < 0.3 * faults("plain")


def test_it_does_nothing_where_the_system_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: object) -> None:
        raise TypeError("no such library")

    monkeypatch.setattr(allocator.sys, "platform", "win32")
    monkeypatch.setattr(allocator.ctypes, "CDLL", refuse)
    allocator.keep_freed_memory()


def test_it_does_nothing_where_the_library_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    allocator.keep_freed_memory()
