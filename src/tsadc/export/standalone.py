"""The scorer of an exported model. It needs Python 3.11 or newer and numpy 2, and no other package.

from FOLDER import Scorer

scorer = Scorer.load()
scorer.score("pump 7", values)        # one observation (row, variable) in the units of the history
scorer.judge("pump 7", values)        # score, threshold, verdict, and what views and variables add to the score
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tsadc.detectors.drift import raised_by
from tsadc.detectors.ensemble.features import decode_names
from tsadc.detectors.ensemble.scorer import FusedScorer
from tsadc.detectors.feedback import Exemplar, Lesson
from tsadc.detectors.result import Evidence
from tsadc.scale import Scaler, Statistics
from tsadc.series import MAX_ABS_VALUE, Floats

ARRAYS, MANIFEST, SELF_TEST = "model.npz", "manifest.json", "self-test.json"
AGAIN = "export the model again with `tsadc export`"


@dataclass(frozen=True)
class Verdict:
    """What the model says about one observation.

    Attributes
    ----------
    score : float
        Higher is more anomalous.
    threshold : float
        A higher score is anomalous.
    anomalous : bool
        False if too few rows have values to judge the observation.
    coverage : float
        Share of the rows in which at least one variable has a value.
    views : dict of str to float
        What each view adds to the score; `feedback` is what the verdicts of people add.
    variables : dict of str to float
        Share of each variable in what the views found unusual, largest first; 0 for variables that are not judged.
    """

    score: float
    threshold: float
    anomalous: bool
    coverage: float
    views: dict[str, float]
    variables: dict[str, float]


class Scorer:
    """Scores observations of an exported model.

    Attributes
    ----------
    manifest : dict
        The content of manifest.json: variables, length, entities, threshold and more.
    """

    def __init__(self, manifest: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.manifest = manifest
        self.variables, self.length = tuple(manifest["variables"]), int(manifest["length"])
        centers, scales = arrays["scaler.center"], arrays["scaler.scale"]  # those of all entities together come last
        statistics = [Statistics(center, scale) for center, scale in zip(centers, scales, strict=True)]
        names = decode_names(arrays["scaler.entities"])
        own = dict(zip(names, statistics[:-1], strict=True))
        self._scaler = Scaler(Scaler.Config(), statistics[-1], statistics[-1].scale, own)
        config = FusedScorer.Config(neighbours=int(manifest["neighbours"]))
        self._scorer = FusedScorer.restore(arrays, config, self.length)
        self._lesson = _lesson(arrays, self._scorer.view_names) if "lesson.factor" in arrays else None

    @classmethod
    def load(cls, folder: str | Path | None = None) -> Self:
        """Load the model from a folder; None: the folder of this file. Raise a ValueError if it is damaged."""
        place = Path(__file__).parent if folder is None else Path(folder)
        try:
            manifest = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
            with (place / ARRAYS).open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return cls(manifest, dict(stored))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, zipfile.BadZipFile):
            raise ValueError(f"{place}: {MANIFEST} or {ARRAYS} is missing or damaged; {AGAIN}.") from None

    def score(self, entity: str, values: ArrayLike) -> float:
        """Return the score of one observation.

        Parameters
        ----------
        entity
            Its name in the history. One that the model does not know is compared with all of them together.
        values : (row, variable)
            `length` rows of all variables in the order of the manifest, in the units of the history; NaN where nothing
            was measured. Infinity counts as a value that is as extreme as possible.
        """
        z = self._normalised(entity, values)
        if self._lesson is not None:  # which needs what each view adds
            return self._evidence(entity, z).score
        return self._scorer.score(entity, z)

    def judge(self, entity: str, values: ArrayLike, recent: Sequence[float] | None = None) -> Verdict:
        """Return score and verdict of one observation, and what views and variables have to do with it.

        Parameters
        ----------
        entity, values
            As for `score`.
        recent
            The scores of up to 20 observations of the entity before it, oldest first. If they lie above those of the
            history, the threshold rises with them, as in `tsadc detect`. None: none are known.
        """
        before = [] if recent is None else [float(score) for score in recent]
        z = self._normalised(entity, values)
        evidence = self._evidence(entity, z)
        coverage = float(np.isfinite(z).any(axis=0).mean())
        usual = self.manifest["usual_scores"].get(entity)
        threshold = self.manifest["threshold"] + float(raised_by([*before, 0.0], usual, len(before))[0])
        anomalous = evidence.score > threshold and coverage >= self.manifest["coverage"]
        sums = np.nansum(evidence.contributions.astype(np.float64), axis=1)
        shares = (sums / max(float(sums.sum()), 1e-300)).tolist()
        ranked = sorted(zip(self.variables, shares, strict=True), key=lambda pair: -pair[1])
        return Verdict(evidence.score, threshold, anomalous, coverage, evidence.view_scores, dict(ranked))

    def _normalised(self, entity: str, values: ArrayLike) -> Floats:
        raw = np.asarray(values, dtype=np.float64)
        if raw.shape != (self.length, len(self.variables)):
            raise ValueError(
                f"An observation has {self.length} rows of {len(self.variables)} variables, but got the shape "
                f"{raw.shape}; use NaN where nothing was measured."
            )
        z = np.clip(self._scaler(entity, raw), -MAX_ABS_VALUE, MAX_ABS_VALUE)
        return np.ascontiguousarray(z.T, dtype=np.float32)

    def _evidence(self, entity: str, z: Floats) -> Evidence:
        evidence = self._scorer.evidence(entity, z)
        return evidence if self._lesson is None else self._lesson.corrected(entity, evidence)


def _lesson(arrays: dict[str, NDArray[Any]], views: tuple[str, ...]) -> Lesson:
    """Return what the model has learnt from the verdicts of people."""
    names = decode_names(arrays["lesson.entities"])
    columns = (arrays[f"lesson.{name}"].tolist() for name in ("true", "excess"))
    added: list[Floats] = list(arrays["lesson.added"])
    exemplars = [Exemplar(*fields) for fields in zip(names, next(columns), added, next(columns), strict=True)]
    return Lesson(views, arrays["lesson.factor"], tuple(exemplars), 0.0, {}, {})


def self_test(folder: str | Path | None = None) -> None:
    """Compare all files with their digests, score the observations of the self-test and print the largest difference;
    exit with code 1 if a file is damaged or the difference is too large."""
    place = Path(__file__).parent if folder is None else Path(folder)
    try:
        scorer = Scorer.load(place)
        digests = dict(scorer.manifest.get("files", {}))
        for name in {*digests, ARRAYS, SELF_TEST}:
            file = place / name
            if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != digests.get(name):
                raise ValueError(f"{place}: {name} is missing or differs from its digest in {MANIFEST}; {AGAIN}.")
    except ValueError as error:
        print(f"FAILED: {error}")
        raise SystemExit(1) from None
    test = json.loads((place / SELF_TEST).read_text(encoding="utf-8"))
    differences = [
        abs(scorer.score(own["entity"], np.array(own["values"], dtype=np.float64)) - own["score"])
        for own in test["observations"]
    ]
    passed = max(differences) <= test["tolerance"]
    verdict = "passed" if passed else "FAILED"
    print(f"{len(differences)} observations, largest difference {max(differences):.1e}: {verdict}")
    raise SystemExit(0 if passed else 1)
