"""Requests made from the OpenAPI description, valid and invalid ones: none is answered with a server error."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import schemathesis
from fastapi.testclient import TestClient
from live import LENGTH, batch, wait_for

from tsadc.serve.config import Config, Model, Server
from tsadc.serve.http import create_app
from tsadc.serve.service import Service

EXAMPLES = int(os.environ.get("TSADC_EXAMPLES", "15"))  # of each operation; `make fuzz` sends more
LOCAL = {"host": "localhost"}
# It never ends by itself: server-sent events.
ENDLESS = "/v1/changes"
# They start processes that train or score.
COSTLY = ("/v1/models/{name}/refresh", "/v1/models/{name}/rollback", "/v1/episodes/{episode}/verdict")


@pytest.fixture(scope="module")
def app(live_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    store = tmp_path_factory.mktemp("openapi") / "store.sqlite"
    service = Service(Config(Server(store=str(store), keep_days=10_000), {"plant": Model(folder=str(live_model))}))
    service.ingest.submit(batch("pump", 0, 9 * LENGTH, fault=(7 * LENGTH, 9 * LENGTH)))
    wait_for(
        lambda: TestClient(create_app(service, {}), base_url="http://localhost").get("/v1/episodes").json()["total"]
    )
    yield create_app(service, {})
    service.close()


def answers(operation: Any, known: dict[str, str], count: int) -> set[int]:
    """Send requests to an operation, half of them about something that exists, and return how they were answered."""
    statuses: set[int] = set()
    numbers = itertools.count()

    @hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy())
    def send(case: Any) -> None:
        if next(numbers) % 2:
            given = case.path_parameters or {}
            case.path_parameters = {name: known.get(name, value) for name, value in given.items()}
        answer = case.call(headers=LOCAL)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, (operation.path, answer.text)

    send()
    return statuses


def test_no_request_is_answered_with_a_server_error(app: Any) -> None:
    described = schemathesis.openapi.from_asgi("/openapi.json", app, headers=LOCAL)
    episode = TestClient(app, base_url="http://localhost").get("/v1/episodes").json()["episodes"][0]["id"]
    known = {"entity": "pump", "episode": episode, "name": "plant"}
    seen: dict[str, set[int]] = {}
    for result in described.get_all_operations():
        operation = result.ok()
        if operation.path in COSTLY:
            seen[operation.label] = answers(operation, {}, 2)
        elif operation.path != ENDLESS:
            seen[operation.label] = answers(operation, known, EXAMPLES)
    assert len(seen) > 20
    for needed in ("POST /v1/rows", "GET /v1/entities/{entity}/rows", "POST /v1/episodes/{episode}/acknowledge"):
        assert 200 in seen[needed], seen
