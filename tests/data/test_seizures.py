import pytest

from tsadc.data.tusz import Event, annotation_files, read_events
from tsadc.errors import DataError

HEAD = "# version = csv_v1.0.0\n# bname = aaaaaaac_s001_t000\n# duration = 301.00 secs\n#\n"
COLUMNS = "channel,start_time,stop_time,label,confidence\n"


def events_of(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    return read_events(tmp_path / name)


def test_channels_of_one_seizure_are_one_event_with_their_electrodes(tmp_path):
    rows = "FP1-F7,0.0000,36.8868,bckg,1.0000\nFP1-F7,36.8868,112.0,cpsz,1.0\nF7-T3,38.0,120.5,cpsz,1.0\n"
    (event,) = events_of(tmp_path, "a.csv", HEAD + COLUMNS + rows)
    assert event == Event(36.8868, 120.5, "cpsz", frozenset({"FP1", "F7", "T3"}))
    assert event.kind == "focal"


def test_the_older_form(tmp_path):
    events = events_of(
        tmp_path,
        "a.tse",
        "version = tse_v1.0.0\n\n0.0000 10.2775 bckg 1.0000\n10.2775 35.7775 gnsz 1.0\n40.0 41.0 fnsz 1.0\n",
    )
    assert [(one.start, one.stop, one.kind) for one in events] == [(10.2775, 35.7775, "generalised"), (40, 41, "focal")]


def test_two_classes_leave_the_type_open(tmp_path):
    (event,) = events_of(tmp_path, "a.csv_bi", HEAD + COLUMNS + "TERM,42.2786,81.7760,seiz,1.0000\n")
    assert event == Event(42.2786, 81.776, "seiz")
    assert event.kind == "seizure"


def test_no_seizure_is_no_event(tmp_path):
    assert events_of(tmp_path, "a.csv", HEAD + COLUMNS + "TERM,0,301,bckg,1\n") == []


def test_the_most_telling_annotation_comes_first(tmp_path):
    for ending in (".tse_bi", ".csv_bi", ".tse"):
        (tmp_path / f"a{ending}").write_text("")
    assert [file.suffix for file in annotation_files(tmp_path / "a.edf")] == [".tse", ".csv_bi", ".tse_bi"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (COLUMNS + "TERM,ten,20,seiz,1\n", r"a\.csv is not an annotation of TUSZ: line 2"),
        (COLUMNS + "TERM,20,10,seiz,1\n", r"a\.csv is not an annotation of TUSZ: line 2"),
        (COLUMNS + "TERM,20,inf,seiz,1\n", r"a\.csv is not an annotation of TUSZ: line 2"),
        (COLUMNS + "TERM,20\n", r"a\.csv is not an annotation of TUSZ: line 2"),
        (HEAD + COLUMNS, r"a\.csv has no annotations;"),
    ],
)
def test_a_damaged_annotation_is_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        events_of(tmp_path, "a.csv", text)
