import shutil

import numpy as np
import pytest

from tsadc.data import prepare
from tsadc.data.ecg import anomaly_kinds
from tsadc.data.icbeb import CLASSES, ICBEB
from tsadc.errors import DataError
from tsadc.io.recording import read_recording

KINDS = {  # of the first ten records, from the archive's REFERENCE.csv; A0008 has only ST depression
    "A0001": ("RBBB",),
    "A0002": (),
    "A0003": ("AF",),
    "A0004": ("AF",),
    "A0005": ("PVC",),
    "A0006": ("RBBB",),
    "A0007": ("AF",),
    "A0009": ("AF",),
    "A0010": ("RBBB",),
}


def test_records_with_codes(native, tmp_path):
    prepared = prepare("icbeb", native / "wfdb_cpsc2018_cinc", tmp_path / "out")
    assert {entity: labels[0].kinds for entity, labels in prepared.labels.items()} == KINDS
    assert prepared.about["left_out"] == {"only STD": 1}
    values = prepared.values("A0001")[0]
    assert values.shape == (6000, 12)
    assert np.isfinite(values[:1500]).all()  # 15 seconds
    assert np.isnan(values[1500:]).all()
    assert prepared.truth["A0001"][0].stop == 1500


def test_values_agree_with_the_pack_up_to_its_filter(native, shared_data, tmp_path):
    prepared = prepare("icbeb", native / "wfdb_cpsc2018_cinc", tmp_path / "out")
    with np.load(shared_data / "ecg_cinc_100hz.npz") as pack:
        packed = pack["x100"][:1500] / 1000
    error = prepared.values("A0001")[0, 20:1480] - packed[20:1480]
    assert np.abs(error).mean() < 0.01  # millivolts; the two filters differ close to 50 Hz
    for lead in range(12):
        assert np.corrcoef(prepared.values("A0001")[0, :1500, lead], packed[:, lead])[0, 1] > 0.99


def test_headers_in_words_give_the_same(native, tmp_path):
    for name in ("A0002", "A0003"):
        shutil.copy(native / "wfdb_cpsc2018_cinc" / f"{name}.mat", tmp_path / f"{name}.mat")
        shutil.copy(native / "wfdb_cpsc2018_oldheader" / f"{name}.hea", tmp_path / f"{name}.hea")
    words = prepare("icbeb", tmp_path, tmp_path / "words")
    codes = prepare("icbeb", native / "wfdb_cpsc2018_cinc", tmp_path / "codes")
    assert [words.labels[name][0].kinds for name in ("A0002", "A0003")] == [(), ("AF",)]
    for name in ("A0002", "A0003"):
        np.testing.assert_array_equal(words.values(name), codes.values(name))


def original(native, folder, reference):
    folder.mkdir()
    for name in ("A1982", "A1983"):
        shutil.copy(native / "cpsc2018_original_mat" / f"{name}.mat", folder / f"{name}.mat")
    if reference:
        (folder / "REFERENCE.csv").write_text("Recording,First_label,Second_label,Third_label\n" + reference)
    return folder


def test_the_original_structs_take_their_diagnoses_from_the_reference(native, tmp_path):
    raw = original(native, tmp_path / "raw", "A1982,5,2,\nA1983,1,,\n")
    prepared = prepare("icbeb", raw, tmp_path / "out")
    assert prepared.labels["A1982"][0].kinds == ("AF", "RBBB")
    assert prepared.labels["A1983"][0].kinds == ()
    struct = read_recording(raw / "A1983.mat").channels[1].values
    # Whatever the filter, it keeps the mean.
    ours = prepared.values("A1983")[0, :, 1]
    assert np.nanmean(ours[100:900]) == pytest.approx(struct[500:4500].mean(), abs=0.01)
    assert set(prepared.about["sources"]) == {"A1982.mat", "A1983.mat", "REFERENCE.csv"}


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("", r"A1982\.mat needs the diagnoses in REFERENCE\.csv"),
        ("A1982,5,,\n", r"REFERENCE\.csv does not list A1983"),
        ("A1982,12,,\n", r"REFERENCE\.csv should have lines like"),
    ],
)
def test_a_bad_reference_is_named(native, tmp_path, reference, message):
    raw = original(native, tmp_path / "raw", reference)
    with pytest.raises(DataError, match=message):
        prepare("icbeb", raw, tmp_path / "out")


def test_two_references_are_both_named(native, tmp_path):
    raw = original(native, tmp_path / "raw", "A1982,5,,\nA1983,1,,\n")
    (raw / "more").mkdir()
    shutil.copy(raw / "REFERENCE.csv", raw / "more")
    with pytest.raises(DataError, match=r"both .*raw/REFERENCE\.csv and .*raw/more/REFERENCE\.csv; keep the one"):
        prepare("icbeb", raw, tmp_path / "out")


def test_a_header_without_signals_is_named_or_skipped(native, tmp_path):
    raw = tmp_path / "raw"
    shutil.copytree(native / "wfdb_cpsc2018_cinc", raw)
    (raw / "A0003.mat").unlink()
    with pytest.raises(DataError, match=r"A0003"):
        prepare("icbeb", raw, tmp_path / "out")
    with pytest.warns(UserWarning, match=r"1 of 10 records were left out: .*A0003"):
        prepared = prepare("icbeb", raw, tmp_path / "out", skip_bad=True)
    assert set(prepared.entities) == set(KINDS) - {"A0003"}
    assert list(prepared.about["skipped"]) == ["A0003"]


def test_a_header_without_diagnoses_is_named(native, tmp_path):
    shutil.copy(native / "wfdb_cpsc2018_cinc" / "A0001.mat", tmp_path)
    header = (native / "wfdb_cpsc2018_cinc" / "A0001.hea").read_text()
    (tmp_path / "A0001.hea").write_text("\n".join(line for line in header.splitlines() if "Dx" not in line) + "\n")
    with pytest.raises(DataError, match=r"A0001\.hea has no line #Dx"):
        ICBEB().read(ICBEB().records(tmp_path)[0])


def test_the_counts_of_the_whole_archive(shared_data):
    """The labels of all 6,877 records, judged by the rule: what the card says."""
    with np.load(shared_data / "icbeb_labels.npz") as pack:
        names = ["normal", "AF", "I-AVB", "LBBB", "RBBB", "PAC", "PVC", "STD", "STE"]
        assert tuple(names) == CLASSES
        judged = [anomaly_kinds([names[i] for i in np.flatnonzero(row)]) for row in pack["y"]]
    assert len(judged) == 6877
    assert sum(kinds == () for kinds in judged) == 918
    assert sum(bool(kinds) for kinds in judged) == 4447
    assert ICBEB.card.entities == 918 + 4447
