"""What Prometheus and Telegraf send arrives in the store under the names that the configuration says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from live import INTERVAL, START

from serve.wire import metric, request, series
from tsadc.serve.config import Config, Model, Part, Server
from tsadc.serve.http import create_app
from tsadc.serve.readers import line_protocol, remote_write
from tsadc.serve.rows import Overloaded
from tsadc.serve.service import Service

NAMES = (("plant_flow", "flow"), ("plant_pressure", "pressure"), ("plant_speed", "speed"))
REMOTE = remote_write.Settings(entity="machine", ignore=("job", "instance"), rename=NAMES)
LINES = line_protocol.Settings(entity="machine", measurement=False, keep=())
MILLISECOND = 10**6


@pytest.fixture(scope="module")
def service(live_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    server = Server(store=str(tmp_path_factory.mktemp("push") / "store.sqlite"), keep_days=10_000, wait=0.2)
    readers = {"remote": Part("remote_write", REMOTE), "lines": Part("line_protocol", LINES)}
    service = Service(Config(server, {"plant": Model(folder=str(live_model))}, readers))
    yield service
    service.close()


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(create_app(service, {}), base_url="http://localhost:8731")


def written(machine: str, name: str, value: float, row: int = 0) -> bytes:
    labels = metric(name, "web-1:9100", machine=machine)
    return series(labels, [((START + row * INTERVAL) // MILLISECOND, value)])


def values(client: TestClient, entity: str) -> dict[str, list[float | None]]:
    found = client.get(f"/v1/entities/{entity}/rows", params={"from": "2026-01-01T00:00:00Z"}).json()["variables"]
    return {name: found[name]["min"] for name in ("flow", "pressure", "speed")}


def test_values_of_a_row_that_come_in_several_requests_are_joined(client: TestClient) -> None:
    for body in (
        request(written("p1", "plant_flow", 1.5), written("p1", "plant_pressure", 2.5), written("p1", "other", 9.0)),
        request(written("p1", "plant_speed", 3.5)),
    ):
        assert client.post("/api/v1/write", content=body, headers={"content-encoding": "snappy"}).status_code == 204
    assert values(client, "p1") == {"flow": [1.5], "pressure": [2.5], "speed": [3.5]}


def test_lines_have_the_configured_names(client: TestClient) -> None:
    line = f"plant,machine=p2,site=x flow=1,pressure=2,speed=3 {START // 10**9}"
    assert client.post("/api/v2/write?precision=s&bucket=b&org=o", content=line).status_code == 204
    assert values(client, "p2") == {"flow": [1.0], "pressure": [2.0], "speed": [3.0]}
    answer = client.post("/api/v2/write", content="plant flow=1")
    assert answer.status_code == 400
    assert "without the label 'machine', which names the entity" in answer.json()["error"]


def test_other_formats_are_not_supported(client: TestClient) -> None:
    headers = {"content-type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}
    answer = client.post("/api/v1/write", content=b"", headers=headers)
    assert answer.status_code == 415  # with which Prometheus falls back to the first version
    assert "Remote write 2.0 is not supported" in answer.json()["error"]
    assert client.post("/api/v2/write", content=b"", headers={"content-encoding": "br"}).status_code == 415


def test_prometheus_is_asked_to_wait_in_the_way_it_understands(
    client: TestClient, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drops what is answered with 429, unless it is configured otherwise."""

    def full(*_: object) -> None:
        raise Overloaded("Too many rows wait to be stored.", 7.0)

    monkeypatch.setattr(service.ingest, "offer", full)
    remote = client.post("/api/v1/write", content=request(written("p1", "plant_flow", 1.0, row=5)))
    lines = client.post("/api/v2/write", content=f"plant,machine=p2 flow=1 {START}")
    assert (remote.status_code, lines.status_code) == (503, 429)
    assert remote.headers["retry-after"] == lines.headers["retry-after"] == "7"


def test_what_was_left_out_is_said_in_health(client: TestClient) -> None:
    body = request(series([("__name__", "plant_flow")], [(START // MILLISECOND, 1.0)]))
    assert client.post("/api/v1/write", content=body).status_code == 204
    problems = [own["problem"] for own in client.get("/v1/health").json()["problems"]]
    assert "1 value was left out: series without the label 'machine', which names the entity." in problems
