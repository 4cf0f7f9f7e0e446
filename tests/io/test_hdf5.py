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


def test_data_outside_of_the_file_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(800))
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = EEG
    path = tmp_path / "a.h5"

    def refuses(reason: str, groups: list[str] | None = None) -> None:
        with pytest.raises(DataError, match=rf"a\.h5 refers to data outside of itself \({reason}\), which is not read"):
            read_hdf5(path, groups)

    with h5py.File(path, "w") as file:
        file.create_dataset("raw", (100,), "f8", external=[(str(secret), 0, 800)])
    refuses("'raw' is stored in '.*secret.bin'")
    with h5py.File(path, "w") as file:
        file["own"] = EEG
        file["linked"] = h5py.ExternalLink("other.h5", "/")
    refuses("'linked' is a link to 'other.h5'")
    refuses("'linked' is a link to 'other.h5'", ["linked/x"])
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((500,), "f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "x", (500,))
        file.create_virtual_dataset("virtual", layout)
    refuses("'virtual' is a virtual dataset")


def test_a_dataset_that_was_declared_but_never_written_is_no_signal(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["written"] = EEG
        file.create_dataset("declared", (800_000_000,), "f8", chunks=True)
    assert path.stat().st_size < 10_000
    assert read_hdf5(path).names == ("written",)


def test_chunks_that_unpack_beyond_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2**30,), "f8", chunks=(1000,))[:1000] = 1
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 10**10)
    with pytest.raises(DataError, match=r"a\.h5, unpacked, needs 25\.8 GB of memory or more, but 10\.0 GB are"):
        read_hdf5(path)
