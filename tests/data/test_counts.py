from tsadc.data import ContaminationSpec, contaminate
from tsadc.data.counts import compare, compare_parts, reasons

KINDS = {f"m{i}": [()] * 6 + [("incident",), ("incident",)] for i in range(8)}


def test_what_was_prepared_next_to_the_paper(prepared_of):
    table = compare(prepared_of(KINDS)).set_index("")
    assert table.loc["observations"].tolist() == ["64", "2,316"]
    assert table.loc["anomalous"].tolist() == ["25.0%", "14.2%"]
    assert table.loc["variables K"].tolist() == ["2", "38"]
    assert table.loc["length L"].tolist() == ["4", "600"]
    assert table.loc["entities (machine)"].tolist() == ["8", "-"]
    assert table.loc["of kind incident"].tolist() == ["16", "-"]


def test_a_stand_in_has_no_counts_in_the_paper(prepared_of):
    prepared = prepared_of(KINDS, name="ludb")
    assert compare(prepared)["paper"].tolist() == ["-"] * 6
    assert reasons(prepared)[0] == "The paper does not use this data set."


def test_the_parts_drawn_next_to_the_paper(prepared_of):
    draw = contaminate(prepared_of(KINDS), ContaminationSpec(eta=0.25, train_size=20, validation_size=4))
    table = compare_parts(draw).set_index("part")
    assert table.loc["train"].tolist() == ["20", "25.0%", "1,624", "10.3%"]
    assert table.loc["validation"].tolist() == ["4", "25.0%", "276", "8.0%"]


def test_why_they_differ(prepared_of):
    prepared = prepared_of(KINDS)
    prepared.about.update(
        settings={"leave_out": ["machine-2-8"]}, left_out={"stage N1": 3, "none": 0}, skipped={"a": "b"}
    )
    told = reasons(prepared)
    assert told[0].startswith("SMD: 28 machines give 2,328 observations")
    assert told[1:] == [
        "8 of the 28 entities of the whole archive are here.",
        "Observations of 4 rows were requested; the usual length is 600.",
        "Left out on request: machine-2-8.",
        "Not used: stage N1 (3).",
        "Records that could not be read: 1.",
    ]
