import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from tsadc.detectors import find
from tsadc.detectors.result import INTERVALS, Result
from tsadc.errors import DataError
from tsadc.show.result_files import TABLES, inert, shares_json, write_tables


def read(file: Path, result: Result) -> pd.DataFrame:
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    dated = result.series[0].clock.dated
    columns = [name for name in ("time", "start", "end") if name in pd.read_csv(file, nrows=0)]
    return pd.read_csv(file, parse_dates=columns if dated else None, keep_default_na=True)


@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
@pytest.mark.parametrize("which", ["result", "undated"])
def test_tables_read_back_as_they_were(
    which: str, parquet: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    result: Result = request.getfixturevalue(which)
    ending = "parquet" if parquet else "csv"
    names = write_tables([result], tmp_path, parquet=parquet, model="robust-z-0123")
    assert names == [f"{name}.{ending}" for name in ("intervals", "timeline", "observations")]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(names)
    judged_by = {"model_threshold": result.threshold, "model": "robust-z-0123"}
    for name, further in (("timeline", {}), ("observations", judged_by)):
        found = read(tmp_path / f"{name}.{ending}", result)
        expected = getattr(result, name).assign(**further)
        pd.testing.assert_frame_equal(found, expected, check_dtype=False, rtol=1e-6)
    found = read(tmp_path / f"intervals.{ending}", result)
    assert len(found) > 0
    expected = result.intervals.assign(variables=[shares_json(shares) for shares in result.intervals["variables"]])
    if result.series[0].clock.dated:
        found["return_period"] = pd.to_timedelta(found["return_period"])
        expected["return_period"] = expected["return_period"].dt.round("s")
    pd.testing.assert_frame_equal(found, expected.assign(**judged_by), check_dtype=False, rtol=1e-6)


@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
def test_nothing_found_is_an_empty_table_with_its_columns(calm: Result, parquet: bool, tmp_path: Path) -> None:
    assert calm.intervals.empty
    file = tmp_path / write_tables([calm], tmp_path, parquet=parquet)[0]
    found = read(file, calm)
    assert len(found) == 0
    assert list(found.columns) == [*INTERVALS, "model_threshold", "model"]


def test_the_result_is_left_as_it_was(result: Result, tmp_path: Path) -> None:
    before = result.intervals["variables"].tolist()
    write_tables([result], tmp_path, parquet=False)
    assert result.intervals["variables"].tolist() == before


def test_shares_keep_their_order() -> None:
    assert shares_json({"b": 0.62, "a": np.float64(0.2100001), "c": 0.1}) == '{"b": 0.62, "a": 0.21, "c": 0.1}'
    assert shares_json({}) == "{}"


def test_any_name_of_a_variable_can_be_read_back() -> None:
    shares = {"a:0.5;b": 0.5, 'say "x", y': 0.3, "=1+1": 0.2, "µ": 0.1}
    assert json.loads(shares_json(shares)) == shares


def test_text_that_a_spreadsheet_would_run_is_made_inert() -> None:
    for text in ("=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\tx", "\r=1"):
        assert inert(text) == f"'{text}"
    for value in ("", "pump", "-2.5", "+1e3", "a=b", -2.5, None):
        assert inert(value) is value


def test_entities_named_like_formulas_are_inert_in_every_table(result: Result, tmp_path: Path) -> None:
    tables = {name: getattr(result, name).assign(entity="=HYPERLINK(1)") for name in TABLES}
    names = write_tables([SimpleNamespace(series=result.series, threshold=1.0, **tables)], tmp_path, parquet=False)
    for name in names:
        assert set(pd.read_csv(tmp_path / name)["entity"]) == {"'=HYPERLINK(1)"}


def test_without_the_parquet_package_the_sentence_says_what_to_install(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'tsadc\[parquet\]'"):
        write_tables([result], tmp_path, parquet=True)


@pytest.mark.parametrize("parquet", [False, True], ids=["csv", "parquet"])
def test_parts_make_the_same_files_as_the_whole(parquet: bool, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(2000, 3))
    values[1500:1520, 1] += 20
    detector = find("robust-z")(length=50, contamination=0.1).fit(values)
    ending, tables = "parquet" if parquet else "csv", {}
    for name, parts in (("whole", [detector.detect(values)]), ("parts", detector.detect_parts(values, rows=150))):
        (tmp_path / name).mkdir()
        write_tables(parts, tmp_path / name, parquet=parquet)
        read = pd.read_parquet if parquet else pd.read_csv
        tables[name] = [read(tmp_path / name / f"{table}.{ending}") for table in TABLES]
    for whole, parts in zip(*tables.values(), strict=True):
        assert len(whole) > 0
        pd.testing.assert_frame_equal(whole, parts)


def daily(timezone: str | None) -> Result:
    """Return a result on daily rows from the first day of an observation, all at midnight, with two spikes."""
    values = np.random.default_rng(0).normal(size=(600, 2))
    values[[150, 450]] += 30
    times = pd.date_range("2004-03-03", periods=600, freq="1D", tz=timezone)
    frame = pd.DataFrame(values, columns=["a", "b"], index=times)
    return find("robust-z")(length=20, contamination=0.05).fit(frame).detect(frame)


def test_times_are_iso_8601_even_if_all_are_midnight(tmp_path: Path) -> None:
    result = daily(None)
    write_tables([result], tmp_path, parquet=False)
    for table, column in (("intervals", "start"), ("timeline", "time"), ("observations", "end")):
        text = pd.read_csv(tmp_path / f"{table}.csv", dtype=str)[column]
        assert text.str.fullmatch(r"\d{4}-\d\d-\d\dT00:00:00").all()
        found = pd.read_csv(tmp_path / f"{table}.csv", parse_dates=[column])[column]
        assert found.tolist() == getattr(result, table)[column].tolist()


def test_times_carry_the_offset_of_their_time_zone(tmp_path: Path) -> None:
    result = daily("UTC")
    write_tables([result], tmp_path, parquet=False)
    text = pd.read_csv(tmp_path / "timeline.csv", dtype=str)["time"]
    assert text[0] == "2004-03-03T00:00:00+00:00"
    found = pd.read_csv(tmp_path / "timeline.csv", parse_dates=["time"])["time"]
    assert found.tolist() == result.timeline["time"].tolist()
