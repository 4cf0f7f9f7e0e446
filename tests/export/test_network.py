"""The graph computes what the network of TSAD-C computes: cell by cell, with gaps, for every kind of network."""

import copy
import json
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from export_models import history, observations_of

from tsadc import TSADC
from tsadc.detectors.tsadc.inference import RESIDUALS
from tsadc.errors import ConfigError, TsadcNotice
from tsadc.export import onnx_file
from tsadc.export.folder import entities_of, native_scores
from tsadc.export.graph import Graph
from tsadc.export.onnx_convolution import convolved
from tsadc.export.onnx_file import graph_of, write_onnx
from tsadc.export.onnx_network import residuals
from tsadc.export.onnx_views import Observation
from tsadc.series import MAX_ABS_VALUE, Floats

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
COUNT = 9  # one of each shape of `observations_of`
WILD = 7  # the shape with a value of 1e12
SMALL: dict[str, dict[str, Any]] = {
    "decontaminator": {"channels": 6, "blocks": 1, "state": 4},
    "dependencies": {"features": 6, "layers": 1, "state": 4, "graphs": 3},
    "training": {"epochs": 1},
    "ensemble": {"kernels": 4},
}
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "imputation": {"inference": {"residuals": RESIDUALS, "masks": 3}},
    "own": {"scoring": "own"},
    "as in the paper": {
        "squash": False,
        "decontaminator": {"kernel": "dplr", "blocks": 2, "diffusion": {"beta_end": 0.02, "target": "noise"}},
        "dependencies": {"kernel": "dplr", "layers": 2, "symmetric": False, "own": True, "identity": False},
    },
    "one mask": {
        "inference": {"residuals": RESIDUALS[:1], "masks": 0},
        "decontaminator": {"start": "masked", "loss": "entire"},
        "dependencies": {"gin_layers": 1},
    },
    "without a graph": {"dependencies": {"gin_layers": 0, "layers": 0}},
    "two variables": {},
}
LENGTHS = {"two variables": 13, "one mask": 33}  # of others 40


@cache
def fitted(kind: str) -> TSADC:
    """Return a detector with a network of that kind, all of whose weights matter; to be left as it is."""
    variables = 2 if kind == "two variables" else 5
    data = {f"press {i}": history(variables, 480, entity=i) for i in range(2)}
    if variables > 2:
        for values in data.values():
            values[:, 2] = np.arange(len(values)) // 40 % 3  # a state, which the network sees and nothing judges
    given = KINDS[kind]
    settings = given | {name: own | given.get(name, {}) for name, own in SMALL.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TsadcNotice)  # about the state
        detector = TSADC(length=LENGTHS.get(kind, 40), **settings).fit(data)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in detector.network_.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return detector


def session_of(graph: bytes) -> "onnxruntime.InferenceSession":
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


def place_of(detector: TSADC, entity: str) -> Floats:
    names = entities_of(detector)
    return np.array([names.index(entity) if entity in names else -1])


def scores(detector: TSADC, given: list[tuple[str, Floats]]) -> list[float]:
    """Return the scores by onnxruntime."""
    session = session_of(graph_of(detector).SerializeToString())
    inputs = [{"values": values, "entity": place_of(detector, entity)} for entity, values in given]
    return [float(session.run(["score"], own)[0][0]) for own in inputs]


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_are_those_of_the_network(kind: str) -> None:
    detector = fitted(kind)
    shape = len(detector.variables_), detector.settings.length
    graph = Graph("residuals")
    z_, measured = graph.input("z", np.float32, shape), graph.input("measured", np.bool_, shape)
    outputs = {}
    for name, (cells, known) in zip(
        detector._residual_names(), residuals(detector, Observation(z_, measured, *shape)), strict=True
    ):
        outputs |= {f"{name} cells": cells, f"{name} known": known}
    session = session_of(graph.model(outputs, "test", "0").SerializeToString())
    infer = torch.no_grad()(detector._make_inference())
    for entity, values in observations_of(detector, COUNT):
        z = np.clip(detector.scaler_(entity, values), -MAX_ABS_VALUE, MAX_ABS_VALUE).T.astype(np.float32)
        given = {"z": np.nan_to_num(z), "measured": ~np.isnan(z)}
        native = infer(z)
        found = session.run(None, given)
        for expected, cells, known in zip(native.residuals, found[::2], found[1::2], strict=True):
            np.testing.assert_array_equal(known, np.isfinite(expected))
            size = 1 + np.abs(given["z"]) + np.nan_to_num(expected)
            assert (np.abs(cells - expected) / size)[known].max(initial=0) < 2e-6


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_the_package(kind: str) -> None:
    detector = fitted(kind)
    given = observations_of(detector, COUNT)
    del given[WILD]  # the spectrum of so large a value is rounding in most bands, whoever computes it
    expected = native_scores(detector, [entity for entity, _ in given], [values for _, values in given])
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(scores(detector, given), expected, rtol=1e-6, atol=1e-5)


def test_views_of_residuals_add_what_they_add_in_the_package() -> None:
    detector = fitted("imputation")
    session = session_of(graph_of(detector).SerializeToString())
    infer, scorer = torch.no_grad()(detector._make_inference()), detector.scorer_
    for entity, values in observations_of(detector, 4):
        z = detector.scaler_(entity, values).T.astype(np.float32)
        evidence = scorer.evidence(entity, z, infer(z).residuals)
        (views,) = session.run(["views"], {"values": values, "entity": place_of(detector, entity)})
        assert list(evidence.view_scores)[-2:] == list(RESIDUALS)
        np.testing.assert_allclose(views, list(evidence.view_scores.values()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["default", "own"])
def test_nothing_measured_scores_zero(kind: str) -> None:
    nothing = np.full((40, 5), np.nan)
    assert scores(fitted(kind), [("press 0", nothing)]) == [0.0]


def test_a_complete_observation_is_not_imputed() -> None:
    detector = copy.deepcopy(fitted("default"))
    torch.nn.init.constant_(detector.network_.decontaminator.network.output_proj.bias, torch.nan)
    entity, values = observations_of(detector, 1)[0]
    expected = native_scores(detector, [entity], [values])
    assert scores(detector, [(entity, values)]) == pytest.approx(expected, abs=1e-5)
    assert np.isfinite(expected).all()


def test_verdicts_count() -> None:
    detector = copy.deepcopy(fitted("default"))
    new = {"press 0": history(5, 400, gaps=False)}
    new["press 0"][100:120, 0] += 30.0
    result = detector.detect(new)
    detector.feedback(result, {str(name): ("false", "true")[i % 2] for i, name in enumerate(result.intervals["id"])})
    assert detector.lesson_ is not None
    given = [("press 0", new["press 0"][first : first + 40]) for first in (0, 80, 200)]
    expected = native_scores(detector, [entity for entity, _ in given], [values for _, values in given])
    before = native_scores(fitted("default"), [entity for entity, _ in given], [values for _, values in given])
    assert np.abs(expected - before).max() > 0.01
    np.testing.assert_allclose(scores(detector, given), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 16, 97, 100])
def test_a_convolution_is_its_definition(length: int) -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(3, 2, length)).astype(np.float32)
    lags = generator.normal(size=(2, 2 * length - 1)).astype(np.float32)
    graph = Graph("convolution")
    model = graph.model({"y": convolved(graph.input("x", np.float32, x.shape), lags, length)}, "test", "0")
    (found,) = session_of(model.SerializeToString()).run(None, {"x": x})
    times = np.arange(length)
    by_time = lags.astype(np.float64)[:, times[:, None] - times + length - 1]  # (channel, t, s)
    np.testing.assert_allclose(found, np.einsum("cts,bcs->bct", by_time, x), rtol=0, atol=2e-5)


def test_it_runs_without_torch(tmp_path: Path) -> None:
    write_onnx(fitted("imputation"), tmp_path / "scorer")
    script = """
import json, sys
for name in ("torch", "tsadc", "scipy", "pandas", "sklearn"):
    sys.modules[name] = None  # importing it fails
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession("scorer/scorer.onnx", providers=["CPUExecutionProvider"])
for own in json.load(open("scorer/self-test.json"))["observations"]:
    given = {"values": np.array(own["values"], dtype=np.float64), "entity": np.array([own["entity_index"]])}
    print(abs(float(session.run(["score"], given)[0][0]) - own["score"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 3
    assert max(map(float, done.stdout.split())) <= 1e-5
    manifest = json.loads((tmp_path / "scorer" / "manifest.json").read_text())
    assert manifest["detector"] == "tsadc"
    assert manifest["views"][-2:] == list(RESIDUALS)
    assert len(manifest["judged"]) == 4


def test_many_diffusion_steps_are_refused(tmp_path: Path) -> None:
    detector = copy.deepcopy(fitted("default"))
    detector.settings_ = detector.settings.with_settings(**SMALL, inference={"steps": 3})
    with pytest.raises(ConfigError, match=r"inference\.steps=3, but only .* fit it with `--set inference\.steps=1`\."):
        write_onnx(detector, tmp_path / "scorer")
    assert list(tmp_path.iterdir()) == []


def test_a_graph_that_no_file_holds_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "MAX_BYTES", 1000)
    with pytest.raises(
        ConfigError, match=r"needs 0\.0 GB, but a file of ONNX holds at most 2 GB; fit a smaller network"
    ):
        write_onnx(fitted("default"), tmp_path / "scorer")
    assert list(tmp_path.iterdir()) == []
