"""The user's own data as a data set of a benchmark: a prepared folder, and a manifest that says which observations
train and which are scored. The manifest holds hashes of its observations, so its own hash identifies the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tsadc.config import parse_json
from tsadc.data.manifest import rebuild
from tsadc.data.prepared import load
from tsadc.data.protocols import Protocol
from tsadc.data.task import Task, answers
from tsadc.detectors.settings import Common
from tsadc.errors import DataError

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Own:
    """The folder of the data and its manifest."""

    folder: Path
    manifest: Path

    @property
    def digest(self) -> str:
        """The hash in the manifest. Whether the data agrees with it is checked when the parts are drawn."""
        try:
            return str(parse_json(self.manifest.read_bytes())["hash"])
        except FileNotFoundError:
            raise DataError(
                f"There is no manifest {self.manifest}, which says what trains and what is scored; write it by "
                "`tsadc.data.manifest.save`."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise DataError(
                f"{self.manifest} is not a manifest of tsadc, or cannot be read; write it by "
                "`tsadc.data.manifest.save`."
            ) from None

    @property
    def coverage(self) -> float:
        """The measured share that an observation needs; lower than the default if records are padded."""
        return min(Common.coverage, float(load(self.folder).about.get("coverage", 1.0)))

    def protocol(self, name: str) -> Protocol:
        """Return the protocol under the name that the plan gives the data."""
        return Protocol(name, "", load(self.folder).length, lambda raw, seed: parts(self), report=SEEDS, own=True)


@lru_cache(maxsize=2)
def parts(own: Own) -> Task:
    """Return the parts of the manifest. They are the same for every seed, which only affects the detector."""
    drawn = rebuild(own.manifest, load(own.folder))
    test = drawn.labelled("test")
    known = answers(test, drawn.prepared.length, own.coverage)
    return Task(drawn.series("train"), test.series, known, validation=drawn.series("validation"))
