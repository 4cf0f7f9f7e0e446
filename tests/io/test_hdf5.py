from pathlib import Path

import numpy as np
import pytest

from tsadc.errors import DataError
from tsadc.io.hdf5 import read_hdf5
from tsadc.io.recording import read_recording

h5py = pytest.importorskip("h5py")

GENERATOR = np.random.default_rng(0)
EEG = GENERATOR.normal(size=500)
ECG = GENERATOR.normal(size=(3, 400)).astype(np.float16)


@pytest.fixture
def night(tmp_path: Path) -> Path:
    """A night as sleep studies publish them: signals in groups by kind, each group with its rate."""
    path = tmp_path / "night.h5"
    with h5py.File(path, "w") as file:
        file["signals/eeg/C3_M2"] = EEG
        file["signals/eeg/O1_M2"] = EEG[::-1]
        file["signals/eeg"].attrs["fs"] = 250
        file["signals/emg/EMG"] = EEG[:250]
        file["signals/emg/EMG"].attrs["fs"] = np.array([125])
        file["signals/emg/EMG"].attrs["unit"] = "uV"
        file["hypnogram"] = np.array([0, 1, 2])
        file["note"] = "text"
        file["cube"] = np.zeros((2, 2, 2))
    return path


def test_datasets_are_channels_named_by_their_path(night: Path) -> None:
    recording = read_recording(night)
    assert recording.names == ("hypnogram", "signals/eeg/C3_M2", "signals/eeg/O1_M2", "signals/emg/EMG")
    assert [channel.rate for channel in recording.channels] == [None, 250.0, 250.0, 125.0]
    assert recording.channels[3].unit == "uV"
    np.testing.assert_array_equal(recording.channels[2].values, EEG[::-1])


def test_groups_choose_what_is_read(night: Path) -> None:
    recording = read_hdf5(night, groups=["signals"])
    series = recording.to_series("night", rename={"signals/emg/EMG": "EMG"})
    assert series.names == ("signals/eeg/C3_M2", "signals/eeg/O1_M2", "EMG")
    assert series.values.shape == (500, 3)
    assert read_hdf5(night, groups=["signals/emg/EMG", "/signals/emg"]).names == ("signals/emg/EMG",)
    with pytest.raises(DataError, match=r"has no group 'signal'; perhaps 'signals' is meant; there are .*hypnog"):
        read_hdf5(night, groups=["signal"])


@pytest.mark.parametrize("upright", [True, False])
def test_of_two_axes_the_longer_is_time(tmp_path: Path, upright: bool) -> None:
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["ecg"] = ECG.T if upright else ECG
        file.attrs["sampling_rate"] = 500
    recording = read_recording(tmp_path / "a.hdf5")
    assert recording.names == ("ecg/0", "ecg/1", "ecg/2")
    np.testing.assert_array_equal(recording.to_series("a").values, ECG.T.astype(float))
    assert {channel.rate for channel in recording.channels} == {500.0}


def test_names_units_and_rates_from_attributes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["ecg"] = ECG
        file["ecg"].attrs["leads"] = ["I", "II", "III"]
        file["ecg"].attrs["units"] = b"mV"
        file["ecg"].attrs["fs"] = "fast"
        file["ecg"].attrs["sfreq"] = -1.0
    recording = read_hdf5(tmp_path / "a.h5", rate=500)
    assert recording.names == ("ecg/I", "ecg/II", "ecg/III")
    assert {(channel.unit, channel.rate) for channel in recording.channels} == {("mV", 500.0)}


def test_infinite_values_are_unmeasured(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = [1.0, np.inf, np.nan, -np.inf]
    np.testing.assert_array_equal(read_hdf5(tmp_path / "a.h5").channels[0].values, [1.0, np.nan, np.nan, np.nan])


def test_files_without_signals(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["note"] = "text"
    with pytest.raises(DataError, match=r"a\.h5 should have datasets of numbers .* has none; it has note\."):
        read_hdf5(tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    with pytest.raises(DataError, match=r"but has none\."):
        read_hdf5(tmp_path / "a.h5")


def test_damaged_files(night: Path) -> None:
    whole = night.read_bytes()
    for content in (b"", b"hello" * 100, whole[:1000], whole[: len(whole) // 2]):
        night.write_bytes(content)
        with pytest.raises(DataError, match=r"night\.h5 is not a readable HDF5 file"):
            read_hdf5(night)


@pytest.mark.parametrize(("name", "length"), [("SPH00001", 5000), ("SPH00002", 6000), ("SPH00003", 6500)])
def test_real_files(shared_data: Path, name: str, length: int) -> None:
    recording = read_hdf5(shared_data.parent / "native" / "h5_sph_ecg" / f"{name}.h5", rate=500)
    series = recording.to_series(name)
    assert series.values.shape == (length, 12)
    # Einthoven: lead II is the sum of I and III, as far as half precision tells.
    np.testing.assert_allclose(series.values[:, 1], series.values[:, 0] + series.values[:, 2], atol=5e-3)
    assert recording.to_series(name, rate=100).values.shape == (length // 5, 12)
