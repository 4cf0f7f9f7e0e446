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

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guides/export.md").read_text()
INSTALLED = ROOT / ".node/node_modules"  # by `make onnx-node`
RUNTIMES = ("onnxruntime-node", "onnxruntime-web")


def block(language: str) -> str:
    (text,) = re.findall(rf"```{language}\n(.*?)```", GUIDE, flags=re.DOTALL)
    return text


def test_the_python_of_the_guide_runs(tmp_path: Path) -> None:
    write_python(fitted("plain"), tmp_path / "pump_scorer")
    script = block("python") + "\nassert verdict.anomalous == (verdict.score > verdict.threshold)"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, check=True)


def runtime(node: str) -> str:
    """Return the name of the runtime that Node finds."""
    for name in RUNTIMES:
        if subprocess.run([node, "-e", f"require('{name}')"], capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("no onnxruntime for Node is installed: make onnx-node")


def test_the_javascript_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    from tsadc.export.onnx_file import write_onnx

    node = shutil.which("node")
    if node is None:
        pytest.skip("Node is not installed")
    monkeypatch.setenv("NODE_PATH", os.pathsep.join(filter(None, [str(INSTALLED), os.environ.get("NODE_PATH")])))
    name = runtime(node)
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
