"""Copy the parts of this package that one module needs, and nothing else, as a small package of their own.

An export must give the same scores as the package, so it contains the same code and no second version. Whole modules
would bring pandas and everything about fitting, so each is copied without the definitions that are not needed:

    needed      what the root module defines, and every name that needed code mentions
    methods     of a needed class: special ones, and those whose name is an attribute somewhere in needed code
    modules     become files of one folder; their imports of each other become relative ones

Names are matched, not types, so that a copy may have too much but never too little. What is kept is kept to the letter,
comments included.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "tsadc"
LINE = 120  # characters
Definition = ast.FunctionDef | ast.ClassDef


@dataclass(frozen=True)
class Imported:
    """A name that a module imports: `original` of `module`, or the module itself if `original` is None."""

    module: str
    original: str | None


@dataclass
class Source:
    """A module of the package: its text, what it defines and imports, and the names that are needed."""

    text: str
    tree: ast.Module
    defined: dict[str, ast.stmt] = field(default_factory=dict)
    imported: dict[str, Imported] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, module: str) -> Source:
        """Read a module of the package, without importing it."""
        spec = importlib.util.find_spec(module)
        assert spec is not None
        assert spec.origin is not None
        text = Path(spec.origin).read_text(encoding="utf-8")
        source = cls(text, ast.parse(text))
        for statement in source.tree.body:
            if isinstance(statement, Definition):
                source.defined[statement.name] = statement
            elif isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                names = (node for target in targets for node in ast.walk(target))
                source.defined |= {node.id: statement for node in names if isinstance(node, ast.Name)}
            elif isinstance(statement, ast.Import | ast.ImportFrom):
                source.imported |= dict(_names_of(statement))
        return source


def _names_of(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Imported]]:
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            yield alias.asname or alias.name.partition(".")[0], Imported(alias.name, None)
        else:
            yield alias.asname or alias.name, Imported(statement.module or "", alias.name)


def pruned(root: str, stand_ins: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each file of a package that consists of what the module `root` needs; `root` itself becomes
    `__init__.py`.

    `stand_ins` maps external modules to modules of this package that are imported in their place.
    """
    sources, attributes = _needed(root, stand_ins)
    files = {module: module.rpartition(".")[2] for module in sources}
    assert len(set(files.values())) == len(files), f"two modules have the same name: {sorted(files)}"
    files[root] = "__init__"
    return {
        f"{files[module]}.py": _text(source, attributes, {**files, **_by_original(stand_ins, files)})
        for module, source in sources.items()
    }


def _by_original(stand_ins: Mapping[str, str], files: Mapping[str, str]) -> dict[str, str]:
    return {original: files[module] for original, module in stand_ins.items() if module in files}


def _needed(root: str, stand_ins: Mapping[str, str]) -> tuple[dict[str, Source], set[str]]:
    """Return the modules with something that the root module needs, and all attributes that are mentioned."""
    sources = {root: Source.read(root)}
    sources[root].needed |= set(sources[root].defined)
    attributes = {node.name for node in ast.walk(sources[root].tree) if isinstance(node, Definition)}
    while True:
        before = sum(len(source.needed) for source in sources.values()), len(attributes)
        for source in list(sources.values()):
            for name in list(source.needed & set(source.defined)):
                for node in _mentioned(source.defined[name], attributes):
                    if isinstance(node, ast.Attribute):
                        attributes.add(node.attr)
                    elif node.id in source.defined or node.id in source.imported:
                        source.needed.add(node.id)
            for name in source.needed & set(source.imported):
                imported = source.imported[name]
                module = stand_ins.get(imported.module, imported.module)
                if module.partition(".")[0] == PACKAGE:
                    assert imported.original is not None
                    if module not in sources:
                        sources[module] = Source.read(module)
                    sources[module].needed.add(imported.original)
        if before == (sum(len(source.needed) for source in sources.values()), len(attributes)):
            return sources, attributes


def _mentioned(node: ast.AST, attributes: set[str]) -> Iterator[ast.Name | ast.Attribute]:
    """Yield names and attributes in a definition, without members of classes that are not needed. An annotation is not
    evaluated, so that its attributes do not count."""
    dropped = set(map(id, _dropped_members(node, attributes))) if isinstance(node, ast.ClassDef) else set()
    annotations = {id(getattr(node, name, None)) for name in ("annotation", "returns")}
    for child in ast.iter_child_nodes(node):
        if id(child) in dropped:
            continue
        if id(child) in annotations:
            yield from (name for name in ast.walk(child) if isinstance(name, ast.Name))
            continue
        if isinstance(child, ast.Name | ast.Attribute):
            yield child
        yield from _mentioned(child, attributes)


def _dropped_members(definition: ast.ClassDef, attributes: set[str]) -> list[Definition]:
    members = [member for member in definition.body if isinstance(member, Definition)]
    return [member for member in members if not member.name.startswith("__") and member.name not in attributes]


def _text(source: Source, attributes: set[str], files: Mapping[str, str]) -> str:
    """Return the text of a module without what is not needed."""
    lines = source.text.splitlines()
    replaced: dict[int, list[str]] = {}  # by the number of the first line
    for statement in _not_needed(source, attributes):
        first = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", []))]) - 1
        while first > 0 and lines[first - 1].lstrip().startswith("#"):  # a comment belongs to what follows
            first -= 1
        for line in range(first, statement.end_lineno or first + 1):
            replaced[line] = []
    for statement in source.tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and getattr(statement, "module", None) != "__future__":
            for line in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                replaced[line] = []
            replaced[statement.lineno - 1] = _import_lines(statement, source.needed, files)
    kept = [new for number, line in enumerate(lines) for new in replaced.get(number, [line])]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(kept)).strip() + "\n"


def _not_needed(source: Source, attributes: set[str]) -> Iterator[ast.stmt]:
    """Yield definitions, and members of needed classes, that are left out."""
    names: dict[int, set[str]] = {}
    for name, statement in source.defined.items():
        names.setdefault(id(statement), set()).add(name)
    for statement in source.tree.body:
        if isinstance(statement, ast.If) or (id(statement) in names and not names[id(statement)] & source.needed):
            yield statement
        elif isinstance(statement, ast.ClassDef):
            yield from _dropped_members(statement, attributes)


def _import_lines(statement: ast.Import | ast.ImportFrom, needed: set[str], files: Mapping[str, str]) -> list[str]:
    """Return an import as it is written in the copy; no line if nothing of it is needed."""
    used = [alias for alias in statement.names if (alias.asname or alias.name.partition(".")[0]) in needed]
    if not used:
        return []
    names = ", ".join(f"{alias.name} as {alias.asname}" if alias.asname else alias.name for alias in used)
    if isinstance(statement, ast.Import):
        return [f"import {names}"]
    module = statement.module or ""
    place = f".{files[module]}" if module in files else module
    line = f"from {place} import {names}"
    if len(line) > LINE:
        return [f"from {place} import (", *(f"    {name}," for name in names.split(", ")), ")"]
    return [line]
