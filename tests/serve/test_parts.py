"""All readers and writers can be configured in the TOML file; one that lacks something is refused in one sentence."""

from pathlib import Path

import pytest

from tsadc.errors import ConfigError
from tsadc.serve.config import READERS, WRITERS, explained, read_config

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
