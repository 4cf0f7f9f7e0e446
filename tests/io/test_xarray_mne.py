import datetime

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.memory import as_series
from tsadc.io.reading import Reading
from tsadc.series import Clock

xr = pytest.importorskip("xarray")
TIMES = pd.date_range("2024-01-01", periods=4, freq="min")
VALUES = np.arange(8.0).reshape(4, 2)
CUBE = np.arange(24.0).reshape(3, 4, 2)  # host, time, sensor


def test_an_array_with_names_and_times_in_either_order():
    array = xr.DataArray(VALUES, dims=("when", "sensor"), coords={"when": TIMES, "sensor": ["a", "b"]})
    for data in (array, array.transpose("sensor", "when")):
        (found,) = as_series(data)
        np.testing.assert_array_equal(found.values, VALUES)
        assert found.names == ("a", "b")
        assert found.clock == Clock(TIMES[0].value, 60 * 10**9, dated=True)


def test_an_array_without_coordinates():
    for reading in (Reading(), Reading(time="time")):
        (found,) = as_series(xr.DataArray(VALUES.T, dims=("sensor", "time")), reading=reading)
        np.testing.assert_array_equal(found.values, VALUES)
        assert found.names == ("variable_0", "variable_1")
        assert found.clock == Clock()


def test_a_data_set_with_its_variables_and_gaps():
    data = xr.Dataset({"a": ("time", VALUES[:, 0]), "b": ("time", VALUES[:, 1])}, coords={"time": TIMES})
    (found,) = as_series(data.isel(time=[0, 1, 3]))
    np.testing.assert_array_equal(found.values[:, 1], [1, 3, np.nan, 7])
    with pytest.warns(TsadcNotice, match="has variables without a time dimension, which were left out: site"):
        assert as_series(data.assign(site=3.0))[0].names == ("a", "b")


def test_a_dimension_of_entities():
    array = xr.DataArray(
        CUBE, dims=("host", "time", "sensor"), coords={"host": [7, 8, 9], "time": TIMES, "sensor": ["a", "b"]}
    )
    for data in (array, array.to_dataset("sensor")):
        found = as_series(data, reading=Reading(entity="host"))
        assert [one.entity for one in found] == ["7", "8", "9"]
        for one, expected in zip(found, CUBE, strict=True):
            np.testing.assert_array_equal(one.values, expected)
            assert one.names == ("a", "b")
            assert one.clock.dated
    assert [one.entity for one in as_series(array.drop_vars("host"), reading=Reading(entity="host"))] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("data", "reading", "expected"),
    [
        (
            xr.DataArray(CUBE, dims=("host", "time", "sensor")),
            Reading(),
            "but has 'host', 'time', 'sensor'; pass a dict",
        ),
        (
            xr.DataArray(VALUES[:, 0], dims="time"),
            Reading(),
            "a time dimension and one of variables, but has 'time'",
        ),
        (xr.DataArray(3.0), Reading(), "has no dimension, but needs one for time"),
        (xr.DataArray(VALUES, dims=("time", "x")), Reading(time="tim"), "no column 'tim'; did you mean `time`"),
        (xr.DataArray(VALUES, dims=("time", "x")), Reading(entity="host"), "has no column 'host'"),
        (
            xr.Dataset({"a": (("time", "lat"), VALUES)}),
            Reading(),
            "the variable 'a' should depend on 'time' alone, but depends on 'time', 'lat'",
        ),
    ],
)
def test_what_xarray_objects_cannot_be(data, reading, expected):
    with pytest.raises(DataError) as caught:
        as_series(data, reading=reading)
    assert expected in str(caught.value)


class Raw:
    """What MNE's recordings have in common."""

    ch_names = ("Fz", "Cz", "STI")
    first_time = 2.0

    def __init__(self, measured: datetime.datetime | None) -> None:
        self.info = {"sfreq": 4.0, "meas_date": measured}

    def get_data(self) -> np.ndarray:
        return np.arange(24.0).reshape(3, 8)


def test_a_recording_of_mne():
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    (found,) = as_series({"night 1": Raw(start)})
    np.testing.assert_array_equal(found.values, np.arange(24.0).reshape(3, 8).T)
    assert (found.entity, found.names) == ("night 1", ("Fz", "Cz", "STI"))
    assert str(found.clock.at([0])[0]) == "2024-01-01 00:00:02+00:00"
    assert found.clock.interval == 250_000_000
    bare = as_series(Raw(None))[0].clock
    assert (bare.dated, bare.every) == (
        False,
        as_series(Raw(datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)))[0].clock.every,
    )


def test_channels_of_mne_are_picked_renamed_and_resampled():
    (found,) = as_series(Raw(None), reading=Reading(columns=("Cz", "Fz"), rename={"Cz": "C"}, rate=2.0))
    assert found.names == ("C", "Fz")
    assert len(found) == 4
    with pytest.raises(DataError, match="is a recording with its own clock; leave out time, entity and every"):
        as_series(Raw(None), reading=Reading(every="1s"))


class Epochs(Raw):
    """Cut already: (epoch, channel, time)."""

    def get_data(self) -> np.ndarray:
        return np.zeros((5, 3, 8))


def test_epochs_of_mne_are_refused_with_what_to_do():
    with pytest.raises(DataError, match=r"has 3 axes, as epochs have; pass the Raw, or epochs\.get_data\(\)"):
        as_series(Epochs(None))


def test_a_recording_of_mne_is_checked_like_any_other():
    class Wild(Raw):
        def get_data(self) -> np.ndarray:
            return np.where(np.arange(24.0).reshape(3, 8) == 13, np.inf, 0.0)

    with pytest.raises(DataError, match="channel 'Cz' is infinite at row 5; use NaN"):
        as_series(Wild(None))
