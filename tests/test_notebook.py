"""docs/notebook.ipynb is what docs/notebook.py writes, and its cells run."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def script():
    spec = importlib.util.spec_from_file_location("notebook_script", ROOT / "docs" / "notebook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The kernel's own libraries warn on some versions; what they warn of does not concern the notebook.
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_notebook_is_current_and_runs():
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    made = script()
    stored = nbformat.read(made.NOTEBOOK, as_version=4)
    assert [cell.source for cell in stored.cells] == list(made.CELLS)
    executed = made.execute(made.build())
    cells = [(cell, old) for cell, old in zip(executed.cells, stored.cells, strict=True) if cell.cell_type == "code"]
    for cell, old in cells:
        kinds = [sorted(output.get("data", {})) for output in cell.outputs]
        assert kinds == [sorted(output.get("data", {})) for output in old.outputs], cell.source
    detector, result, picture = (cells[i][0].outputs[-1]["data"] for i in (1, 2, 3))
    assert "Ensemble" in detector["text/html"]
    assert "unusual interval" in result["text/html"]
    assert "<script" not in result["text/html"]
    assert "image/png" in picture
