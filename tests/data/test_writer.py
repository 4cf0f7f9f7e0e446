import json

import numpy as np
import pytest

from tsadc.atomic import new_folder
from tsadc.data.dataset import Piece, Span
from tsadc.data.prepared import Writer, load
from tsadc.errors import DataError
from tsadc.series import Truth


def write(out, pieces):
    with new_folder(out) as folder:
        writer = Writer(folder, 4, ("a",))
        for record, piece in pieces:
            writer.add("e", record, piece)
        writer.finish({"name": "smd", "variables": ["a"], "length": 4})
    return load(out)


def piece(start, *spans, part=""):
    return Piece(np.zeros((4, 1)), start, spans, part)


def test_what_goes_on_over_a_border_is_one_anomaly(tmp_path):
    first, second = Span(2, 4, "drift", ("a",)), Span(0, 3, "drift", ("a",))
    joined = write(tmp_path / "joined", [("r", piece(0, first)), ("r", piece(4, second))])
    assert joined.truth["e"] == (Truth("e", 2, 7, "drift", ("a",)),)


@pytest.mark.parametrize("second", [("r", piece(8, Span(0, 3, "drift"))), ("s", piece(4, Span(0, 3, "drift")))])
def test_observations_that_do_not_follow_each_other_keep_their_own(tmp_path, second):
    apart = write(tmp_path / "apart", [("r", piece(0, Span(2, 4, "drift"))), second])
    assert [(one.start, one.stop) for one in apart.truth["e"]] == [(2, 4), (4, 7)]


def test_missing_values_stay_missing(tmp_path):
    values = np.array([[1.0], [np.nan], [3.0], [4.0]])
    prepared = write(tmp_path / "out", [("r", Piece(values))])
    np.testing.assert_array_equal(prepared.values("e")[0], values.astype(np.float32))


def test_counts_and_hashes_are_written(tmp_path):
    prepared = write(tmp_path / "out", [("r", piece(0)), ("r", piece(4, Span(0, 1, "drift")))])
    about = json.loads((tmp_path / "out" / "about.json").read_text())
    content = {"observations": 2, "anomalous": 1, "content": prepared.fingerprint("e")}
    assert about["entities"] == {"e": content}


def test_a_wrong_shape_names_the_record(tmp_path):
    with pytest.raises(DataError, match=r"rec-7 should have shape \(4, 1\), but has \(3, 1\)"):
        write(tmp_path / "out", [("rec-7", Piece(np.zeros((3, 1))))])


@pytest.mark.parametrize("entity", ["", "..", "../out", "a/b", "a\\b"])
def test_an_entity_that_leads_elsewhere_is_refused(tmp_path, entity):
    writer = Writer(tmp_path, 4, ("a",))
    with pytest.raises(DataError, match="The record r names an entity"):
        writer.add(entity, "r", piece(0))
    assert list(tmp_path.rglob("*")) == [tmp_path / "observations"]


def test_the_least_covered_observation_is_noted(tmp_path):
    values = np.array([[1.0], [np.nan], [np.nan], [np.nan]])
    assert write(tmp_path / "out", [("r", piece(0)), ("r", Piece(values, 4))]).about["coverage"] == 0.25
