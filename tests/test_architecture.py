"""Imports go down only, no detector can see a label, and nothing is pickled."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "tsadc"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up. A part of the package may import itself and any part in a lower layer.
LAYERS = (
    ("atomic", "config", "errors", "optional", "subsample"),
    ("series",),
    ("nn", "io", "windows", "wording", "scale", "variables"),
    ("detectors", "data", "evaluate"),
    ("bench", "export"),
    ("show",),
    ("serve", "cluster"),
    ("cli",),
)
LEVEL = {part: level for level, parts in enumerate(LAYERS) for part in parts}
ALLOWED_SIDEWAYS = {("atomic", "errors"), ("config", "errors"), ("io", "variables")}
SHARED_BY_DETECTORS = {
    "__init__", "audit", "base", "cleaning", "display", "docstrings", "drift", "ensemble", "episodes", "events",
    "explanation", "feedback", "imputation", "interval_id", "merging", "missing", "own_file", "parallel", "parameters",
    "parts", "per_row", "planned", "pooling", "preparation", "provenance", "reasons", "refit", "residual", "result",
    "review", "settings", "store", "stored_limits", "streaming", "summary", "threshold", "usual", "verdicts",
    "versions",
}  # fmt: skip
SHARED_BY_CLASSICAL = {"base", "neighbours"}


def name_of(module: Path) -> str:
    return module.relative_to(PACKAGE).as_posix()


@cache
def tree(module: Path) -> ast.Module:
    return ast.parse(module.read_text(encoding="utf-8"))


def imported_names(module: Path) -> Iterator[tuple[str, ...]]:
    """Every dotted name that the module imports; for `from a import b`, both `a` and `a.b`."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(module)} imports relatively, line {node.lineno}"
            path = tuple((node.module or "").split("."))
            yield path
            yield from ((*path, alias.name) for alias in node.names)


def internal_imports(module: Path) -> Iterator[tuple[str, ...]]:
    """The imported modules of this package, without the leading `tsadc`."""
    for path in imported_names(module):
        place = PACKAGE.joinpath(*path[1:])
        if path[0] == "tsadc" and len(path) > 1 and (place.is_dir() or place.with_suffix(".py").is_file()):
            yield path[1:]


def external_packages(module: Path) -> set[str]:
    return {path[0] for path in imported_names(module)} - {"tsadc"}


def modules_under(folder: str) -> list[Path]:
    return sorted((PACKAGE / folder).rglob("*.py"))


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {module.relative_to(PACKAGE).parts[0].removesuffix(".py") for module in MODULES}
    assert parts - {"__init__", "__main__"} <= set(LEVEL)


def test_imports_go_down() -> None:
    wrong = []
    for module in MODULES:
        own = module.relative_to(PACKAGE).with_suffix("").parts[0]
        if own in ("__init__", "__main__"):
            continue
        for path in internal_imports(module):
            if path[0] != own and (own, path[0]) not in ALLOWED_SIDEWAYS and LEVEL[path[0]] >= LEVEL[own]:
                wrong.append(f"{name_of(module)} imports {'.'.join(path)}")
    assert wrong == []


def test_a_detector_imports_neither_labels_nor_other_detectors() -> None:
    wrong = []
    for module in modules_under("detectors"):
        within = module.relative_to(PACKAGE / "detectors").with_suffix("").parts
        for path in internal_imports(module):
            labels = path[0] in ("data", "evaluate", "bench")
            other = False
            if path[0] == "detectors" and len(path) > 1 and path[1] not in SHARED_BY_DETECTORS:
                same_folder = path[1] == within[0]
                alone = within[0] in ("baselines", "classical")  # one file per detector
                allowed = {within[-1]} | (SHARED_BY_CLASSICAL if within[0] == "classical" else set())
                other = not same_folder or (alone and len(path) > 2 and path[2] not in allowed)
            if labels or other:
                wrong.append(f"{name_of(module)} imports {'.'.join(path)}")
    assert wrong == []


def test_a_detector_knows_no_labelled_noun() -> None:
    for module in modules_under("detectors"):
        imported = [node for node in ast.walk(tree(module)) if isinstance(node, ast.ImportFrom)]
        names = {alias.name for node in imported for alias in node.names}
        assert not names & {"Labelled", "Truth", "Split"}, name_of(module)


def test_networks_know_tensors_and_settings_only() -> None:
    allowed = {"nn", "atomic", "config", "errors", "subsample"}
    for module in modules_under("nn"):
        assert {path[0] for path in internal_imports(module)} <= allowed, module
        assert not external_packages(module) & {"pandas", "sklearn", "scipy", "typer", "rich"}, module


def test_torch_stays_in_networks_and_detectors() -> None:
    users = {name_of(module).split("/")[0] for module in MODULES if "torch" in external_packages(module)}
    assert users <= {"nn", "detectors"}


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {"utils", "util", "common", "core", "helpers", "helper", "misc", "tools", "lib"}
    assert not vague & {part for module in MODULES for part in module.relative_to(PACKAGE).with_suffix("").parts}


def test_nothing_is_pickled() -> None:
    for module in MODULES:
        assert not external_packages(module) & {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}, module
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Attribute):
                where = f"{name_of(module)}, line {node.lineno}"
                assert ast.unparse(node) not in ("torch.load", "torch.save"), where
                assert node.attr not in ("read_pickle", "to_pickle"), where
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant)
                assert node.value.value is False, f"{name_of(module)}, line {node.value.lineno}"


def test_no_path_of_a_machine_is_in_the_source() -> None:
    places = "home|root|Users|tmp|work|mnt|opt|srv|var|usr"
    machine = re.compile(rf"""(?:^|["'`\s(=])(?:/(?:{places})/|~/|[A-Z]:\\)""", re.MULTILINE)
    sources = [file for file in PACKAGE.rglob("*.*") if file.suffix in (".py", ".js", ".css", ".toml")]
    assert [file.name for file in sources if machine.search(file.read_text(encoding="utf-8"))] == []
