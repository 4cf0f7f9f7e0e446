"""The set-up in docs/guides/prometheus.md works: its files and commands, with other ports and a shorter interval."""

import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from serve.programs import free_port, get, installed, running, wait_until

pytest.importorskip("fastapi")
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "prometheus.md"
SERIES = ("host:cpu", "host:load", "host:memory", "host:switches", "host:received")
STEP = 0.25  # seconds
HISTORY = 4000  # rows


def guide(changes: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The files of the guide by name, and its six commands."""
    text = GUIDE.read_text(encoding="utf-8")
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    files = dict(re.findall(r"```(?:yaml|toml)\n# (\S+)\n(.*?)```", text, re.DOTALL))
    [commands] = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    return files, commands.strip().splitlines()


def usual_days(target: str, end: float) -> str:
    """A quiet host, in the text format that Prometheus imports: what it has recorded before the guide goes on."""
    times = end - STEP * np.arange(HISTORY, 0, -1)
    generator = np.random.default_rng(0)
    lines = []
    for i, name in enumerate(SERIES):
        values = 100 * (i + 1) + 5 * np.sin(2 * np.pi * times / (20 + 7 * i)) + generator.normal(size=HISTORY)
        lines.append(f"# TYPE {name} gauge")
        lines += [f'{name}{{instance="{target}"}} {v:.4f} {t:.3f}' for v, t in zip(values, times, strict=True)]
    return "\n".join([*lines, "# EOF", ""])


def test_the_guide(tmp_path: Path) -> None:
    for program in ("prometheus", "promtool", "prometheus-node-exporter", "prometheus-alertmanager"):
        installed(program)
    ports = {port: str(free_port()) for port in ("9100", "9090", "9093", "8731")}
    changes = {f"127.0.0.1:{old}": f"127.0.0.1:{new}" for old, new in ports.items()}
    files, commands = guide({**changes, "15s": f"{STEP * 1000:.0f}ms", "--hours 24": "--hours 1", "[1m]": "[2s]"})
    assert list(files) == ["prometheus.yml", "rules.yml", "alertmanager.yml", "tsadc.toml"]
    assert len(commands) == 6
    # Ports of the service and of the model are in files only.
    files["tsadc.toml"] += f"\n[server]\nport = {ports['8731']}\n"
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "past.om").write_text(usual_days(f"127.0.0.1:{ports['9100']}", time.time() - 60))
    promtool = [installed("promtool"), "tsdb", "create-blocks-from", "openmetrics", "past.om", "data"]
    subprocess.run(promtool, cwd=tmp_path, check=True, capture_output=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def arguments(command: str) -> list[str]:
        program, *rest = shlex.split(command.removesuffix("&"))
        return [sys.executable, "-m", "tsadc", *rest] if program == "tsadc" else [installed(program), *rest]

    with contextlib.ExitStack() as stack:
        for command in commands[:3]:
            assert command.endswith(" &")
            own = arguments(command)
            stack.enter_context(running(*own, log=tmp_path / f"{Path(own[0]).name}.log"))
        prometheus, alerts = (f"http://127.0.0.1:{ports[port]}" for port in ("9090", "9093"))
        wait_until(lambda: get(f"{prometheus}/-/ready") and get(f"{alerts}/-/ready"))
        for command in commands[3:5]:
            done = subprocess.run(arguments(command), cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        served = tmp_path / "serve.log"
        stack.enter_context(running(*arguments(commands[5]), log=served))
        client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{ports['8731']}"))
        wait_until(lambda: "http://" in served.read_text(), 60)
        # The real host is unlike the quiet one of the history.
        [alert] = wait_until(lambda: get(f"{alerts}/api/v2/alerts"), 120, every=0.5)
        [episode] = client.get("/v1/episodes").json()["episodes"]
    labels = alert["labels"]
    assert (labels["alertname"], labels["entity"], labels["model"]) == (
        "Anomaly",
        f"127.0.0.1:{ports['9100']}",
        "hosts",
    )
    assert labels["episode"] == episode["id"]
    assert episode["state"] == "open"
    assert alert["status"]["state"] == "active"
    assert any(name in alert["annotations"]["variables"] for name in SERIES)
    assert alert["generatorURL"] == f"http://127.0.0.1:{ports['8731']}"
