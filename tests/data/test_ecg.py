import numpy as np
import pytest

from tsadc.data import ecg
from tsadc.data.dataset import Span
from tsadc.errors import DataError
from tsadc.io.recording import Channel, Recording
from tsadc.io.wfdb_files import LEADS


def recording(names=LEADS, unit="mV", rate=500.0, rows=5000):
    signals = np.arange(len(names))[:, None] + np.zeros(rows)
    return Recording(
        tuple(Channel(name, unit, rate, signal) for name, signal in zip(names, signals, strict=True)),
        None,
        (),
        (),
        "x.hea",
    )


def test_leads_are_found_in_any_spelling_and_order():
    names = [lead.lower() for lead in reversed(LEADS)]
    values = ecg.twelve_leads(recording(names))
    assert values.shape == (1000, 12)
    np.testing.assert_allclose(values[500], np.arange(12)[::-1], atol=1e-9)


def test_microvolts_become_millivolts():
    np.testing.assert_allclose(ecg.twelve_leads(recording(unit="uV"))[500], np.arange(12) / 1000, atol=1e-9)


def test_missing_leads_and_unknown_units_are_named():
    with pytest.raises(DataError, match=r"x\.hea lacks lead V6; it has I, II"):
        ecg.twelve_leads(recording(LEADS[:-1]))
    with pytest.raises(DataError, match=r"x\.hea should have leads in uV, mV or V \(none: mV\), but I is in 'bpm'"):
        ecg.twelve_leads(recording(unit="bpm"))


@pytest.mark.parametrize(
    ("diagnoses", "kinds"),
    [
        (["normal"], ()),
        (["normal", "AF"], ("AF",)),
        (["RBBB", "AF"], ("AF", "RBBB")),
        (["STD", "STE"], ("STE",)),
        (["STD"], None),
        (["normal", "427084000"], None),
        ([], None),
    ],
)
def test_the_rule_for_several_diagnoses(diagnoses, kinds):
    assert ecg.anomaly_kinds(diagnoses) == kinds


def test_longer_records_are_cut_and_shorter_ones_padded_as_not_observed():
    long = np.arange(24.0).reshape(12, 2)
    np.testing.assert_array_equal(ecg.fit_length(long, 10), long[:10])
    padded = ecg.fit_length(long, 15)
    np.testing.assert_array_equal(padded[:12], long)
    assert np.isnan(padded[12:]).all()


def test_an_anomaly_ends_where_the_record_does():
    (piece,) = ecg.extract(np.zeros((7, 12)), ["AF"], 10).pieces
    assert piece.spans == (Span(0, 7, "AF"),)


def test_what_is_left_out_is_counted_by_diagnosis():
    assert dict(ecg.extract(np.zeros((7, 12)), ["normal", "STD", "123"], 10).left_out) == {
        "only STD and other findings": 1
    }


def test_a_record_without_diagnosis_is_counted_as_such():
    assert dict(ecg.extract(np.zeros((7, 12)), [], 10).left_out) == {"no diagnosis": 1}


def test_codes_without_a_name_stay_codes():
    assert ecg.snomed_diagnoses(ecg.split_entries("426783006, 1234,164884008")) == ["normal", "1234", "PVC"]


def test_an_incomplete_block_has_a_code_of_its_own():
    assert ecg.anomaly_kinds(ecg.snomed_diagnoses(["713426002"])) is None
    assert ecg.anomaly_kinds(ecg.snomed_diagnoses(["713427006"])) == ("RBBB",)
