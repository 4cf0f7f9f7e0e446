import datetime
import shutil

import edfio
import numpy as np
import pytest

from tsadc.data import prepare
from tsadc.data.sleepedf import CHANNELS, SleepEDF, night_epochs, stage_list
from tsadc.errors import DataError
from tsadc.io.recording import Annotation

NAMES = ("W", "1", "2", "3", "R")
FIRST_CROPPED, FIRST_PACKED = 999, 961  # epochs of the whole recording at which the native crop and the pack begin


def write_hypnogram(file, stages, start=datetime.datetime(1989, 4, 24, 16, 13)):
    notes = [edfio.EdfAnnotation(30.0 * i, 30.0, f"Sleep stage {stage}") for i, stage in enumerate(stages)]
    told = {"recording": edfio.Recording(startdate=start.date()), "starttime": start.time()}
    edfio.Edf([], annotations=notes, **told).write(file)


def write_night(file, epochs, start):
    """Every value is the number of its epoch."""
    values = np.repeat(np.arange(float(epochs)), 3000)
    signals = [edfio.EdfSignal(values, 100, label=name, physical_range=(-100, 100)) for name in CHANNELS]
    told = {"recording": edfio.Recording(startdate=start.date()), "starttime": start.time()}
    edfio.Edf(signals, **told).write(file)


@pytest.mark.parametrize("later", [-90, 0, 60, 75])
def test_the_hypnogram_may_start_at_another_time_than_the_signals(tmp_path, later):
    start = datetime.datetime(1991, 1, 2, 23, 59)
    write_night(tmp_path / "SC4001E0-PSG.edf", 8, start)
    hypnogram = tmp_path / "SC4001EC-Hypnogram.edf"
    write_hypnogram(hypnogram, "WW33RR", start + datetime.timedelta(seconds=later))
    extract = SleepEDF().read(SleepEDF().records(tmp_path)[0])
    found = [(round(float(one.values[0, 0])), one.spans[0].kind if one.spans else "N3") for one in extract.pieces]
    # Stage i is valid from later + 30 i seconds on for 30 s; an epoch needs one throughout.
    stages = ["awake", "awake", "N3", "N3", "REM", "REM"]
    covered = {
        -90: list(enumerate(stages[3:])),
        0: list(enumerate(stages)),
        60: list(enumerate(stages, start=2)),
        75: [],
    }
    assert found == covered[later]


def test_a_hypnogram_of_another_night_is_refused(tmp_path):
    write_night(tmp_path / "SC4001E0-PSG.edf", 2, datetime.datetime(1991, 1, 2))
    write_hypnogram(tmp_path / "SC4001EC-Hypnogram.edf", "33", datetime.datetime(1991, 1, 9))
    with pytest.raises(DataError, match=r"Hypnogram\.edf starts at 1991-01-09 .* they are not of the same night"):
        SleepEDF().read(SleepEDF().records(tmp_path)[0])


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
    night = night_epochs(stages, 60)
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
    assert list(night_epochs(stages, 2)) == [3, 4, 5, 6, 7, 8, 9]
    assert list(night_epochs(["awake"] * 3, 2)) == []


def test_a_night_without_its_hypnogram_or_channels_is_named(tmp_path):
    signal = edfio.EdfSignal(np.zeros(3000), 100, label="EEG Fpz-Cz")
    edfio.Edf([signal]).write(tmp_path / "SC4001E0-PSG.edf")
    with pytest.raises(DataError, match=r"SC4001E0-PSG\.edf should have one SC4001E\*-Hypnogram\.edf"):
        SleepEDF().read(SleepEDF().records(tmp_path)[0])
    write_hypnogram(tmp_path / "SC4001EC-Hypnogram.edf", ["3"])
    with pytest.raises(DataError, match=r"SC4001E0-PSG\.edf lacks the channel EEG Pz-Oz"):
        SleepEDF().read(SleepEDF().records(tmp_path)[0])


def test_a_crop_that_kept_the_start_of_its_night_is_told(tmp_path):
    start = datetime.datetime(1991, 1, 2, 16)
    write_night(tmp_path / "SC4001E0-PSG.edf", 4, start)
    write_hypnogram(tmp_path / "SC4001EC-Hypnogram.edf", "W" * 100 + "3" * 20, start)
    expected = r"PSG\.edf lasts 2 min and has no usable epoch, but .* scores 1\.0 h from the same start: .* crop"
    with pytest.raises(DataError, match=expected):
        prepare("sleepedf", tmp_path, tmp_path / "out")


def test_why_nothing_is_usable(tmp_path):
    start = datetime.datetime(1991, 1, 2, 16)
    write_night(tmp_path / "SC4001E0-PSG.edf", 4, start)
    write_hypnogram(tmp_path / "SC4001EC-Hypnogram.edf", "1222", start)
    with pytest.raises(DataError, match="in 1 record; left out: 3 x stage N2, 1 x stage N1"):
        prepare("sleepedf", tmp_path, tmp_path / "out")
