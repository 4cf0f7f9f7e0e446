"""Write docs/notebook.ipynb: python docs/notebook.py (make notebook). The cells are run, and their output is kept."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).with_name("notebook.ipynb")
CELLS = (
    """# Anomalies in a simulated plant

Fit a detector to unlabelled history that contains faults itself, look at what it finds in new data, and explain one
interval. `python docs/notebook.py` writes this notebook.""",
    """import tsadc
from tsadc.data.plant import Plant

plant = Plant(Plant.Config(entities=2, rows=4000, test_contamination=0.1)).split()
history = {series.entity: series for series in plant.train}
new = {series.entity: series for series in plant.test.series}
{entity: series.values.shape for entity, series in new.items()}""",
    """## Fit

The history is contaminated and has no labels. Any setting can be given by name.""",
    """detector = tsadc.Ensemble(length=120, threshold__method="tail").fit(history)
detector""",
    """## Detect

A result shows its headline, the worst intervals and the scores of each entity.""",
    """result = detector.detect(new)
result""",
    """## Plot

One interval, with the variables that are blamed for it.""",
    """worst = result.worst(1).index[0]
axes = result.plot(interval=worst)""",
    """## Explain

The interval in numbers: who is blamed, and what was really done to the plant, which the simulator knows.""",
    """interval = result.intervals.loc[worst]
interval[["entity", "start", "end", "severity", "evidence", "variables"]]""",
    """series = new[interval["entity"]]
first, last = (series.clock.at(range(len(series) + 1)).get_loc(interval[side]) for side in ("start", "end"))
faults = [true for true in plant.test.truth if true.entity == interval["entity"]]
[(true.kind, true.variables) for true in faults if true.start < last and true.stop > first]""",
    """## Go on from here

`result.to_frame()` has one row per row of the data, and `result.report("report.html")` writes the full report.""",
    """result.to_frame().head(3)""",
)


def build() -> nbformat.NotebookNode:
    """Return the notebook without output: cells alternate as text and code by their content."""
    made = nbformat.v4.new_notebook()
    made.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    for number, source in enumerate(CELLS):
        text = source.startswith("#")
        new_cell = nbformat.v4.new_markdown_cell if text else nbformat.v4.new_code_cell
        made.cells.append(new_cell(source, id=f"cell-{number}"))
    return made


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Run the cells in order; an error in one is raised."""
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when it ran, which would differ each time
    return notebook


if __name__ == "__main__":
    nbformat.write(execute(build()), NOTEBOOK)
