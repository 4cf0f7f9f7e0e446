"""`tsadc export`: what it writes, and what it refuses in one sentence."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from terminal import frame, tsadc, untouched

SETTINGS = ("--length", "40", "--set", "kernels=8")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    for seed, name in enumerate(("left", "right")):
        frame(seed=seed).to_csv(folder / f"{name}.csv", index=False)
    fitted = tsadc("fit", folder / "left.csv", folder / "right.csv", "--out", folder / "model", *SETTINGS)
    assert fitted.code == 0
    return folder / "model"


def test_a_python_scorer_runs_alone(model: Path, tmp_path: Path) -> None:
    done = tsadc("export", model, "--to", "python", "--out", tmp_path / "scorer")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"The scorer is in {tmp_path / 'scorer'} (")
    assert "it agrees with the model on its self-test" in " ".join(done.out.split())
    environment = {**os.environ, "PYTHONPATH": ""}
    alone = subprocess.run(
        [sys.executable, "-m", "scorer"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.endswith(": passed\n")
    manifest = json.loads((tmp_path / "scorer" / "manifest.json").read_text())
    assert (manifest["variables"], manifest["interval_seconds"]) == (["a", "b", "c", "d"], 60)
    readme = (tmp_path / "scorer" / "README.md").read_text()
    assert "40 rows, 60 s apart" in readme
    assert "{" not in readme


def test_an_onnx_scorer_is_written(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    done = tsadc("export", model, "--to", "onnx", "--out", tmp_path / "scorer")
    assert (done.code, done.err) == (0, "")
    files = {file.name for file in (tmp_path / "scorer").iterdir()}
    assert files == {"scorer.onnx", "manifest.json", "self-test.json", "README.md"}
    assert "{" not in (tmp_path / "scorer" / "README.md").read_text()


def damaged(model: Path, tmp_path: Path) -> Path:
    shutil.copytree(model, tmp_path / "damaged")
    weights = tmp_path / "damaged" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    return tmp_path / "damaged"


def refusal(model: object, to: str, out: Path) -> str:
    return tsadc("export", model, "--to", to, "--out", out).refusal


def test_bad_requests_are_refused_in_a_sentence(model: Path, tmp_path: Path) -> None:
    broken = damaged(model, tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    with untouched(tmp_path):
        out = tmp_path / "new"
        assert "`--to` must be 'onnx' or 'python', but got 'c'." in refusal(model, "c", out)
        for to in ("onnx", "python"):
            assert "there exists already; choose another name" in refusal(model, to, tmp_path / "there")
            assert "is truncated or does not belong" in refusal(broken, to, out)
            assert "is not a model: it has no config.json" in refusal(tmp_path / "empty", to, out)
            assert "is a file, but a model folder was expected" in refusal(tmp_path / "file", to, out)
            assert "There is no folder" in refusal(tmp_path / "nowhere", to, out)
            assert "so no folder can be made in it" in refusal(model, to, tmp_path / "file" / "new")
        assert "must consist of letters, digits and underscores" in refusal(model, "python", tmp_path / "a-b")


def changed(model: Path, folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Return a copy of the model with other settings."""
    shutil.copytree(model, folder)
    settings = json.loads((folder / "config.json").read_text())
    change(settings)
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def network(model: Path) -> Path:
    """A model with a network, of the same data."""
    words = (
        "--detector",
        "tsadc",
        "--preset",
        "tiny",
        "--epochs",
        "1",
        "--length",
        "40",
        "--set",
        "ensemble.kernels=4",
    )
    fitted = tsadc("fit", model.parent / "left.csv", "--out", model.parent / "network", *words)
    assert fitted.code == 0, fitted.err
    return model.parent / "network"


def test_a_network_is_written_for_onnx(network: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
    done = tsadc("export", network, "--to", "onnx", "--out", tmp_path / "scorer")
    assert (done.code, done.err) == (0, "")
    manifest = json.loads((tmp_path / "scorer" / "manifest.json").read_text())
    assert (manifest["detector"], manifest["views"][-1]) == ("tsadc", "reconstruction")


def test_what_cannot_be_exported_is_refused(model: Path, network: Path, tmp_path: Path) -> None:
    for name in ("robust-z", "usad", "of-a-file"):
        changed(model, tmp_path / name, lambda settings, name=name: settings.update(detector=name))
    changed(model, tmp_path / "audit", lambda settings: settings["settings"].update(mode="audit"))
    changed(network, tmp_path / "audited", lambda settings: settings["settings"]["ensemble"].update(mode="audit"))
    changed(network, tmp_path / "steps", lambda settings: settings["settings"]["inference"].update(steps=0))
    with untouched(tmp_path):
        out = tmp_path / "new"
        for name in ("robust-z", "usad", "of-a-file"):
            assert (
                f"is a model of the detector '{name}', but only models of 'ensemble' and 'tsadc' can be exported"
            ) in refusal(tmp_path / name, "onnx", out)
        audit = "is in audit mode, which needs the whole record, but an export scores single observations; fit it with"
        assert f"{audit} `--set mode=causal`." in refusal(tmp_path / "audit", "python", out)
        assert f"{audit} `--set ensemble.mode=causal`." in refusal(tmp_path / "audited", "onnx", out)
        assert "has a network, which an export that needs numpy alone cannot run; use `--to onnx`" in refusal(
            network, "python", out
        )
        if find_spec("onnxruntime") is not None:
            assert "imputes with inference.steps=0, but only imputations in one diffusion step" in refusal(
                tmp_path / "steps", "onnx", out
            )
