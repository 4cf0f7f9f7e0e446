import base64
import re

from benchmark import HOSTILE, records
from tsadc.bench.published import Published, PublishedMethod
from tsadc.bench.summary import summarise
from tsadc.show.bench_formats import comma_separated
from tsadc.show.bench_tables import beside, failures, listing, matrix, provenance


def lines(text: str) -> list[str]:
    return [re.sub(r"<[^>]*>", "|", line) for line in re.findall(r"<tr.*?</tr>", text, re.DOTALL)]


def test_the_best_of_each_data_set_is_bold() -> None:
    text = matrix(summarise(records()), "auroc")
    assert re.findall(r"<strong>([\d.]+)<", text) == ["0.950", "0.905", "0.885"]
    assert "\N{PLUS-MINUS SIGN}0.007" in text
    assert "failed" in lines(text)[-1]
    assert "<strong>" not in matrix(summarise(records()), "delay")


def test_what_chance_gets_stands_in_the_cell_and_flagging_all_where_it_is_something_else() -> None:
    """With p = 0.25 and q = 0.5 as the records have them, F1 by chance is 2 * 0.125 / 0.75."""
    some = summarise(records())
    assert set(re.findall(r'class="chance"[^>]*>([^<]*)<', matrix(some, "auroc"))) == {"(0.500)"}
    assert set(re.findall(r'class="chance"[^>]*>([^<]*)<', matrix(some, "f1"))) == {"(0.333)"}
    assert "Flagging everything" not in matrix(some, "auroc") + matrix(some, "ap")
    assert "Flagging everything gets: ludb 0.400, plant eta=0 0.400, plant eta=0.2 0.400." in matrix(some, "f1")


def test_what_others_published_stands_beside_ours() -> None:
    rows = (PublishedMethod(HOSTILE, ("ridge",), {"A": (0.5,)}), PublishedMethod("theirs", (), {}))
    some = Published("A table", "Other data.", {"A": ("plant eta=0.2",)}, {"F1": "auroc"}, rows)
    (mean,) = (one.mean("auroc") for one in summarise(records()) if (one.label, one.data) == ("ridge", "plant eta=0.2"))
    text = beside(some, summarise(records()))
    head, first, _ = lines(text)
    assert re.split(r"\|+", head)[1:-1] == ["method", "ours", "A", "ours: plant eta=0.2"]
    assert re.split(r"\|+", first)[-4:-1] == ["ridge", "0.500", f"{mean:.3f}"]
    assert HOSTILE not in text
    assert re.findall(r'data-value="([^"]*)"', text) == ["0.5", f"{float(f'{mean:.3f}'):g}", "NaN", "NaN"]
    assert "Other data." in text
    assert lines(beside(Published("A figure", "No numbers.", {}, {}, ()), [])) == []


def test_every_result_is_listed_and_downloaded() -> None:
    some = summarise(records())
    text = listing(some, ["auroc", "delay"])
    assert len(lines(text)) == 1 + len(some)
    assert 'data-filter="plant eta=0.2 ridge"' in text
    (data,) = re.findall(r"base64,([^\"]*)", text)
    assert base64.b64decode(data).decode() == comma_separated(some, ["auroc", "delay"])
    assert "256" in next(line for line in lines(text) if "plant eta=0.2" in line)  # MiB


def test_failures_say_why_and_names_are_harmless() -> None:
    text = failures(records())
    assert text is not None
    assert "MemoryError: &lt;b&gt;too much" in text
    assert failures(records()[:-1]) is None
    assert HOSTILE not in matrix(summarise(records()), "auroc") + listing(summarise(records()), ["auroc"])


def test_provenance_names_what_made_the_numbers() -> None:
    text = provenance(records(), "a plan")
    for words in ("tsadc 1.2.3 at commit abc", "python 3.11", "a processor, 2 cores, 2 GiB", "of seeds 0, 1", "a plan"):
        assert words in text
    assert "2026-01-01T00:00:00+00:00 to 2026-01-02T00:00:00+00:00" in text
    old = [{name: value for name, value in one.items() if name not in ("machine", "made")} for one in records()]
    assert provenance(old, "").count("not recorded") == 2
