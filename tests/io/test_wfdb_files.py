import shutil
import warnings
import zlib
from collections.abc import Iterator
from datetime import date, datetime, time
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.read import read
from tsadc.io.reading import Reading
from tsadc.io.recording import read_recording
from tsadc.io.wfdb_files import LEADS, read_mat, read_wfdb

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    wfdb = pytest.importorskip("wfdb")

CHANNELS = ("I", "II")


def write(folder: Path, values: np.ndarray, **options: object) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wfdb.wrsamp(
            "one",
            fs=500,
            units=["mV"] * 2,
            sig_name=list(CHANNELS),
            p_signal=values,
            fmt=["16"] * 2,
            adc_gain=[1000.0, 200.0],
            baseline=[0, 12],
            comments=["Age: 74", "Sex: Male", "Dx: 59118001"],
            write_dir=str(folder),
            **options,
        )
    return folder / "one.hea"


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(400, 2))


def decode(path: Path) -> np.ndarray:
    """Format 16 by hand: gain, baseline and offset from the header, numbers of two bytes interleaved."""
    lines = path.read_text().splitlines()
    count = int(lines[0].split()[1])
    signals = [line.split() for line in lines[1 : count + 1]]
    offset = int(signals[0][1].partition("+")[2] or 0)
    raw = np.frombuffer((path.parent / signals[0][0]).read_bytes()[offset:], "<i2").reshape(-1, count).astype(float)
    gains = [signal[2].partition("/")[0] for signal in signals]
    gain = np.array([float(one.partition("(")[0]) for one in gains])
    baseline = [
        float(one.partition("(")[2].rstrip(")") or signal[4]) for one, signal in zip(gains, signals, strict=True)
    ]
    return (raw - baseline) / gain


def test_signals_in_physical_units_with_their_comments(tmp_path: Path, values: np.ndarray) -> None:
    path = write(tmp_path, values)
    recording = read_wfdb(path)
    assert recording.names == CHANNELS
    assert [(channel.unit, channel.rate) for channel in recording.channels] == [("mV", 500.0)] * 2
    read = np.column_stack([channel.values for channel in recording.channels])
    np.testing.assert_allclose(read, decode(path), rtol=1e-12)
    np.testing.assert_allclose(read, values, atol=0.0026)
    assert recording.comments == ("Age: 74", "Sex: Male", "Dx: 59118001")
    assert recording.fields["dx"] == "59118001"
    assert recording.start is None


def test_invalid_samples_are_unmeasured(tmp_path: Path, values: np.ndarray) -> None:
    values[10:20, 1] = np.nan
    read = read_wfdb(write(tmp_path, values)).to_series("one").values
    np.testing.assert_array_equal(np.isnan(read), np.isnan(values))


def test_a_start_with_a_date(tmp_path: Path, values: np.ndarray) -> None:
    path = write(tmp_path, values, base_date=date(2151, 8, 7), base_time=time(19, 26, 3))
    assert read_wfdb(path).start == datetime(2151, 8, 7, 19, 26, 3)


def test_several_samples_in_a_frame_are_another_rate(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    fast, slow = generator.integers(-999, 999, 400), generator.integers(-999, 999, 100)
    frames = np.column_stack([fast.reshape(100, 4), slow]).astype("<i2")
    (tmp_path / "mixed.dat").write_bytes(frames.tobytes())
    (tmp_path / "mixed.hea").write_text(
        "mixed 2 125 100\nmixed.dat 16x4 200/mV 16 0 0 0 0 ECG\nmixed.dat 16 10/mmHg 16 0 0 0 0 ABP\n"
    )
    ecg, pressure = read_wfdb(tmp_path / "mixed.hea").channels
    assert (ecg.rate, pressure.rate) == (500.0, 125.0)
    np.testing.assert_allclose(ecg.values, fast / 200)
    np.testing.assert_allclose(pressure.values, slow / 10)


def test_segments_with_a_gap_between_them(tmp_path: Path) -> None:
    raw = np.arange(1, 61, dtype="<i2").reshape(30, 2)
    for name, rows in (("first", raw[:10]), ("second", raw[10:])):
        (tmp_path / f"{name}.dat").write_bytes(rows.tobytes())
        signals = "".join(f"{name}.dat 16 10/mV 16 0 0 0 0 {lead}\n" for lead in CHANNELS)
        (tmp_path / f"{name}.hea").write_text(f"{name} 2 100 {len(rows)}\n{signals}")
    (tmp_path / "layout.hea").write_text("layout 2 100 0\n~ 0 10/mV 0 0 0 0 0 I\n~ 0 10/mV 0 0 0 0 0 II\n")
    (tmp_path / "whole.hea").write_text("whole/4 2 100 35\nlayout 0\nfirst 10\n~ 5\nsecond 20\n")
    values = read_wfdb(tmp_path / "whole.hea").to_series("whole").values
    np.testing.assert_allclose(values, np.vstack([raw[:10] / 10, np.full((5, 2), np.nan), raw[10:] / 10]))
    (tmp_path / "second.hea").unlink()
    with pytest.raises(DataError, match=r"whole\.hea needs .*second\.hea, which does not exist"):
        read_wfdb(tmp_path / "whole.hea")


def test_a_header_without_its_signals(tmp_path: Path, values: np.ndarray) -> None:
    path = write(tmp_path, values)
    (tmp_path / "one.dat").unlink()
    with pytest.raises(DataError, match=r"one\.hea describes the signals in one\.dat, but that file is not beside it"):
        read_recording(path)


@pytest.mark.parametrize("held", [0, 1, 801, 1596, 1599])
def test_a_truncated_signal_file(tmp_path: Path, values: np.ndarray, held: int) -> None:
    path = write(tmp_path, values)
    (tmp_path / "one.dat").write_bytes((tmp_path / "one.dat").read_bytes()[:held])
    with pytest.raises(DataError, match=r"one\.dat is damaged, or has fewer than the 400 samples that its header"):
        read_wfdb(path)


@pytest.mark.parametrize("text", ["", "garbage\n", "\0\1", "one 2 500 400\none.dat 16 x\n", "one 2 x 400\n"])
def test_a_damaged_header(tmp_path: Path, text: str) -> None:
    (tmp_path / "one.hea").write_text(text)
    with pytest.raises(DataError, match=r"one\.hea is not a readable WFDB header"):
        read_wfdb(tmp_path / "one.hea")


def test_a_header_without_signals(tmp_path: Path) -> None:
    (tmp_path / "one.hea").write_text("one 0 500 400\n")
    with pytest.raises(DataError, match=r"one\.hea lists no signals"):
        read_wfdb(tmp_path / "one.hea")


def test_a_struct_of_the_original_cpsc2018(tmp_path: Path) -> None:
    data = np.random.default_rng(2).normal(size=(12, 700))
    savemat(tmp_path / "A1.mat", {"ECG": {"sex": "Female", "age": 49, "data": data}})
    recording = read_recording(tmp_path / "A1.mat")
    assert recording.names == LEADS
    assert recording.fields == {"age": "49", "sex": "Female"}
    series = recording.to_series("A1", rate=100)
    assert series.values.shape == (140, 12)
    np.testing.assert_array_equal(recording.to_series("A1").values, data.T)


def test_mat_files_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "A1.mat"
    savemat(path, {"val": np.zeros((12, 50))})
    with pytest.raises(DataError, match=r"A1\.mat holds the signals of a WFDB record, but its header A1\.hea is not"):
        read_mat(path)
    savemat(path, {"other": 1})
    with pytest.raises(DataError, match=r"A1\.mat should hold a struct `ECG` with the field `data`"):
        read_mat(path)
    savemat(path, {"ECG": {"data": np.zeros((3, 50))}})
    with pytest.raises(DataError, match=r"12 leads by time in `ECG\.data`, but its shape is \(3, 50\)"):
        read_mat(path)
    savemat(path, {"ECG": {"data": np.ones((12, 50))}}, do_compression=True)
    whole = path.read_bytes()
    for content in (b"", b"text" * 100, whole[: len(whole) // 2], whole[:-20]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"A1\.mat is not a readable MAT file|A1\.mat should hold a struct"):
            read_mat(path)


def test_matlab_7_3_is_sent_elsewhere(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "A1.mat", "w", userblock_size=512) as file:
        file["ECG"] = np.zeros(3)
    content = bytearray((tmp_path / "A1.mat").read_bytes())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "A1.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"A1\.mat is a MATLAB 7\.3 file, which is HDF5"):
        read_mat(tmp_path / "A1.mat")


REAL = ["wfdb_cpsc2018_cinc/A0001", "wfdb_cinc_other/HR00001", "wfdb_ludb/1", "wfdb_ptbxl_100hz/00001_lr"]


@pytest.mark.parametrize("name", REAL)
def test_real_records_decoded_by_hand(shared_data: Path, name: str) -> None:
    path = shared_data.parent / "native" / f"{name}.hea"
    recording = read_wfdb(path)
    assert [lead.upper() for lead in recording.names] == [lead.upper() for lead in LEADS]
    np.testing.assert_allclose(recording.to_series("x").values, decode(path), rtol=1e-12)


def test_both_header_styles_of_a_real_record(shared_data: Path, tmp_path: Path) -> None:
    native = shared_data.parent / "native"
    codes = read_mat(native / "wfdb_cpsc2018_cinc" / "A0002.mat")
    assert codes.fields["dx"] == "426783006"
    assert (codes.fields["age"], codes.fields["sex"]) == ("49", "Female")
    with pytest.raises(DataError, match=r"A0002\.hea describes the signals in A0002\.mat, but that file is not"):
        read_wfdb(native / "wfdb_cpsc2018_oldheader" / "A0002.hea")
    shutil.copyfile(native / "wfdb_cpsc2018_oldheader" / "A0002.hea", tmp_path / "A0002.hea")
    shutil.copyfile(native / "wfdb_cpsc2018_cinc" / "A0002.mat", tmp_path / "A0002.mat")
    text = read_wfdb(tmp_path / "A0002.hea")
    assert text.fields["dx"] == "Normal"
    np.testing.assert_array_equal(text.to_series("x").values, codes.to_series("x").values)


@pytest.mark.parametrize(("name", "length", "age"), [("A1982", 5000, "89"), ("A1983", 7500, "49")])
def test_real_structs_decompressed_by_hand(shared_data: Path, name: str, length: int, age: str) -> None:
    path = shared_data.parent / "native" / "cpsc2018_original_mat" / f"{name}.mat"
    recording = read_mat(path)
    # One compressed element after the 128 bytes of the file's header and the 8 of its own; `data` is its last field.
    content = zlib.decompress(path.read_bytes()[136:])
    expected = np.frombuffer(content[-8 * 12 * length :], "<f8").reshape(length, 12)
    np.testing.assert_array_equal(recording.to_series("x").values, expected)
    assert recording.fields == {"age": age, "sex": "Male"}


def mutants(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield content[:256] + b"\xff\xff" + content[258:]  # scipy ends the process on this one
    generator = np.random.default_rng(0)
    for _ in range(1500):
        damaged = bytearray(content)
        for _ in range(generator.integers(1, 4)):
            damaged[generator.integers(128, min(420, len(content)))] = generator.choice(
                [0, 1, 255, generator.integers(256)]
            )
        yield bytes(damaged[: generator.integers(100, len(damaged))] if generator.random() < 0.2 else damaged)


@pytest.mark.parametrize("packed", [False, True])
def test_damaged_mat_files_are_refused_or_read(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "A1.mat"
    savemat(path, {"ECG": {"sex": "Female", "age": 49, "data": np.ones((12, 50))}}, do_compression=packed)
    refusals = []
    for content in list(mutants(path)):
        path.write_bytes(content)
        try:
            assert len(read_mat(path).channels) == 12
        except DataError as error:
            refusals.append(str(error))
    assert 500 < len(refusals) < 1501
    assert all(refusal.startswith(f"{path}") and refusal.endswith(".") for refusal in refusals)


def test_skip_bad_survives_a_damaged_mat_file(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        savemat(tmp_path / f"{name}.mat", {"ECG": {"sex": "Male", "age": 7, "data": np.ones((12, 50))}})
    (tmp_path / "bad.mat").write_bytes(next(mutants(tmp_path / "bad.mat")))
    with pytest.warns(TsadcNotice, match=r"1 left out: .*bad\.mat is not a readable MAT file: .+\.$"):
        (series,) = read(tmp_path, Reading(skip_bad=True))
    assert series.entity == "good"


def test_a_mat_file_that_unpacks_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savemat(tmp_path / "A1.mat", {"ECG": {"data": np.ones((12, 10_000))}}, do_compression=True)
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 1_000_000)
    with pytest.raises(DataError, match=r"A1\.mat, unpacked, needs 1\.9 MB of memory or more"):
        read_mat(tmp_path / "A1.mat")


def test_a_header_that_promises_more_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.hea").write_text("one 1 500 4000000000\n~ 0 1000/mV 16 0 0 0 0 I\n")
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 10**10)
    with pytest.raises(DataError, match=r"one\.hea needs 96\.0 GB of memory or more"):
        read_wfdb(tmp_path / "one.hea")
