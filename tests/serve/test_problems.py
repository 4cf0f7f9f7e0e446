"""What is wrong is counted, said in `/v1/health`, and written to the log, without one problem hiding another."""

import logging
from pathlib import Path
from typing import Any

import pytest
from live import LENGTH, batch, wait_for

from tsadc.serve import metrics, service
from tsadc.serve.config import read_config
from tsadc.serve.metrics import Problems, exposition
from tsadc.serve.service import Service


def test_problems_of_one_reason_are_logged_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    with caplog.at_level(logging.WARNING):
        for broker in range(3):
            problems.add("reader", f"The broker is gone for {broker} s.", about="mqtt")
        problems.add("reader", "A file is damaged.", about="folder")
        for number in range(100):
            problems.add("token", f"Wrong token from {number}.")
    assert caplog.messages[:2] == ["The broker is gone for 0 s.", "A file is damaged."]
    assert len(caplog.messages) == 2 + metrics.MOST_LOGGED
    assert problems.counts == {"reader": 4, "token": 100}


def test_a_problem_that_lasts_is_shown_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    problems = Problems()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            problems.hold("reader", "reader a: It is gone.", "reader a")
        problems.hold("reader", "reader b: It is gone.", "reader b")
    assert caplog.messages == ["reader a: It is gone.", "reader b: It is gone."]
    assert [(problem.about, problem.count) for problem in problems.lasting()] == [("reader a", 3), ("reader b", 1)]
    problems.release("reader", "reader a")
    assert [problem.about for problem in problems.lasting()] == ["reader b"]


@pytest.fixture
def failing(live_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A service whose writer and whose reader fail."""
    monkeypatch.setattr(service, "MOST_WAIT", 0.5)
    file = tmp_path / "config.toml"
    file.write_text(
        f'[server]\nstore = "{tmp_path}/s.sqlite"\nkeep_days = 10000\n'
        f'[model.plant]\nfolder = "{live_model}"\n'
        '[writer.hook]\ntype = "webhook"\nurl = "http://127.0.0.1:1"\n'
        f'[reader.files]\ntype = "folder"\npath = "{tmp_path}/in"\nevery = 0.1\n'
    )
    (tmp_path / "in").write_text("a file, not a folder")
    running = Service(read_config(file), file)
    yield running
    running.close()


def test_failing_readers_and_writers_are_in_health_log_and_metrics(failing: Service, tmp_path: Path) -> None:
    failing.ingest.submit(batch("pump 0", 0, 9 * LENGTH, fault=(7 * LENGTH, 8 * LENGTH)))
    assert wait_for(lambda: failing.problems.counts.get("writer", 0) and failing.problems.counts.get("reader", 0))
    health = failing.health()
    assert health["status"] in ("degraded", "starting")
    [waits] = [own["problem"] for own in health["problems"] if own["reason"] == "writer"]
    assert "waits for the writer 'hook'" in waits or "wait for the writer 'hook'" in waits
    assert "files" in next(own["problem"] for own in health["problems"] if own["reason"] == "reader")
    text = exposition(failing).decode()
    assert 'tsadc_problems_total{reason="writer"}' in text
    assert 'tsadc_waiting_events{writer="hook"} 0.0' not in text
    assert 'tsadc_waiting_events{writer="hook"}' in text
    (tmp_path / "in").unlink()
    (tmp_path / "in").mkdir()
    assert wait_for(lambda: not failing.problems.lasting())  # it has run for a while
