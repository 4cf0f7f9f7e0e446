"""A verdict about an episode -> the model: it is added to the verdicts of the model folder, as `tsadc label` does."""

from __future__ import annotations

import datetime
import threading
import warnings
from pathlib import Path
from typing import Any

from tsadc.atomic import locked, write_file
from tsadc.detectors import feedback
from tsadc.detectors.feedback import Verdict, as_answer, carried_over, model_name
from tsadc.detectors.result import MISSING
from tsadc.detectors.store import load
from tsadc.errors import DataError, TsadcNotice
from tsadc.series import Clock, Series
from tsadc.serve.store import Store
from tsadc.serve.stored_rows import rows_between

_ONE_AT_A_TIME = threading.Lock()
AROUND = 2  # observations before and after an episode that are scored again


def teach(store: Store, folder: Path, clock: Clock, episode: dict[str, Any]) -> None:
    """Let the model in `folder` learn from the verdict about an episode, a row of the table with the name of its
    entity. The stored rows of its time are scored again, to know what each view said.

    Raises
    ------
    TsadcError
        If the rows are no longer stored, or the folder cannot be written.
    """
    busy = f"Another command is changing {folder}; give the verdict again when it has finished."
    with _ONE_AT_A_TIME, locked(folder.with_name(f".{folder.name}.lock"), busy):
        detector = load(folder)
        span = detector.settings.length * clock.interval
        first = (episode["start"] // span - AROUND) * span
        last = (episode["end"] // span + 1 + AROUND) * span
        series = _series(store, detector.variables_, clock, episode, first, last)
        with warnings.catch_warnings():  # what there is to note was noted when the service began
            warnings.simplefilter("ignore", TsadcNotice)
            result = detector.detect(series)
        verdict = Verdict(
            episode["interval"],
            episode["name"],
            episode["start"],
            episode["end"],
            True,
            as_answer(episode["verdict"]),
            episode["verdict_note"] or "",
            episode["verdict_by"] or "",
            datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            model_name(detector),
            None if episode["evidence"] == MISSING else episode["score"],
        )
        [verdict] = carried_over([verdict], detector, result)
        verdicts = {**{known.id: known for known in detector.verdicts_}, verdict.id: verdict}
        detector._judge_by(tuple(verdicts.values()))
        write_file(folder / feedback.FILE, feedback.to_json(list(verdicts.values())))


def _series(
    store: Store, names: tuple[str, ...], clock: Clock, episode: dict[str, Any], first: int, last: int
) -> Series:
    with store.reading() as connection:
        found = rows_between(connection, episode["entity"], first, last)
    if not len(found):
        raise DataError("The rows of this episode are no longer stored, so the model cannot learn from the verdict.")
    return found.series(episode["name"], names, clock)
