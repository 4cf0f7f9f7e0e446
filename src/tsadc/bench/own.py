"""Data of one's own as a data set of a benchmark: a prepared folder and a manifest that says what trains and what is
scored. The manifest holds hashes of the observations it is about, so its own hash stands for all of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tsadc.data.manifest import rebuild
from tsadc.data.prepared import load
from tsadc.data.protocols import Protocol
from tsadc.data.task import Task, answers
from tsadc.detectors.settings import Common
from tsadc.errors import DataError

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Own:
    """Where the data lies."""

    folder: Path
    manifest: Path

    @property
    def digest(self) -> str:
        """Of the manifest, and so of the data; whether they agree is checked when the parts are drawn."""
        try:
            return str(json.loads(self.manifest.read_text(encoding="utf-8"))["hash"])
        except FileNotFoundError:
            raise DataError(
                f"There is no manifest {self.manifest}; it was expected to say what trains and what is scored, and "
                "`tsadc.data.manifest.save` writes it."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{self.manifest} is not a manifest of tsadc, or cannot be read; write it by "
                "`tsadc.data.manifest.save`."
            ) from None

    @property
    def coverage(self) -> float:
        """What an observation needs to be used, so that padded records are too."""
        return min(Common.coverage, float(load(self.folder).about.get("coverage", 1.0)))

    def protocol(self, name: str) -> Protocol:
        return Protocol(name, "", load(self.folder).length, lambda raw, seed: parts(self), report=SEEDS, own=True)


@lru_cache(maxsize=2)
def parts(own: Own) -> Task:
    """The parts of the manifest. They are the same for every seed, which is the detector's alone."""
    drawn = rebuild(own.manifest, load(own.folder))
    test = drawn.labelled("test")
    known = answers(test, drawn.prepared.length, own.coverage)
    return Task(drawn.series("train"), test.series, known, validation=drawn.series("validation"))
