"""Real files in native formats, and prepared data sets made of numbers that tell where they belong."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tsadc.atomic import new_folder
from tsadc.data.dataset import Piece, Span
from tsadc.data.prepared import Prepared, Writer, load

Kinds = Mapping[str, Sequence[Sequence[str]]]


@pytest.fixture(scope="session")
def native(shared_data: Path) -> Path:
    """The folder with small real files in native formats, beside the data sets."""
    folder = shared_data.parent / "native"
    if not folder.is_dir():
        pytest.skip("no native files here: they lie in `native` beside the folder that TSADC_DATA names")
    return folder


def write_prepared(out: Path, kinds: Kinds, length: int = 4, name: str = "smd") -> Prepared:
    """Observation i of entity e is filled with 1000 e + i; `kinds` lists what is wrong with each."""
    variables = ("a", "b")
    with new_folder(out) as folder:
        writer = Writer(folder, length, variables)
        for number, (entity, observations) in enumerate(kinds.items()):
            for i, wrong in enumerate(observations):
                values = np.full((length, len(variables)), 1000 * number + i, dtype=np.float32)
                spans = tuple(Span(1, length, kind, ("b",)) for kind in wrong)
                writer.add(entity, entity, Piece(values, i * length, spans))
        about = {"name": name, "variables": list(variables), "length": length, "settings": {}, "left_out": {}}
        writer.finish(about | {"skipped": {}, "sources": {"x.txt": "0"}})
    return load(out)


@pytest.fixture
def prepared_of(tmp_path: Path) -> Callable[..., Prepared]:
    def make(kinds: Kinds, **options: object) -> Prepared:
        return write_prepared(tmp_path / f"prepared-{len(list(tmp_path.iterdir()))}", kinds, **options)  # type: ignore[arg-type]

    return make
