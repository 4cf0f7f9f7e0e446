"""DODH in its published layout, written here: channels at 250 Hz, the rate as an attribute of their group."""

import json

import h5py
import numpy as np
import pytest

from tsadc.data import prepare
from tsadc.data.dodh import CHANNELS, DODH, consensus
from tsadc.errors import DataError


def group_of(name):
    return "eog" if name.startswith("EOG") else "emg" if name in ("EMG", "ECG") else "eeg"


def write_night(file, stages, leave_out=(), rate=250, ecg_group="emg"):
    """Channel c is c + the epoch's number / 100."""
    with h5py.File(file, "w") as night:
        night["hypnogram"] = np.asarray(stages, dtype=np.int64)
        for i, name in enumerate(CHANNELS):
            group = ecg_group if name == "ECG" else group_of(name)
            values = np.repeat(np.arange(len(stages)) / 100, 30 * rate) + i
            if name not in leave_out:
                night[f"signals/{group}/{name}"] = values.astype(np.float32)
                night[f"signals/{group}"].attrs["fs"] = rate
                night[f"signals/{group}"].attrs["unit"] = b"uV"
    return file


def test_the_published_layout(tmp_path):
    write_night(tmp_path / "63b799f6.h5", [0, 1, 2, 3, 3, 4, -1])
    prepared = prepare("dodh", tmp_path, tmp_path / "out")
    assert prepared.entities == ("63b799f6",)
    labels = prepared.labels["63b799f6"]
    assert [label.kinds for label in labels] == [("awake",), (), (), ("REM",)]
    assert [label.start // 7500 for label in labels] == [0, 3, 4, 5]
    expected = np.array([0, 3, 4, 5])[:, None, None] / 100 + np.arange(16)
    np.testing.assert_allclose(prepared.values("63b799f6"), np.broadcast_to(expected, (4, 7500, 16)), rtol=1e-6)
    assert prepared.about["left_out"] == {"stage N1": 1, "stage N2": 1, "stage not scored": 1}


def test_an_ecg_group_of_its_own_is_read_too(tmp_path):
    write_night(tmp_path / "a.h5", [3], ecg_group="ecg")
    assert prepare("dodh", tmp_path, tmp_path / "out").values("a")[0, 0, CHANNELS.index("ECG")] == 12


def test_other_rates_are_resampled(tmp_path):
    write_night(tmp_path / "a.h5", [3, 3], rate=125)
    values = prepare("dodh", tmp_path, tmp_path / "out").values("a")
    assert values.shape == (2, 7500, 16)
    np.testing.assert_allclose(values[0, 100:7000], np.broadcast_to(np.arange(16), (6900, 16)), atol=2e-3)


def test_the_consensus_of_the_scorers(tmp_path):
    write_night(tmp_path / "a.h5", [3, 3, 3])
    stagings = [[3, 0, 4], [3, 0, 4], [3, 0, 2], [2, 3, 2], [2, 3, -1]]
    for i, staging in enumerate(stagings):
        folder = tmp_path / "scorers" / "dodh" / f"scorer_{i + 1}"
        folder.mkdir(parents=True)
        (folder / "a.json").write_text(json.dumps(staging))
    prepared = prepare("dodh", tmp_path, tmp_path / "out", scorers=True)
    # The last epoch is a tie of REM and N2; the first two scorers agree more with the others over the night.
    assert [label.kinds for label in prepared.labels["a"]] == [(), ("awake",), ("REM",)]


def test_too_few_scorers_are_refused(tmp_path):
    write_night(tmp_path / "a.h5", [3])
    with pytest.raises(DataError, match=r"a\.h5 should have stagings"):
        prepare("dodh", tmp_path, tmp_path / "out", scorers=True)


def test_scorers_of_different_length_are_refused(tmp_path):
    write_night(tmp_path / "a.h5", [3, 3])
    for name, staging in (("scorer_1", [3, 3]), ("scorer_2", [3])):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps(staging))
    with pytest.raises(DataError, match=r"The stagings of .*a\.h5 must have the same number of epochs"):
        DODH(scorers=True).read(DODH(scorers=True).records(tmp_path)[0])


def test_a_majority_wins_whoever_it_is():
    assert consensus([np.array(row) for row in ([0, 4], [3, 4], [3, 4], [3, 1], [0, 1])]).tolist() == [3, 4]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda night: night.pop("signals"), r"a\.h5 has no group /signals"),
        (lambda night: night["signals/eeg"].pop("F3_M2"), r"a\.h5 lacks the channel F3_M2"),
        (lambda night: night.pop("hypnogram"), r"a\.h5 has no group 'hypnogram'"),
        (lambda night: night["hypnogram"].__setitem__(0, 7), r"a\.h5 in /hypnogram should hold one stage from -1 to 4"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, damage, message):
    with h5py.File(write_night(tmp_path / "a.h5", [3, 0]), "r+") as night:
        damage(night)
    with pytest.raises(DataError, match=message):
        DODH().read(DODH().records(tmp_path)[0])


def test_signals_that_end_too_early_are_named(tmp_path):
    with h5py.File(write_night(tmp_path / "a.h5", [3, 0]), "r+") as night:
        del night["hypnogram"]
        night["hypnogram"] = np.full(9, 3)
    with pytest.raises(DataError, match=r"a\.h5 has 9 scored epochs, but /signals/eeg/C3_M2 ends before"):
        DODH().read(DODH().records(tmp_path)[0])


def test_what_is_no_hdf5_is_named(tmp_path):
    (tmp_path / "a.h5").write_text("nothing")
    with pytest.raises(DataError, match=r"a\.h5 is not a readable HDF5 file"):
        DODH().read(DODH().records(tmp_path)[0])


@pytest.mark.parametrize("seed", range(12))
def test_a_file_damaged_anywhere_is_named(tmp_path, seed):
    file = write_night(tmp_path / "a.h5", [3])
    content, generator = bytearray(file.read_bytes()), np.random.default_rng(seed)
    # The structure of the file, before and between the numbers.
    for place in generator.integers(0, 20000, 200):
        content[place] = generator.integers(0, 256)
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"a\.h5"):
        DODH().read(DODH().records(tmp_path)[0])
