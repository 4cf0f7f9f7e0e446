import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.files import RECORDINGS
from tsadc.io.recording import Annotation, Channel, Recording, distinct, read_recording
from tsadc.io.resample import resample
from tsadc.series import Clock

GENERATOR = np.random.default_rng(0)


def channel(name: str, rate: float | None = 100, length: int = 1000) -> Channel:
    return Channel(name, "uV", rate, GENERATOR.normal(size=length))


def recording(*channels: Channel, start: datetime | None = None) -> Recording:
    return Recording(channels, start, (), (), "night.edf")


def test_channels_become_the_columns_of_a_series() -> None:
    one, two = channel("Fpz"), channel("Pz")
    series = recording(one, two).to_series("patient-1")
    np.testing.assert_array_equal(series.values, np.column_stack([one.values, two.values]))
    assert (series.names, series.entity, series.clock) == (("Fpz", "Pz"), "patient-1", Clock(pace=10**7))


def test_channels_are_picked_in_the_order_given_and_renamed() -> None:
    parts = [channel(name) for name in ("EEG FP1-REF", "EEG FP2-REF", "EKG")]
    series = recording(*parts).to_series("x", channels=["EKG", "EEG FP1-REF"], rename={"EEG FP1-REF": "FP1"})
    assert series.names == ("EKG", "FP1")
    np.testing.assert_array_equal(series.values[:, 1], parts[0].values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": ["fpz"]}, r"night\.edf has no channel 'fpz'; perhaps 'Fpz' is meant; there are Fpz, Pz\."),
        ({"channels": ["Temperature"]}, r"has no channel 'Temperature'; there are Fpz, Pz\."),
        ({"channels": ["Pz", "Pz"]}, "'Pz' was picked twice"),
        ({"channels": "Pz"}, "should be a list of names, but got 'Pz'"),
        ({"channels": []}, "should be a list of names"),
        ({"rename": {"Pzz": "P"}}, "has no channel 'Pzz' to rename; perhaps 'Pz' is meant"),
        ({"rename": {"Pz": "Fpz"}}, r"would both be named 'Fpz'"),
        ({"rate": 0}, "must be a positive number"),
        ({"rate": float("nan")}, "must be a positive number"),
    ],
)
def test_what_cannot_be_done_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        recording(channel("Fpz"), channel("Pz")).to_series("x", **options)  # type: ignore[arg-type]


def test_mixed_rates_meet_at_the_highest_or_at_the_one_asked_for() -> None:
    fast, slow = channel("eeg", 100, 3000), channel("temperature", 1, 30)
    mixed = recording(fast, slow, start=datetime(2024, 5, 1, 22))
    series = mixed.to_series("x")
    np.testing.assert_array_equal(series.values[:, 0], fast.values)
    np.testing.assert_array_equal(series.values[:, 1], resample(slow.values, 1, 100))
    halved = mixed.to_series("x", rate=50)
    assert halved.values.shape == (1500, 2)
    assert (series.clock.interval, halved.clock.interval) == (10_000_000, 20_000_000)
    slower = recording(fast, slow, channel("light", 1, 30)).to_series("x", channels=["temperature", "light"])
    assert slower.values.shape == (30, 2)


def test_a_shorter_channel_ends_unmeasured() -> None:
    series = recording(channel("a", length=10), channel("b", length=8)).to_series("x")
    assert np.isnan(series.values).sum(axis=0).tolist() == [0, 2]
    assert np.isnan(series.values[8:, 1]).all()


def test_a_start_gives_a_clock_with_dates() -> None:
    series = recording(channel("a", 256, 512), channel("b", 256, 512), start=datetime(1989, 4, 24, 16, 13)).to_series(
        "x"
    )
    assert series.clock.at([256])[0] == pd.Timestamp("1989-04-24 16:13:01")
    zoned = recording(channel("a"), channel("b"), start=datetime(2024, 1, 1, 12, tzinfo=UTC)).to_series("x")
    assert zoned.clock.at([100])[0] == pd.Timestamp("2024-01-01 12:00:01", tz="UTC")


def test_a_clock_of_whole_nanoseconds_drifts_as_little_as_promised() -> None:
    clock = recording(channel("a", 360), channel("b", 360), start=datetime(2024, 1, 1)).to_series("x").clock
    drift = clock.at([360 * 86400])[0] - pd.Timestamp("2024-01-02")
    assert abs(drift) < pd.Timedelta("10ms")


def test_a_start_beyond_the_clock_is_left_out_with_a_notice() -> None:
    with pytest.warns(TsadcNotice, match="starts in the year 2951"):
        series = recording(channel("a"), channel("b"), start=datetime(2951, 1, 1)).to_series("x")
    assert series.clock == Clock(pace=10**7)


def test_unknown_rates_leave_rows_and_cannot_be_changed() -> None:
    unknown = recording(channel("a", None), channel("b", None), start=datetime(2024, 1, 1))
    assert unknown.to_series("x").clock == Clock()
    with pytest.raises(DataError, match="does not state the sampling rate of channel 'a'"):
        unknown.to_series("x", rate=50)
    with pytest.raises(DataError, match=r"differ in length \('a' has 1000, 'b' has 30\)"):
        recording(channel("a", None), channel("b", None, 30)).to_series("x")
    with pytest.raises(DataError, match="does not state the sampling rate of channel 'b'"):
        recording(channel("a", 1), channel("b", None), channel("c", 2)).to_series("x")


def test_no_signals_or_no_samples() -> None:
    with pytest.raises(DataError, match=r"night\.edf has annotations but no signals"):
        Recording((), None, (Annotation(0, 30, "Sleep stage W"),), (), "night.edf").to_series("x")
    with pytest.raises(DataError, match=r"night\.edf has no samples"):
        recording(channel("a", length=0), channel("b", length=0)).to_series("x")


def test_comments_are_found_by_their_key() -> None:
    one = Recording((), None, (), ("Age: 74", "Dx: 426783006,59118001", "<sex>: F", "Rhythm", "Note: a: b"), "x")
    assert one.fields == {"age": "74", "dx": "426783006,59118001", "sex": "F", "note": "a: b"}


def test_repeated_and_blank_names_become_distinct() -> None:
    assert distinct(["T8-P8", " ", "T8-P8", "T8-P8 (2)", "T8-P8"]) == (
        "T8-P8",
        "channel 2",
        "T8-P8 (2)",
        "T8-P8 (2) (2)",
        "T8-P8 (3)",
    )


def test_files_that_are_not_there_or_not_recordings(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"table\.csv should end in \.hea, \.edf, \.h5, \.hdf5 or \.mat"):
        read_recording(tmp_path / "table.csv")
    for ending in RECORDINGS:
        with pytest.raises(DataError, match=f"There is no file .*night{ending}"):
            read_recording(tmp_path / f"night{ending}")
        (tmp_path / f"folder{ending}").mkdir()
        with pytest.raises(DataError, match=f"folder{ending} is a folder"):
            read_recording(tmp_path / f"folder{ending}")


@pytest.mark.parametrize(("ending", "library"), [(".hea", "wfdb"), (".edf", "edfio"), (".h5", "h5py")])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, library: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    (tmp_path / f"night{ending}").touch()
    with pytest.raises(DataError, match=r"needs one more package: pip install 'tsadc\[bio\]'"):
        read_recording(tmp_path / f"night{ending}")


def test_a_single_channel() -> None:
    assert recording(channel("a")).to_series("x").names == ("a",)


def test_infinite_values_are_refused() -> None:
    wild = channel("b")
    wild.values[7] = -np.inf
    with pytest.raises(DataError, match=r"night\.edf: channel 'b' is infinite at row 7; use NaN where nothing was"):
        recording(channel("a"), wild).to_series("x")
    many = [channel(f"c{i}", length=1) for i in range(10_001)]
    with pytest.raises(DataError, match=r"night\.edf has more than 10000 columns"):
        recording(*many).to_series("x")


def test_without_a_start_rows_are_counted_and_their_pace_is_kept() -> None:
    clock = recording(channel("a", 256), channel("b", 256)).to_series("x").clock
    assert (clock.dated, clock.every) == (False, 3_906_250)
    assert clock.at([0, 5]).tolist() == [0, 5]
    assert recording(channel("a", 256), channel("b", 256)).to_series("x", rate=128).clock.every == 7_812_500


def test_a_rate_far_beyond_the_recorded_is_refused() -> None:
    two = recording(channel("a"), channel("b", 1, 10))
    assert len(two.to_series("x", rate=10_000).values) == 100_000
    with pytest.raises(DataError, match=r"was sampled at 100 Hz, and 1e\+09 Hz is more than 100 times that"):
        two.to_series("x", rate=1e9)
