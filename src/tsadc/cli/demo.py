"""`tsadc demo`: the demonstration as a folder one can look around in: report, model, and the data as CSV files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsadc.atomic import new_folder
from tsadc.bench.demo import EPOCHS, demonstrate
from tsadc.cli.workflow import facts, verdict
from tsadc.data.plant import Plant
from tsadc.errors import OutputError
from tsadc.series import Series
from tsadc.show import write as write_report

CONTENTS = {"report.html", "model", "history", "new"}


def run(
    out: Path,
    progress: Callable[[Any], None] | None = None,
    *,
    plant: Plant.Config | None = None,
    epochs: int = EPOCHS,
) -> str:
    """Write the folder `out`, replacing an earlier demonstration and nothing else. Returns the verdict."""
    if out.exists() and not _is_demonstration(out):
        raise OutputError(f"{out} exists and is not an earlier demonstration; choose another folder with --out.")
    # The earlier one stays until the new one is complete.
    staging = out.with_name(f".{out.name}-new") if out.exists() else out
    with new_folder(staging) as folder:
        shown = demonstrate(plant or Plant.Config(), epochs=epochs, progress=progress)
        _write_csv(folder / "history", shown.split.train)
        _write_csv(folder / "new", shown.split.test.series)
        shown.detector.save(folder / "model")
        write_report(
            shown.result,
            folder / "report.html",
            title="The simulated plant",
            about=facts(shown.detector),
            comparison=shown.comparison,
            truth=shown.split.test.truth,
        )
    if staging != out:
        shutil.rmtree(out)
        staging.rename(out)
    table = shown.comparison.to_string(index=False, float_format="{:.3f}".format)
    return (
        f"{verdict(shown.result.intervals, len(shown.result.series), shown.result.threshold)}\n\n"
        f"Against the simulator's truth ({len(shown.result.observations)} observations, "
        f"{shown.comparison['AP'].iloc[-1]:.0%} anomalous):\n{table}\n\n"
        f"The report is {out / 'report.html'}; the model is in {out / 'model'}, the data in {out / 'history'} and "
        f"{out / 'new'}."
    )


def _is_demonstration(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and {file.name for file in folder.iterdir()} == CONTENTS


def _write_csv(folder: Path, series: Iterable[Series]) -> None:
    folder.mkdir()
    for one in series:
        frame = pd.DataFrame(np.asarray(one.values), columns=list(one.names))
        frame.insert(0, "time", one.clock.at(np.arange(len(one))))
        frame.to_csv(folder / f"{one.entity}.csv", index=False, float_format="%.6g")
