"""A small model, an empty store on each database, and a running service for the tests of `tsadc serve`."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from live import INTERVAL, LENGTH, NAMES, PostgreSQL, Served, waves

import tsadc
from tsadc.series import Clock
from tsadc.serve.config import Config, Model, Server
from tsadc.serve.store import Store


@pytest.fixture(scope="session")
def live_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live") / "plant"
    clock = Clock(0, INTERVAL, dated=True)
    history = [tsadc.Series(waves(np.arange(30 * LENGTH), seed), NAMES, clock, f"pump {seed}") for seed in range(2)]
    tsadc.Ensemble(length=LENGTH).fit(history).save(folder)
    return folder


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, as in the configuration."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite")
    server: PostgreSQL = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def config(url: str, live_model: Path) -> Config:
    return Config(Server(store=url, port=0, keep_days=10_000), {"plant": Model(folder=str(live_model))})


@pytest.fixture
def store(config: Config) -> Iterator[Store]:
    store = Store(config.server.url)
    yield store
    store.close()


@pytest.fixture
def serve(live_model: Path, tmp_path: Path) -> Iterator[Callable[[str], Served]]:
    """Starts a service on a store, and ends it with the test."""
    started: list[Served] = []

    def begin(store: str = "store.sqlite") -> Served:
        file = tmp_path / "config.toml"
        file.write_text(
            f'[server]\nport = 0\nstore = "{store}"\nkeep_days = 10000\nwait = 0.2\n'
            f'[model.plant]\nfolder = "{live_model}"\n'
        )
        started.append(Served(file))
        return started[-1]

    yield begin
    for served in started:
        served.kill()
