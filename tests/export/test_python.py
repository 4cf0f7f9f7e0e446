"""The exported package scores as this one does, in a process that has nothing but numpy."""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from export_models import LENGTHS, fitted, observations
from scipy.sparse import csr_array

from tsadc.errors import OutputError
from tsadc.export import sparse
from tsadc.export.bundle import sources, write_python
from tsadc.export.folder import native_scores
from tsadc.export.standalone import Scorer, self_test

COUNT = 27
ROOT = Path(__file__).parents[2] / "src"
# Runs at the start of a process: only numpy and the standard library can be imported.
REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tsadc", "torch", "pandas", "sklearn", "scipy", "safetensors", "filelock"):
            raise ModuleNotFoundError(f"{name} is refused here", name=name)
sys.meta_path.insert(0, Refuse())
"""


def python(script: str, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that can import numpy and what is in the folder."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", REFUSE + script, *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@cache
def made(kind: str) -> Scorer:
    """Return the scorer of a model, as this package has it."""
    with TemporaryDirectory() as place:
        write_python(fitted(kind), Path(place) / "scorer")
        return Scorer.load(Path(place) / "scorer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    for kind in LENGTHS:
        write_python(fitted(kind), folder / kind.replace(" ", "_"))
    return folder


def test_scores_are_those_of_the_package_to_the_bit(folder: Path, tmp_path: Path) -> None:
    arrays = {kind: [values for _, values in observations(kind, COUNT)] for kind in LENGTHS}
    np.savez(tmp_path / "values.npz", **{kind: np.stack(own) for kind, own in arrays.items()})
    names = {kind: [entity for entity, _ in observations(kind, COUNT)] for kind in LENGTHS}
    script = (
        "import importlib, json\nimport numpy as np\n"
        "pack, names = np.load(sys.argv[1]), json.loads(sys.argv[2])\n"
        "scorers = {kind: importlib.import_module(kind.replace(' ', '_')).Scorer.load() for kind in names}\n"
        "print(json.dumps({kind: [scorers[kind].score(name, own) for name, own in zip(names[kind], pack[kind])] "
        "for kind in names}))\n"
    )
    done = python(script, folder, tmp_path / "values.npz", json.dumps(names))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    for kind in LENGTHS:
        np.testing.assert_array_equal(found[kind], native_scores(fitted(kind), names[kind], arrays[kind]))


def test_the_self_test_passes_and_can_fail(folder: Path, tmp_path: Path) -> None:
    script = "import runpy, sys\nsys.argv = ['plain']\nrunpy.run_module('plain', run_name='__main__')\n"
    done = python(script, folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 observations, largest difference 0.0e+00: passed\n"
    other = copied(folder / "plain", tmp_path / "other")
    changed = json.loads((other / "self-test.json").read_text())
    changed["observations"][1]["score"] += 0.001
    (other / "self-test.json").write_text(json.dumps(changed))
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["files"]["self-test.json"] = hashlib.sha256((other / "self-test.json").read_bytes()).hexdigest()
    (other / "manifest.json").write_text(json.dumps(manifest))
    done = python("import other\nother.self_test()", tmp_path)
    assert done.returncode == 1
    assert done.stdout.endswith("largest difference 1.0e-03: FAILED\n")


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("__pycache__"))
    return to


@pytest.mark.parametrize("name", ["model.npz", "manifest.json", "self-test.json", "README.md"])
@pytest.mark.parametrize("damage", [None, b"", b"{}", 0.5])
def test_a_damaged_export_is_one_sentence(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, damage: bytes | float | None
) -> None:
    other = copied(folder / "plain", tmp_path / "other")
    content = (other / name).read_bytes()
    (other / name).unlink()
    if damage is not None:
        (other / name).write_bytes(damage if isinstance(damage, bytes) else content[: int(damage * len(content))])
    with pytest.raises(SystemExit) as ended:
        self_test(other)
    said = capsys.readouterr().out
    assert ended.value.code == 1
    loads = name not in ("model.npz", "manifest.json")
    assert said == (
        f"FAILED: {other}: {name} is missing or differs from its digest in manifest.json; export the model again with "
        "`tsadc export`.\n"
        if loads
        else f"FAILED: {other}: manifest.json or model.npz is missing or damaged; export the model again with "
        "`tsadc export`.\n"
    )
    if not loads:
        with pytest.raises(ValueError, match=r"manifest.json or model.npz is missing or damaged; export the model"):
            Scorer.load(other)


def test_a_verdict_is_that_of_detect() -> None:
    detector = fitted("judged")
    rows = np.concatenate([values for _, values in observations("judged", 24)[::6]])  # complete ones
    length = detector.settings.length
    result = detector.detect({"pump 0": rows})
    scorer = made("judged")
    recent: list[float] = []
    for number, row in enumerate(result.observations.itertuples()):
        own = rows[number * length : (number + 1) * length]
        verdict = scorer.judge("pump 0", own, recent[-20:])
        recent.append(verdict.score)
        assert verdict.score == row.score
        assert verdict.threshold == pytest.approx(row.threshold, abs=1e-12)
        assert verdict.anomalous == row.anomalous
        assert sum(verdict.views.values()) == pytest.approx(row.score, abs=1e-5)
        assert "feedback" in verdict.views
        assert sum(verdict.variables.values()) == pytest.approx(1)
        assert verdict.variables["variable_2"] == 0  # the state
    assert result.observations["anomalous"].any()


def test_too_few_values_are_not_judged() -> None:
    scorer = made("plain")
    values = np.full((80, 6), np.nan)
    values[:39] = 1e4
    verdict = scorer.judge("pump 0", values)
    assert verdict.score > verdict.threshold
    assert verdict.coverage == 39 / 80
    assert not verdict.anomalous
    assert scorer.judge("pump 0", values, recent=None) == scorer.judge("pump 0", values, recent=np.zeros(0)) == verdict
    nothing = scorer.judge("pump 0", np.full((80, 6), np.nan))
    assert set(nothing.variables.values()) == {0.0}  # no share of nothing, and no NaN


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"has 80 rows of 6 variables, but got the shape \(6, 80\)"):
        made("plain").score("pump 0", np.zeros((6, 80)))


def test_the_manifest_describes_the_model_and_every_file(folder: Path) -> None:
    manifest = json.loads((folder / "plain" / "manifest.json").read_text())
    detector = fitted("plain")
    assert manifest["variables"] == list(detector.variables_)
    assert manifest["judged"] == [name for name in detector.variables_ if name != "variable_2"]
    assert manifest["entities"] == ["pump 0", "pump 1", "pump 2", "short"]
    assert set(manifest["usual_scores"]) == {"pump 0", "pump 1", "pump 2"}
    assert (manifest["length"], manifest["threshold"]) == (80, detector.threshold_)
    files = {file.name: file for file in (folder / "plain").iterdir() if file.is_file()}
    assert set(manifest["files"]) == set(files) - {"manifest.json"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest


def test_the_licence_comes_with_the_code(folder: Path) -> None:
    assert (folder / "plain" / "LICENSE").read_text() == (ROOT.parent / "LICENSE").read_text()


def test_a_name_that_cannot_be_imported_is_refused(tmp_path: Path) -> None:
    refused = {
        "pump-scorer": "which must consist of letters, digits and underscores",
        "class": "but 'class' is a word of the language",
        "json": "but there is another package 'json', which it would hide",
        "numpy": "but there is another package 'numpy', which it would hide",
    }
    for name, why in refused.items():
        with pytest.raises(OutputError, match=f"{name} is to be imported by its name, {why}"):
            write_python(fitted("plain"), tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def definitions(text: str) -> dict[str, str]:
    """The text of every function and method."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            found[f"{node.name} {node.lineno}"] = ast.get_source_segment(text, node)
    return found


def test_what_is_exported_is_the_code_of_the_package_and_no_more() -> None:
    files = sources()
    library = [path.read_text() for path in (ROOT / "tsadc").rglob("*.py")]
    for name, text in files.items():
        for segment in definitions(text).values():
            assert any(segment in original for original in library), f"{name}: {segment}"
    names = {name.split()[0] for text in files.values() for name in definitions(text)}
    assert {"score", "evidence", "measure", "explain", "restore"} <= names
    assert not {"fit", "adapt", "state", "measure_all", "undo", "detect"} & names
    modules = {
        module.partition(".")[0]
        for text in files.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        if not getattr(node, "level", 0)
    }
    assert modules - set(sys.stdlib_module_names) == {"numpy"}


def test_sparse_products_are_those_of_scipy_to_the_bit() -> None:
    generator = np.random.default_rng(0)
    rows = np.repeat(np.arange(40), generator.integers(0, 30, 40))
    places = np.concatenate([generator.permutation(50)[: (rows == i).sum()] for i in range(40)])
    entries = generator.normal(size=len(rows)).astype(np.float32), (rows, places)
    dense = generator.normal(size=(50, 400)).astype(np.float32)
    product = sparse.csr_array(entries, shape=(40, 50)) @ dense
    assert product.dtype == np.float32
    np.testing.assert_array_equal(product, csr_array(entries, shape=(40, 50)) @ dense)
