from pathlib import Path

import numpy as np
import pytest

from tsadc.data.catalogue import CATALOGUE
from tsadc.data.dataset import PaperCounts, Record, Share, cut, files_under, unique
from tsadc.errors import DataError


def test_whole_pieces_only():
    values = np.arange(11)[:, None]
    assert [(start, piece[:, 0].tolist()) for start, piece in cut(values, 4)] == [(0, [0, 1, 2, 3]), (4, [4, 5, 6, 7])]
    assert cut(values, 12) == []


def test_the_total_of_the_paper_weights_its_parts():
    total = PaperCounts(Share(10, 0.1), Share(10, 0.3), Share(20, 0.5)).total
    assert total.observations == 40
    assert total.ratio == pytest.approx((1 + 3 + 10) / 40)


def test_files_are_sorted_and_hidden_ones_passed_over(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/one.edf", "a.edf", ".hidden.edf", "c.txt"):
        (tmp_path / name).write_text("")
    assert [file.name for file in files_under(tmp_path, "*.edf")] == ["a.edf", "one.edf"]
    with pytest.raises(DataError, match=r"a\.edf is a file, but the folder that holds it was expected"):
        files_under(tmp_path / "a.edf", "*")
    with pytest.raises(DataError, match="There is no folder"):
        files_under(tmp_path / "d", "*")


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_card_is_complete(name):
    card = CATALOGUE[name].card
    assert card.name == name
    assert all([card.title, card.licence, card.obtain, card.size, card.layout, card.normal, card.kinds])
    assert len(set(card.variables)) == len(card.variables)
    assert card.paper is None or card.differs


def test_the_paper_s_shapes():
    shapes = {name: (len(CATALOGUE[name].card.variables), CATALOGUE[name].card.length) for name in CATALOGUE}
    assert [shapes[name] for name in ("smd", "icbeb", "dodh", "tusz")] == [
        (38, 600),
        (12, 6000),
        (16, 7500),
        (19, 12000),
    ]


def test_records_of_one_name_are_refused():
    records = [Record("a", name, (Path(folder, f"{name}.edf"),)) for folder, name in (("x", "one"), ("y", "two"))]
    assert unique(records) == records
    again = Record("a", "one", (Path("z", "one.edf"),))
    with pytest.raises(DataError, match=r"z.one\.edf and x.one\.edf are records of the same name; keep one of them\."):
        unique([*records, again])
