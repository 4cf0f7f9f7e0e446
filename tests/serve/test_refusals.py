"""What the API refuses before it asks the service, so that none needs to run."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient

from tsadc.serve.config import Config
from tsadc.serve.guard import MOST_BYTES
from tsadc.serve.http import create_app
from tsadc.serve.metrics import Problems
from tsadc.serve.store import Store

AS_ADMIN = {"Authorization": "Bearer " + "a" * 20}
JSON = {"Content-Type": "application/json"}
MUTE = '{"entity": "pump-*", "until": "2030-01-01T12:00:00Z"}'
VERDICT = '{"verdict": "true", "by": "Ada"}'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Any]:
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield SimpleNamespace(store=store, config=Config(), problems=Problems())
    store.close()


@pytest.fixture
def client(service: Any) -> TestClient:
    return TestClient(create_app(service, {"admin": "a" * 20}), base_url="http://localhost")


@pytest.mark.parametrize("path", ["/v1/mutes", "/v1/episodes/1/verdict", "/v1/episodes/1/acknowledge"])
def test_a_large_body_is_refused_also_if_its_size_is_not_declared(client: TestClient, service: Any, path: str) -> None:
    declared = client.post(path, content=b" " * (MOST_BYTES + 1), headers=AS_ADMIN)
    undeclared = client.post(path, content=iter([b" " * MOST_BYTES, b" "]), headers=AS_ADMIN)
    for answer in (declared, undeclared):
        assert answer.status_code == 413
        assert answer.json()["error"].startswith("The body of this request may have 65,536 bytes")
        assert answer.headers["x-frame-options"] == "DENY"
    assert service.problems.counts["size"] == 2


def test_a_body_of_the_largest_size_is_read(client: TestClient) -> None:
    body = b'{"entity": "pump"}'
    answer = client.post("/v1/mutes", content=body + b" " * (MOST_BYTES - len(body)), headers=AS_ADMIN | JSON)
    assert answer.status_code == 201


def test_the_character_nul_is_refused(client: TestClient) -> None:
    for given in ({"note": "a\0b"}, {"by": "\0"}, {"entity": "pump\0"}):
        answer = client.post("/v1/mutes", json={"entity": "pump", **given}, headers=AS_ADMIN)
        assert (answer.status_code, "NUL" in answer.json()["error"]) == (422, True)
    for path in ("/v1/episodes/a%00", "/v1/entities?search=%00"):
        answer = client.get(path, headers=AS_ADMIN)
        assert (answer.status_code, "NUL" in answer.json()["error"]) == (400, True)


def test_an_unknown_token_is_not_called_expired(client: TestClient) -> None:
    answer = client.get("/v1/mutes", headers={"Authorization": "Bearer " + "b" * 20})
    assert answer.status_code == 401
    assert "unknown" in answer.json()["error"]
    assert "expired" not in answer.json()["error"]


def test_a_cookie_is_no_token(client: TestClient) -> None:
    assert client.get("/v1/mutes", headers={"Cookie": "tsadc_token=" + "a" * 20}).status_code == 401


def test_who_was_refused_is_said(client: TestClient, service: Any) -> None:
    for headers in ({}, {"Host": "elsewhere"}, {"Origin": "http://elsewhere"}):
        client.get("/v1/mutes", headers=headers)
    assert service.problems.counts == {"token": 1, "host": 1, "origin": 1}
    assert all(" from testclient is refused: " in problem.sentence for problem in service.problems.recent())


@pytest.mark.parametrize(
    ("path", "body", "headers"),
    [
        ("/v1/rows", b"{", {}),
        ("/v1/rows", b"ARROW", {"Content-Type": "application/vnd.apache.arrow.stream"}),
        ("/v1/rows", b'{"rows": [{"entity": "a", "time": 1780000000, "values": {"flow": 1}}]}', {}),
        ("/v1/rows", b"[]", {"Content-Encoding": "br"}),
        ("/write", b"flow=", {}),
        ("/api/v1/write", b"\xff", {}),
        ("/api/v1/write", b"", {"Content-Type": "application/x-protobuf;proto=io.prometheus.write.v2.Request"}),
    ],
)
def test_a_body_that_cannot_be_read_is_counted(
    client: TestClient, service: Any, path: str, body: bytes, headers: dict[str, str]
) -> None:
    answers = [client.post(path, content=body, headers=AS_ADMIN | headers) for _ in range(2)]
    assert all(answer.status_code in (400, 415) for answer in answers)
    [problem] = service.problems.recent()
    assert (problem.reason, problem.count) == ("body", 2)
    assert problem.sentence == f"A body from testclient to {path} is refused: {answers[0].json()['error']}"


def test_of_a_sender_that_names_another_value_each_time_the_latest_sentence_is_kept(
    client: TestClient, service: Any
) -> None:
    for number in (1, 2):
        body = f'{{"rows": [{{"entity": "a", "time": {number}, "values": {{"flow": 1}}}}]}}'
        client.post("/v1/rows", content=body, headers=AS_ADMIN)
    [problem] = service.problems.recent()
    assert (problem.count, "The time 2 of row 1" in problem.sentence) == (2, True)


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "application/json", None])
def test_a_body_is_json_whatever_its_type(client: TestClient, kind: str | None) -> None:
    headers = AS_ADMIN | ({} if kind is None else {"Content-Type": kind})
    assert client.post("/v1/mutes", content=b'{"entity": "pump"}', headers=headers).status_code == 201


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/v1/mutes", b"{", 422, f"The body must be JSON in UTF-8, such as {MUTE}, but it cannot be read as"),
        (
            "POST",
            "/v1/mutes",
            b"\xff",
            400,
            f"The body must be JSON in UTF-8, such as {MUTE}, but it cannot be read as",
        ),
        ("POST", "/v1/mutes", b"[1]", 422, f"The body must be a JSON object such as {MUTE}, but got [1]."),
        ("POST", "/v1/mutes", b"", 422, f"The body must be a JSON object such as {MUTE}, but it is empty."),
        ("POST", "/v1/mutes", b"{}", 422, f"The body lacks `entity`; add it, as in {MUTE}."),
        ("POST", "/v1/mutes", b'{"by": "Ada"}', 422, f"The body lacks `entity`; add it, as in {MUTE}."),
        (
            "POST",
            "/v1/mutes",
            b'{"entity": "a", "x": 1}',
            422,
            "`x` is unknown here; correct the name, or leave it out.",
        ),
        ("POST", "/v1/mutes", b'{"entity": "a", "by": 1}', 422, "`by` must be text, but got 1."),
        ("POST", "/v1/mutes", b'{"entity": ""}', 422, "`entity` must be text that is not empty, but got ''."),
        (
            "POST",
            "/v1/mutes",
            b'{"entity": "\\u0000"}',
            422,
            "`entity` cannot be used: a text may not have the character",
        ),
        ("POST", "/v1/episodes/1/verdict", b"{}", 422, f"The body lacks `verdict`; add it, as in {VERDICT}."),
        (
            "POST",
            "/v1/episodes/1/verdict",
            b"",
            422,
            f"The body must be a JSON object such as {VERDICT}, but it is empty.",
        ),
        (
            "POST",
            "/v1/episodes/1/acknowledge",
            b"",
            422,
            'The body must be a JSON object such as {"by": "Ada"}, but it is empty.',
        ),
        (
            "POST",
            "/v1/episodes/1/verdict",
            b'{"verdict": true}',
            422,
            "`verdict` must be 'true', 'false' or 'planned', but got True.",
        ),
        ("GET", "/v1/entities?limit=0", b"", 422, "`limit` must be at least 1, but got '0'."),
        ("GET", "/v1/entities?limit=x", b"", 422, "`limit` must be a whole number, but got 'x'."),
        ("GET", "/v1/nothing", b"", 404, "There is nothing at '/v1/nothing'; /openapi.json has all addresses."),
        ("PUT", "/v1/models", b"", 405, "'/v1/models' takes GET, but got 'PUT'."),
    ],
)
def test_refusals_are_plain_sentences(
    client: TestClient, method: str, path: str, body: bytes, status: int, sentence: str
) -> None:
    answer = client.request(method, path, content=body, headers=AS_ADMIN)
    assert answer.status_code == status
    assert answer.json()["error"].startswith(sentence)


@pytest.mark.parametrize(("path", "example"), [("/v1/mutes", MUTE), ("/v1/episodes/{episode}/verdict", VERDICT)])
def test_the_example_of_a_body_is_valid_and_described(client: TestClient, path: str, example: str) -> None:
    described = client.get("/openapi.json").json()
    body = described["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert described["components"]["schemas"][body["$ref"].rpartition("/")[2]]["example"] == json.loads(example)
    answer = client.post(path.format(episode="1"), content=example, headers=AS_ADMIN)
    assert answer.status_code == (201 if path == "/v1/mutes" else 404)  # there is no such episode


def test_refusals_are_described_as_they_are_answered(client: TestClient) -> None:
    described = client.get("/openapi.json").json()
    assert "HTTPValidationError" not in described["components"]["schemas"]
    sentence = {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}}
    refusal = {"application/json": {"schema": sentence}}
    for path in described["paths"].values():
        for operation in path.values():
            assert "422" not in operation["responses"]
            assert [operation["responses"][status]["content"] for status in ("4XX", "503")] == [refusal, refusal]
    answer = client.get("/v1/entities?limit=0", headers=AS_ADMIN)
    assert (answer.status_code, list(answer.json())) == (422, ["error"])


def test_a_store_whose_connections_are_all_in_use_is_asked_again_later(client: TestClient, service: Any) -> None:
    service.store.engine = sa.create_engine(
        service.store.engine.url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    with service.store.engine.connect():
        answer = client.get("/v1/mutes", headers=AS_ADMIN)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"].startswith("The store ")
