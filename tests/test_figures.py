"""Figures in the documents are those of the committed records."""

import json

from benchmark import script


def test_the_page_on_speed_is_made_from_the_records():
    report = script("speed_report")
    measured = report.records()
    assert len(measured) >= 6
    assert report.page(measured) == report.PAGE.read_text()
    assert report.plot(measured["growth"]) == report.PLOT.read_text()


def test_the_page_on_costs_is_made_from_the_records(tmp_path):
    detectors = script("detectors")
    assert detectors.main(["--table", str(tmp_path / "made.md")]) == 0
    assert (tmp_path / "made.md").read_text() == detectors.PAGE.read_text(), "run make results"


def test_the_page_on_exports_is_made_from_the_records(tmp_path):
    exports = script("export")
    assert exports.main(["--table", str(tmp_path / "made.md")]) == 0
    assert (tmp_path / "made.md").read_text() == exports.PAGE.read_text(), "run make bench-export"
    records = json.loads(exports.RECORDS.read_text())
    assert set(records) == set(exports.RUNS)
    for method, kinds in exports.KINDS.items():
        own = [records[name] for name, (_, detector) in exports.RUNS.items() if detector == method]
        assert sum(record["observations"] for record in own) >= 1000
        assert max(record["difference"]["onnx"] for record in own) <= 1e-5
        assert max(record["difference"].get("python", 0.0) for record in own) == 0
        assert all(set(record["difference"]) == set(kinds[1:]) for record in own)


def test_growth_in_a_line_is_linear_and_other_growth_is_not():
    report = script("speed_report")
    sizes = (600, 1200, 3000, 12_000)
    assert max(map(abs, report.departures({str(n): 5 + 0.01 * n for n in sizes}))) < 1e-12
    assert max(map(abs, report.departures({str(n): 1e-6 * n**2 for n in sizes}))) > report.WITHIN
