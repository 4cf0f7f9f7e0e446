"""All readers and writers can be configured in the TOML file; one that lacks something is refused in one sentence."""

import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tsadc.cli.serve import roll_back
from tsadc.detectors import versions
from tsadc.detectors.refit import duration
from tsadc.detectors.store import SETTINGS
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.serve.config import READERS, WRITERS, Schedule, Server, explained, read_config

PARTS = """
[reader.remote]
type = "remote_write"
entity = "host"
ignore = ["job", "cluster"]
rename = [["node_load1", "load"]]

[reader.lines]
type = "line_protocol"
measurement = false
keep = ["cpu"]

[reader.ask]
type = "prometheus"
url = "http://localhost:9090"
queries = [["cpu", "rate(x[1m])"]]
step = 15

[reader.files]
type = "folder"
path = "incoming"
entity_from = "(.*)_"

[reader.rows]
type = "sql"
url = "postgresql+psycopg://me:secret@host/name"
query = "SELECT * FROM m WHERE time >= :after ORDER BY time"
time = "time"

[reader.broker]
type = "mqtt"
topic = "plant/{entity}/{variable}"

[writer.file]
type = "json_lines"
path = "events.jsonl"

[writer.hook]
type = "webhook"
url = "https://me:secret@host/in"

[writer.alerts]
type = "alertmanager"
url = "http://localhost:9093"
labels = [["team", "plant"]]

[writer.notes]
type = "grafana"
url = "http://localhost:3000"
"""


def test_every_reader_and_writer_can_be_configured(tmp_path: Path, live_model: Path) -> None:
    file = tmp_path / "tsadc.toml"
    file.write_text(f'[model.plant]\nfolder = "{live_model}"\n{PARTS}')
    config = read_config(file)
    assert {part.kind for part in config.readers.values()} == set(READERS)
    assert {part.kind for part in config.writers.values()} == set(WRITERS)
    assert config.readers["files"].settings.path == str(tmp_path / "incoming")
    assert config.pushed("remote_write").rename == (("node_load1", "load"),)
    text = "\n".join(explained(config))
    assert "secret" not in text
    assert "postgresql+psycopg://me:(hidden)@host/name" in text


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ('[writer.w]\ntype = "webhook"', "The writer 'w' needs `url`"),
        ('[reader.r]\ntype = "folder"', "The reader 'r' needs `path`"),
        (
            '[reader.r]\ntype = "sql"\nurl = "sqlite:///a.db"\nquery = "SELECT 1"',
            "`reader.r.query` must be a query",
        ),
        (
            '[reader.r]\ntype = "mqtt"\ntopic = "plant"',
            "`reader.r.topic` must be a pattern in which {entity}",
        ),
        ('[reader.r]\ntype = "remote_write"\nentity = ""', "`reader.r.entity` must be the name of a label"),
    ],
)
def test_what_a_part_lacks_is_said_before_anything_starts(
    tmp_path: Path, live_model: Path, section: str, sentence: str
) -> None:
    file = tmp_path / "tsadc.toml"
    file.write_text(f'[model.plant]\nfolder = "{live_model}"\n{section}\n')
    with pytest.raises(ConfigError) as error:
        read_config(file)
    assert sentence in str(error.value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A configuration with a calendar, and a folder that looks like a model."""
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / SETTINGS).write_text("{}")
    file = tmp_path / "tsadc.toml"
    file.write_text('[server]\ncalendars = ["work.csv"]\n[model.plant]\nfolder = "plant"\n')
    (tmp_path / "work.csv").write_text("entity,start,end\npump,2026-03-01 10:00,2026-03-01 12:00\n")
    return file


def test_calendars_are_read_with_the_configuration(file: Path, tmp_path: Path) -> None:
    calendar = tmp_path / "work.csv"
    assert read_config(file).server.calendars == (str(calendar),)
    calendar.write_text("entity,start,end\npump,2026-03-01 10:00,2026-02-01 12:00\n")
    with pytest.raises(DataError, match=r"work\.csv"):
        read_config(file)
    calendar.unlink()
    with pytest.raises(DataError, match=r"There is no calendar .*work.csv; check the name."):
        read_config(file)


def test_a_refit_learns_from_what_is_kept() -> None:
    assert duration(Schedule().history) == Server().keep_days * 86_400 * 10**9


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (TimeoutError("timed out"), "gave no answer (timed out), so the folders stay as they are"),
        (urllib.error.URLError(TimeoutError("timed out")), "gave no answer (timed out)"),
        (ConnectionResetError("reset"), "gave no answer (reset)"),
        (urllib.error.URLError(ConnectionRefusedError()), "The folders are swapped."),
    ],
)
def test_folders_are_swapped_only_if_no_service_listens(
    file: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, sentence: str
) -> None:
    def fail(*_: Any, **__: Any) -> NoReturn:
        raise error

    def swap(_: Path) -> NoReturn:
        raise TsadcError("The folders are swapped.")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    monkeypatch.setattr(versions, "roll_back", swap)
    with pytest.raises(TsadcError) as refusal:
        roll_back(file, None, "plant")
    assert sentence in str(refusal.value)
