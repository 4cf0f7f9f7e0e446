from pathlib import Path

import pytest

from tsadc.errors import DataError
from tsadc.show.markdown import insert, table

BEGIN, END = "<!-- quality: begin -->", "<!-- quality: end -->"


def test_names_cannot_break_a_table() -> None:
    assert table(["a", "b|c"], [["one\ntwo", "3"]]) == "| a | b\\|c |\n|---|---|\n| one two | 3 |"


def test_tables_go_between_the_markers(tmp_path: Path) -> None:
    document = tmp_path / "results.md"
    document.write_text(f"# Results\n\n{BEGIN}\nold\n{END}\n\nThe end.\n")
    for text in ("| a |", "| b |"):
        insert(document, text)
        assert document.read_text() == f"# Results\n\n{BEGIN}\n\n{text}\n\n{END}\n\nThe end.\n"
    assert [file.name for file in tmp_path.iterdir()] == ["results.md"]


def test_a_document_without_markers_gets_them_at_its_end(tmp_path: Path) -> None:
    document = tmp_path / "results.md"
    document.write_text("# Results\n")
    insert(document, "| a |")
    assert document.read_text() == f"# Results\n\n{BEGIN}\n\n| a |\n\n{END}\n"
    document.write_text(f"# Results\n{BEGIN}\n")
    with pytest.raises(DataError, match="without <!-- quality: end --> after it"):
        insert(document, "| a |")


def test_a_missing_document_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"There is no file .*reslts\.md to put the table into; correct the name"):
        insert(tmp_path / "reslts.md", "| a |")
    with pytest.raises(DataError, match="is a folder, but a file is needed to put the table into"):
        insert(tmp_path, "| a |")
    assert list(tmp_path.iterdir()) == []
