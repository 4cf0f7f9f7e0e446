"""Writers send events in the format of their receiver, and say clearly why they could not."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from serve.programs import Receiver, free_port
from tsadc.config import build
from tsadc.errors import ConfigError
from tsadc.serve.endpoint import Refused
from tsadc.serve.writers import DeliveryError, EpisodeEvent, alertmanager, grafana, json_lines, webhook

SECOND = 10**9
START = 1_700_000_000 * SECOND


def event(transition: str = "opened", number: int = 1, **changes: Any) -> EpisodeEvent:
    content: dict[str, Any] = {
        "id": f"pump-{number}", "fingerprint": f"f{number}", "transition": transition, "entity": "pump", "start": START,
        "end": START + 90 * SECOND, "severity": 70, "score": 3.25, "kind": "level", "reason": "flow is too high.",
        "variables": {"flow": 0.75, "pressure": 0.25}, "model": "plant",
    }  # fmt: skip
    return EpisodeEvent(**{**content, **changes})


def test_a_webhook_gets_json_and_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "a-secret-of-16-chars")
    with Receiver() as receiver:
        writer = webhook.create("hook", webhook.Settings(url=f"{receiver.url}/in?key=1", token_variable="HOOK_TOKEN"))
        writer.send([event(), event(muted=True, number=2), event("resolved", muted=True, number=3)])
    [(method, path, headers, body)] = receiver.requests
    assert (method, path, headers["authorization"]) == ("POST", "/in?key=1", "Bearer a-secret-of-16-chars")
    events = json.loads(body)["events"]
    assert [(item["fingerprint"], item["transition"], item["muted"]) for item in events] == [
        ("f1", "opened", False),
        ("f3", "resolved", True),
    ]
    assert events[0]["start"] == "2023-11-14T22:13:20.000Z"
    assert events[0]["variables"] == {"flow": 0.75, "pressure": 0.25}
    assert (events[0]["severity"], events[0]["score"], events[0]["entity"]) == (70, 3.25, "pump")


@pytest.mark.parametrize(
    ("status", "headers", "kind", "retry_after"),
    [
        (503, {"Retry-After": "7"}, DeliveryError, 7.0),
        (429, {}, DeliveryError, None),
        (500, {"Retry-After": "soon"}, DeliveryError, None),
        (302, {"Location": "http://127.0.0.1:1/other"}, DeliveryError, None),
        (400, {}, Refused, None),
    ],
)
def test_a_failure_is_one_sentence(status: int, headers: dict[str, str], kind: type, retry_after: float | None) -> None:
    with Receiver(lambda *_: (status, headers, b"no\nroom")) as receiver:
        writer = webhook.create("hook", webhook.Settings(url=receiver.url.replace("//", "//me:secret@")))
        with pytest.raises(DeliveryError) as error:
            writer.send([event()])
    assert type(error.value) is kind
    assert receiver.requests[0][2]["authorization"] == "Basic bWU6c2VjcmV0"
    assert str(error.value) == f"{receiver.url} answered {status}: no room"
    assert error.value.retry_after == retry_after


def test_an_unreachable_receiver_is_one_sentence() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(DeliveryError, match=f"^{url} cannot be reached: Connection refused$"):
        webhook.create("hook", webhook.Settings(url=url)).send([event()])
    with Receiver(lambda *_: (time.sleep(1), (200, {}, b""))[1]) as receiver:  # type: ignore[func-returns-value]
        slow = webhook.create("hook", webhook.Settings(url=receiver.url, timeout=0.1))
        with pytest.raises(DeliveryError, match="cannot be reached: timed out"):
            slow.send([event()])


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match="'w' needs `url`"):
        webhook.create("w", webhook.Settings())
    with pytest.raises(ConfigError, match="'w' needs `path`"):
        json_lines.create("w", json_lines.Settings())
    with pytest.raises(ConfigError, match=r"`writer\.w\.url` must be an address that begins with http"):
        build(webhook.Settings, {"url": "localhost:9093"}, "writer.w")
    with pytest.raises(ConfigError, match=r"`writer\.w\.labels` must be pairs of a name like team"):
        build(alertmanager.Settings, {"url": "http://a", "labels": [["entity", "x"]]}, "writer.w")
    with pytest.raises(ConfigError, match="there is no such environment variable"):
        webhook.create("w", webhook.Settings(url="http://a", token_variable="TSADC_ABSENT"))


def test_an_alert_has_the_same_labels_as_long_as_its_episode() -> None:
    settings = build(alertmanager.Settings, {"url": "http://a", "labels": [["team", "plant"]], "page": "http://tsadc"})
    now = START + 1000 * SECOND
    first = alertmanager.alert(event(), settings, now)
    later = alertmanager.alert(event("updated", severity=90, reason="other", score=5.0), settings, now + 5 * SECOND)
    ended = alertmanager.alert(event("resolved"), settings, now)
    labels = {"alertname": "Anomaly", "entity": "pump", "model": "plant", "episode": "f1", "team": "plant"}
    assert first["labels"] == later["labels"] == ended["labels"] == labels
    assert first["annotations"]["summary"] == "pump: flow is too high."
    assert first["annotations"]["variables"] == "flow (75%), pressure (25%)"
    assert later["annotations"]["severity"] == "90"
    assert first["startsAt"] == "2023-11-14T22:13:20.000Z"
    assert first["endsAt"] == "2023-11-14T22:34:00.000Z"  # four reminders after now
    assert ended["endsAt"] == "2023-11-14T22:14:50.000Z"
    assert first["generatorURL"] == "http://tsadc"


def test_only_the_latest_state_of_an_episode_is_sent_to_alertmanager() -> None:
    with Receiver() as receiver:
        writer = alertmanager.create("am", alertmanager.Settings(url=receiver.url))
        writer.send([event(), event(number=2, muted=True), event("resolved")])
        writer.send([event(muted=True)])
    assert [path for _, path, _, _ in receiver.requests] == ["/api/v2/alerts"]
    [[alert]] = receiver.contents
    assert alert["labels"]["episode"] == "f1"
    assert alert["endsAt"] == "2023-11-14T22:14:50.000Z"


def test_an_episode_is_one_annotation_in_grafana() -> None:
    known: dict[int, dict[str, Any]] = {}

    def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        if method == "GET":
            found = [
                {"id": number} for number, content in known.items() if "episode%3Af1" in path and "f1" in str(content)
            ]
            return 200, {}, json.dumps(found).encode()
        if method == "POST":
            known[len(known) + 7] = json.loads(body)
        else:
            known[int(path.rpartition("/")[2])].update(json.loads(body))
        return 200, {}, b"{}"

    with Receiver(answer) as receiver:
        writer = grafana.create("g", grafana.Settings(url=receiver.url, dashboard="abc"))
        writer.send([event()])
        writer.send([event(), event("resolved", end=START + 120 * SECOND, muted=True)])
    assert known == {
        7: {
            "time": START // 10**6, "timeEnd": START // 10**6 + 120_000, "dashboardUID": "abc",
            "tags": ["tsadc", "entity:pump", "episode:f1", "muted"],
            "text": "pump: flow is too high.\nflow (75%), pressure (25%)\nSeverity 70",
        }
    }  # fmt: skip


def test_lines_of_json_are_appended_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    writer = json_lines.create("file", json_lines.Settings(path=str(path)))
    writer.send([event(), event("resolved")])
    writer.send([event("resolved"), event(number=2, score=float("inf"))])  # after a crash, the first is sent again
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(item["fingerprint"], item["transition"], item["score"]) for item in found] == [
        ("f1", "opened", 3.25),
        ("f1", "resolved", 3.25),
        ("f2", "opened", None),
    ]


def test_a_line_that_was_cut_off_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"old": 1}\n{"episode": "pump-1", "fing')
    json_lines.create("file", json_lines.Settings(path=str(path))).send([event()])
    assert [next(iter(json.loads(line))) for line in path.read_text().splitlines()] == ["old", "episode"]


@pytest.mark.parametrize("before", [b'{"old": 1}\n\n{"old": 2}', b"a note", b"x" * (json_lines.TAIL + 1)])
def test_a_line_of_another_program_is_kept(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(before)
    writer = json_lines.create("file", json_lines.Settings(path=str(path)))
    writer.send([event()])
    writer.send([event(), event("resolved")])
    *kept, first, second = path.read_bytes().split(b"\n")[:-1]
    assert b"\n".join(kept) == before
    assert [json.loads(line)["transition"] for line in (first, second)] == ["opened", "resolved"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DeliveryError, match="cannot be written: Permission denied"):
        json_lines.create("file", json_lines.Settings(path=str(tmp_path / "a"))).send([event()])


@pytest.mark.parametrize(
    ("path", "sentence"), [(".", "is a folder; name a file"), ("new/a", "new of the .* create it")]
)
def test_a_place_that_can_have_no_file_is_refused(tmp_path: Path, path: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        json_lines.create("file", json_lines.Settings(path=str(tmp_path / path)))
