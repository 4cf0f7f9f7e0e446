"""The configuration in docs/guides/readers.md works, and the guide lists every setting with its default."""

import dataclasses
import re
import sqlite3
import tomllib
from pathlib import Path
from typing import Any

import pytest

from serve.test_readers import SECOND, START, Sink, table
from tsadc.serve.config import Config, read_config
from tsadc.serve.readers import folder, mqtt, sql
from tsadc.serve.readers.tables import TableSettings

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "readers.md").read_text(encoding="utf-8")
DATABASE = "postgresql+psycopg://reader@localhost/plant"


@pytest.fixture
def configured(tmp_path: Path, live_model: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The examples of the guide, with a SQLite database."""
    monkeypatch.setenv("MQTT_PASSWORD", "secret")
    examples = "".join(re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL))
    assert DATABASE in examples
    file = tmp_path / "tsadc.toml"
    text = examples.replace(DATABASE, f"sqlite:///{tmp_path}/plant.db")
    file.write_text(f'[model.plant]\nfolder = "{live_model}"\n{text}')
    return read_config(file)


def test_the_folder_is_read(configured: Config, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    for day, first in (("monday", 0), ("tuesday", 5)):
        frame = table(first, 2, flow=0.5).astype({"flow": object})
        frame.loc[1, "flow"] = "Bad"
        frame.to_csv(tmp_path / "incoming" / f"pump-7-{day}.csv", index=False)
    sink = Sink()
    sink.run(configured.readers["exports"].create("exports", "readers"), lambda: len(sink.rows) == 4)
    assert [(entity, time) for entity, time, _ in sink.rows] == [("pump-7", time) for time in (0, 1, 5, 6)]
    assert [row["flow"] for _, _, row in sink.rows][::2] == [0.5, 5.5]


def test_the_database_is_read(configured: Config, tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    database = sqlite3.connect(tmp_path / "plant.db")
    database.execute("CREATE TABLE measurements (time, machine, flow, pressure)")
    for time in ("2026-02-28 00:00:00", "2026-03-02 00:00:00"):
        database.execute("INSERT INTO measurements VALUES (?, 'pump', 1.5, 7)", (time,))
    database.commit()
    sink = Sink()
    sink.run(configured.readers["historian"].create("historian", "readers"), lambda: sink.rows)
    assert [(entity, row) for entity, _, row in sink.rows] == [("pump", {"flow": 1.5, "pressure": 7.0})]


def test_messages_are_as_the_guide_says(configured: Config) -> None:
    settings = configured.readers["broker"].settings
    now = START + 7 * SECOND
    for payload in (b"1.5", b'{"value": 1.5}'):
        assert payload.decode() in GUIDE
        assert mqtt.decode("plant/pump/flow", payload, settings, now) == [("pump", START, "flow", 1.5)]
    [several] = re.findall(r'`({"time".*?})`', GUIDE)
    values = mqtt.decode("plant/pump", several.encode(), mqtt.Settings(topic="plant/{entity}"), now)
    assert [(entity, name, value) for entity, _, name, value in values] == [
        ("pump", "flow", 1.5),
        ("pump", "pressure", 7.0),
    ]


def test_every_setting_is_listed_with_its_default() -> None:
    def defaults(settings: type[Any]) -> dict[str, Any]:
        return {field.name: field.default for field in dataclasses.fields(settings)}

    def listed(section: str) -> dict[str, Any]:
        [text] = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", GUIDE, re.DOTALL | re.MULTILINE)
        rows = re.findall(r"^\| `(\w+)` \| (?:`(.*?)`)? ?\|", text, re.MULTILINE)
        return {name: tomllib.loads(f"default = {default}")["default"] if default else None for name, default in rows}

    common = defaults(TableSettings)
    expected = {
        "A folder": {**defaults(folder.Settings), "path": None},
        "A database": {**defaults(sql.Settings), "url": None, "query": None},
        "Columns": {**common, "exclude": [], "missing": []},
        "MQTT": defaults(mqtt.Settings),
    }
    for section in ("A folder", "A database"):
        expected[section] = {name: value for name, value in expected[section].items() if name not in common}
    assert {section: listed(section) for section in expected} == expected
