"""The real Alertmanager receives alerts, joins those of an episode, notifies once, and resolves them."""

import dataclasses
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import LENGTH, Served, batch

from serve.programs import Receiver, free_port, get, installed, running, wait_until
from serve.test_writers import event
from tsadc.serve.writers import EpisodeEvent, alertmanager

SECOND = 10**9
ROUTES = """
route: {{receiver: hook, group_by: [episode], group_wait: 0s, group_interval: 1s, repeat_interval: 1h}}
receivers: [{{name: hook, webhook_configs: [{{url: "{url}", send_resolved: true}}]}}]
"""


@pytest.fixture
def notified() -> Iterator[Receiver]:
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def url(tmp_path: Path, notified: Receiver) -> Iterator[str]:
    program = installed("prometheus-alertmanager")
    (tmp_path / "am.yml").write_text(ROUTES.format(url=notified.url))
    address = f"127.0.0.1:{free_port()}"
    options = (
        "--config.file=am.yml",
        "--storage.path=data",
        f"--web.listen-address={address}",
        "--cluster.listen-address=",
    )
    with running(program, *options, log=tmp_path / "am.log"):
        wait_until(lambda: get(f"http://{address}/-/ready"))
        yield f"http://{address}"


def recent(transition: str, number: int = 1, **changes: object) -> EpisodeEvent:
    now = time.time_ns()
    return event(transition, number, **{"start": now - 120 * SECOND, "end": now - SECOND, **changes})


def test_an_episode_is_one_alert_until_it_is_resolved(url: str, notified: Receiver) -> None:
    writer = alertmanager.create("am", alertmanager.Settings(url=url, labels=(("team", "plant"),)))
    opened = recent("opened")
    writer.send([opened, recent("opened", number=2)])
    writer.send([opened])  # a repetition changes nothing
    writer.send([dataclasses.replace(opened, transition="updated", severity=95)])
    alerts = wait_until(lambda: len(found := get(f"{url}/api/v2/alerts")) == 2 and found)
    own = next(alert for alert in alerts if alert["labels"]["episode"] == "f1")
    assert own["labels"] == {
        "alertname": "Anomaly",
        "entity": "pump",
        "model": "plant",
        "episode": "f1",
        "team": "plant",
    }
    assert own["annotations"]["severity"] == "95"
    assert own["status"]["state"] == "active"

    def notices(episode: str) -> list[str]:
        bodies = [json.loads(body) for _, _, _, body in notified.requests]
        return [body["status"] for body in bodies if body["groupLabels"] == {"episode": episode}]

    wait_until(lambda: notices("f1") == ["firing"])
    writer.send([dataclasses.replace(opened, transition="resolved", end=time.time_ns())])
    wait_until(lambda: notices("f1") == ["firing", "resolved"])
    assert notices("f2") == ["firing"]
    assert [alert["labels"]["episode"] for alert in get(f"{url}/api/v2/alerts")] == ["f2"]


def test_an_episode_of_old_data_is_announced_and_resolved(url: str, notified: Receiver) -> None:
    """Rows that arrive late make episodes that lie entirely in the past."""
    writer = alertmanager.create("am", alertmanager.Settings(url=url))
    writer.send([event()])
    wait_until(lambda: [body["status"] for body in notified.contents] == ["firing"])
    writer.send([event("resolved")])
    wait_until(lambda: [body["status"] for body in notified.contents] == ["firing", "resolved"])


def test_alerts_end_by_themselves_when_the_service_is_gone(url: str) -> None:
    writer = alertmanager.create("am", alertmanager.Settings(url=url, remind=1))
    writer.send([recent("opened")])
    [alert] = get(f"{url}/api/v2/alerts")
    assert alert["status"]["state"] == "active"
    wait_until(lambda: get(f"{url}/api/v2/alerts") == [], 15)


def test_the_service_announces_an_episode_once_although_it_is_killed(
    url: str, notified: Receiver, live_model: Path, tmp_path: Path
) -> None:
    """A fault comes and goes; the service is killed while its alert is open, and another receiver is dead."""
    file = tmp_path / "tsadc.toml"
    file.write_text(
        f'[server]\nport = 0\nkeep_days = 10000\n[model.plant]\nfolder = "{live_model}"\n'
        f'[writer.alerts]\ntype = "alertmanager"\nurl = "{url}"\n'
        f'[writer.dead]\ntype = "webhook"\nurl = "http://127.0.0.1:{free_port()}"\n'
        '[writer.file]\ntype = "json_lines"\npath = "events.jsonl"\n'
    )
    fault = (6 * LENGTH, 8 * LENGTH)
    served = Served(file)
    try:
        assert served.push(batch("pump 0", 0, 7 * LENGTH, fault=fault)).status_code == 200
        wait_until(lambda: [body["status"] for body in notified.contents] == ["firing"], 90)
        served.kill()
        served.start()
        assert served.push(batch("pump 0", 7 * LENGTH, 5 * LENGTH, fault=fault)).status_code == 200
        wait_until(lambda: [body["status"] for body in notified.contents] == ["firing", "resolved"], 90)
        wait_until(lambda: get(f"{url}/api/v2/alerts") == [])
        lines = wait_until(lambda: (found := _transitions(tmp_path)) and found[-1][1] == "resolved" and found)
        problems = served.client.get("/v1/health").json()["problems"]
    finally:
        served.kill()
    [alert] = notified.contents[-1]["alerts"]
    assert alert["labels"]["entity"] == "pump 0"
    assert {episode for episode, _ in lines} == {alert["labels"]["episode"]}
    transitions = [transition for _, transition in lines]
    assert (transitions.count("opened"), transitions.count("resolved")) == (1, 1)
    [waiting] = [own["problem"] for own in problems if "wait for the writer 'dead'" in own["problem"]]
    assert "Connection refused" in waiting


def _transitions(folder: Path) -> list[tuple[str, str]]:
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    return [(own["fingerprint"], own["transition"]) for own in events]
