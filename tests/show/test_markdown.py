from tsadc.show.markdown import table


def test_names_cannot_break_a_table() -> None:
    assert table(["a", "b|c"], [["one\ntwo", "3"]]) == "| a | b\\|c |\n|---|---|\n| one two | 3 |"
