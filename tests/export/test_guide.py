"""The programs of the guide run: in Python, and in Node where it is installed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from export_models import fitted

from tsadc.export.bundle import write_python

GUIDE = (Path(__file__).parents[2] / "docs/guides/export.md").read_text()
RUNTIMES = ("onnxruntime-node", "onnxruntime-web")


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    return text


def test_the_python_of_the_guide_runs(tmp_path: Path) -> None:
    write_python(fitted("plain"), tmp_path / "pump_scorer")
    script = block("python") + "\nassert verdict.anomalous == (verdict.score > verdict.threshold)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)


def resolved(node: str, folder: Path) -> str | None:
    """Return which runtime Node finds from the folder."""
    for name in RUNTIMES:
        found = subprocess.run([node, "-e", f"require('{name}')"], cwd=folder, capture_output=True, check=False)
        if found.returncode == 0:
            return name
    return None


def runtime(node: str, folder: Path) -> str:
    """Return the runtime to use: one that is installed, or one that npm has in its cache; nothing is downloaded."""
    name, npm = resolved(node, folder), shutil.which("npm")
    if name is None and npm is not None:
        words = ["install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund", RUNTIMES[1]]
        subprocess.run([npm, *words], cwd=folder, capture_output=True, check=False)
        name = resolved(node, folder)
    if name is None:
        pytest.skip("no onnxruntime for Node here: npm install onnxruntime-web, and set NODE_PATH to its node_modules")
    return name


def test_the_javascript_of_the_guide_runs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    from tsadc.export.onnx_file import write_onnx

    node = shutil.which("node")
    if node is None:
        pytest.skip("no Node here")
    name = runtime(node, tmp_path)
    write_onnx(fitted("plain"), tmp_path / "pump_onnx")
    (tmp_path / "score.cjs").write_text(block("js").replace("onnxruntime-node", name))
    done = subprocess.run([node, "score.cjs", "pump_onnx"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    test = json.loads((tmp_path / "pump_onnx" / "self-test.json").read_text())["observations"]
    lines = re.findall(
        r"^(.+): (-?[\d.]+) \((anomalous|normal)\), expected (-?[\d.]+)$", done.stdout, flags=re.MULTILINE
    )
    assert [entity for entity, *_ in lines] == [own["entity"] for own in test]
    for (_, score, verdict, _), own in zip(lines, test, strict=True):
        assert float(score) == pytest.approx(own["score"], abs=2e-5)
        assert verdict == ("anomalous" if own["score"] > fitted("plain").threshold_ else "normal")
