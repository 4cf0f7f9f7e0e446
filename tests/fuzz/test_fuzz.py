"""A short run of the fuzzer: the same cases every time, in about 20 seconds. `make fuzz` runs the long one."""

import sys

import pytest

from fuzz.fuzzer import run, samples

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit of memory is Linux's")
pytest.importorskip("h5py")
pytest.importorskip("wfdb")
pytest.importorskip("edfio")


def failures(answers: dict[str, str]) -> dict[str, str]:
    return {case: answer for case, answer in answers.items() if answer.startswith("FAILED")}


def test_damaged_files_are_read_or_refused() -> None:
    count = 25 * len(samples())
    answers = run([f"files:{i}" for i in range(count)], deadline=60)
    assert failures(answers) == {}
    assert set(answers.values()) == {"read", "refused"}


def test_damaged_models_are_loaded_or_refused() -> None:
    answers = run([f"models:{i}" for i in range(40)], deadline=60)
    assert failures(answers) == {}
    assert set(answers.values()) == {"loaded", "refused"}


def test_damaged_requests_are_decoded_or_refused() -> None:
    pytest.importorskip("cramjam")
    answers = run([f"requests:{i}" for i in range(1200)], deadline=60)
    assert failures(answers) == {}
    assert set(answers.values()) == {"decoded", "refused"}


def test_a_crash_a_hang_and_a_traceback_are_seen() -> None:
    """The fuzzer must not report success because it sees nothing."""
    answers = run(["files:x", "files:-1", "crash:0", "hang:0", "memory:0"], seconds=3)
    assert answers["files:x"].startswith("FAILED: ValueError")
    assert answers["files:-1"] in ("read", "refused")
    assert answers["crash:0"] == "FAILED: it ended with -11"
    assert answers["hang:0"] == "FAILED: no answer within 3 s"
    assert answers["memory:0"].startswith("FAILED: MemoryError")
