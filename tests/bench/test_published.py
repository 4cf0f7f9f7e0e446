"""What others published beside ours. Figures of ours are means over seeds of the records made up here."""

import math
import tomllib

import pytest

from benchmark import failed, record
from tsadc.bench.published import Published, parse
from tsadc.bench.summary import summarise
from tsadc.errors import ConfigError
from tsadc.show.bench_published import compared, markdown

TEXT = """
source = "Somebody, Table 1"
differs = "Theirs is larger."
data = { A = "plant", B = ["ludb eta=0.2", "cinc"], C = "" }
metrics = { F1 = "auroc", FLOPs = "flops", style = "" }
[[methods]]
name = "Best"
ours = ["ridge", "random"]
A = [0.5, 2.3e9, 1]
B = [0.25, nan, 2]
C = [0.125, 7, 3]
[[methods]]
name = "Other"
A = [0.75, 1000, 4]
"""
WIDE = """
source = "x"
differs = "y"
data = { A = "plant", B = "", C = "" }
metrics = { F1 = "auroc" }
[[methods]]
name = "Best"
ours = "ridge"
A = [0.5]
C = [0.25]
[[methods]]
name = "Other"
ours = ["random", "pca"]
B = [0.75]
"""
RECORDS = [
    record("ridge", "plant", 0, 0.6, flops=2e6),
    record("ridge", "plant", 1, 0.8, flops=4e6),
    record("ridge", "ludb", 0, 0.9, split={"eta": 0.2}),
    record("ridge", "ludb", 0, 0.1, split={"eta": 0.1}),
    failed("random", "plant", 0),
]


def published(text: str = TEXT) -> Published:
    return parse(tomllib.loads(text))


def test_what_is_said_is_read() -> None:
    found = published()
    assert (found.source, found.differs) == ("Somebody, Table 1", "Theirs is larger.")
    assert found.data == {"A": ("plant",), "B": ("ludb eta=0.2", "cinc"), "C": ()}
    assert found.metrics == {"F1": "auroc", "FLOPs": "flops", "style": ""}
    best, other = found.methods
    assert (best.name, best.ours, other.ours) == ("Best", ("ridge", "random"), ())
    assert best.figures["A"] == (0.5, 2.3e9, 1.0)
    assert math.isnan(best.figures["B"][1])
    assert set(other.figures) == {"A"}


def test_each_figure_stands_beside_ours() -> None:
    head, body = compared(published("\n".join([TEXT, '[[methods]]\nname = "Third"'])), summarise(RECORDS))
    assert head == ["method", "ours", "A", "ours: plant", "B", "ours: ludb eta=0.2", "ours: cinc", "C"]
    theirs = ["0.500 / 2.3G / 1.000", "0.250 / - / 2.000", "0.125 / 7 / 3.000"]
    assert body == [
        ["Best", "ridge", theirs[0], "0.700 / 3M / -", theirs[1], "0.900 / - / -", "-", theirs[2]],
        ["Best", "random", theirs[0], "failed", theirs[1], "-", "-", theirs[2]],
        ["Other", "-", "0.750 / 1k / 4.000", "-", "-", "-", "-", "-"],
        ["Third", "-", "-", "-", "-", "-", "-", "-"],
    ]


def test_more_data_sets_than_rows_go_down() -> None:
    head, body = compared(published(WIDE), summarise(RECORDS))
    assert head == ["data", "ours", "Best", "ours: ridge", "Other", "ours: random", "ours: pca"]
    assert body == [
        ["A", "plant", "0.500", "0.700", "-", "failed", "-"],
        ["B", "-", "-", "-", "0.750", "-", "-"],
        ["C", "-", "0.250", "-", "-", "-", "-"],
    ]


def test_the_sentence_on_what_differs_follows_the_table() -> None:
    text = markdown(published(WIDE), [])
    lead, table, differs = text.split("\n\n")
    assert lead == "Published (x) beside ours: F1; ours are means over seeds of auroc."
    assert table.splitlines()[1:3] == ["|---|---|---|---|---|---|---|", "| A | plant | 0.500 | - | - | - | - |"]
    assert differs == "y"
    assert markdown(published('source = "a figure"\ndiffers = "No numbers."'), []) == "Published: a figure. No numbers."


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("source =", "sauce =", "There is no setting `published.sauce`; did you mean `published.source`"),
        ('"Somebody, Table 1"', '" "', "`published.source` must be a text that is not empty, but got ' '"),
        ('differs = "Theirs is larger."', "", "`published.differs` must be a text that is not empty, but got ''"),
        (
            '{ A = "plant", B = ["ludb eta=0.2", "cinc"], C = "" }',
            '"A"',
            "`published.data` must be a table of their names",
        ),
        ('A = "plant"', "A = 1", "`published.data.A` must be a name or a list of names, but got 1"),
        ('C = ""', 'ours = ""', "`published.data.ours` needs another name: `ours` is a key of every method"),
        ('F1 = "auroc"', 'F1 = ["auroc", "ap"]', "`published.metrics.F1` must be one metric of ours, but got"),
        ('name = "Best"', "", r"`published.methods\[0\].name` must be a text that is not empty"),
        ('name = "Other"', 'name = "Best"', "`published.methods` has two called 'Best'; give each a name of its own"),
        (
            "C = [0.125",
            "Cc = [0.125",
            r"`published.methods\[0\]` has a data set 'Cc' that published.data lacks; did you mean `C`",
        ),
        (
            "[0.125, 7, 3]",
            "[0.125, 7]",
            r"`published.methods\[0\].C` must be a list of 3 numbers, one for each of F1, FLOPs",
        ),
        ("[0.125, 7, 3]", "0.125", r"`published.methods\[0\].C` must be a list of 3 numbers"),
        ("[0.125, 7, 3]", "[true, 7, 3]", r"`published.methods\[0\].C` must be a list of 3 numbers"),
        ("[[methods]]\n", "[methods]\n", "`published.methods` must be tables, each under"),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, sentence: str) -> None:
    text = TEXT if old != "[[methods]]\n" else TEXT[: TEXT.rindex("[[methods]]")]
    assert old in text
    with pytest.raises(ConfigError, match=sentence):
        published(text.replace(old, new))


def test_it_is_a_table() -> None:
    with pytest.raises(ConfigError, match="`published` must be a table, but got 'x'"):
        parse("x")


@pytest.mark.parametrize(
    ("columns", "rows", "text", "sentence"),
    [
        (
            ["plant", "cinc"],
            ["ridge", "random"],
            TEXT,
            "`published.data.B` names 'ludb eta=0.2', but there is no such data",
        ),
        (
            ["plant", "ludb eta=0.2", "cinc"],
            ["ridge"],
            TEXT,
            r"`published.methods\[0\].ours` names 'random', but there is no",
        ),
        (
            ["plant", "ludb eta=0.2", "cinc"],
            ["ridge", "random"],
            TEXT.replace('"auroc"', '"aroc"'),
            "`published.metrics.F1` names 'aroc', but there is no such metric; did you mean `auroc`",
        ),
    ],
)
def test_what_of_ours_there_is_not_is_named(columns: list[str], rows: list[str], text: str, sentence: str) -> None:
    published().check(["plant", "ludb eta=0.2", "cinc"], ["ridge", "random"])
    with pytest.raises(ConfigError, match=sentence):
        published(text).check(columns, rows)
