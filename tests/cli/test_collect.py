"""`tsadc collect` writes the history of a Prometheus server into a table that `tsadc fit` reads."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from typer.testing import CliRunner

import tsadc
from serve.programs import Receiver, free_port
from tsadc.cli.app import app

pytest.importorskip("fastapi")


def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """A server with one series per query and host, which is the minute of the hour."""
    given = {name: value[0] for name, value in parse_qs(urlsplit(path).query).items()}
    times = np.arange(float(given["start"]), float(given["end"]) + 1, float(given["step"]))
    metric = {"__name__": "load"} if given["query"] == "load" else {}
    result = [
        {"metric": {**metric, "instance": host, "job": "node"}, "values": [[t, str(t // 60 % 60)] for t in times]}
        for host in ("a:1", "b:1")
    ]
    return 200, {}, json.dumps({"data": {"resultType": "matrix", "result": result}}).encode()


def test_the_history_is_written_as_a_table(tmp_path: Path) -> None:
    out = tmp_path / "history.csv"
    with Receiver(answer) as server:
        queries = ["--query", "load", "--query", "cpu=rate(x[1m])"]
        options = ["--step", "1min", "--hours", "20", "--out", str(out)]
        result = CliRunner().invoke(app, ["collect", server.url, *queries, *options])
    assert result.exit_code == 0, result.output
    assert "2 entities with 2 variables" in " ".join(result.output.split())
    assert len(server.requests) == 2 * 2  # 1,200 steps, a thousand at a time
    first, second = tsadc.read(out, entity="entity")
    assert (first.entity, second.entity) == ("a:1", "b:1")
    assert sorted(first.names) == ["cpu", "load"]
    assert len(first) in (1200, 1201)
    assert np.isfinite(first.values).all()
    minutes = np.asarray(first.clock.at(range(len(first))).minute)
    assert (first.values == minutes[:, None]).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--step", "soon"], "`--step` must be a length of time such as 15s or 1min, but got 'soon'."),
        (["--hours", "0"], "`--hours` must be above 0 and below 1,000,000, but got 0."),
        (["--hours", "2e6"], "`--hours` must be above 0 and below 1,000,000, but got 2e+06."),
        (["--entity", " "], "`entity` must be the name of a label"),
        ([], "Connection refused"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path: Path, options: list[str], sentence: str) -> None:
    url, out = f"http://127.0.0.1:{free_port()}", tmp_path / "history.csv"
    result = CliRunner().invoke(app, ["collect", url, "--query", "load", "--out", str(out), *options])
    assert result.exception is not None
    assert sentence in str(result.exception)
    assert not out.exists()
