"""Figures in the documents are those of the committed records."""

from benchmark import script


def test_the_page_on_speed_is_made_from_the_records():
    report = script("speed_report")
    found = report.records()
    assert len(found) >= 6
    page = report.DOCUMENT.read_text()
    assert report.table(found) in page
    assert report.notes(found) in page
    assert report.profile(found["profile"]) in page
    if "growth" in found:
        assert report.plot(found["growth"]) == report.PLOT.read_text()
    else:
        assert "Not measured yet" in page


def test_growth_in_a_line_is_linear_and_other_growth_is_not():
    report = script("speed_report")
    sizes = (600, 1200, 3000, 12_000)
    assert max(map(abs, report.departures({str(n): 5 + 0.01 * n for n in sizes}))) < 1e-12
    assert max(map(abs, report.departures({str(n): 1e-6 * n**2 for n in sizes}))) > report.WITHIN
