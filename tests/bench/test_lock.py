import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tsadc.bench.lock import LOCK, alone_in, in_turn
from tsadc.errors import OutputError

HOLDING = """
import sys
from pathlib import Path
from tsadc.bench.lock import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_run_is_refused_until_the_first_is_done(tmp_path: Path) -> None:
    out = tmp_path / "below" / "out"
    with alone_in(out):
        with pytest.raises(OutputError) as caught, alone_in(out):
            pass
        assert str(caught.value) == (
            f"Another `tsadc bench run` writes into {out}; wait until it is done, or choose another --out."
        )
        with alone_in(tmp_path / "other"):
            pass
        assert (out / LOCK).exists()
    assert list(out.iterdir()) == []
    with alone_in(out):
        pass


def test_a_failure_lets_go(tmp_path: Path) -> None:
    with pytest.raises(KeyError), alone_in(tmp_path):
        raise KeyError
    with alone_in(tmp_path):
        pass


def test_a_run_that_was_killed_blocks_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(OutputError, match="Another `tsadc bench run` writes into"), alone_in(tmp_path):
            pass
        other.kill()
    assert (tmp_path / LOCK).exists()
    with alone_in(tmp_path):
        pass


def test_a_lock_that_was_just_let_go_is_not_taken_for_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, plain = [], os.open

    def late(*given: object) -> int:
        descriptor = plain(*given)  # type: ignore[arg-type]
        if not opened:
            (tmp_path / LOCK).unlink()  # by who held it, between opening and locking
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(os, "open", late)
    with alone_in(tmp_path):
        assert len(opened) == 2
        assert (tmp_path / LOCK).exists()


@pytest.mark.parametrize("place", ["out", "out/below"])
def test_a_file_is_no_folder(place: str, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(OutputError, match=f"{place} cannot be written: "), alone_in(tmp_path / place):
        pass


def test_in_turn_the_second_waits_for_the_first(tmp_path: Path) -> None:
    file, entered = tmp_path / "x.lock", threading.Event()

    def second() -> None:
        with in_turn(file):
            entered.set()

    thread = threading.Thread(target=second)
    with in_turn(file):
        thread.start()
        assert not entered.wait(0.3)
    thread.join()
    assert entered.is_set()
    assert list(tmp_path.iterdir()) == []


def test_in_turn_a_failure_lets_go(tmp_path: Path) -> None:
    with pytest.raises(KeyError), in_turn(tmp_path / "x.lock"):
        raise KeyError
    with in_turn(tmp_path / "x.lock"):
        pass
