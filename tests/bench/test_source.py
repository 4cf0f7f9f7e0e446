"""The hash of source code follows what a definition depends on, and nothing else."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tsadc.bench import source
from tsadc.bench.source import reference, source_hash
from tsadc.data.catalogue import PROTOCOLS
from tsadc.detectors import REGISTRY, find

FILES = {
    "__init__": "",
    "model": '''
"""A model."""
from madeup import helpers, maths as numbers
from madeup.constants import SCALE as FACTOR
from madeup.maths import half


class Model:
    """Fits."""

    def fit(self, x: "int") -> int:
        """Double it."""
        if x < 0:
            raise ValueError(f"negative: {x}")
        return numbers.double(x) * FACTOR + half(x)  # a comment


class Detector(Model):
    def detect(self, x):
        return self.fit(x)

    def save(self, x):
        return helpers.unused(x)


class Other:
    def fit(self, x):
        return helpers.unused(x)
''',
    "maths": """
from madeup.constants import TWO


def double(x):
    return x * TWO


def half(x):
    from madeup import late

    return late.halve(x)


def triple(x):
    return 3 * x
""",
    "late": "def halve(x):\n    return x / 2\n",
    "constants": "TWO = 2\nSCALE: int = 5\nSCALE += 1\nUNUSED = 7\n",
    "helpers": "def unused(x):\n    return x\n",
}
Change = Callable[[str, str, str], str]


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Change]:
    """A function that changes a module of the made-up package and returns the hash of its `Model`."""
    folder = tmp_path / "madeup"
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    def changed(module: str = "model", before: str = "", after: str = "") -> str:
        for name, text in FILES.items():
            assert name != module or before in text
            (folder / f"{name}.py").write_text(text.replace(before, after) if name == module and before else text)
        clear()
        return source_hash([("madeup.model", "Model")])

    yield changed
    clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == "madeup"]:
        del sys.modules[name]


def clear() -> None:
    for cached in (source._closure, source._references, source._parse, source._definition_hash, source._file):
        cached.cache_clear()


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("model", "+ half(x)", "- half(x)"),
        ("model", "x < 0", "x < 1"),
        ("maths", "x * TWO", "TWO * x"),
        ("constants", "TWO = 2", "TWO = 3"),
        ("constants", "SCALE += 1", "SCALE += 2"),
        ("late", "x / 2", "x // 2"),
    ],
)
def test_a_change_of_what_it_depends_on_changes_the_hash(change: Change, module: str, before: str, after: str) -> None:
    assert change(module, before, after) != change()


@pytest.mark.parametrize(
    ("module", "before", "after"),
    [
        ("model", '"""Double it."""', '"""Return twice as much."""'),
        ("model", "  # a comment", "  # another"),
        ("model", "negative: {x}", "{x} is negative"),
        ("model", 'x: "int") -> int', "x: float) -> float"),
        ("model", "helpers.unused(x)", "x"),
        ("maths", "3 * x", "x * 3"),
        ("constants", "UNUSED = 7", "UNUSED = 8"),
        ("helpers", "return x", "return -x"),
    ],
)
def test_words_and_other_code_do_not(change: Change, module: str, before: str, after: str) -> None:
    assert change(module, before, after) == change()


def test_a_definition_that_moves_to_another_module_does_not(change: Change, monkeypatch: pytest.MonkeyPatch) -> None:
    before = change()
    monkeypatch.setitem(FILES, "late", FILES["late"] + "\n\nTWO = 2\n")
    assert change("maths", "from madeup.constants import", "from madeup.late import") == before


@pytest.mark.parametrize(("before", "after", "same"), [("unused(x)", "unused(-x)", True), ("self.fit", "fit", False)])
def test_methods_of_detectors_that_no_job_calls_do_not(change: Change, before: str, after: str, same: bool) -> None:
    hashes = []
    for text in (before, after):
        change("model", before, text)
        hashes.append(source_hash([("madeup.model", "Detector")]))
    assert (hashes[0] == hashes[1]) is same


@pytest.mark.parametrize(
    ("module", "before", "after", "same"),
    [
        ("constants", "UNUSED = 7", "UNUSED = 8", False),
        ("model", '"""Double it."""', '"""Return twice as much."""', True),
        ("late", "x / 2", "x // 2", True),
    ],
)
def test_the_hash_of_modules_has_all_that_they_define(
    change: Change, module: str, before: str, after: str, same: bool
) -> None:
    hashes = []
    for text in (before, after):
        change(module, before, text)
        hashes.append(source.module_hash("madeup.model", "madeup.constants"))
    assert (hashes[0] == hashes[1]) is same


def test_detectors_depend_on_shared_code_but_not_on_each_other() -> None:
    reached = {name: source._closure(*reference(find(name))) for name in ("tsadc", "gdn", "ridge")}
    for name, definitions in reached.items():
        modules = {module for module, _ in definitions}
        own = REGISTRY[name].partition(":")[0]
        assert {own, "tsadc.detectors.base", "tsadc.scale", "tsadc.windows"} <= modules
        others = {place.partition(":")[0] for other, place in REGISTRY.items() if other != name} - {own}
        assert not modules & others
    assert {"tsadc.nn.s4", "tsadc.nn.train", "tsadc.nn.diffusion"} <= {module for module, _ in reached["tsadc"]}


def test_conversion_in_memory_is_hashed_and_readers_of_files_are_not() -> None:
    definitions = source._closure(*reference(find("ridge"))) | source._closure(*reference(PROTOCOLS["ludb"].build))
    assert {("tsadc.io.memory", "as_series"), ("tsadc.io.arrays", "from_array")} <= definitions
    assert not {module for module, _ in definitions} & {"tsadc.io.read", "tsadc.io.wfdb_files", "tsadc.io.edf"}


def test_data_sets_depend_on_their_own_code() -> None:
    modules = {
        name: {module for module, _ in source._closure(*reference(protocol.build))}
        for name, protocol in PROTOCOLS.items()
    }
    assert all("tsadc.data.plant" in modules[name] for name in ("plant", "plant-process", "plant-telemetry"))
    assert "tsadc.data.smd" in modules["smd-causal"]
    assert "tsadc.data.plant" not in modules["smd-causal"] | modules["sleep"]
    assert "tsadc.data.smd" not in modules["plant"] | modules["ludb"]
