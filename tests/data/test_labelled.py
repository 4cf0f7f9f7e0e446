from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.data import load, prepare_own
from tsadc.data.prepared import Label
from tsadc.errors import ConfigError, DataError, OutputError, TsadcNotice
from tsadc.io.reading import Reading
from tsadc.series import Truth


def table(rows: int = 40, **more: object) -> pd.DataFrame:
    """Two variables that count, minute by minute."""
    times = pd.date_range("2026-01-01", periods=rows, freq="1min")
    return pd.DataFrame({"time": times, "u": np.arange(rows) + 0.5, "v": -(np.arange(rows) ** 2.0)}).assign(**more)


def kinds(rows: int, *spans: tuple[int, int, str]) -> list[str]:
    out = [""] * rows
    for start, stop, kind in spans:
        out[start:stop] = [kind] * (stop - start)
    return out


def test_rows_become_observations_and_labels_their_truth(tmp_path: Path) -> None:
    labels = kinds(43, (8, 12, "leak"), (30, 31, "spike"), (35, 36, "Normal"))
    with pytest.warns(
        TsadcNotice, match="^3 of 43 rows are left out because they come after the last whole observation of 10 rows"
    ):
        made = prepare_own({"a": table(43, fault=labels)}, "fault", tmp_path / "out", length=10, name="mine")
    assert made.about["left_out"] == {"rows after the last whole observation": 3}
    assert (made.name, made.variables, made.length, made.entities) == ("mine", ("u", "v"), 10, ("a",))
    assert made.values("a").shape == (4, 10, 2)
    assert made.values("a")[2, 3].tolist() == [23.5, -(23.0**2)]
    assert made.labels["a"] == tuple(
        Label("a", 10 * i, "", found) for i, found in enumerate([("leak",), ("leak",), (), ("spike",)])
    )
    assert made.truth["a"] == (Truth("a", 8, 12, "leak", ()), Truth("a", 30, 31, "spike", ()))
    assert load(tmp_path / "out") == made


@pytest.mark.parametrize("values", [[0, 1, 0, 2], [False, True, False, True], [np.nan, 1.0, 0.0, -1.0]])
def test_numbers_say_whether_a_row_is_anomalous(values: list[float], tmp_path: Path) -> None:
    made = prepare_own({"a": table(fault=np.repeat(values, 10))}, "fault", tmp_path / "out", length=10)
    assert [label.kinds for label in made.labels["a"]] == [(), ("anomaly",), (), ("anomaly",)]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (["no", "Yes", "NO", "yes"], ["", "anomaly", "", "anomaly"]),
        (["OK", "stuck", " ok ", "drift"], ["", "stuck", "", "drift"]),
        (["0", "1", "0", "1"], ["", "anomaly", "", "anomaly"]),
        (["False", "True", "None", ""], ["", "anomaly", "", ""]),
        ([False, True, None, "normal"], ["", "anomaly", "", ""]),
        (["Running", "stuck", "idle", "running"], ["", "stuck", "", ""]),
    ],
)
def test_words_for_normal_rows_are_no_kinds(values: list[object], found: list[str], tmp_path: Path) -> None:
    labels = np.repeat(np.array(values, dtype=object), 10)
    made = prepare_own({"a": table(fault=labels)}, "fault", tmp_path / "out", length=10, normal=("running", "Idle"))
    assert ["".join(label.kinds) for label in made.labels["a"]] == found


def test_one_word_for_normal_rows_may_stand_alone(tmp_path: Path) -> None:
    data = {"a": table(fault=kinds(40, (0, 40, "fine"), (30, 40, "leak")))}
    made = prepare_own(data, "fault", tmp_path / "out", length=10, normal="fine")
    assert [label.kinds for label in made.labels["a"]] == [(), (), (), ("leak",)]


def test_what_is_to_blame_for_a_kind_is_in_its_truth(tmp_path: Path) -> None:
    data = {"a": table(fault=kinds(40, (5, 15, "leak"), (30, 31, "spike")))}
    made = prepare_own(data, "fault", tmp_path / "out", length=10, blame={"leak": ["v"]})
    assert made.truth["a"] == (Truth("a", 5, 15, "leak", ("v",)), Truth("a", 30, 31, "spike", ()))
    for blame, said in (
        ({"leek": ["v"]}, "`blame` has the kind 'leek', but no row is labelled so; did you mean `leak`?"),
        ({"leak": ["w"]}, "`blame` names 'w', which is not a variable; there are `u`, `v`."),
    ):
        with pytest.raises(DataError) as caught:
            prepare_own(data, "fault", tmp_path / "wrong", length=10, blame=blame)
        assert str(caught.value) == said
    with pytest.raises(ConfigError, match="`blame` must be a dict of kinds with lists of variables, but got"):
        prepare_own(data, "fault", tmp_path / "wrong", length=10, blame={"leak": "v"})


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_and_a_column_of_entities(form: str, tmp_path: Path) -> None:
    whole = pd.concat([table(20, unit=unit, fault=kinds(20, (3, 5, unit))) for unit in ("x", "y")])
    file = tmp_path / f"all.{form}"
    whole.to_csv(file, index=False) if form == "csv" else whole.to_parquet(file, index=False)
    made = prepare_own(file, "fault", tmp_path / "out", length=10, reading=Reading(entity="unit"))
    assert {entity: [one.kinds for one in some] for entity, some in made.labels.items()} == {
        "x": [("x",), ()],
        "y": [("y",), ()],
    }
    for unit in ("x", "y"):
        table(20, fault=kinds(20, (3, 5, unit))).to_csv(tmp_path / f"{unit}.csv", index=False)
    apart = prepare_own([tmp_path / "x.csv", tmp_path / "y.csv"], "fault", tmp_path / "apart", length=10)
    assert (apart.labels["x"][0].kinds, apart.labels["y"][0].kinds) == (("x",), ("y",))
    assert apart.values("y").tolist() == made.values("y").tolist()


def test_labels_stay_with_their_rows_where_rows_are_missing_or_put_on_a_grid(tmp_path: Path) -> None:
    data = table(40, fault=kinds(40, (25, 26, "leak")))
    gap = prepare_own({"a": data.drop(index=range(8, 14))}, "fault", tmp_path / "gap", length=10)
    assert gap.truth["a"] == (Truth("a", 25, 26, "leak", ()),)
    assert np.isnan(gap.values("a")[1, :4]).all()
    coarse = prepare_own({"a": data}, "fault", tmp_path / "coarse", length=10, reading=Reading(every="2min"))
    assert coarse.truth["a"] == (Truth("a", 12, 13, "leak", ()),)
    chosen = prepare_own(
        {"a": data.assign(w=1.0)}, "fault", tmp_path / "some", length=10, reading=Reading(columns=("v", "u"))
    )
    assert chosen.variables == ("v", "u")


def test_arrays_have_labels_of_rows_or_of_observations(tmp_path: Path) -> None:
    values = np.arange(80.0).reshape(40, 2)
    rows = prepare_own({"a": values}, {"a": np.arange(40) == 12}, tmp_path / "rows", length=10)
    assert rows.truth["a"] == (Truth("a", 12, 13, "anomaly", ()),)
    whole = prepare_own({"a": values.reshape(4, 10, 2)}, {"a": [0, 1, 0, 0]}, tmp_path / "whole", length=10)
    assert whole.truth["a"] == (Truth("a", 10, 20, "anomaly", ()),)
    assert whole.values("a").tolist() == rows.values("a").tolist() == values.reshape(4, 10, 2).tolist()


def test_part_of_a_larger_frame_keeps_no_row_numbers(tmp_path: Path) -> None:
    whole = pd.concat([table(20, unit=unit, fault=unit == "y") for unit in ("x", "y")], ignore_index=True)
    parts = {unit: rows.drop(columns=["unit", "time"]) for unit, rows in whole.groupby("unit")}
    made = prepare_own(parts, "fault", tmp_path / "out", length=10)
    assert made.values("y").shape == (2, 10, 2)


def test_what_has_no_value_at_all_is_left_out(tmp_path: Path) -> None:
    data = table(fault=kinds(40, (35, 36, "leak")))
    data.loc[10:19, ["u", "v"]] = np.nan
    made = prepare_own({"a": data}, "fault", tmp_path / "out", length=10)
    assert [label.start for label in made.labels["a"]] == [0, 20, 30]
    assert made.truth["a"] == (Truth("a", 25, 26, "leak", ()),)
    assert made.about["left_out"] == {"nothing measured": 1}


@pytest.mark.parametrize(
    ("data", "labels", "length", "said"),
    [
        ({"a": table(fault=1)}, "falt", 10, "The data of 'a' has no column 'falt'; did you mean `fault`?"),
        ({"a": table(fault=0)}, "fault", 10, "At least one row must be labelled anomalous"),
        ({"a": table(fault=1)}, "fault", 10, "At least one row must be normal, but all are labelled 'anomaly'"),
        (
            {"a": table(fault="fine"), "b": table(fault="leak")},
            "fault",
            10,
            "but all are labelled 'fine', 'leak'; name the word for normal rows by `normal`",
        ),
        ({"a": table(), "b": table()}, {"a": [1] * 40}, 10, "but there is also an entity 'b'; label it"),
        ({"a": table()}, {"a": [1] * 39}, 10, "has 40 rows or observations, but 39 labels; give one for each"),
        ({"a": np.ones((4, 10, 2))}, {"a": [1] * 3}, 10, "has 4 rows or observations, but 3 labels"),
        (
            {"a": np.ones((4, 9, 2))},
            {"a": [1] * 4},
            10,
            r"(observation, 10, variable), but is a ndarray of shape (4, 9, 2)",
        ),
        ({"a": table(fault=[0, 1] * 20)}, "fault", 41, "No entity has 41 rows with values"),
        ("nothing.csv", "fault", 10, "There is no file nothing.csv"),
    ],
)
def test_what_cannot_be_used_is_refused_and_nothing_is_written(
    data: object, labels: object, length: int, said: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError) as caught:
        prepare_own(data, labels, tmp_path / "out", length=length)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_settings_and_places_are_checked(tmp_path: Path) -> None:
    data = {"a": table(fault=kinds(40, (3, 4, "leak")))}
    for length in (7, "60", 60.0, True):
        with pytest.raises(ConfigError) as caught:
            prepare_own(data, "fault", tmp_path / "out", length=length)  # type: ignore[arg-type]
        assert str(caught.value) == f"`length` must be a whole number of at least 8 rows, but got {length!r}."
    with pytest.raises(OutputError, match="exists already"):
        prepare_own(data, "fault", tmp_path, length=10)


@pytest.mark.parametrize(
    ("labels", "reading", "said"),
    [
        (["fault"], Reading(), "the name of one column, or a dict of entities with their labels, but got ['fault']."),
        ("unit", Reading(entity="unit"), "another column than that of the entity, but got 'unit'."),
        ("time", Reading(time="time"), "another column than that of the time, but got 'time'."),
        ("v", Reading(columns=("u", "v")), "a column that is none of the variables in `columns`, but got 'v'."),
    ],
)
def test_labels_that_cannot_be_are_told_first(labels: object, reading: Reading, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        prepare_own("nothing.csv", labels, tmp_path / "out", length=10, reading=reading)  # type: ignore[arg-type]
    assert str(caught.value) == f"`labels` must be {said}"
