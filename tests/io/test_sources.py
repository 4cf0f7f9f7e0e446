"""Sources besides plain tables: long tables, Excel files, databases, partitioned folders."""

import sqlite3
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest

from tsadc.errors import ConfigError, DataError, TsadcNotice
from tsadc.io import limits
from tsadc.io.files import partition_entity
from tsadc.io.read import read
from tsadc.io.reading import Reading

NAN = np.nan
LONG = Reading(long=("when", "tag", "value"))
TAGS = """when,tag,value
2024-01-01 00:00,007,1.5
2024-01-01 00:01,007,2.5
2024-01-01 00:02,007,Bad
2024-01-01 00:00,heat,20
2024-01-01 00:02,heat,22
"""


def write(folder, text, name="tags.csv"):
    path = folder / name
    path.write_text(text)
    return path


def test_a_long_table_gets_one_column_per_variable(tmp_path):
    (found,) = read(write(tmp_path, TAGS), LONG, missing=["Bad"])
    assert (found.entity, found.names) == ("tags", ("007", "heat"))
    np.testing.assert_array_equal(found.values, [[1.5, 20], [2.5, NAN], [NAN, 22]])
    assert found.clock.at([2])[0] == pd.Timestamp("2024-01-01 00:02")
    assert read(tmp_path / "tags.csv", LONG, missing=["Bad"], exclude=["007"])[0].names == ("heat",)
    with pytest.raises(DataError, match="holds 'Bad'; if it means not measured, add --missing Bad"):
        read(tmp_path / "tags.csv", LONG)


def test_a_long_table_with_entities_zones_and_further_columns(tmp_path):
    rows = [
        (f"2024-01-01T0{hour}:00+01:00", pump, tag, hour + len(pump) + len(tag), "good")
        for pump in ("p", "qq") for tag in ("a", "bb") for hour in (1, 0)
    ]  # fmt: skip
    path = tmp_path / "tags.parquet"
    pd.DataFrame(rows, columns=["when", "pump", "tag", "value", "quality"]).to_parquet(path)
    with pytest.warns(TsadcNotice, match="columns besides time, variable and value were left out: quality"):
        p, q = read(path, LONG, entity="pump")
    assert (p.entity, q.entity, p.names) == ("p", "qq", ("a", "bb"))
    np.testing.assert_array_equal(p.values, [[2, 3], [3, 4]])
    assert q.clock.at([0])[0] == pd.Timestamp("2023-12-31 23:00", tz="UTC")
    assert read(path, LONG, entity="pump", exclude=["quality"])[0].names == ("a", "bb")  # without a notice


def test_tags_with_times_of_their_own_are_averaged_on_a_grid(tmp_path):
    text = "when,tag,value\n2024-01-01 00:00:10,a,1\n2024-01-01 00:00:50,a,3\n2024-01-01 00:01:20,b,5\n"
    (found,) = read(write(tmp_path, text), LONG, every="1min")
    np.testing.assert_array_equal(found.values, [[2, NAN], [NAN, 5]])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TAGS + "2024-01-01 00:00,007,9\n", r"has two values of '007' at 2024-01-01 00:00:00, the second at row 5;"),
        (TAGS.replace("tag,", "point,"), r"has no column 'tag'; there are `when`, `point`, `value`"),
        (TAGS.replace(",heat,20", ",,20"), r"the variable column 'tag' is empty at row 3"),
        ("when,tag,value\n2024-01-01,a,x\n2024-01-02,a,y\n", "the column of values, 'value', holds only text"),
        ("when,tag,value\n,a,1\n2024-01-02,a,2\n", "has no time at row 0"),
        (TAGS.replace("heat", "when"), r"has a variable 'when', named like its time column; rename one of them\.$"),
    ],
)
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_long_tables_that_cannot_be_read(tmp_path, text, expected):
    with pytest.raises(DataError, match=expected):
        read(write(tmp_path, text.replace("Bad", "")), LONG)


def test_a_tag_named_like_the_entity_column_is_refused(tmp_path):
    text = "pump,when,tag,value\n" + "".join(f"p,{line}\n" for line in TAGS.splitlines()[1:]).replace("heat", "pump")
    with pytest.raises(DataError, match=r"has a variable 'pump', named like its entity column; rename one of them\.$"):
        read(write(tmp_path, text), LONG, entity="pump", missing=["Bad"])


def test_the_names_of_a_long_table_are_three():
    for wrong in (("a", "b"), ("a", "b", "b"), "abc"):
        with pytest.raises(ConfigError, match="`long` must be"):
            Reading(long=wrong)


SHEET = """<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>
{rows}</sheetData></worksheet>"""


def workbook(path, **sheets):
    """Write the smallest Excel file: numbers and texts, dates as text."""
    main = "http://schemas.openxmlformats.org"
    names = list(sheets)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{main}/package/2006/content-types"/>')
        file.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{main}/package/2006/relationships"><Relationship Id="r0" '
            f'Type="{main}/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/>'
            "</Relationships>",
        )
        listed = "".join(f'<sheet name="{name}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(names, 1))
        file.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}/spreadsheetml/2006/main" xmlns:r="{main}/officeDocument/2006/relationships">'
            f"<sheets>{listed}</sheets></workbook>",
        )
        links = "".join(
            f'<Relationship Id="r{i}" Type="{main}/officeDocument/2006/relationships/worksheet" '
            f'Target="worksheets/s{i}.xml"/>'
            for i in range(1, len(names) + 1)
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels",
            f'<Relationships xmlns="{main}/package/2006/relationships">{links}</Relationships>',
        )
        for i, rows in enumerate(sheets.values(), 1):
            text = ""
            for r, row in enumerate(rows, 1):
                cells = "".join(
                    f'<c r="{chr(65 + c)}{r}"' + (
                        f' t="inlineStr"><is><t>{cell}</t></is></c>' if isinstance(cell, str) else f"><v>{cell}</v></c>"
                    )
                    for c, cell in enumerate(row) if cell is not None
                )  # fmt: skip
                text += f'<row r="{r}">{cells}</row>'
            file.writestr(f"xl/worksheets/s{i}.xml", SHEET.format(rows=text))
    return path


ROWS = [["2024-01-01 00:00", 1, "Bad"], ["2024-01-01 00:01", 2.5, 4], ["2024-01-01 00:02", None, 5]]


def test_an_excel_file_with_a_preamble_units_and_a_second_sheet(tmp_path):
    top = [["Plant 7"], ["when", "flow", "heat"], ["", "m3/h", "°C"]]
    path = workbook(tmp_path / "pump.xlsx", Data=top + ROWS, Other=[["a"], [1.0], [2.0]])
    expected = (
        r"the first of its 2 sheets, 'Data', was read; --sheet names another one; 1 row\(s\) above the header were "
        r"skipped; --skip-rows states how many; 1 row\(s\) of text below the header were read as units"
    )
    with pytest.warns(TsadcNotice, match=expected):
        (found,) = read(path, missing=["Bad"])
    assert (found.entity, found.names, found.units) == ("pump", ("flow", "heat"), {"flow": "m3/h", "heat": "°C"})
    np.testing.assert_array_equal(found.values, [[1, NAN], [2.5, 4], [NAN, 5]])
    assert found.clock.interval == 60 * 10**9
    (other,) = read(path, sheet="Other")
    assert other.values.ravel().tolist() == [1, 2]


def test_excel_dates_without_a_format_and_a_merged_header(tmp_path):
    rows = [[45321 + 22 / 24 + k / 144, k, -k] for k in range(9)]
    path = workbook(tmp_path / "pump.xlsx", Data=[["Time", "Pump 1", None], [None, "Flow", "Temp"], *rows])
    with pytest.warns(TsadcNotice, match="the numbers in 'Time' were read as Excel's dates.*header has two rows"):
        (found,) = read(path)
    assert found.names == ("Pump 1 Flow", "Pump 1 Temp")
    assert found.clock.at([0, 8]).tolist() == [pd.Timestamp("2024-01-30 22:00"), pd.Timestamp("2024-01-30 23:20")]
    assert found.values[2].tolist() == [2, -2]


def test_excel_files_that_cannot_be_read(tmp_path, monkeypatch):
    path = workbook(tmp_path / "pump.xlsx", Data=[["a"], [1]], Empty=[])
    with pytest.raises(DataError, match=r"pump\.xlsx has no sheet 'data'; did you mean `Data`\?"):
        read(path, sheet="data")
    with pytest.raises(DataError, match=r"pump\.xlsx is empty, but a header"):
        read(path, sheet="Empty")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=r"pump\.xlsx is not a readable Excel file: "):
        read(path)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(DataError, match=r"is Excel, which needs one more package: pip install 'tsadc\[excel\]'\."):
        read(path)


def test_whole_numbers_in_excel_name_entities_and_tags_as_in_text(tmp_path):
    rows = [["when", "tag", "value"], ["2024-01-01", 1.0, 5.0], ["2024-01-02", 1.0, 6.5], ["2024-01-01", 2.0, 7.0]]
    (found,) = read(workbook(tmp_path / "tags.xlsx", Data=rows), LONG)
    assert found.names == ("1", "2")
    np.testing.assert_array_equal(found.values, [[5, 7], [6.5, NAN]])
    rows = [["id", 7.0], [1.0, 5.0], [1.0, 6.5], ["x", 7.0], ["x", 8.0]]
    first, second = read(workbook(tmp_path / "pumps.xlsx", Data=rows), entity="id")
    assert (first.entity, second.entity, first.names) == ("1", "x", ("7",))


def test_an_excel_file_larger_than_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = workbook(tmp_path / "pump.xlsx", Data=[["a"], *([1.0] for _ in range(1000))])
    monkeypatch.setattr(limits, "available_memory", lambda: 50_000)
    with pytest.raises(DataError, match=r"pump\.xlsx, unpacked, needs \d+\.\d kB of memory or more, but 50\.0 kB are"):
        read(path)


def test_one_cell_far_away_does_not_make_an_excel_file_crash(tmp_path, monkeypatch):
    path = workbook(tmp_path / "pump.xlsx", Data=[["a"], [1.0], [2.0]])
    with zipfile.ZipFile(path) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part.replace(b'r="A3"', b'r="XFD1048576"'))
    monkeypatch.setattr(limits, "available_memory", lambda: 10**9)
    with pytest.raises(
        DataError, match=r"with all cells of a sheet, needs 687\.2 GB of memory.*; remove cells that lie"
    ):
        read(path)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "plant.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table log (ts text, pump text, flow real)")
        rows = [(f"2024-01-01 00:0{i}:00", pump, i + shift) for pump, shift in (("p", 0), ("q", 10)) for i in range(3)]
        connection.executemany("insert into log values (?, ?, ?)", rows)
    connection.close()
    return f"sqlite:///{path}"


def test_the_result_of_a_query_is_read_like_a_table(database):
    p, q = read(sql=database, query="select * from log", entity="pump")
    assert (p.entity, q.entity, q.values.ravel().tolist()) == ("p", "q", [10, 11, 12])
    query = "select ts, flow from log where pump = 'q'"
    (named,) = read(sql=database, query=query, entity_name="tank", missing=[11])
    np.testing.assert_array_equal(named.values.ravel(), [10, NAN, 12])
    assert named.entity == "tank"
    assert read(sql=database, query=query)[0].entity == "query"


def test_a_query_cannot_write_and_no_database_is_made(database, tmp_path):
    for query in ("drop table log", "delete from log"):
        with pytest.raises(DataError, match="attempt to write a readonly database"):
            read(sql=database, query=query)
    assert len(read(sql=database, query="select ts, flow from log where pump = 'p'")[0]) == 3
    with pytest.raises(DataError, match=r"There is no database file .*nope\.db; check the name"):
        read(sql=f"sqlite:///{tmp_path / 'nope.db'}", query="select 1")
    assert not (tmp_path / "nope.db").exists()


def test_a_database_that_cannot_be_read(database, tmp_path, monkeypatch):
    with pytest.raises(
        DataError, match=r"The query to sqlite:///.*plant\.db failed: no such table: lag; correct the URL"
    ):
        read(sql=database, query="select * from lag")
    with pytest.raises(DataError, match="has a header but no rows"):
        read(sql=database, query="select * from log where 1 = 0")
    with pytest.raises(ConfigError, match="`sql` names a database and `query` what to read from it; give both"):
        read(sql=database)
    with pytest.raises(DataError, match="Both files and a database were given"):
        read(write(tmp_path, "a\n1\n"), sql=database, query="select * from log")
    with pytest.raises(DataError, match="`sql` should be the URL of a database"):
        read(sql="not a url", query="select 1")
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(DataError, match=r"needs one more package: pip install 'tsadc\[sql\]'"):
        read(sql=database, query="select 1")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@localhost:1/x",
        "nonsense://me:hunter2@host/x",
        "sqlite://me:hunter2@host/x",
        "::hunter2@",
    ],
)
def test_a_password_is_never_shown(url):
    with pytest.raises(DataError) as caught:
        read(sql=url, query="select 1")
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(Reading(sql=url, query="select 1"))


def partitioned(root, *folders):
    times = pd.date_range("2024-01-01", periods=4, freq="1h")
    for number, folder in enumerate(folders):
        day = int(folder[-1]) if "date" in folder else 0
        place = root / folder
        place.mkdir(parents=True)
        frame = pd.DataFrame({"time": times + pd.Timedelta(hours=4 * day), "a": number + np.arange(4.0) / 10})
        frame.to_parquet(place / "part-0.parquet", index=False)
    return root


def test_a_folder_partitioned_by_entity_and_date(tmp_path):
    root = partitioned(
        tmp_path / "x", "entity=7/date=2024-01-1", "entity=7/date=2024-01-0", "entity=a%20b/date=2024-01-1"
    )
    seven, ab = read(root)
    assert (seven.entity, ab.entity) == ("7", "a b")
    np.testing.assert_allclose(seven.values.ravel(), [1, 1.1, 1.2, 1.3, 0, 0.1, 0.2, 0.3])
    other = partitioned(tmp_path / "y", "pump=7/plant=n", "pump=8/plant=n")
    assert [series.entity for series in read(other)] == ["7/n", "8/n"]
    assert [series.entity for series in read(other, entity="pump")] == ["7", "8"]
    (joined,) = read(partitioned(tmp_path / "z", "date=2024-01-0", "date=2024-01-1"))
    assert (joined.entity, len(joined)) == ("z", 8)


def test_partitions_that_overlap_and_folders_that_are_none(tmp_path):
    root = partitioned(tmp_path / "x", "entity=7/run=1", "entity=7/run=2")
    with pytest.raises(DataError, match=r"Entity '7' is in both .* overlap"):
        read(root)
    (root / "entity=9").mkdir()
    assert [series.entity for series in read(root / "entity=7/run=1")] == ["part-0"]
    assert partition_entity({"year": "2024"}, None) is None
    assert partition_entity({"entity": "1", "pump": "2"}, "pump") == "2"


def test_a_sensor_that_some_files_lack_counts_as_not_measured(tmp_path):
    early, late = write(tmp_path, "a,b\n1,2\n", "early.csv"), write(tmp_path, "b,c,a\n3,4,5\n", "late.csv")
    with pytest.warns(
        TsadcNotice, match=r"early\.csv lacks 'c', which .*late\.csv has; it counts as not measured there"
    ):
        first, second = read([early, late])
    assert first.names == second.names == ("b", "c", "a")
    np.testing.assert_array_equal(first.values, [[2, NAN, 1]])
    with pytest.raises(DataError, match="has other variables than"):
        read([early, late], strict=True)
    wide = write(tmp_path, "a,b,c,d,e\n1,2,3,4,5\n", "wide.csv")
    with pytest.raises(DataError, match="has other variables than"):
        read([early, wide])


def test_a_file_without_values_or_times_among_others_is_named(tmp_path):
    dated = write(tmp_path, "time,a\n2024-01-01 00:00,1\n2024-01-01 00:01,2\n", "dated.csv")
    empty = write(tmp_path, "time,a\n2024-01-01 00:00,\n2024-01-01 00:01,\n", "empty.csv")
    with pytest.warns(TsadcNotice, match=r"empty\.csv has no value in any variable; check it, or leave it out\."):
        assert len(read([dated, empty])) == 2
    plain = write(tmp_path, "a\n1\n2\n", "plain.csv")
    with pytest.warns(
        TsadcNotice, match=r"plain\.csv has no times, but .*dated\.csv has; .* as far apart, 1min\. If it"
    ):
        read([plain, dated])
    assert read(empty)[0].values.shape == (2, 1)  # alone, without a notice
