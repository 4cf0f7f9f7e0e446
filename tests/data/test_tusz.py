"""TUSZ in its official layout, written here: EDF with annotations beside it."""

from dataclasses import replace

import edfio
import numpy as np
import pytest

from tsadc.data import prepare, tusz
from tsadc.data.tusz import ELECTRODES, TUSZ, electrodes
from tsadc.errors import DataError
from tsadc.io.recording import Channel, Recording
from tsadc.series import Truth

REFERENCED = [f"EEG {name}-REF" for name in ELECTRODES]
LINKED_EARS = [f"EEG {name}-LE" for name in ELECTRODES]


def write_edf(file, labels, seconds, rate=200):
    """Channel i is a constant i microvolts."""
    file.parent.mkdir(parents=True, exist_ok=True)
    signals = [
        edfio.EdfSignal(
            np.full(seconds * rate, float(i)), rate, label=label, physical_dimension="uV", physical_range=(-320, 320)
        )
        for i, label in enumerate(labels)
    ]
    edfio.Edf(signals).write(file)


def annotate(file, *rows):
    lines = ["# version = csv_v1.0.0", "#", "channel,start_time,stop_time,label,confidence", *rows]
    file.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("labels", [REFERENCED, LINKED_EARS, list(ELECTRODES)])
def test_any_montage_naming(tmp_path, labels):
    edf = tmp_path / "edf" / "train" / "aaaaaaac" / "s001_2002" / "02_tcp_le" / "aaaaaaac_s001_t000.edf"
    write_edf(edf, [*labels[::-1], "EEG EKG1-REF"], 130)
    annotate(edf.with_suffix(".csv"), "FP1-F7,0,60,bckg,1", "FP1-F7,110,125,fnsz,1", "F7-T3,112,126,fnsz,1")
    prepared = prepare("tusz", tmp_path, tmp_path / "out")
    assert [label.kinds for label in prepared.labels["aaaaaaac"]] == [(), ("focal",)]
    blamed = ("FP1", "F7", "T3")
    assert prepared.truth["aaaaaaac"] == (Truth("aaaaaaac", 110 * 200, 24000, "focal", blamed),)
    expected = np.arange(19)[::-1]
    np.testing.assert_allclose(prepared.values("aaaaaaac")[0, 6000], expected, atol=0.01)
    assert prepared.about["left_out"] == {"rows after the last whole observation": 2000}


def test_recordings_of_a_patient_are_one_entity_at_one_rate(tmp_path):
    for name, rate in (("00000258_s002_t000", 250), ("00000258_s002_t001", 200), ("00000999_s001_t000", 256)):
        write_edf(tmp_path / f"{name}.edf", REFERENCED, 60, rate)
        (tmp_path / f"{name}.tse").write_text("version = tse_v1.0.0\n\n0.0 50.0 bckg 1.0\n50.0 60.0 gnsz 1.0\n")
    prepared = prepare("tusz", tmp_path, tmp_path / "out")
    assert {entity: len(labels) for entity, labels in prepared.labels.items()} == {"00000258": 2, "00000999": 1}
    assert prepared.values("00000999").shape == (1, 12000, 19)
    assert prepared.kinds == ("generalised",)
    assert "00000258_s002_t001.tse" in prepared.about["sources"]


def test_a_label_that_is_neither_type_leaves_its_minute_out(tmp_path):
    write_edf(tmp_path / "a.edf", REFERENCED, 120)
    annotate(tmp_path / "a.csv_bi", "TERM,0,10,nesz,1", "TERM,70,80,seiz,1")
    prepared = prepare("tusz", tmp_path, tmp_path / "out")
    assert [(label.start, label.kinds) for label in prepared.labels["a"]] == [(12000, ("seizure",))]
    assert prepared.about["left_out"]["label nesz"] == 1


def named(*names):
    return Recording(tuple(Channel(name, "uV", 200.0, np.zeros(1)) for name in names), None, (), (), "x.edf")


def test_newer_names_of_the_same_places():
    newer = {"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}
    names = [f"EEG {newer.get(name, name).capitalize()}-Ref" for name in ELECTRODES]
    assert list(electrodes(named(*names)).values()) == names


def test_a_bipolar_channel_is_no_electrode():
    names = [name for name in REFERENCED if "FP1" not in name]
    with pytest.raises(DataError, match=r"x\.edf lacks the electrode FP1; it has EEG FP2-REF"):
        electrodes(named(*names, "FP1-F7", "EEG FP1-F7"))


def test_bad_recordings_are_named_or_skipped(tmp_path):
    raw = tmp_path / "raw"
    for name in ("a_s001_t000", "b_s001_t000"):
        write_edf(raw / f"{name}.edf", REFERENCED, 60)
    annotate(raw / "a_s001_t000.csv", "TERM,0,60,bckg,1")
    with pytest.raises(DataError, match=r"b_s001_t000\.edf should have its annotations beside it"):
        prepare("tusz", raw, tmp_path / "out")
    with pytest.warns(UserWarning, match="1 of 2 records were left out"):
        prepared = prepare("tusz", raw, tmp_path / "out", skip_bad=True)
    assert prepared.entities == ("a",)
    torn = raw / "a_s001_t000.edf"
    torn.write_bytes(torn.read_bytes()[:-5000])
    with pytest.raises(DataError, match=r"a_s001_t000\.edf is truncated"):
        TUSZ().read(TUSZ().records(raw)[0])


def test_a_seizure_over_a_border_is_one_anomaly(tmp_path):
    write_edf(tmp_path / "a.edf", REFERENCED, 120)
    annotate(tmp_path / "a.csv", "TERM,50,70,tcsz,1")
    prepared = prepare("tusz", tmp_path, tmp_path / "out")
    assert prepared.truth["a"] == (Truth("a", 10000, 14000, "generalised", ()),)
    assert prepared.anomalous("a").all()


def test_minutes_that_were_not_recorded_are_not_background(tmp_path, monkeypatch):
    write_edf(tmp_path / "a.edf", REFERENCED, 180)
    annotate(tmp_path / "a.csv", "TERM,0,180,bckg,1")
    whole = tusz.read_recording(tmp_path / "a.edf")

    def with_gap(channel):
        values = channel.values.copy()
        values[10000:20000] = np.nan  # all but the first 50 and the last 20 seconds of the first two minutes
        return replace(channel, values=values)

    torn = replace(whole, channels=tuple(map(with_gap, whole.channels)))
    monkeypatch.setattr(tusz, "read_recording", lambda file: torn)
    prepared = prepare("tusz", tmp_path, tmp_path / "out")
    assert [label.start for label in prepared.labels["a"]] == [0, 24000]
    assert prepared.about["left_out"] == {"under half of the minute measured": 1}
