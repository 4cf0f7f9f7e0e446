"""The API: rows in, verdicts out, and who may ask what."""

import asyncio
import dataclasses
import gzip
import io
import json
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from live import INTERVAL, LENGTH, NAMES, START, as_json, batch, wait_for

import tsadc
from tsadc.serve.config import Config, Model, Scope, Server
from tsadc.serve.http import create_app
from tsadc.serve.service import Service
from tsadc.serve.store import StoreError

TOKENS: dict[Scope, str] = {"read": "r" * 20, "write": "w" * 20, "admin": "a" * 20}


@pytest.fixture(scope="module")
def running(live_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a fault in its rows, scored."""
    store = tmp_path_factory.mktemp("http") / "store.sqlite"
    server = Server(store=str(store), megabytes=1, rows=1000, keep_days=10_000)
    service = Service(Config(server, {"plant": Model(folder=str(live_model))}))
    service.ingest.submit(batch("pump/0 é", 0, 8 * LENGTH + LENGTH // 2, fault=(8 * LENGTH, 9 * LENGTH)))
    service.ingest.submit(batch("pump 1", 0, 3 * LENGTH, seed=1))
    wait_for(lambda: scored(service))
    yield service
    if not service.stopping.is_set():
        service.close()


def scored(service: Service) -> bool:
    with service.store.reading() as connection:
        return min(service.store.scored(connection)) == 11 * LENGTH + LENGTH // 2


@pytest.fixture
def client(running: Service) -> TestClient:
    return TestClient(create_app(running, {}), base_url="http://localhost:8731")


@pytest.fixture
def guarded(running: Service) -> TestClient:
    return TestClient(create_app(running, TOKENS), base_url="http://localhost:8731")


def test_rows_are_stored_and_repeated_ones_counted(client: TestClient) -> None:
    body = {"rows": [{"entity": "new", "time": "2026-03-01T12:30:00Z", "values": {"flow": 1.5, "speed": None}}]}
    for stored in (1, 0):
        answer = client.post("/v1/rows", json=body)
        assert answer.status_code == 200
        assert answer.json() == {"stored": stored, "repeated": 1 - stored, "filled": 0, "notes": []}
    rows = client.get("/v1/entities/new/rows", params={"to": "2026-03-01T12:30:01Z"}).json()
    assert rows["variables"]["flow"]["min"] == [1.5]
    assert rows["variables"]["speed"]["max"] == [None]


def test_arrow_and_gzip_are_understood(client: TestClient) -> None:
    times = pa.array([START, START + INTERVAL, START], pa.timestamp("ns", "UTC"))
    table = pa.table({"entity": ["x", "x", "y"], "time": times, "flow": [1.0, None, 3.0]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = client.post("/v1/rows", content=sink.getvalue(), headers=headers)
    assert answer.json()["stored"] == 3
    body = gzip.compress(json.dumps(as_json(batch("z", 0, 2))).encode())
    assert client.post("/v1/rows", content=body, headers={"content-encoding": "gzip"}).json()["stored"] == 2


def test_telegraf_and_prometheus_find_their_paths(client: TestClient) -> None:
    line = f"plant,host=lines flow=1,pressure=2,speed=3 {START}".encode()
    assert client.post("/api/v2/write?precision=ns", content=line).status_code == 204
    assert client.post("/api/v1/write", content=b"\xff").status_code == 400


def test_an_arrow_stream_that_is_cut_off_is_refused_in_a_sentence(client: TestClient) -> None:
    table = pa.table({"entity": ["x"], "time": pa.array([START], pa.timestamp("ns")), "flow": [1.0]})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole, headers = sink.getvalue(), {"content-type": "application/vnd.apache.arrow.stream"}
    for body in (whole[:200], whole[:-30], whole.replace(b"flow", b"\xf1ow ")):
        answer = client.post("/v1/rows", content=body, headers=headers)
        assert (answer.status_code, "Arrow" in answer.json()["error"]) == (400, True)


def rows(**wrong: Any) -> str:
    """Return a body whose second row has something wrong."""
    row = {"entity": "a", "time": "2026-03-01T12:30:00Z", "values": {"flow": 1}}
    return json.dumps({"rows": [row, row | {"values": {"speed": 1}} | wrong]})


def table(**wrong: Any) -> str:
    """Return a body with a table that has something wrong."""
    right = {"entities": ["a", "a"], "names": ["flow"], "times": [START, START + 1], "values": [[1], [2]]}
    return json.dumps({"tables": [right | wrong]})


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        ("{", 400, "The body must be JSON"),
        ("[]", 400, "must have `rows`, `batches` or `tables`"),
        ('{"rows": [1]}', 400, "`rows` must be a list of objects"),
        ('{"rows": [{"entity": "a"}]}', 400, "A row must have entity, time and values"),
        (rows(time=1780000000), 400, "The time 1780000000 of row 2 looks like seconds"),
        (rows(time="noon"), 400, "The time 'noon' of row 2 is not ISO 8601"),
        (rows(time="9999-01-01"), 400, "The time '9999-01-01' of row 2 is not ISO 8601"),
        (rows(time=1.5), 400, "The time 1.5 of row 2 cannot be used; times must all be texts in ISO 8601"),
        (rows(time=2**70), 400, f"The time {float(2**70)} of row 2 cannot be used"),
        (rows(time=0), 400, "The row of 'a' at 1970-01-01T00:00:00Z lies before 1971"),
        (rows(values={"flow": "1"}), 400, "The value '1' of 'flow' in row 2 must be a number or null"),
        (rows(values={"speed": True}), 400, "The value True of 'speed' in row 2 must be a number or null"),
        (rows(values={"flow": 10**400}), 400, "too large for 64 bits"),
        (rows(values={}), 400, "Rows of 'a' have no values; send some of those of the model 'plant', which has flow"),
        (rows(entity=1), 400, "The name of an entity must be text, but got 1"),
        (rows(entity=""), 400, "The name of an entity must have 1 to 200 printable"),
        (rows(entity=" "), 400, "not only blanks, but got ' '"),
        (table(entities=["a"]), 400, "`entities` must have a name for each row, but has 1 name for 2 rows"),
        (table(times=[START, 1]), 400, "The time 1 of row 2 looks like seconds"),
        (table(times=[START, 2**63]), 400, f"The time {2**63} of row 2 has more than 64 bits"),
        (table(times=[START]), 400, "`values` must have a row for each time, but has 2 rows for 1 time"),
        (table(values=[[1.0], []]), 400, "Row 2 of `values` must be a list with a number or null for each of the 1"),
        (table(values=[[], []]), 400, "Row 1 of `values` must be a list"),
        (table(values=3), 400, "`values` must be a list of rows, but got 3"),
        ('{"rows": [{"entity": "a", "time": "2199-03-01T12:30:00Z", "values": {"flow": 1}}]}', 400, "in the future"),
        (
            '{"rows": [{"entity": "a", "time": "2026-03-01T12:30:00Z", "values": {"x": 1}}]}',
            400,
            "None of the variables",
        ),
        (json.dumps(as_json(batch("a", 0, 1001))), 413, "A request may have 1,000 rows"),
        (" " * (2**20 + 1), 413, "more than 1 MB"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(
    client: TestClient, body: str, status: int, sentence: str
) -> None:
    answer = client.post("/v1/rows", content=body)
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_entities_come_with_the_most_severe_first(client: TestClient) -> None:
    found = client.get("/v1/entities").json()
    first = found["entities"][0]
    assert (first["name"], first["state"], first["open_episodes"]) == ("pump/0 é", "open", 1)
    assert client.get("/v1/entities", params={"search": "UMP 1"}).json()["total"] == 1
    assert [own["name"] for own in client.get("/v1/entities?state=open").json()["entities"]] == ["pump/0 é"]
    assert client.get("/v1/entities?state=odd").status_code == 400


def test_an_entity_has_scores_and_rows_with_the_usual_band(client: TestClient) -> None:
    own = client.get("/v1/entities/pump/0 é").json()
    assert own["names"] == list(NAMES)
    assert own["scores"]["final"].count(True) == 8
    assert own["scores"]["end"] == sorted(own["scores"]["end"])
    rows = client.get("/v1/entities/pump/0 é/rows", params={"max_points": 50, "variable": "pressure"}).json()
    pressure = rows["variables"]["pressure"]
    assert len(rows["times"]) == len(pressure["min"]) == 50
    assert max(pressure["max"]) > max(pressure["upper"])  # the fault
    assert list(rows["variables"]) == ["pressure"]
    assert client.get("/v1/entities/nothing").status_code == 404
    assert client.get("/v1/entities/pump 1/rows?from=soon").status_code == 400


def test_all_addresses_refuse_what_is_no_time_and_take_any_other(client: TestClient) -> None:
    for path in ("/v1/entities/pump 1", "/v1/entities/pump 1/rows"):
        for name in ("from", "to"):
            for text in ("NaT", "now", "nan"):
                answer = client.get(path, params={name: text})
                assert (answer.status_code, answer.json()["error"]) == (
                    400,
                    f"`{name}` must be a time such as 2026-03-01T12:30:00Z, but got {text!r}.",
                )
            for text in ("-9223372036854", "9223372036854", "1677-09-22", "2262-04-11"):
                assert client.get(path, params={name: text}).status_code == 200
    early = client.get("/v1/entities/pump 1/rows?to=-9223372036854").json()
    assert (early["from"], early["rows"]) == ("1677-09-21T00:12:43.145224193Z", 0)
    for text in ("NaT", "now"):
        answer = client.post("/v1/mutes", json={"entity": "pump 1", "until": text})
        assert (answer.status_code, "`until` must be a time" in answer.json()["error"]) == (400, True)


def test_an_entity_may_have_any_name(client: TestClient) -> None:
    for name in ("x/rows", "x/rows/rows", "/x", "x/", "a?b#c"):
        row = {"entity": name, "time": "2026-03-01T12:30:00Z", "values": {"flow": 1.5}}
        assert client.post("/v1/rows", json={"rows": [row]}).status_code == 200
        path = f"/v1/entities/{urllib.parse.quote(name, safe='')}"
        wait_for(lambda: client.get(path).status_code == 200, 10)  # noqa: B023
        assert client.get(path).json()["name"] == name
        assert client.get(f"{path}/rows").json()["variables"]["flow"]["min"] == [1.5]


def test_an_episode_is_acknowledged_and_judged_and_the_model_learns(client: TestClient, live_model: Path) -> None:
    [episode] = client.get("/v1/episodes?state=open").json()["episodes"]
    assert episode["entity"] == "pump/0 é"
    assert episode["alarm_severity"] > 50
    path = f"/v1/episodes/{episode['id']}"
    assert client.post(f"{path}/acknowledge", json={"by": "Ada"}).json()["state"] == "acknowledged"
    judged = client.post(f"{path}/verdict", json={"verdict": "true", "note": "valve", "by": "Ada"}).json()
    assert (judged["verdict"], judged["verdict_note"], judged["verdict_by"]) == ("true", "valve", "Ada")
    assert judged.pop("learnt") is True
    assert client.get(path).json() == judged
    [taught] = tsadc.load(live_model).verdicts_
    assert (taught.id, taught.verdict, taught.by) == (episode["interval"], "true", "Ada")
    assert set(taught.views) == set(tsadc.load(live_model).view_names)
    (live_model / "verdicts.json").unlink()
    assert client.post(f"{path}/verdict", json={"verdict": "maybe"}).status_code == 422
    assert client.post("/v1/episodes/none/acknowledge", json={}).status_code == 404


def test_mutes_are_listed_and_removed(client: TestClient) -> None:
    made = client.post("/v1/mutes", json={"entity": "other*", "until": "2199-01-01T00:00:00Z", "by": "Ada"})
    assert made.status_code == 201
    assert made.json()["until"] == "2199-01-01T00:00:00Z"
    assert client.get("/v1/mutes").json()["mutes"] == [made.json()]
    assert client.delete(f"/v1/mutes/{made.json()['id']}").status_code == 204
    assert client.delete(f"/v1/mutes/{made.json()['id']}").status_code == 404
    assert client.post("/v1/mutes", json={"entity": "a", "until": "2001-01-01"}).status_code == 400


def test_health_says_what_is_wrong_and_metrics_count_it(client: TestClient, running: Service) -> None:
    client.post("/v1/rows", json={"rows": [{"entity": "b", "time": "2199-03-01T12:30:00Z", "values": {"flow": 1}}]})
    health = client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert any("in the future" in own["problem"] for own in health["problems"])
    metrics = client.get("/metrics").text
    assert 'tsadc_problems_total{reason="future"}' in metrics
    assert 'tsadc_anomalous{entity="pump/0 é"} 1.0' in metrics
    assert 'tsadc_contribution{entity="pump/0 é",variable="pressure"}' in metrics


def test_metrics_say_that_the_store_is_down(
    client: TestClient, running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "tsadc_store_up 1.0" in client.get("/metrics").text

    def failing() -> None:
        raise StoreError("The disk is full.")

    monkeypatch.setattr(running.store, "reading", failing)
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert "tsadc_store_up 0.0" in answer.text
    assert "tsadc_backlog_rows" in answer.text


def test_limits_are_those_of_the_configuration_in_force(
    client: TestClient, running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"plant,host=lines flow=1,pressure=2,speed=3 {START}".encode()
    server = dataclasses.replace(running.config.server, megabytes=2, rows=3)
    assert client.post("/v1/rows", json=as_json(batch("few", 0, 4))).status_code == 200
    assert client.post("/api/v2/write", content=line).status_code == 204
    monkeypatch.setattr(running, "config", dataclasses.replace(running.config, server=server))
    assert "may have 3 rows" in client.post("/v1/rows", json=as_json(batch("few", 0, 4))).json()["error"]
    for path in ("/v1/rows", "/api/v2/write"):
        assert "more than 2 MB" in client.post(path, content=b" " * (2 * 2**20 + 1)).json()["error"]
        compressed = gzip.compress(b" " * (2 * 2**20 + 1))
        answer = client.post(path, content=compressed, headers={"content-encoding": "gzip"})
        assert (answer.status_code, "2 MB" in answer.json()["error"]) == (413, True)


def test_a_client_that_leaves_is_no_error(running: Service) -> None:
    app = create_app(running, {})
    scope = {
        "type": "http", "method": "POST", "path": "/v1/rows", "query_string": b"", "headers": [(b"host", b"localhost")],
    }  # fmt: skip
    messages = iter([{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}])

    async def receive() -> Any:
        return next(messages)

    async def send(_: Any) -> None:
        pass

    asyncio.run(app(scope, receive, send))  # uvicorn logs what is raised with its traceback


def test_the_history_of_models_has_the_one_in_use(client: TestClient, live_model: Path) -> None:
    [model] = client.get("/v1/models").json()["models"]
    assert (model["name"], model["folder"], model["state"]) == ("plant", str(live_model), "current")


def test_answers_have_security_headers(client: TestClient) -> None:
    headers = client.get("/v1/health").headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


def test_a_page_of_another_site_is_refused(client: TestClient) -> None:
    assert client.get("/v1/entities", headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/v1/entities", headers={"host": "evil.example"}).status_code == 403
    assert client.get("/v1/entities", headers={"host": "["}).status_code == 403  # no address at all
    assert client.get("/v1/entities", headers={"origin": "http://[evil"}).status_code == 403
    assert client.get("/v1/entities", headers={"origin": "http://localhost:8731"}).status_code == 200


def test_tokens_permit_their_scope_only(guarded: TestClient) -> None:
    rows = as_json(batch("t", 0, 1))

    def ask(method: str, path: str, scope: Scope | None, **more: Any) -> int:
        headers = {} if scope is None else {"authorization": f"Bearer {TOKENS[scope]}"}
        return guarded.request(method, path, headers=headers, **more).status_code

    assert [ask("GET", "/v1/entities", scope) for scope in (None, "read", "write", "admin")] == [401, 200, 403, 200]
    assert [ask("POST", "/v1/rows", own, json=rows) for own in (None, "read", "write", "admin")] == [401, 403, 200, 200]
    assert [ask("POST", "/v1/mutes", scope, json={"entity": "q"}) for scope in ("read", "write", "admin")] == [
        403,
        403,
        201,
    ]
    assert guarded.get("/v1/entities", headers={"authorization": "Bearer wrong"}).status_code == 401
    assert guarded.get("/v1/entities", auth=("any", TOKENS["read"])).status_code == 200
    assert guarded.get("/v1/health").json() == {"status": "ok"}


def test_no_token_is_in_any_message(guarded: TestClient, running: Service, caplog: pytest.LogCaptureFixture) -> None:
    guarded.get("/v1/entities", headers={"authorization": f"Bearer {TOKENS['write']}"})
    guarded.get("/v1/entities", headers={"authorization": "Bearer mistyped-token-123"})
    said = caplog.text + json.dumps(running.health())
    assert TOKENS["write"] not in said
    assert "mistyped" not in said
