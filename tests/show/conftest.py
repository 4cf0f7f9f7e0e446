"""Small results with everything a report can show: two entities, gaps, hostile names, known truth, row numbers."""

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find
from tsadc.detectors.result import Result
from tsadc.series import Truth

HOSTILE = "<script>alert('x')</script>"
HOSTILE_ENTITY = '</style><img src=x onerror="alert(1)">'
START = "2026-03-02 05:40"  # where an observation of 100 minutes begins, so that none is partial


def frame(rows: int, seed: int, start: str | None = START) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    values = generator.uniform(-1, 1, size=(rows, 4))
    index = pd.date_range(start, periods=rows, freq="1min") if start else None
    return pd.DataFrame(values, columns=["flow", HOSTILE, "speed", "level & more"], index=index)


def result_of(test: dict[str, pd.DataFrame], start: str | None = START) -> Result:
    history = {entity: frame(2000, 10 + i, start) for i, entity in enumerate(test)}
    return find("robust-z")(length=100, contamination=0.05).fit(history).detect(test)


@pytest.fixture(scope="session")
def result() -> Result:
    test = {"unit-1": frame(1000, 0), HOSTILE_ENTITY: frame(1000, 1)}
    test["unit-1"].iloc[300:330, 0] += 12
    test["unit-1"].iloc[620, 2] = -40
    test["unit-1"].iloc[270:290, 0] = np.nan
    test[HOSTILE_ENTITY].iloc[500:560, 1] += 8
    return result_of(test)


@pytest.fixture(scope="session")
def calm() -> Result:
    return result_of({"unit-1": 0.1 * frame(1000, 3)})


@pytest.fixture(scope="session")
def undated() -> Result:
    test = frame(1000, 4, None)
    test.iloc[440:460, 3] = 30
    return result_of({"series": test}, None)


@pytest.fixture(scope="session")
def truth() -> tuple[Truth, ...]:
    return (
        Truth("unit-1", 300, 330, "level <shift>", ("flow",)),
        Truth("unit-1", 800, 810, "stuck", ()),
        Truth("elsewhere", 0, 10, "spike", ()),
    )
