"""Hash the source code that the numbers of a job depend on, so that a changed line makes its record stale.

Starting from a detector's class and the function that draws a data set, every function, class and constant that they
mention is followed through the imports of the package. Other detectors and data sets are not reached, so changing or
adding one leaves the records of the others as they are. The hash is taken from the syntax tree without docstrings,
comments, annotations of functions and the content of `raise` statements: rewording these does not change a number.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

WHOLE = "*"  # in place of a name: everything that the module defines
# Not followed: look-up tables, which list every other detector and data set as well, and code without an effect on the
# scores of a benchmark. Reading tables and matching variables have none because jobs draw series, with the same
# variables everywhere, from packs, prepared folders or the simulated plant.
TABLES = ("tsadc.detectors", "tsadc.data.catalogue")
WITHOUT_EFFECT = (
    "tsadc.io.calendar",
    "tsadc.io.columnar",
    "tsadc.io.columns",
    "tsadc.io.delimited",
    "tsadc.io.edf",
    "tsadc.io.excel",
    "tsadc.io.files",
    "tsadc.io.hdf5",
    "tsadc.io.layout",
    "tsadc.io.limits",
    "tsadc.io.long",
    "tsadc.io.mat",
    "tsadc.io.read",
    "tsadc.io.sql",
    "tsadc.io.stream",
    "tsadc.io.times",
    "tsadc.io.wfdb_files",
    "tsadc.io.write_back",
    "tsadc.variables",
    "tsadc.atomic",
    "tsadc.errors",
    "tsadc.detectors.audit",
    "tsadc.detectors.cleaning",
    "tsadc.detectors.counterfactual",
    "tsadc.detectors.display",
    "tsadc.detectors.episodes",
    "tsadc.detectors.explanation",
    "tsadc.detectors.feedback",
    "tsadc.detectors.imputation",
    "tsadc.detectors.interval_id",
    "tsadc.detectors.parallel",
    "tsadc.detectors.per_row",
    "tsadc.detectors.planned",
    "tsadc.detectors.provenance",
    "tsadc.detectors.reasons",
    "tsadc.detectors.store",
    "tsadc.detectors.usual",
    "tsadc.wording",
    "tsadc.bench.machine",
)
# Methods of `Detector` that no job calls.
UNUSED_METHODS = (
    *("detect_parts", "feedback", "fit_predict", "predict", "predict_proba", "save", "score_samples", "stream"),
)
IGNORED = ("ctx", "kind", "returns", "type_comment", "type_params")
Reference = tuple[str, str]  # module and name of a definition


@dataclass(frozen=True)
class Module:
    """The top-level statements of a module by the name that they define. `imports` maps a local name to what it stands
    for; the name is `WHOLE` for a module. `unnamed` are statements that define nothing, such as calls."""

    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Reference] = field(default_factory=dict)
    unnamed: list[ast.stmt] = field(default_factory=list)


def source_hash(roots: Iterable[Reference]) -> str:
    """Return a hash of the definitions and of everything that they depend on."""
    reached = set().union(*(_closure(*root) for root in roots))
    # Without the modules: a definition that moves to another one is the same code.
    content = "\n".join(sorted(f"{name} {_definition_hash(module, name)}" for module, name in reached))
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def module_hash(*modules: str) -> str:
    """Return a hash of all that modules define, and of nothing that they import. It is for studies of code that has no
    effect on a job and is therefore not followed by `source_hash`."""
    names = [(module, name) for module in modules for name in ("", *sorted(_parse(module).definitions))]
    return hashlib.sha256("".join(_definition_hash(*name) for name in names).encode()).hexdigest()[:16]


def reference(thing: Any) -> Reference:
    """Return where a class or function is defined; its whole module if it has no top-level name there."""
    thing = getattr(thing, "func", thing)  # of functools.partial; its arguments are part of the data set's name
    name = str(thing.__qualname__).partition(".")[0]
    return thing.__module__, name if name in _parse(thing.__module__).definitions else WHOLE


@lru_cache(maxsize=256)
def _closure(module: str, name: str) -> frozenset[Reference]:
    """Return the definitions that can be reached from one, itself included."""
    packages = {"tsadc", module.partition(".")[0]}
    reached: set[Reference] = set()
    waiting = [(module, name)]
    while waiting:
        definition = _resolve(*waiting.pop(), packages)
        if definition is None or definition in reached:
            continue
        reached.add(definition)
        waiting += _references(*definition)
        waiting.append((definition[0], ""))  # statements without a name are run with any part of their module
    return frozenset(reached)


def _resolve(module: str, name: str, packages: set[str]) -> Reference | None:
    """Follow a name to the module that defines it; None outside of the packages, or if there is nothing to hash."""
    if module.partition(".")[0] not in packages or module in TABLES or _file(module) is None:
        return None
    if any(module == skipped or module.startswith(f"{skipped}.") for skipped in WITHOUT_EFFECT):
        return None
    parsed = _parse(module)
    if name in ("", WHOLE) or name in parsed.definitions:
        return module, name
    if name in parsed.imports:
        return _resolve(*parsed.imports[name], packages)
    return _resolve(f"{module}.{name}", WHOLE, packages)


@lru_cache(maxsize=4096)
def _references(module: str, name: str) -> tuple[Reference, ...]:
    parsed = _parse(module)
    if name == WHOLE:
        return tuple((module, definition) for definition in parsed.definitions)
    statements = _statements(module, name)
    return tuple(reference for statement in statements for reference in _mentioned(statement, module, parsed))


def _mentioned(node: ast.AST, module: str, parsed: Module) -> Iterator[Reference]:
    """Yield what a piece of code refers to, in its own module or by an import."""
    if isinstance(node, ast.Import | ast.ImportFrom):  # inside a function
        yield from _imported(node).values()
    elif isinstance(node, ast.Name):
        if node.id in parsed.definitions:
            yield module, node.id
        elif node.id in parsed.imports:
            yield parsed.imports[node.id]
    elif isinstance(node, ast.Attribute) and (member := _member(node, parsed)):
        yield member
    else:
        for _, value in _fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _mentioned(child, module, parsed)


def _member(node: ast.Attribute, parsed: Module) -> Reference | None:
    """Return what `module.name` stands for, None if the value is not an imported module."""
    if isinstance(node.value, ast.Attribute):
        base = _member(node.value, parsed)
    else:
        base = parsed.imports.get(node.value.id) if isinstance(node.value, ast.Name) else None
    if base is None:
        return None
    module = base[0] if base[1] == WHOLE else f"{base[0]}.{base[1]}"
    return (module, node.attr) if _file(module) else base


@lru_cache(maxsize=1024)
def _parse(module: str) -> Module:
    parsed = Module()
    file = _file(module)
    for statement in ast.parse(file.read_text(encoding="utf-8")).body if file else []:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            parsed.imports.update(_imported(statement))
        elif names := _defined(statement):
            for name in names:
                parsed.definitions.setdefault(name, []).append(statement)
        elif isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            continue
        elif not _is_text(statement):
            parsed.unnamed.append(statement)
    return parsed


def _imported(node: ast.Import | ast.ImportFrom) -> dict[str, Reference]:
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.partition(".")[0]: (
                alias.name if alias.asname else alias.name.partition(".")[0],
                WHOLE,
            )
            for alias in node.names
        }
    return {alias.asname or alias.name: (node.module or "", alias.name) for alias in node.names}


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)]
    if isinstance(statement, ast.AnnAssign | ast.AugAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _statements(module: str, name: str) -> list[ast.stmt]:
    parsed = _parse(module)
    if name == WHOLE:
        return []
    return parsed.definitions[name] if name else parsed.unnamed


@lru_cache(maxsize=4096)
def _definition_hash(module: str, name: str) -> str:
    content = "".join(_dump(statement) for statement in _statements(module, name))
    return hashlib.sha256(content.encode()).hexdigest()


def _dump(value: Any) -> str:
    """Return the syntax tree as text that is the same in all versions of Python."""
    if isinstance(value, list):
        return "[" + ",".join(_dump(item) for item in value) + "]"
    if not isinstance(value, ast.AST):
        return repr(value)
    return type(value).__name__ + "(" + ",".join(f"{name}={_dump(part)}" for name, part in _fields(value)) + ")"


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a node that decide what it does."""
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if value is None or value == [] or name in IGNORED or (name == "annotation" and isinstance(node, ast.arg)):
            continue
        if name == "body" and isinstance(value, list):
            value = [statement for statement in value if not (_is_text(statement) or _is_unused(node, statement))]
        yield name, value


def _is_unused(parent: ast.AST, statement: ast.AST) -> bool:
    """Whether a statement is a method of `Detector` that no job calls."""
    return (
        isinstance(parent, ast.ClassDef)
        and parent.name == "Detector"
        and isinstance(statement, ast.FunctionDef)
        and statement.name in UNUSED_METHODS
    )


def _is_text(statement: ast.AST) -> bool:
    """Whether a statement is a docstring."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


@lru_cache(maxsize=4096)
def _file(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError, AttributeError):
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
