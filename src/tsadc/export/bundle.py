"""The Python export: a small package with the parts of this one that score, and the arrays of a model."""

from __future__ import annotations

import importlib.util
import keyword
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tsadc.atomic import new_folder
from tsadc.detectors.ensemble.detector import Ensemble
from tsadc.detectors.ensemble.features import encode_names
from tsadc.detectors.feedback import Lesson
from tsadc.errors import OutputError
from tsadc.export import standalone
from tsadc.export.folder import check, complete, examples
from tsadc.export.prune import pruned
from tsadc.export.standalone import ARRAYS, Scorer

STAND_INS = {"scipy.sparse": "tsadc.export.sparse"}
RUN = '''"""Run the self-test: python -m FOLDER."""

from . import self_test

self_test()
'''
USAGE = """# A scorer of anomalies

Made by `tsadc export --to python`. It needs Python 3.11 or newer and numpy 2, and no other package. The files are parts
of tsadc, unchanged, under its licence.

```python
from {name} import Scorer

scorer = Scorer.load()
scorer.score(entity, values)     # the score of one observation
scorer.judge(entity, values)     # score, threshold, verdict, and what views and variables add to the score
```

`values` are {length} rows of {count} variables in the units of the history, NaN where nothing was measured.
Infinity counts as a value that is as extreme as possible; `tsadc detect` refuses it.

`python -m {name}`, in the folder above, compares the files with their digests and runs the self-test.
"""
LICENCE = """MIT License

Copyright (c) 2026 The tsadc authors

Permission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal
in the Software without restriction, including without limitation the rights
to use, copy, modify, merge, publish, distribute, sublicense, and/or sell
copies of the Software, and to permit persons to whom the Software is
furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all
copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR
IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY,
FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE
AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
SOFTWARE.
"""
DRIFT = """The scores of earlier observations, which a threshold that follows drift needs: `judge(..., recent=scores)`
  takes up to 20 of them."""


def write_python(detector: Ensemble, out: Path) -> None:
    """Write the new folder `out`, a package that scores observations with numpy alone."""
    _check_name(out)
    tests = examples(detector)
    usage = USAGE.format(name=out.name, length=detector.settings.length, count=len(detector.variables_))
    with new_folder(out) as folder:
        for name, text in sources().items():
            (folder / name).write_text(text, encoding="utf-8")
        (folder / "__main__.py").write_text(RUN)
        (folder / "LICENSE").write_text(LICENCE)
        np.savez(folder / ARRAYS, allow_pickle=False, **arrays_of(detector))
        complete(folder, detector, tests, usage, DRIFT, {"neighbours": detector.settings.neighbours})
        scorer = Scorer.load(folder)
        check("Python", tests, [scorer.score(example.entity, example.values) for example in tests])


def _check_name(out: Path) -> None:
    """Raise if a package with the name of the folder could not be imported, or another one not any more."""
    name, wrong = out.name, None
    if not name.isidentifier():
        wrong = "which must consist of letters, digits and underscores, and not begin with a digit"
    elif keyword.iskeyword(name):
        wrong = f"but {name!r} is a word of the language"
    elif name in sys.stdlib_module_names or _is_installed(name):
        wrong = f"but there is another package {name!r}, which it would hide"
    if wrong is not None:
        raise OutputError(f"{out} is to be imported by its name, {wrong}; choose another name, such as pump_scorer.")


def _is_installed(name: str) -> bool:
    """Return whether Python finds a package of that name; any folder on its path would count as one without files."""
    spec = importlib.util.find_spec(name)
    return spec is not None and spec.origin is not None


@cache
def sources() -> dict[str, str]:
    """Return the text of each Python file of the scorer, without `__main__.py`."""
    return pruned(standalone.__name__, STAND_INS)


def arrays_of(detector: Ensemble) -> dict[str, Any]:
    """Return everything that the scorer needs, as named arrays."""
    scaler = detector.scaler_
    statistics = [*scaler.entities.values(), scaler.pooled]
    arrays = detector._state() | {
        "scaler.entities": encode_names(list(scaler.entities)),
        "scaler.center": np.stack([own.center for own in statistics]),
        "scaler.scale": np.stack([own.scale for own in statistics]),
    }
    return arrays if detector.lesson_ is None else arrays | lesson_arrays(detector.lesson_)


def lesson_arrays(lesson: Lesson) -> dict[str, NDArray[Any]]:
    """Return what was learnt from verdicts, as named arrays."""
    exemplars = lesson.exemplars
    return {
        "lesson.factor": lesson.factor,
        "lesson.entities": encode_names([exemplar.entity for exemplar in exemplars]),
        "lesson.true": np.array([exemplar.true for exemplar in exemplars], dtype=bool),
        "lesson.excess": np.array([exemplar.excess for exemplar in exemplars]),
        "lesson.added": np.stack([exemplar.added for exemplar in exemplars]),
    }
