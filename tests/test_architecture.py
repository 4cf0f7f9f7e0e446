"""Imports go down only, no detector can see a label, and every module has its tests."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "tsadc"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the ground up. A unit may import itself and whatever lies below.
LAYERS = (
    ("config", "errors"),
    ("series",),
    ("nn", "io", "windows", "scale", "variables"),
    ("detectors", "data", "evaluate"),
    ("bench",),
    ("report", "serve"),
    ("commands",),
    ("cli",),
)
HEIGHT = {unit: height for height, units in enumerate(LAYERS) for unit in units}
SIDEWAYS = {("config", "errors"), ("io", "variables")}
# Of all detectors.
CONTRACT = {"__init__", "base", "head", "parameters", "pooling", "provenance", "residual", "result", "settings"}
CONTRACT |= {"store", "threshold", "window"}

# Modules without a test file of their own name, and why.
ELSEWHERE = {
    "__main__.py": "test_cli.py runs the package as a module",
    "detectors/__init__.py": "test_registry.py",
    "errors.py": "classes without code; every refusal tests them",
    "report/cards.py": "test_document.py reads the page they make",
    "report/guide.py": "test_document.py reads the page they make",
    "report/verdict.py": "test_document.py reads the page they make",
}


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


each_module = pytest.mark.parametrize("module", MODULES, ids=name_of)


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def unit(parts: tuple[str, ...]) -> str:
    """The part of the package that a dotted name under `tsadc` belongs to."""
    return parts[1] if len(parts) > 1 else "tsadc"


def imports(module: Path) -> Iterator[tuple[str, ...]]:
    """Every dotted name that is imported anywhere in the module; of `from a import b`, both `a` and `a.b`."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(module)} imports relatively, line {node.lineno}"
            path = tuple((node.module or "").split("."))
            yield path
            yield from ((*path, alias.name) for alias in node.names)


def ours(module: Path) -> Iterator[tuple[str, ...]]:
    """The imported modules of the package."""
    for path in imports(module):
        place = PACKAGE.joinpath(*path[1:])
        if path[0] == "tsadc" and (place.is_dir() or place.with_suffix(".py").is_file()):
            yield path


def foreign(module: Path) -> set[str]:
    return {path[0] for path in imports(module)} - {"tsadc"}


def test_the_layers_name_every_part_of_the_package() -> None:
    units = {module.relative_to(PACKAGE).parts[0].removesuffix(".py") for module in MODULES}
    assert units - {"__init__", "__main__"} <= set(HEIGHT)


@each_module
def test_imports_go_down(module: Path) -> None:
    own = unit(("tsadc", *module.relative_to(PACKAGE).with_suffix("").parts))
    if own in ("__init__", "__main__"):
        return
    for path in ours(module):
        other = unit(path)
        if other in (own, "tsadc") or (own, other) in SIDEWAYS:
            continue
        assert HEIGHT[other] < HEIGHT[own], f"{name_of(module)} imports {'.'.join(path)}"


@pytest.mark.parametrize("module", sorted((PACKAGE / "detectors").rglob("*.py")), ids=name_of)
def test_a_detector_sees_neither_labels_nor_other_detectors(module: Path) -> None:
    within = module.relative_to(PACKAGE / "detectors").parts
    family = within[0] if len(within) > 1 else module.stem
    for path in ours(module):
        assert unit(path) not in ("data", "evaluate", "bench"), f"{name_of(module)} imports {'.'.join(path)}"
        if len(path) > 2 and path[1] == "detectors":
            assert path[2] in CONTRACT | {family}, f"{name_of(module)} imports {'.'.join(path)}"


@pytest.mark.parametrize("module", sorted((PACKAGE / "nn").rglob("*.py")), ids=name_of)
def test_networks_know_tensors_and_settings_only(module: Path) -> None:
    assert {unit(path) for path in ours(module)} <= {"nn", "config", "errors", "tsadc"}
    assert not foreign(module) & {"pandas", "sklearn", "scipy", "typer", "rich"}


@pytest.mark.parametrize("module", sorted((PACKAGE / "evaluate").rglob("*.py")), ids=name_of)
def test_evaluation_needs_no_torch(module: Path) -> None:
    assert "torch" not in foreign(module)


def test_torch_stays_in_networks_and_detectors() -> None:
    users = {name_of(module).split("/")[0] for module in MODULES if "torch" in foreign(module)}
    assert users <= {"nn", "detectors"}


@each_module
def test_modules_are_short_and_have_names_that_say_something(module: Path) -> None:
    vague = {"utils", "util", "common", "core", "helpers", "helper", "misc", "tools", "lib"}
    assert not vague & {part.removesuffix(".py") for part in module.relative_to(PACKAGE).parts}
    assert len(module.read_text(encoding="utf-8").splitlines()) <= 400


@each_module
def test_functions_are_short(module: Path) -> None:
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno is not None:
            assert node.end_lineno - node.lineno < 51, f"{name_of(module)}: {node.name}"


@pytest.mark.parametrize("module", sorted((PACKAGE / "detectors").rglob("*.py")), ids=name_of)
def test_a_detector_knows_no_labelled_noun(module: Path) -> None:
    imported = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imported for alias in node.names}
    assert not names & {"Labelled", "Truth", "Split"}


@each_module
def test_nothing_is_pickled(module: Path) -> None:
    assert not foreign(module) & {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Attribute):
            called = ast.unparse(node)
            assert called not in ("torch.load", "torch.save"), f"{name_of(module)}, line {node.lineno}"
            assert node.attr not in ("read_pickle", "to_pickle"), f"{name_of(module)}, line {node.lineno}"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False, f"{name_of(module)}, line {node.value.lineno}"


PLACES = "home|root|Users|tmp|work|mnt|opt|srv|var|usr"
MACHINE = re.compile(rf"""(?:^|["'`\s(=])(?:/(?:{PLACES})/|~/|[A-Z]:\\)""", re.MULTILINE)


@pytest.mark.parametrize("file", sorted(f for f in PACKAGE.rglob("*.*") if f.suffix in (".py", ".js", ".css", ".toml")))
def test_no_machine_is_named(file: Path) -> None:
    found = MACHINE.search(file.read_text(encoding="utf-8"))
    assert found is None, f"{file.name}: {found.group() if found else ''}"


def has_code(module: Path) -> bool:
    """More than a docstring, imports and `__all__`."""
    body = [node for node in tree(module).body if not isinstance(node, (ast.Import, ast.ImportFrom, ast.Expr))]
    return any(not isinstance(node, ast.Assign) or ast.unparse(node.targets[0]) != "__all__" for node in body)


@pytest.mark.parametrize("module", [m for m in MODULES if has_code(m) and name_of(m) not in ELSEWHERE], ids=name_of)
def test_every_module_has_its_test_file(module: Path) -> None:
    """`nn/x.py` has `nn/test_x.py`, or `nn/test_x_nn.py` where another folder took the name; detectors/tsadc/ shares
    the folder of the detectors."""
    folder = module.relative_to(PACKAGE).parent
    folder = Path("detectors") if folder == Path("detectors", "tsadc") else folder
    stem = "init" if module.stem == "__init__" else module.stem
    names = [f"test_{stem}.py", f"test_{stem}_{folder.name}.py"]
    assert any((TESTS / folder / name).is_file() for name in names), f"no tests/{folder.as_posix()}/{names[0]}"


def test_exceptions_are_still_needed() -> None:
    assert {name for name in ELSEWHERE if not (PACKAGE / name).is_file()} == set()
