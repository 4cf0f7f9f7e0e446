"""What the API refuses before it asks the service, so that none needs to run."""

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


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Any]:
    store = Store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield SimpleNamespace(store=store, config=Config(), problems=Problems())
    store.close()


@pytest.fixture
def client(service: Any) -> TestClient:
    return TestClient(create_app(service, {"admin": "a" * 20}), base_url="http://localhost")


@pytest.mark.parametrize("path", ["/v1/session", "/v1/mutes", "/v1/episodes/1/verdict", "/v1/episodes/1/acknowledge"])
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
        answer = client.post("/v1/mutes", json=given, headers=AS_ADMIN)
        assert (answer.status_code, "NUL" in answer.json()["error"]) == (422, True)
    for path in ("/v1/episodes/a%00", "/v1/entities?search=%00"):
        answer = client.get(path, headers=AS_ADMIN)
        assert (answer.status_code, "NUL" in answer.json()["error"]) == (400, True)


def test_an_unknown_token_is_not_called_expired(client: TestClient) -> None:
    for answer in (client.get("/v1/mutes"), client.post("/v1/session", json={"token": "b" * 20})):
        assert answer.status_code == 401
        assert "unknown" in answer.json()["error"]
        assert "expired" not in answer.json()["error"]


def test_a_store_whose_connections_are_all_in_use_is_asked_again_later(client: TestClient, service: Any) -> None:
    service.store.engine = sa.create_engine(
        service.store.engine.url, poolclass=sa.QueuePool, pool_size=1, max_overflow=0, pool_timeout=0.01
    )
    with service.store.engine.connect():
        answer = client.get("/v1/mutes", headers=AS_ADMIN)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"].startswith("The store ")
