"""On the simulated plant, reasons name the planted faults; `benchmarks/reasons.py` measures it on a larger one."""

import pytest

from benchmark import script
from tsadc.data.plant import Plant


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_named_kinds_and_blamed_variables_are_the_planted_ones():
    found = script("reasons").measure(Plant.Config(entities=2, rows=4800, seed=103))
    assert len(found) >= 10
    assert found["kind"].mean() >= 0.8
    assert found["blame"].mean() >= 0.85
    assert found["usual"].mean() >= 0.7
