"""`tsadc demo`: a folder with a report, a model, and the data as CSV files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from tsadc.atomic import new_folder
from tsadc.bench.demo import EPOCHS, demonstrate
from tsadc.cli.workflow import facts, verdict
from tsadc.data.plant import Plant
from tsadc.detectors.base import ProgressCallback
from tsadc.errors import OutputError
from tsadc.series import Series
from tsadc.show import write as write_report

CONTENTS = {"report.html", "model", "history", "new"}


def run(
    out: Path,
    progress: ProgressCallback | None = None,
    *,
    plant: Plant.Config | None = None,
    epochs: int = EPOCHS,
) -> str:
    """Write the folder `out`, replacing nothing but an earlier demo, and return a summary."""
    if out.exists() and not _is_demo(out):
        raise OutputError(f"{out} exists and is not an earlier demo; choose another folder with --out.")
    # The earlier demo stays until the new one is complete.
    staging = out.with_name(f".{out.name}-new") if out.exists() else out
    with new_folder(staging) as folder:
        demo = demonstrate(plant or Plant.Config(), epochs=epochs, progress=progress)
        _write_csv(folder / "history", demo.split.train)
        _write_csv(folder / "new", demo.split.test.series)
        demo.detector.save(folder / "model")
        write_report(
            demo.result,
            folder / "report.html",
            title="The simulated plant",
            about=facts(demo.detector),
            comparison=demo.comparison,
            truth=demo.split.test.truth,
        )
    if staging != out:
        shutil.rmtree(out)
        staging.rename(out)
    table = demo.comparison.to_string(index=False, float_format="{:.3f}".format)
    return (
        f"{verdict(demo.result.intervals, len(demo.result.series), demo.result.threshold)}\n\n"
        f"Compared with the simulator's labels ({len(demo.result.observations)} observations, "
        f"{demo.comparison['AP'].iloc[-1]:.0%} anomalous):\n{table}\n\n"
        f"The report is {out / 'report.html'}; the model is in {out / 'model'}, the data in {out / 'history'} and "
        f"{out / 'new'}."
    )


def _is_demo(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and {file.name for file in folder.iterdir()} == CONTENTS


def _write_csv(folder: Path, series: Iterable[Series]) -> None:
    folder.mkdir()
    for item in series:
        frame = pd.DataFrame(np.asarray(item.values), columns=list(item.names))
        frame.insert(0, "time", item.clock.at(np.arange(len(item))))
        frame.to_csv(folder / f"{item.entity}.csv", index=False, float_format="%.6g")
