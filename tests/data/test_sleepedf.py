import shutil

import edfio
import numpy as np
import pytest

from tsadc.data import prepare
from tsadc.data.sleepedf import SleepEDF, asleep, stage_list
from tsadc.errors import DataError
from tsadc.io.recording import Annotation

NAMES = ("W", "1", "2", "3", "R")
FIRST_CROPPED, FIRST_PACKED = 999, 961  # epochs of the whole recording at which the native crop and the pack begin


def write_hypnogram(file, stages):
    notes = [edfio.EdfAnnotation(30.0 * i, 30.0, f"Sleep stage {stage}") for i, stage in enumerate(stages)]
    edfio.Edf([], annotations=notes).write(file)


def test_native_and_packed_agree(native, shared_data, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    shutil.copy(native / "sleepedf" / "SC4001E0-PSG_crop_epoch999_1039.edf", raw / "SC4001E0-PSG.edf")
    with np.load(shared_data / "sleep_edf_night.npz") as pack:
        first = FIRST_CROPPED - FIRST_PACKED
        stages = pack["stage"][first : first + 40]
        gain, offset = pack["gain_offset100"].T
        packed = pack["x100"][first * 3000 : (first + 40) * 3000] * gain + offset
    write_hypnogram(raw / "SC4001EC-Hypnogram.edf", [NAMES[stage] for stage in stages])
    prepared = prepare("sleepedf", raw, tmp_path / "out")
    assert prepared.entities == ("SC400",)
    kept = np.flatnonzero(np.isin(stages, (0, 3, 4)))
    assert [label.start // 3000 for label in prepared.labels["SC400"]] == kept.tolist()
    assert len(kept) > 10
    np.testing.assert_allclose(prepared.values("SC400"), packed.reshape(40, 3000, 3)[kept], atol=1e-3)


def test_the_real_hypnogram(native):
    from tsadc.io.recording import read_recording

    notes = read_recording(native / "sleepedf" / "SC4001EC-Hypnogram.edf").annotations
    stages = stage_list(notes, 2880)
    night = asleep(stages, 60)
    assert (night.start, night.stop) == (FIRST_PACKED, FIRST_PACKED + 841)
    counts = {stage: sum(stages[i] == stage for i in night) for stage in ("awake", "N1", "N2", "N3", "REM")}
    assert counts == {"awake": 188, "N1": 58, "N2": 250, "N3": 220, "REM": 125}


def test_the_packed_night(shared_data, tmp_path):
    prepared = prepare("sleepedf", shared_data, tmp_path / "out")
    kinds = [label.kinds for label in prepared.labels["SC400"]]
    assert [kinds.count(one) for one in ((), ("awake",), ("REM",))] == [220, 188, 125]


def test_only_epochs_scored_throughout_have_a_stage():
    notes = [Annotation(0, 45, "Sleep stage W"), Annotation(45, 75, "Sleep stage 4"), Annotation(120, 30, "Lights on")]
    assert stage_list(notes, 5) == ["awake", "not scored", "N3", "N3", "not scored"]


def test_wakefulness_around_the_night_is_cut():
    stages = ["awake"] * 5 + ["N1", "awake", "N3"] + ["awake"] * 5
    assert list(asleep(stages, 2)) == [3, 4, 5, 6, 7, 8, 9]
    assert list(asleep(["awake"] * 3, 2)) == []


def test_a_night_without_its_hypnogram_or_channels_is_named(tmp_path):
    signal = edfio.EdfSignal(np.zeros(3000), 100, label="EEG Fpz-Cz")
    edfio.Edf([signal]).write(tmp_path / "SC4001E0-PSG.edf")
    with pytest.raises(DataError, match=r"SC4001E0-PSG\.edf should have one SC4001E\*-Hypnogram\.edf"):
        SleepEDF().read(SleepEDF().records(tmp_path)[0])
    write_hypnogram(tmp_path / "SC4001EC-Hypnogram.edf", ["3"])
    with pytest.raises(DataError, match=r"SC4001E0-PSG\.edf lacks the channel EEG Pz-Oz"):
        SleepEDF().read(SleepEDF().records(tmp_path)[0])
