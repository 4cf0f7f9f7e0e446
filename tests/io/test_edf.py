from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.edf import read_edf
from tsadc.io.recording import Annotation, read_recording

edfio = pytest.importorskip("edfio")

ROWS = np.random.default_rng(0).integers(-2048, 2048, size=(4, 50)).astype("<i2")  # records of 50 samples
SLOW = np.arange(4).reshape(4, 1).astype("<i2")
FIELDS = (16, 80, 8, 8, 8, 8, 8, 80, 8, 32)
EEG = ("EEG Fpz-Cz", "", "uV", "-192", "192", "-2048", "2047", "HP:0.5Hz")
TEMPERATURE = ("Temp rectal", "", "DegC", "34", "40", "-2849", "2731", "")
NOTES = ("EDF Annotations", "", "", "-1", "1", "-32768", "32767", "")


def write(
    path: Path,
    signals: list[tuple[tuple[str, ...], np.ndarray]],
    *,
    kind: str = "",
    start: str = "24.04.8916.13.00",
    recording: str = "Startdate 24-APR-1989 X X X",
    records: int | None = None,
    duration: str = "0.5",
    tail: bytes = b"",
) -> Path:
    """An EDF file byte by byte, after its specification."""
    count = len(signals)
    promised = len(signals[0][1]) if records is None else records
    head = f"{'0':8}{'X F X Female_33yr':80}{recording:80}{start}{256 * (count + 1):<8}{kind:44}{promised:<8}"
    head += f"{duration:8}{count:<4}"
    columns = [(*fields, str(rows.shape[1]), "") for fields, rows in signals]
    head += "".join(f"{column[i]:{width}}" for i, width in enumerate(FIELDS) for column in columns)
    body = b"".join(rows[i].tobytes() for i in range(len(signals[0][1])) for _, rows in signals)
    path.write_bytes(head.encode("latin-1") + body + tail)
    return path


def notes(*records: bytes) -> np.ndarray:
    """A signal of annotations: 30 samples in each record."""
    return np.frombuffer(b"".join(one.ljust(60, b"\0") for one in records), "<i2").reshape(len(records), 30)


def physical(rows: np.ndarray, fields: tuple[str, ...]) -> np.ndarray:
    low, high, first, last = map(float, fields[3:7])
    return low + (rows.astype(float) - first) * (high - low) / (last - first)


def decode(path: Path) -> dict[int, np.ndarray]:
    """The signals of a plain file, by hand."""
    content = path.read_bytes()
    count, records = int(content[252:256]), int(content[236:244])
    table, at = [], 256
    for width in FIELDS:
        table.append([content[at + width * i :][:width].decode().strip() for i in range(count)])
        at += width * count
    each = [int(samples) for samples in table[8]]
    body = np.frombuffer(content[at:][: 2 * records * sum(each)], "<i2").reshape(records, -1)
    parts = np.split(body, np.cumsum(each)[:-1], axis=1)
    columns = list(zip(*table, strict=True))
    return {i: physical(parts[i].ravel(), columns[i]) for i in range(count) if table[0][i] != "EDF Annotations"}


def test_signals_at_their_own_rates_in_physical_units(tmp_path: Path) -> None:
    recording = read_edf(write(tmp_path / "night.edf", [(EEG, ROWS), (TEMPERATURE, SLOW)]))
    eeg, temperature = recording.channels
    assert (eeg.name, eeg.unit, eeg.rate) == ("EEG Fpz-Cz", "uV", 100.0)
    assert (temperature.name, temperature.unit, temperature.rate) == ("Temp rectal", "DegC", 2.0)
    np.testing.assert_allclose(eeg.values, physical(ROWS.ravel(), EEG), rtol=0, atol=1e-10)
    np.testing.assert_allclose(temperature.values, physical(SLOW.ravel(), TEMPERATURE), rtol=1e-12)
    assert recording.start == datetime(1989, 4, 24, 16, 13)
    assert recording.fields["patient"] == "X F X Female_33yr"
    assert recording.to_series("night").values.shape == (200, 2)


def test_what_edfio_writes(tmp_path: Path) -> None:
    values = np.sin(np.arange(1000) / 10)
    signal = edfio.EdfSignal(values, 100, label="EEG", physical_dimension="uV", physical_range=(-2, 2))
    told = [edfio.EdfAnnotation(1.5, 3, "seizure"), edfio.EdfAnnotation(0.25, None, "blink")]
    edfio.Edf([signal], annotations=told).write(tmp_path / "one.edf")
    recording = read_recording(tmp_path / "one.edf")
    np.testing.assert_allclose(recording.channels[0].values, values, atol=4 / 2**16)
    assert recording.annotations == (Annotation(0.25, 0.0, "blink"), Annotation(1.5, 3.0, "seizure"))
    assert recording.start == datetime(1985, 1, 1)


@pytest.mark.parametrize(
    ("start", "recording", "expected"),
    [
        ("01.01.8523.10.07", "Startdate X X X X", datetime(1985, 1, 1, 23, 10, 7)),
        ("05.06.2123.10.07", "Startdate X X X X", datetime(2021, 6, 5, 23, 10, 7)),
        ("00.00.0023.10.07", "", datetime(1985, 1, 1, 23, 10, 7)),
        ("06.11.7611.42.54", "Startdate 06-NOV-2076 X X X", datetime(2076, 11, 6, 11, 42, 54)),
        ("06.11.84??.??.??", "", None),
    ],
)
def test_an_anonymised_start_is_still_a_clock(
    tmp_path: Path, start: str, recording: str, expected: datetime | None
) -> None:
    path = write(tmp_path / "night.edf", [(EEG, ROWS)], start=start, recording=recording)
    assert read_edf(path).start == expected


def test_gaps_between_records_are_unmeasured(tmp_path: Path) -> None:
    told = notes(b"+10\x14\x14\0", b"+10.5\x14\x14\0", b"+12.1\x14\x14\0+12.2\x151\x14jump\x14\0", b"+12.6\x14\x14\0")
    path = write(tmp_path / "night.edf", [(EEG, ROWS), (NOTES, told)], kind="EDF+D")
    recording = read_edf(path)
    expected = np.full(310, np.nan)
    for onset, rows in zip((0, 50, 210, 260), ROWS, strict=True):
        expected[onset : onset + 50] = physical(rows, EEG)
    np.testing.assert_allclose(recording.channels[0].values, expected, atol=1e-10)
    assert recording.start == datetime(1989, 4, 24, 16, 13, 10)
    assert recording.annotations == (Annotation(2.2, 1.0, "jump"),)


@pytest.mark.parametrize(
    ("onsets", "message"),
    [
        ((b"+0", b"+0.5", b"+0.7", b"+2"), "missing or overlap"),
        ((b"+0", b"+0.5", b"", b"+2"), "missing or overlap"),
        ((b"+0", b"+0.5", b"+1", b"+90000"), "gaps of 89999 s"),
    ],
)
def test_impossible_gaps_are_refused(tmp_path: Path, onsets: tuple[bytes, ...], message: str) -> None:
    told = notes(*(onset + b"\x14\x14\0" if onset else b"" for onset in onsets))
    with pytest.raises(DataError, match=message):
        read_edf(write(tmp_path / "night.edf", [(EEG, ROWS), (NOTES, told)], kind="EDF+D"))
    with pytest.raises(DataError, match="has no annotations with their times"):
        read_edf(write(tmp_path / "night.edf", [(EEG, ROWS)], kind="EDF+D"))


@pytest.mark.parametrize(("lost", "held"), [(1, "3 and a part"), (100, "3"), (150, "2 and a part")])
def test_a_truncated_file_is_refused(tmp_path: Path, lost: int, held: str) -> None:
    path = write(tmp_path / "night.edf", [(EEG, ROWS)])
    path.write_bytes(path.read_bytes()[:-lost])
    message = rf"night\.edf is truncated: its header promises 4 records of 100 bytes, but it holds {held};"
    with pytest.raises(DataError, match=message):
        read_edf(path)


@pytest.mark.parametrize(("tail", "count"), [(b"\n", 1), (bytes(100), 100), (bytes(230), 230)])
def test_stray_bytes_at_the_end_are_left_out_with_a_notice(tmp_path: Path, tail: bytes, count: int) -> None:
    path = write(tmp_path / "night.edf", [(EEG, ROWS)], tail=tail)
    with pytest.warns(TsadcNotice, match=rf"night\.edf has {count} byte\(s\) after the last record"):
        values = read_edf(path).channels[0].values
    np.testing.assert_allclose(values, physical(ROWS.ravel(), EEG), atol=1e-10)


def test_an_unknown_number_of_records_is_counted(tmp_path: Path) -> None:
    assert len(read_edf(write(tmp_path / "night.edf", [(EEG, ROWS)], records=-1)).channels[0].values) == 200


def test_files_that_are_not_edf(tmp_path: Path) -> None:
    path = tmp_path / "night.edf"
    write(path, [(EEG, ROWS)])
    whole = path.read_bytes()
    for content in (b"", b"hello", bytes(1000), whole[:200], whole[:300], b"x" * 5000):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"night\.edf is not an EDF file, or its header is damaged"):
            read_edf(path)
    path.write_bytes(whole[:512].replace(f"{4:<8}0.5".encode(), f"{0:<8}0.5".encode()))
    with pytest.raises(DataError, match=r"night\.edf has a header but no data"):
        read_edf(path)
    with pytest.raises(DataError, match="its header is damaged"):
        read_edf(write(path, [(EEG, ROWS)], duration="0"))
    broken = (*EEG[:3], "low", *EEG[4:])
    with pytest.raises(DataError, match=r"night\.edf is not a readable EDF file"):
        read_edf(write(path, [(broken, ROWS)]))


def test_repeated_labels_empty_ranges_and_unreadable_notes(tmp_path: Path) -> None:
    empty = (*EEG[:3], "0", "0", *EEG[5:])
    recording = write(tmp_path / "a.edf", [(EEG, ROWS), (empty, ROWS)])
    with pytest.warns(TsadcNotice, match="the range of channel 'EEG Fpz-Cz' is empty, so its raw numbers were used"):
        channels = read_edf(recording).channels
    assert [channel.name for channel in channels] == ["EEG Fpz-Cz", "EEG Fpz-Cz (2)"]
    np.testing.assert_array_equal(channels[1].values, ROWS.ravel())
    told = notes(*(b"+%d\x14\x14\0+0\x14caf\xe9\x14\0" % i for i in range(4)))
    with pytest.warns(TsadcNotice, match=r"b\.edf: its annotations cannot be read and were left out"):
        assert read_edf(write(tmp_path / "b.edf", [(EEG, ROWS), (NOTES, told)], kind="EDF+C")).annotations == ()
    silent = write(tmp_path / "c.edf", [(EEG, ROWS), (NOTES, notes(b"", b"", b"", b""))], kind="EDF+C")
    assert read_edf(silent).annotations == ()
    assert read_edf(silent).start == datetime(1989, 4, 24, 16, 13)


def test_a_real_night(shared_data: Path) -> None:
    folder = shared_data.parent / "native" / "sleepedf"
    path = folder / "SC4001E0-PSG_crop_epoch999_1039.edf"
    recording = read_edf(path)
    assert recording.names[:2] == ("EEG Fpz-Cz", "EEG Pz-Oz")
    assert [channel.rate for channel in recording.channels] == [100.0] * 3 + [1.0] * 4
    for i, expected in decode(path).items():
        np.testing.assert_allclose(recording.channels[i].values, expected, rtol=1e-9, atol=1e-9)
    series = recording.to_series("SC4001")
    assert series.values.shape == (40 * 3000, 7)
    np.testing.assert_allclose(series.values[::100, 5], recording.channels[5].values, rtol=1e-12)
    assert series.clock.at([3000])[0].isoformat() == "1989-04-24T16:13:30"


def test_the_stages_of_a_real_night(shared_data: Path) -> None:
    recording = read_edf(shared_data.parent / "native" / "sleepedf" / "SC4001EC-Hypnogram.edf")
    assert recording.channels == ()
    assert recording.annotations[0] == Annotation(0.0, 30630.0, "Sleep stage W")
    stages = {"W", "R", "1", "2", "3", "4", "?"}
    assert {note.text for note in recording.annotations} == {f"Sleep stage {stage}" for stage in stages}
    ends = [note.onset + note.duration for note in recording.annotations]
    assert ends[:-1] == [note.onset for note in recording.annotations[1:]]


@pytest.mark.parametrize(("name", "channels", "rate"), [("PN00-5_sample", 35, 512.0), ("chb01_01_sample", 23, 256.0)])
def test_montages_of_real_files(shared_data: Path, name: str, channels: int, rate: float) -> None:
    path = shared_data.parent / "native" / "edf_format_random_signal" / f"{name}.edf"
    recording = read_edf(path)
    assert len(set(recording.names)) == channels
    assert {channel.rate for channel in recording.channels} == {rate}
    for i, expected in enumerate(decode(path).values()):
        np.testing.assert_allclose(recording.channels[i].values, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("duration", "rate"), [("1e300", "5e-299"), ("1e-300", r"5e\+301"), ("1e-320", "inf|.*")])
def test_an_impossible_duration_is_refused(tmp_path: Path, duration: str, rate: str) -> None:
    path = write(tmp_path / "a.edf", [(EEG, ROWS)], duration=duration)
    with pytest.raises(DataError, match=rf"a\.edf (states a sampling rate of {rate} Hz|is not a readable EDF file)"):
        read_recording(path).to_series("a")


def test_rates_that_differ_beyond_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.edf", [(EEG, ROWS), (TEMPERATURE, SLOW)])
    recording = read_recording(path)
    monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 9599)
    with pytest.raises(DataError, match=r"a\.edf, resampled, needs 9\.6 kB of memory or more"):
        recording.to_series("a")
