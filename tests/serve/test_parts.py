"""All readers and writers can be configured in the TOML file; one that lacks something is refused in one sentence."""

import json
import re
import shutil
import socket
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import sqlalchemy as sa
from programs import Receiver, free_port

from terminal import tsadc as command
from tsadc.cli.serve import roll_back
from tsadc.detectors import versions
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.refit import duration
from tsadc.detectors.store import SETTINGS
from tsadc.errors import ConfigError, DataError, TsadcError
from tsadc.series import Series
from tsadc.serve.config import READERS, WRITERS, Config, Model, Part, Schedule, Server, explained, read_config, remarks
from tsadc.serve.lifecycle import Mute
from tsadc.serve.store import Store
from tsadc.serve.writers import webhook

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
    assert "postgresql+psycopg://(hidden)@host/name" in text
    assert "labels = (('team', 'plant'),)" in text


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://user:p@ss@host/in", "https://(hidden)@host/in"),
        ("https://TOKEN@host", "https://(hidden)@host"),
        ("https://host:80/in?token=abc", "https://host:80/in"),
        ("https://host/in?mail=a@b&token=abc", "https://(hidden)"),
        (" https://user:secret@host", " https://(hidden)@host"),
        ("http://localhost:9090", "http://localhost:9090"),
    ],
)
def test_a_check_shows_no_secrets(written: str, shown: str) -> None:
    part = Part("webhook", webhook.Settings(url=written))
    config = Config(Server(store=written.replace("https", "postgresql")), writers={"hook": part})
    text = "\n".join(explained(config))
    assert f"webhook, url = {shown}, timeout" in text
    assert f"PostgreSQL, {shown.replace('https', 'postgresql')};" in text


def test_a_check_says_who_may_use_the_service(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.toml"
    tokens.write_text('admin = "a-secret-of-16-chars"\n')
    assert "any program on this machine may use it." in explained(Config(Server()))[0]
    assert "a token is required." in explained(Config(Server(tokens=str(tokens))))[0]


def test_a_store_may_have_any_name(tmp_path: Path) -> None:
    for name in ("what?.sqlite", "50%3F #1.sqlite"):
        url = Server(store=str(tmp_path / name)).url
        assert sa.make_url(url).database == str(tmp_path / name)
        Store(url).close()
        assert (tmp_path / name).is_file()


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
        (
            '[reader.r]\ntype = "prometheus"\nqueries = ["cpu"]',
            '`reader.r.queries` must be made of lists of 2, such as ["...", "..."], but got \'cpu\'.',
        ),
        (
            '[reader.r]\ntype = "prometheus"\nurl = "localhost:9090"',
            "`reader.r.url` must be an address that begins with http:// or https://",
        ),
        (
            '[writer.w]\ntype = "alertmanager"\nlabels = ["team"]',
            '`writer.w.labels` must be made of lists of 2, such as ["...", "..."], but got \'team\'.',
        ),
        (
            '[writer.w]\ntype = "webhook"\nurl = "http://a"\ntoken_variable = "NOSUCH"',
            "`writer.w.token_variable` is NOSUCH, but there is no such environment variable.",
        ),
        (
            '[writer]\ntype = "webhook"',
            "[writer] needs a name of your choice: write [writer.NAME] in place of [writer].",
        ),
        ("[model.b]\nentities = []", "`model.b.entities` must be a list of at least one pattern, but got []."),
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


def test_a_check_brings_no_model_back(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "roll_back", lambda _: pytest.fail("it was rolled back"))
    assert "give one of them" in command("serve", file, "--rollback", "plant", "--check").refusal


@pytest.mark.parametrize("damaged", ["config.json", "model.safetensors"])
def test_a_model_that_cannot_be_loaded_is_refused(tmp_path: Path, live_model: Path, damaged: str) -> None:
    model, config = tmp_path / "plant", tmp_path / "tsadc.toml"
    shutil.copytree(live_model, model)
    config.write_text('[model.plant]\nfolder = "plant"\n')
    content = (model / damaged).read_bytes()
    (model / damaged).write_bytes(content[: len(content) // 2])
    for words in (["--check", config], [config], ["--model", model]):
        assert re.fullmatch(rf"{model / damaged} is truncated .*; restore it .*\.", command("serve", *words).refusal)


def test_a_model_of_a_detector_of_ones_own_is_refused(tmp_path: Path, live_model: Path) -> None:
    settings = json.loads((live_model / SETTINGS).read_text())
    (tmp_path / SETTINGS).write_text(json.dumps(settings | {"source": "mine.py"}))
    assert "was fitted by 'mine.py'" in command("serve", "--check", "--model", tmp_path).refusal


def test_a_check_needs_the_time_from_row_to_row(tmp_path: Path) -> None:
    RobustZ(length=10).fit([Series(np.arange(300.0)[:, None] % 7, ("a",))]).save(tmp_path / "plant")
    assert "set `seconds` in [model.plant]" in command("serve", "--check", "--model", tmp_path / "plant").refusal


ODD = """
[server]
keep_days = 20
calendars = ["work.csv"]
[model.all]
folder = "plant"
[model.rest]
folder = "plant"
entities = ["pump-*"]
[schedule.weekly]
model = "all"
[reader.a]
type = "remote_write"
[reader.b]
type = "remote_write"
[reader.c]
type = "folder"
path = "incoming"
"""


def test_what_is_hardly_meant_is_remarked(file: Path, live_model: Path) -> None:
    shutil.rmtree(file.parent / "plant")
    shutil.copytree(live_model, file.parent / "plant")
    file.write_text(ODD)
    answer = command("serve", "--check", file)
    assert answer.code == 0
    assert f"calendars: {file.parent / 'work.csv'}; episodes are muted if half of them is planned work." in answer.out
    said = [line for line in answer.out.splitlines() if line.startswith("remark: ")]
    for line, sentence in zip(
        said,
        (
            "The reader 'b' is not used, as 'a' takes all remote_write",
            f"The folder {file.parent / 'incoming'} of the reader 'c' does not exist",
            "The model 'rest' is never used",
            "The schedule 'weekly' learns from 30d, but rows are kept for 20 days only",
        ),
        strict=True,
    ):
        assert sentence in line


def test_what_cannot_work_is_remarked(file: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("time,flow\n")
    (tmp_path / "tokens.toml").write_text('admin = "aaaaaaaaaaaaaaaaaaaa"\n')
    (tmp_path / "tokens.toml").chmod(0o644)
    file.write_text(
        f'[server]\nstore = "{tmp_path}/none/s.sqlite"\ntokens = "{tmp_path}/tokens.toml"\n'
        '[model.a]\nfolder = "plant"\n'
        f'[reader.f]\ntype = "folder"\npath = "{tmp_path}/rows.csv"\n'
        '[reader.m]\ntype = "mqtt"\nhost = "localhost"\ntopic = "{entity}"\nusername = "u"\n'
        'password_variable = "NONE_SUCH"\n'
        '[writer.w]\ntype = "alertmanager"\nurl = "http://localhost:9093/api/v2/alerts"\n'
    )
    assert remarks(read_config(file)) == [
        f"The folder of the store {tmp_path}/none/s.sqlite does not exist yet; create it.",
        f"Other users of this machine can read the tokens in {tmp_path}/tokens.toml: chmod 600 {tmp_path}/tokens.toml",
        f"The folder {tmp_path}/rows.csv of the reader 'f' is a file; give the folder that it is in.",
        "The reader 'm' needs the environment variable NONE_SUCH, which is not set; set it.",
        "The `url` of the writer 'w' should end before /api/, as the rest is added to it.",
    ]


def test_a_store_is_no_folder(file: Path, tmp_path: Path, live_model: Path) -> None:
    file.write_text(f'[server]\nstore = "{tmp_path}"\nport = 0\n[model.a]\nfolder = "{live_model}"\n')
    assert f"The store {tmp_path} is a folder; name a file in it, such as {tmp_path}/tsadc.sqlite." in (
        command("serve", file).refusal
    )


def test_a_rollback_needs_a_name() -> None:
    answer = command("serve", "--rollback", "--model", "plant")
    assert "--rollback needs the name of a model, as in --rollback plant, but got --model." in answer.refusal


def test_patterns_that_differ_are_both_of_use(file: Path) -> None:
    file.write_text('[model.a]\nfolder = "plant"\nentities = ["a?"]\n[model.b]\nfolder = "plant"\nentities = ["a*"]\n')
    assert remarks(read_config(file)) == []


@pytest.mark.parametrize(
    ("host", "sentence"),
    [
        ("no such host!", "There is no host 'no such host!'; set `server.host`"),
        ("a" * 64, "; set `server.host` to a name or address of this machine."),
        ("192.0.2.1", "The address '192.0.2.1' is not one of this machine; set `server.host`"),
    ],
)
def test_a_host_of_another_machine_is_not_called_a_port(
    tmp_path: Path, live_model: Path, monkeypatch: pytest.MonkeyPatch, host: str, sentence: str
) -> None:
    monkeypatch.setenv("TSADC_ADMIN_TOKEN", "a" * 20)
    config = tmp_path / "tsadc.toml"
    config.write_text(f'[server]\nhost = "{host}"\n[model.plant]\nfolder = "{live_model}"\n')
    assert sentence in command("serve", config).refusal


def test_without_a_configuration_the_advice_is_to_write_one(live_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as busy:
        config = Config(Server(port=busy.getsockname()[1]))
        monkeypatch.setattr("tsadc.serve.config.for_model", lambda _: config)
        assert "in use; choose another `port` in [server]" in command("serve", "--model", live_model).refusal


def test_the_words_that_were_meant_are_suggested(file: Path) -> None:
    model = file.parent / "plant"
    assert "not both" in command("serve", file, "--model", model).refusal
    assert f"write --model {model}." in command("serve", model).refusal
    file.write_text('[server]\nstore = ""\n')
    assert "`server.store` must be a file or" in command("serve", file).refusal


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("sqlite:////data/a.sqlite", "/data/a.sqlite"),
        ("postgresql+psycopg://me:secret@host/name", "postgresql://me:***@host/name"),
        ("postgresql+psycopg://host/name?password=secret", "postgresql://host/name"),
    ],
)
def test_a_store_is_shown_as_it_was_written(url: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsadc.serve.store.os.access", lambda *_: True)
    store = Store(url, migrate=False)
    assert store.place == place
    store.close()


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

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", fail)
    monkeypatch.setattr(versions, "roll_back", swap)
    with pytest.raises(TsadcError) as refusal:
        roll_back(file, None, "plant")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(
    ("status", "content", "sentence"),
    [
        (404, b"<html>Not found</html>", "(404) is not tsadc, or busy, so the folders stay as they are"),
        (500, b'["error"]', "(500) is not tsadc"),
        (200, b"<html>Welcome</html>", "(200) is not tsadc"),
        (400, b'{"error": "There is no former model."}', "The service did not roll back: There is no former model."),
        (200, b'{"state": "rolled back"}', "The service uses the former model of plant again."),
    ],
)
def test_the_answer_to_a_roll_back_is_read_past_any_proxy(
    file: Path, monkeypatch: pytest.MonkeyPatch, status: int, content: bytes, sentence: str
) -> None:
    monkeypatch.setattr(versions, "roll_back", lambda _: pytest.fail("the folders were swapped"))
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    for variable in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TSADC_ADMIN_TOKEN", "a-secret-of-16-chars")
    with Receiver(lambda *_: (status, {}, content)) as receiver:
        file.write_text(file.read_text().replace("[server]", f"[server]\nport = {receiver.url.rpartition(':')[2]}"))
        try:
            said = roll_back(file, None, "plant")
        except ConfigError as error:
            said = str(error)
    assert sentence in said
    [(method, path, headers, _)] = receiver.requests
    assert (method, path) == ("POST", "/v1/models/plant/rollback")
    assert headers["authorization"] == "Bearer a-secret-of-16-chars"


@pytest.mark.parametrize(
    ("pattern", "matched", "others"),
    [
        ("node[1]", ["node[1]"], ["node1", "node"]),
        ("[!a]*", ["[!a]", "[!a]b"], ["b", "!a"]),
        ("a]?", ["a]b"], ["a]", "ab"]),
        ("pump-*", ["pump-", "pump-[1]"], ["Pump-1"]),
    ],
)
def test_only_asterisk_and_question_mark_are_special(pattern: str, matched: list[str], others: list[str]) -> None:
    for name in matched + others:
        expected = name in matched
        assert Model(entities=(pattern,)).judges(name) is expected
        assert Mute(pattern, "", None).covers(name, [], 0.0) is expected
        assert Mute("*", pattern, None).covers("pump", [name], 0.0) is expected


@pytest.mark.parametrize("value", ["1e300", "inf", "nan", "1000000000000"])
@pytest.mark.parametrize(
    "setting",
    [
        *("server.wait", "server.future", "server.keep_days", "server.forget_days", "server.expire_minutes"),
        *("server.entities", "server.megabytes", "server.rows", "server.backlog"),
        *("model.plant.reorder", "model.plant.seconds", "schedule.weekly.minutes", "schedule.weekly.megabytes"),
    ],
)
def test_numbers_that_no_time_or_memory_can_hold_are_refused(tmp_path: Path, setting: str, value: str) -> None:
    section, _, name = setting.rpartition(".")
    sections = {"server": "", "model.plant": 'folder = "plant"\n', "schedule.weekly": ""}
    sections[section] += f"{name} = {value}\n"
    (tmp_path / "plant").mkdir()
    (tmp_path / "plant" / SETTINGS).write_text("{}")
    file = tmp_path / "tsadc.toml"
    file.write_text("".join(f"[{section}]\n{text}" for section, text in sections.items()))
    with pytest.raises(ConfigError, match=f"^`{setting}` must be .*, but got "):
        read_config(file)


@pytest.mark.parametrize("value", ["0d", "soon", "999999w"])
@pytest.mark.parametrize("name", ["every", "history"])
def test_a_wrong_duration_is_named(file: Path, name: str, value: str) -> None:
    file.write_text(f'[model.plant]\nfolder = "plant"\n[schedule.weekly]\n{name} = "{value}"\n')
    with pytest.raises(ConfigError, match=rf"^`schedule\.weekly\.{name}` must be a whole number of min, h, d or w"):
        read_config(file)


@pytest.mark.parametrize("seconds", [float("inf"), float("nan"), 1e300])
def test_watching_has_the_same_limits(live_model: Path, tmp_path: Path, seconds: float) -> None:
    assert "`--every` must be" in command("watch", live_model, tmp_path, "--every", seconds).refusal
    assert "`seconds` must be" in command("watch", live_model, tmp_path, "--seconds", seconds).refusal
