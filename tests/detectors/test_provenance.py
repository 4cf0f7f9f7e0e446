import importlib.metadata
import json
from dataclasses import replace

import numpy as np
import pytest

from tsadc.detectors.provenance import describe, provenance
from tsadc.series import Clock, Observations, Series
from tsadc.windows import cut


def observe(*series: Series, length: int = 8) -> Observations:
    return cut(series, length).observations


@pytest.fixture
def series() -> Series:
    return Series(np.random.default_rng(0).normal(size=(40, 2)), ("a", "b"), Clock(), "one")


def test_sizes(series):
    other = replace(series, entity="two", values=series.values[:20])
    found = describe(observe(series, other))
    digest = found.pop("digest")
    assert found == {"entities": 2, "rows": 60, "variables": 2, "observations": 8, "length": 8}
    assert len(digest) == 16
    assert int(digest, 16) >= 0


def test_the_same_data_has_the_same_digest_however_it_lies_in_memory(series):
    expected = describe(observe(series))
    for values in (series.values.copy(), np.asfortranarray(series.values), np.repeat(series.values, 2, 0)[::2]):
        assert describe(observe(replace(series, values=values))) == expected


@pytest.mark.parametrize(
    "changes",
    [
        {"entity": "other"},
        {"names": ("b", "a")},
        {"clock": Clock(start=1)},
        {"clock": Clock(interval=2)},
        {"clock": Clock(dated=True)},
    ],
)
def test_another_series_has_another_digest(series, changes):
    assert describe(observe(replace(series, **changes)))["digest"] != describe(observe(series))["digest"]


def test_every_value_counts(series):
    seen = {describe(observe(series))["digest"]}
    for row, column in ((0, 0), (39, 1), (17, 0)):
        values = series.values.copy()
        values[row, column] = np.nextafter(values[row, column], np.inf)
        seen.add(describe(observe(replace(series, values=values)))["digest"])
    assert len(seen) == 4


def test_the_same_values_dealt_out_otherwise_are_other_data(series):
    values = series.values
    one = observe(replace(series, values=values[:16]), replace(series, values=values[16:], entity="two"))
    two = observe(replace(series, values=values[:24]), replace(series, values=values[24:], entity="two"))
    assert describe(one)["digest"] != describe(two)["digest"]


def test_provenance_is_plain_data_and_names_the_versions(series):
    found = provenance("robust-z", describe(observe(series)))
    assert json.loads(json.dumps(found)) == found
    assert found["detector"] == "robust-z"
    assert found["data"] == describe(observe(series))
    assert set(found["versions"]) == {"python", "tsadc", "torch", "numpy"}
    assert found["versions"]["numpy"] == importlib.metadata.version("numpy") == np.__version__
