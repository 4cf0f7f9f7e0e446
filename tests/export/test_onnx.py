"""The graph computes what the views compute: view by view, with gaps, for every kind of model."""

import sys
from functools import cache

import numpy as np
import pytest
from export_models import LENGTHS, fitted, history_observation, observations

from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.scorer import VIEWS
from tsadc.errors import ConfigError, TsadcError
from tsadc.export import onnx_views
from tsadc.export.bundle import arrays_of
from tsadc.export.folder import entities_of, native_scores
from tsadc.export.graph import Graph
from tsadc.export.onnx_file import graph_of, write_onnx
from tsadc.export.standalone import Scorer
from tsadc.series import MAX_ABS_VALUE, Floats

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra `export` is not installed")
COUNT = 27  # of each shape of `observations`, three


def session_of(graph: bytes) -> "onnxruntime.InferenceSession":
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])


@cache
def session(kind: str) -> "onnxruntime.InferenceSession":
    return session_of(graph_of(fitted(kind)).SerializeToString())


def run(kind: str, entity: str, values: Floats) -> tuple[float, Floats]:
    names = entities_of(fitted(kind))
    index = names.index(entity) if entity in names else -1
    score, views = session(kind).run(["score", "views"], {"values": values, "entity": np.array([index])})
    return float(score[0]), views


@cache
def both(kind: str) -> tuple[Floats, Floats]:
    """Return what each view adds (observation, view), by this package and by the graph."""
    detector = fitted(kind)
    native, exported = [], []
    for entity, values in observations(kind, COUNT):
        z = np.clip(detector.scaler_(entity, values), -MAX_ABS_VALUE, MAX_ABS_VALUE).T.astype(np.float32)
        logs = detector.scorer_.log_scores(entity, z[detector.scorer_.judged])
        native.append(np.nan_to_num(detector.scorer_.fusion.added(logs)))
        exported.append(run(kind, entity, values)[1])
    return np.stack(native), np.stack(exported)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kind", ["plain", "pooled"])
def test_a_view_is_that_of_the_package(kind: str, view: str) -> None:
    place = fitted(kind).view_names.index(view)
    native, exported = both(kind)
    assert np.ptp(native[:, place]) > 0
    np.testing.assert_allclose(exported[:, place], native[:, place], rtol=0, atol=2e-6)


@pytest.mark.parametrize("kind", LENGTHS)
def test_scores_are_those_of_the_package(kind: str) -> None:
    detector, own = fitted(kind), observations(kind, COUNT)
    expected = native_scores(detector, [entity for entity, _ in own], [values for _, values in own])
    found = [run(kind, entity, values)[0] for entity, values in own]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(found, expected, rtol=0, atol=5e-6)


def test_an_observation_of_the_history_is_not_its_own_neighbour() -> None:
    entity, values = history_observation()
    shape = next(group for group in fitted("plain").scorer_.groups if group.names == ("shape",))
    z = fitted("plain").scaler_(entity, values).T.astype(np.float32)[fitted("plain").scorer_.judged]
    u = shape.standardiser(entity, shape.measure(z, entity)).astype(np.float32)
    assert (np.square(shape.pool.astype(np.float64) - u).sum(axis=1) == 0).any()
    expected = native_scores(fitted("plain"), [entity], [values])[0]
    assert run("plain", entity, values)[0] == pytest.approx(expected, abs=5e-6)


def test_convolutions_in_parts_are_the_same(monkeypatch) -> None:
    detector, (entity, values) = fitted("plain"), observations("plain", 2)[1]
    monkeypatch.setattr(onnx_views, "OUTPUTS_AT_ONCE", 1000)  # a dozen kernels
    parts = session_of(graph_of(detector).SerializeToString())
    given = {"values": values, "entity": np.array([entities_of(detector).index(entity)])}
    np.testing.assert_array_equal(parts.run(["views"], given)[0], run("plain", entity, values)[1])


def test_nothing_measured_scores_zero() -> None:
    score, views = run("plain", "pump 0", np.full((LENGTHS["plain"], 6), np.nan))
    assert score == 0
    assert not views.any()
    only_the_state = np.full((LENGTHS["plain"], 6), np.nan)
    only_the_state[:, 2] = 1.0
    assert run("plain", "pump 0", only_the_state)[0] == 0


def test_an_entity_decides() -> None:
    _, values = observations("plain", 1)[0]
    scores = {name: run("plain", name, values)[0] for name in (*entities_of(fitted("plain")), "stranger")}
    assert len(set(scores.values())) == len(scores)


@pytest.mark.parametrize("kind", ["plain", "judged"])
def test_a_number_that_is_no_place_is_an_unknown_entity(kind: str) -> None:
    _, values = observations(kind, 1)[0]
    unknown = run(kind, "stranger", values)
    names = entities_of(fitted(kind))
    for index in (-2, -len(names), -len(names) - 2, len(names), 2**62):
        score, views = session(kind).run(["score", "views"], {"values": values, "entity": np.array([index])})
        assert score[0] == unknown[0]
        np.testing.assert_array_equal(views, unknown[1])


@pytest.mark.parametrize("sign", [1, -1])
def test_infinity_is_as_extreme_as_possible_in_every_scorer(sign: int) -> None:
    detector = fitted("plain")
    _, values = observations("plain", 1)[0]
    values[10:13, 1] = sign * np.inf
    extreme = values.copy()
    extreme[10:13, 1] = sign * 1e300
    [native] = native_scores(detector, ["pump 0"], [values])
    assert native == native_scores(detector, ["pump 0"], [extreme])[0]
    assert abs(run("plain", "pump 0", values)[0] - native) < 2e-6
    manifest = {"variables": detector.variables_, "length": detector.settings.length}
    scorer = Scorer({**manifest, "neighbours": detector.settings.neighbours}, arrays_of(detector))
    assert scorer.score("pump 0", values) == native


@pytest.mark.parametrize("factor", [1e6, 1e8, 1e12])
@pytest.mark.parametrize("has_gap", [False, True])
def test_values_of_another_size_have_the_same_score(factor: float, has_gap: bool) -> None:
    detector, generator = fitted("plain"), np.random.default_rng(0)
    values = factor * (1 + generator.normal(size=(detector.settings.length, len(detector.variables_))))
    if has_gap:
        values[5:7, 1] = np.nan
    [native] = native_scores(detector, ["pump 0"], [values])
    assert native > 50
    assert run("plain", "pump 0", values)[0] == pytest.approx(native, abs=0, rel=1e-6)


def test_verdicts_count() -> None:
    lesson = fitted("judged").lesson_
    assert lesson is not None
    plain, judged = (
        [run(kind, entity, values)[0] for entity, values in observations("judged", COUNT)]
        for kind in ("plain", "judged")
    )
    assert np.abs(np.subtract(plain, judged)).max() > 0.01


@pytest.mark.parametrize("length", [8, 97, 600, 1021, 1024])
def test_the_spectrum_is_that_of_a_fourier_transform(length: int) -> None:
    x = np.random.default_rng(0).normal(size=(3, length))
    graph = Graph("spectrum")
    given = graph.input("x", np.float64, x.shape)
    own = onnx_views.Observation(given, given > 0, 3, length)
    model = graph.model({"squares": onnx_views._squared_spectrum(given, own)}, "test", "0")
    (squares,) = session_of(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(squares, np.abs(np.fft.rfft(x)) ** 2, rtol=1e-9, atol=1e-9)


def test_what_is_missing_follows_from_the_others() -> None:
    from tsadc.detectors.ensemble.linear import completed

    generator = np.random.default_rng(1)
    root = generator.normal(size=(12, 12)) * np.logspace(-1.5, 0.5, 12)
    precision, center = np.linalg.inv(root @ root.T + 1e-3 * np.eye(12)), generator.normal(size=12)
    values = generator.normal(size=(30, 12)) * np.logspace(0, 5, 30)[:, None]
    missing = generator.random(values.shape) < np.linspace(0, 0.9, 30)[:, None]
    graph = Graph("completed")
    given, where = graph.input("x", np.float64, values.shape), graph.input("missing", np.bool_, values.shape)
    model = graph.model({"y": onnx_views._completed(given, where, center, precision)}, "test", "0")
    (found,) = session_of(model.SerializeToString()).run(None, {"x": values, "missing": missing})
    expected = completed(np.where(missing, np.nan, values), center, precision)
    sizes = np.abs(values).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found / sizes, expected / sizes, rtol=0, atol=1e-8)


def test_a_graph_that_scores_otherwise_is_not_written(tmp_path, monkeypatch) -> None:
    original = onnx_views.BUILDERS[type(fitted("one variable").scorer_.groups[0])]
    wrong = {**onnx_views.BUILDERS, type(fitted("one variable").scorer_.groups[0]): lambda *own: original(*own) + 0.1}
    monkeypatch.setattr(onnx_views, "BUILDERS", wrong)
    with pytest.raises(TsadcError, match="was not written: its score of a made-up observation"):
        write_onnx(fitted("one variable"), tmp_path / "scorer")
    assert list(tmp_path.iterdir()) == []


def test_packages_that_are_missing_are_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"needs the package onnxruntime: pip install 'tsadc\[export\]'\."):
        write_onnx(fitted("one variable"), tmp_path / "scorer")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ConfigError, match="needs the packages onnx and onnxruntime"):
        write_onnx(fitted("one variable"), tmp_path / "scorer")
    assert list(tmp_path.iterdir()) == []


def test_every_group_of_views_has_a_graph() -> None:
    assert isinstance(fitted("plain"), Ensemble)
    assert {type(group) for group in fitted("plain").scorer_.groups} == set(onnx_views.BUILDERS)
