import numpy as np
import pytest

from tsadc.data import ecg, prepare
from tsadc.data.cinc import CinC
from tsadc.errors import DataError


def test_native_records(native, tmp_path):
    prepared = prepare("cinc", native / "wfdb_cinc_other", tmp_path / "out")
    assert {entity: labels[0].kinds for entity, labels in prepared.labels.items()} == {
        "E00001": (),
        "JS00001": ("AF", "RBBB"),
    }
    assert prepared.about["left_out"] == {"only other findings": 1}  # HR00001: sinus rhythm with another code
    assert prepared.values("E00001").shape == (1, 1000, 12)


def test_native_and_packed_agree(native, shared_data, tmp_path):
    ours = prepare("cinc", native / "wfdb_cpsc2018_cinc", tmp_path / "native")
    packed = prepare("cinc", shared_data, tmp_path / "packed")
    for name in ours.entities:
        assert ours.labels[name][0].kinds == packed.labels[name][0].kinds
        error = ours.values(name)[0, 20:-20] - packed.values(name)[0, 20:-20]
        assert np.abs(error).mean() < 0.01  # millivolts; the filters differ close to 50 Hz


def test_the_pack_agrees_with_its_flags(shared_data):
    with np.load(shared_data / "ecg_cinc_100hz.npz") as pack:
        judged = [ecg.anomaly_kinds(ecg.snomed_diagnoses(ecg.split_entries(text))) for text in pack["dx_snomed"]]
        np.testing.assert_array_equal([kinds == () for kinds in judged], pack["normal_only"].astype(bool))
        np.testing.assert_array_equal([bool(kinds) for kinds in judged], pack["paper_abnormal"].astype(bool))


def test_a_header_without_codes_is_named(native, tmp_path):
    (tmp_path / "E00001.mat").write_bytes((native / "wfdb_cinc_other" / "E00001.mat").read_bytes())
    (tmp_path / "E00001.hea").write_text((native / "wfdb_cinc_other" / "E00001.hea").read_text().split("#")[0])
    with pytest.raises(DataError, match=r"E00001\.hea has no line #Dx"):
        CinC().read(CinC().records(tmp_path)[0])
