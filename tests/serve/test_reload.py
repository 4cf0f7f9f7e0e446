"""The configuration is read again while the service runs: nothing is left over, and nothing runs twice."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live import wait_for

from tsadc.serve import service as service_module
from tsadc.serve.config import read_config
from tsadc.serve.readers.folder import Folder
from tsadc.serve.service import Service


class NoScoring:
    """Stands in for the scoring processes."""

    restarts, is_running, pids = 0, True, ()

    def __init__(self, *_: Any) -> None:
        self.wake = self.stop = lambda: None


@pytest.fixture
def service(live_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    monkeypatch.setattr(service_module, "ScoringProcesses", NoScoring)
    monkeypatch.setattr(service_module, "ENDING", 0.05)
    file = tmp_path / "config.toml"
    file.write_text(f'[model.plant]\nfolder = "{live_model}"\n[reader.files]\ntype = "folder"\npath = "."\n')
    service = Service(read_config(file), file)
    yield service
    service.close()


def running(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


@pytest.fixture
def busy(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The first reader is busy until this is set."""
    release, first = threading.Event(), threading.Lock()

    def run(_: Folder, submit: Any, positions: Any, stop: threading.Event) -> None:
        if first.acquire(blocking=False):
            release.wait(60)
        else:
            stop.wait(60)

    monkeypatch.setattr(Folder, "run", run)
    yield release
    release.set()


def test_a_reader_that_outlives_a_reload_ends_when_it_is_done(busy: threading.Event, service: Service) -> None:
    [old] = running("reader files")
    service.reload()
    assert len(running("reader files")) == 2
    busy.set()
    old.join(20)
    assert len(running("reader files")) == 1


def test_two_reloads_at_once_leave_one_of_everything(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    second = threading.Thread(target=service.reload)
    begun = []

    def slow(*_: Any) -> None:
        begun.append(1)
        if len(begun) == 1:
            second.start()
            second.join(1.0)  # without a lock, the second one comes to its end meanwhile

    monkeypatch.setattr(service.ingest, "use", slow)
    service.reload()
    second.join(20)
    assert len(begun) == 2
    wait_for(lambda: len(running("refresh")) == len(running("reader files")) == 1, 20)


def test_a_service_that_has_stopped_is_not_reloaded(service: Service) -> None:
    service.close()
    service.reload()
    wait_for(lambda: not running("refresh"), 20)


def test_health_names_a_wrong_configuration_as_long_as_the_old_one_is_in_force(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert service.file is not None
    right = service.file.read_text()

    def reload(text: str) -> tuple[str, list[str]]:
        service.file.write_text(text)  # type: ignore[union-attr]
        service.reload()
        health = service.health()
        return health["status"], [own["problem"] for own in health["problems"] if own["reason"] == "configuration"]

    for wrong in ("nonsense", "colour"):
        status, [said] = reload(f"[{wrong}]\na = 1\n" + right)
        assert (status, f"`{wrong}`" in said) == ("degraded", True)
        assert said in caplog.messages
    with monkeypatch.context() as patch:
        patch.setattr("tsadc.serve.metrics.RECENT", -1.0)  # as if it were long ago
        assert [own["problem"] for own in service.health()["problems"]] == [said]
    assert reload(right) == ("ok", [])
