import numpy as np
import pytest

from tsadc.data import prepare
from tsadc.data.ecg import ABNORMAL_TYPES, anomaly_kinds
from tsadc.data.ludb import LUDB, classify
from tsadc.errors import DataError


def test_native_records(native, tmp_path):
    prepared = prepare("ludb", native / "wfdb_ludb", tmp_path / "out")
    assert prepared.entities == ("8",)  # record 1 has hypertrophy, which is neither normal nor one of the five
    assert prepared.labels["8"][0].kinds == ("AF", "STE")
    assert prepared.values("8").shape == (1, 1000, 12)


def test_native_and_packed_agree(native, shared_data, tmp_path):
    ours = prepare("ludb", native / "wfdb_ludb", tmp_path / "native").values("8")[0]
    packed = prepare("ludb", shared_data, tmp_path / "packed").values("8")[0]
    assert np.abs(ours[20:-20] - packed[20:-20]).mean() < 0.01  # millivolts; the filters differ close to 50 Hz
    for lead in range(12):
        assert np.corrcoef(ours[:, lead], packed[:, lead])[0, 1] > 0.99


def test_the_pack_agrees_with_its_flags(shared_data):
    with np.load(shared_data / "ecg_ludb_100hz.npz") as pack:
        judged = [anomaly_kinds(classify(text.split("|"))) for text in pack["diagnoses"]]
        flags = dict(zip(pack["class_names"].tolist(), pack["y"].T.astype(bool), strict=True))
        normal = pack["normal"].astype(bool)
    np.testing.assert_array_equal([kinds == () for kinds in judged], normal)
    for kind, flag in zip(ABNORMAL_TYPES, ("AF", "IAVB", "RBBB_any", "PVC", "STE_or_STEMI"), strict=True):
        np.testing.assert_array_equal([kind in (kinds or ()) for kinds in judged], flags[flag])


def test_the_counts_of_the_whole_archive(shared_data, tmp_path):
    prepared = prepare("ludb", shared_data / "ecg_ludb_100hz.npz", tmp_path / "out")
    assert list(prepared.about["sources"]) == ["ecg_ludb_100hz.npz"]
    assert len(prepared) == LUDB.card.entities == 104
    assert sum(not labels[0].kinds for labels in prepared.labels.values()) == 25


def test_remarks_become_diagnoses():
    assert classify(["Rhythm: Sinus rhythm.", " Electric axis of the heart: vertical. "]) == ["normal", "normal"]
    assert classify(["Undefined ischemia/scar/supp.NSTEMI: septal."]) == ["STE"]
    assert classify(["III degree AV-block."]) == ["other findings"]
    assert classify(["Complete right bundle branch block.", "STEMI: septal."]) == ["RBBB", "STE"]
    assert classify(["Incomplete right bundle branch block."]) == ["RBBB"]


def test_a_header_without_diagnoses_is_named(native, tmp_path):
    (tmp_path / "1.dat").write_bytes((native / "wfdb_ludb" / "1.dat").read_bytes())
    header = (native / "wfdb_ludb" / "1.hea").read_text().split("#")[0]
    (tmp_path / "1.hea").write_text(header)
    with pytest.raises(DataError, match=r"1\.hea has no line <diagnoses>"):
        LUDB().read(LUDB().records(tmp_path)[0])
