import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tsadc.config import (
    build,
    build_sections,
    merge,
    nearest,
    parse_assignments,
    parse_json,
    read_toml,
    refuse_unknown_settings,
    require,
    to_mapping,
    update,
)
from tsadc.errors import ConfigError


@dataclass(frozen=True)
class Leaf:
    rate: float = 0.1
    kind: Literal["fast", "slow"] = "fast"
    limit: int | None = None

    def __post_init__(self) -> None:
        require(self.rate > 0, "rate", "above 0", self.rate)


@dataclass(frozen=True)
class Branch:
    leaf: Leaf = field(default_factory=Leaf)
    widths: tuple[int, ...] = (1, 2)
    pair: tuple[int, float] = (1, 0.5)


@dataclass(frozen=True)
class Tree:
    branch: Branch = field(default_factory=Branch)
    length: int = 600
    quiet: bool = False
    title: str = "tree"
    either: int | str = 0
    several: Literal["all"] | tuple[int, ...] = "all"


integers = st.integers(1 - 2**63, 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.builds(
    Leaf,
    st.floats(min_value=0, exclude_min=True, allow_infinity=False),
    st.sampled_from(["fast", "slow"]),
    st.none() | integers,
)
branches = st.builds(Branch, leaves, st.lists(integers).map(tuple), st.tuples(integers, finite))
trees = st.builds(Tree, branches, integers, st.booleans(), st.text(), integers | st.text())


def refusal(mapping: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        build(Tree, mapping)
    message = str(caught.value)
    assert message.endswith((".", "?"))
    assert "\n" not in message
    return message


@given(trees)
def test_settings_survive_as_plain_data_and_as_json(tree):
    assert build(Tree, to_mapping(tree)) == tree
    assert build(Tree, json.loads(json.dumps(to_mapping(tree)))) == tree


@given(trees, trees)
def test_update_changes_what_is_named_and_nothing_else(tree, other):
    assert update(tree, {}) == tree
    changed = update(tree, {"branch": {"leaf": {"rate": other.branch.leaf.rate}}})
    expected = to_mapping(tree)
    expected["branch"]["leaf"]["rate"] = other.branch.leaf.rate
    assert to_mapping(changed) == expected


@given(st.sampled_from([(), ("branch",), ("branch", "leaf")]), st.text(min_size=1))
def test_an_unknown_setting_is_named_by_its_whole_path(sections, name):
    assume(name not in to_mapping(Tree()) and name not in to_mapping(Branch()) and name not in to_mapping(Leaf()))
    mapping: dict = {name: 1}
    for section in reversed(sections):
        mapping = {section: mapping}
    with pytest.raises(ConfigError) as caught:
        build(Tree, mapping)
    assert f"There is no setting `{'.'.join([*sections, name])}`" in str(caught.value)


def test_an_unknown_setting_comes_with_the_nearest_right_name():
    assert refusal({"lenght": 3}) == "There is no setting `lenght`; did you mean `length`?"
    assert refusal({"branch": {"leaf": {"rat": 3}}}).endswith("did you mean `branch.leaf.rate`?")
    assert refusal({"branch": {"leaf": {"zzz": 3}}}).endswith(
        "there are `branch.leaf.rate`, `branch.leaf.kind`, `branch.leaf.limit`."
    )


def test_a_long_list_of_names_is_cut_short():
    hint = nearest("zzz", [f"sensor{i}" for i in range(40)])
    assert hint.count("`sensor") == 12
    assert hint.endswith(", ...")


@pytest.mark.parametrize(
    ("mapping", "expected"),
    [
        ({"length": 1.5}, "`length` must be a whole number, but got 1.5."),
        ({"length": True}, "`length` must be a whole number, but got True."),
        ({"length": "600"}, "`length` must be a whole number, but got '600'."),
        ({"length": float("inf")}, "`length` must be a whole number, but got inf."),
        ({"length": None}, "`length` must be a whole number, but got None."),
        ({"several": "x"}, "`several` must be 'all' or a list, each a whole number, but got 'x'."),
        ({"several": [1, "x"]}, "`several` must be 'all' or a list, each a whole number, but got [1, 'x']."),
        ({"quiet": 1}, "`quiet` must be true or false, but got 1."),
        ({"title": 1}, "`title` must be text, but got 1."),
        ({"either": 1.5}, "`either` must be a whole number or text, but got 1.5."),
        (
            {"branch": 3},
            "`branch` is a section with settings of its own, but got 3; set one of its settings, such as branch.leaf.",
        ),
        ({"branch": {"widths": 3}}, "`branch.widths` must be a list, but got 3."),
        ({"branch": {"widths": [1, "x"]}}, "`branch.widths` must be a whole number, but got 'x'."),
        ({"branch": {"pair": [1]}}, "`branch.pair` must be a list of 2, but got [1]."),
        ({"branch": {"leaf": {"rate": float("nan")}}}, "`branch.leaf.rate` must be a finite number, but got nan."),
        ({"branch": {"leaf": {"rate": float("inf")}}}, "`branch.leaf.rate` must be a finite number, but got inf."),
        ({"branch": {"leaf": {"rate": -1}}}, "`branch.leaf.rate` must be above 0, but got -1.0."),
        ({"branch": {"leaf": {"kind": "f"}}}, "`branch.leaf.kind` must be one of 'fast', 'slow', but got 'f'."),
        ({"branch": {"leaf": {"limit": "x"}}}, "`branch.leaf.limit` must be a whole number, but got 'x'."),
    ],
)
def test_a_wrong_value_is_refused_in_one_sentence(mapping, expected):
    assert refusal(mapping) == expected


def test_a_whole_number_beyond_any_float_is_refused():
    assert "must be a finite number" in refusal({"branch": {"leaf": {"rate": 10**400}}})
    assert "must be a whole number" in refusal({"length": 10**400})
    assert build(Tree, {"length": 2**63 - 1}).length == 2**63 - 1


def test_numbers_of_numpy_are_numbers():
    tree = build(Tree, {"length": np.int64(8), "branch": {"leaf": {"rate": np.float32(0.5)}}})
    assert type(tree.length) is int
    assert tree.length == 8
    assert type(tree.branch.leaf.rate) is float


def test_a_float_that_is_whole_counts_as_whole():
    assert build(Tree, {"length": 8.0, "branch": {"widths": [3.0], "leaf": {"rate": 2}}}) == Tree(
        Branch(Leaf(2.0), (3,)), 8
    )


literals = st.integers() | finite | st.booleans()
words = st.text("abcxyz-_/ ", min_size=1).map(str.strip).filter(lambda w: w and w not in ("true", "false", "none"))


@given(st.dictionaries(words.filter(lambda w: " " not in w), st.dictionaries(words, literals | words, min_size=1)))
def test_assignments_round_trip(mapping):
    def written(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    lines = [f"{section}.{name} = {written(v)}" for section, inner in mapping.items() for name, v in inner.items()]
    assert parse_assignments(lines) == mapping


@given(st.text())
def test_any_text_is_an_assignment_or_refused(text):
    path, equals, _ = text.partition("=")
    if equals and all(key.strip() for key in path.split(".")):
        assert list(parse_assignments([text])) == [path.split(".")[0].strip()]
    else:
        with pytest.raises(ConfigError) as caught:
            parse_assignments([text])
        assert repr(text) in str(caught.value)


def test_assignments_are_toml_literals_or_text():
    assert parse_assignments(["a.b=1", "a.c=[1, 2]", "d='x=y'", "e=none", "f=two words", "g=1e-4", "h="]) == {
        "a": {"b": 1, "c": [1, 2]},
        "d": "x=y",
        "e": None,
        "f": "two words",
        "g": 1e-4,
        "h": "",
    }


def test_a_line_break_does_not_smuggle_in_a_second_setting():
    assert parse_assignments(["a=1\nb = 2"]) == {"a": "1\nb = 2"}


@pytest.mark.parametrize("text", ["a", "=1", "a..b=1", ".=1"])
def test_a_malformed_assignment_is_shown(text):
    with pytest.raises(ConfigError, match=r"written as name=value or section\.name=value"):
        parse_assignments([text])


def test_a_value_cannot_have_settings_of_its_own():
    with pytest.raises(ConfigError, match="treats `a` as a section"):
        parse_assignments(["a=1", "a.b=2"])


def test_later_settings_win_section_by_section():
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "e": 5}) == {"a": {"b": 1, "c": 4}, "d": 3, "e": 5}
    assert merge({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}


def test_a_toml_file_is_read_with_and_without_byte_order_mark(tmp_path):
    for mark in (b"", b"\xef\xbb\xbf"):
        (tmp_path / "s.toml").write_bytes(mark + b"length = 8\r\n[branch.leaf]\r\nrate = 2\r\n")
        assert build(Tree, read_toml(tmp_path / "s.toml")) == Tree(Branch(Leaf(2.0)), 8)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a = = 1", "is not valid TOML"), (b"a = '\xff'", "is not valid TOML"), (None, "There is no settings file")],
)
def test_a_bad_settings_file_is_named(tmp_path, content, expected):
    if content is not None:
        (tmp_path / "s.toml").write_bytes(content)
    with pytest.raises(ConfigError, match=expected) as caught:
        read_toml(tmp_path / "s.toml")
    assert "s.toml" in str(caught.value)


def test_a_folder_is_no_settings_file(tmp_path):
    with pytest.raises(ConfigError, match="is a folder, but a settings file in TOML was expected"):
        read_toml(tmp_path)


def test_a_file_is_called_what_it_should_be(tmp_path):
    with pytest.raises(
        ConfigError, match=r"There is no plan .*p\.toml, but a TOML file was expected; check the name\."
    ):
        read_toml(tmp_path / "p.toml", "plan")
    (tmp_path / "p.toml").write_text("a =")
    with pytest.raises(ConfigError, match=r"The plan .*p\.toml is not valid TOML"):
        read_toml(tmp_path / "p.toml", "plan")


@dataclass(frozen=True)
class Forest:
    tree: Tree = field(default_factory=lambda: Tree(length=9))
    count: int = 1

    def __post_init__(self) -> None:
        build_sections(self)


def test_a_mapping_for_a_section_becomes_its_dataclass_on_top_of_the_default():
    made = Forest(tree={"branch": {"leaf": {"rate": 2}}})
    assert made == Forest(tree=Tree(Branch(Leaf(rate=2.0)), length=9))
    assert isinstance(made.tree.branch.leaf.rate, float)
    assert Forest(tree=Tree(length=3)).tree.length == 3


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"lenght": 3}, "There is no setting `tree.lenght`; did you mean `tree.length`?"),
        ({"branch": {"leaf": {"rate": -1}}}, "`tree.branch.leaf.rate` must be above 0, but got -1.0."),
        (
            {"branch": 3},
            "`tree.branch` is a section with settings of its own, but got 3; "
            "set one of its settings, such as tree.branch.leaf.",
        ),
        (3, "`tree` is a section with settings of its own, but got 3; set one of its settings, such as tree.branch."),
    ],
)
def test_a_wrong_mapping_for_a_section_is_refused_at_construction(tree, message):
    with pytest.raises(ConfigError) as caught:
        Forest(tree=tree)
    assert str(caught.value) == message


@dataclass(frozen=True)
class Renamed:
    renamed_settings: ClassVar[Mapping[str, str]] = {"size": "is now called `length`", "kind": "is no section any more"}

    length: int = 3
    kind: str = "a"


def test_an_old_name_comes_with_the_new_one():
    for mapping, message in (
        ({"size": 3}, "`size` is now called `length`."),
        ({"kind": {"a": 1}}, "`kind` is no section any more."),
    ):
        with pytest.raises(ConfigError) as caught:
            build(Renamed, mapping)
        assert str(caught.value) == message
    assert build(Renamed, {"kind": "b"}).kind == "b"
    with pytest.raises(ConfigError, match=r"^`deep\.size` is now called"):
        build(Renamed, {"size": 3}, "deep")


def test_a_constructor_refuses_an_unknown_setting_with_the_nearest_name():
    @dataclass(frozen=True)
    class Checked(Renamed):
        width: int = 1

    before = inspect.signature(Checked)
    refuse_unknown_settings(Checked)
    refuse_unknown_settings(Checked)
    assert inspect.signature(Checked) == before
    with pytest.raises(ConfigError, match=r"^There is no setting `lenght`; did you mean `length`\?$"):
        Checked(lenght=3)
    with pytest.raises(ConfigError, match=r"^`size` is now called `length`"):
        Checked(size=3)
    assert replace(Checked(4, width=2), kind="b") == Checked(length=4, kind="b", width=2)


def test_a_single_name_is_the_only_one():
    assert nearest("zzz", ["plant"]) == "; there is only `plant`."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "nested too deeply"),
        ("9" * 5000, "limit"),
        (str(10**400), "more than 64 bits"),
        ("-" + str(2**64), "more than 64 bits"),
        ("1e400", "'1e400' is not a finite number"),
        ("NaN", "'NaN' is not a finite number"),
        ("[-Infinity]", "'-Infinity' is not a finite number"),
        (r'{"a": ["\ud800"]}', "surrogates not allowed"),
        ('{"a": 1, "a": 2}', "a name occurs twice"),
        (b'"\xff"', "invalid start byte"),
        ("{", "Expecting"),
    ],
)
def test_json_that_tsadc_never_writes_is_refused(text, why):
    with pytest.raises(ValueError, match=why):
        parse_json(text)


def test_json_that_tsadc_writes_is_parsed():
    content = {"a": [1, -2.5, None, True], "b": {"c": "µ😀", "d": 2**63 - 1}}
    for ascii_only in (True, False):
        assert parse_json(json.dumps(content, ensure_ascii=ascii_only).encode()) == content


@pytest.mark.parametrize("digits", [19, 400, 5000])
def test_a_number_that_no_array_can_hold_is_refused_briefly(digits):
    with pytest.raises(ConfigError, match=r"must be a whole number, but got ") as caught:
        build(Tree, {"length": 10**digits})
    assert len(str(caught.value)) < 250


def test_deeply_nested_settings_are_refused(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_text("a = " + "[" * 100_000)
    with pytest.raises(ConfigError, match=r"settings\.toml is not valid TOML: it is nested too deeply"):
        read_toml(file)
