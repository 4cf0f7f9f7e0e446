"""`tsadc demo`: a folder with the reports and models of both detectors, and the data as CSV files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsadc.atomic import replaced_folder
from tsadc.bench.demo import EPOCHS, Demonstration, demonstrate
from tsadc.bench.story import make_story
from tsadc.cli.workflow import facts, verdict
from tsadc.data.plant import Plant
from tsadc.detectors.base import ProgressCallback
from tsadc.errors import OutputError
from tsadc.optional import NEEDS_TORCH
from tsadc.series import Series
from tsadc.show import story_page
from tsadc.show import write as write_report
from tsadc.show.chance import by_chance
from tsadc.show.html import write_page

NAMES = {"report.html", "model", "history", "new"}  # what every demo holds, earlier versions' too
STORY = "story.html"
CONTENTS = NAMES | {"report-tsadc.html", "model-tsadc", STORY}


def run(
    out: Path,
    progress: ProgressCallback | None = None,
    *,
    plant: Plant.Config | None = None,
    epochs: int = EPOCHS,
    story: bool = False,
) -> str:
    """Write the folder `out`, replacing nothing but an earlier demo, and return a summary. `story` adds a page about
    the audit, the cleaning and the labelling of the same plant."""
    if out.exists() and not _is_demo(out):
        raise OutputError(f"{out} exists and is not an earlier demo; choose another folder with --out.")
    with replaced_folder(out) as folder:
        demo = demonstrate(plant or Plant.Config(), epochs=epochs, progress=progress)
        _write_csv(folder / "history", demo.split.train)
        _write_csv(folder / "new", demo.split.test.series)
        demo.ensemble.save(folder / "model")
        if demo.tsadc is not None:
            demo.tsadc.save(folder / "model-tsadc")
        _write_reports(demo, folder)
        if story:
            made = make_story(plant or Plant.Config(), progress=progress)
            write_page(story_page.render(made, title="Audit, clean and label the simulated plant"), folder / STORY)
    return _summary(demo, out) + (f"\n\nThe second act is {out / STORY}." if story else "")


def _write_reports(demo: Demonstration, folder: Path) -> None:
    """Write the ensemble's report, whose plots show what TSAD-C expected, and that of TSAD-C alone."""
    shown: dict[str, Any] = {"comparison": demo.comparison, "truth": demo.split.test.truth}
    title, about = "The simulated plant", facts(demo.ensemble)
    if demo.tsadc is None or demo.tsadc_result is None:
        write_report(demo.ensemble_result, folder / "report.html", title=title, about=about, **shown)
        return
    about |= {"expected values": "by TSAD-C, whose own report is report-tsadc.html"}
    write_report(demo.combined, folder / "report.html", title=title, about=about, expected_by="TSAD-C", **shown)
    title += ", scored by TSAD-C"
    write_report(demo.tsadc_result, folder / "report-tsadc.html", title=title, about=facts(demo.tsadc), **shown)


def _summary(demo: Demonstration, out: Path) -> str:
    verdicts = [
        f"{name}: {verdict(result.intervals, len(result.series), result.threshold, by_chance(result), result.drift)}"
        for name, result in (("The ensemble", demo.ensemble_result), ("TSAD-C", demo.tsadc_result))
        if result is not None
    ]
    table = demo.comparison.to_string(index=False, float_format="{:.3f}".format)
    labels = f"{len(demo.ensemble_result.scores)} observations, {demo.comparison['AP'].iloc[-1]:.0%} anomalous"
    data = f"the data in {out / 'history'} and {out / 'new'}"
    if demo.tsadc is None:
        files = (
            f"The ensemble's report is {out / 'report.html'}.\nThe model is in {out / 'model'}, {data}.\n"
            f"TSAD-C {NEEDS_TORCH}"
        )
    else:
        files = (
            f"The ensemble's report, with the values that TSAD-C expected, is {out / 'report.html'}; TSAD-C's own is "
            f"{out / 'report-tsadc.html'}.\nThe models are in {out / 'model'} and {out / 'model-tsadc'}, {data}."
        )
    return "\n\n".join([*verdicts, f"Compared with the simulator's labels ({labels}):\n{table}", files])


def _is_demo(folder: Path) -> bool:
    return folder.is_dir() and not folder.is_symlink() and NAMES <= {file.name for file in folder.iterdir()} <= CONTENTS


def _write_csv(folder: Path, series: Iterable[Series]) -> None:
    folder.mkdir()
    for item in series:
        frame = pd.DataFrame(np.asarray(item.values), columns=list(item.names))
        frame.insert(0, "time", item.clock.at(np.arange(len(item))))
        frame.to_csv(folder / f"{item.entity}.csv", index=False, float_format="%.6g")
