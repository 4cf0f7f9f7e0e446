import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tsadc.errors import OutputError
from tsadc.show.html import Html, element, join, name, page, write_page


def test_plain_text_is_escaped_and_markup_is_not():
    assert element("p", "a < b", Html("<b>c</b>")) == "<p>a &lt; b<b>c</b></p>"
    assert join(["<", ["&"]], None) == "&lt;&amp;"
    assert name("<i>") == "<bdi>&lt;i&gt;</bdi>"


def test_attributes():
    written = element("a", "x", class_="y", data_low=1.5, hidden=True, title='"<', href=None, download=False)
    assert written == '<a class="y" data-low="1.5" hidden title="&quot;&lt;">x</a>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.title = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.title = dict(attrs).get("title", self.title)

    def handle_data(self, data):
        self.text += data


@given(st.text(st.characters(exclude_characters="\r\0", exclude_categories=("Cs",))))
def test_any_text_comes_back_as_text(text):
    reader = Reader()
    reader.feed(element("p", text, title=text))
    reader.close()
    assert (reader.tags, reader.text, reader.title) == (["p"], text, text)


@pytest.mark.parametrize("more", [(), ("bench",)])
def test_only_the_script_of_the_page_may_run(more: tuple[str, ...]) -> None:
    text = page("a < b", element("main", "content"), more)
    (script,) = re.findall(r"<script>(.*)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'".replace("'", "&#x27;") in text
    assert "<title>a &lt; b</title>" in text
    assert not re.search(r"""(?:src|href)=["']?https?:""", text)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "page.html"
    for text in (page("one", element("main")), page("two", element("main"))):
        assert write_page(text, target) == target
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]
    with pytest.raises(OutputError, match=r"is a folder; add a name such as report\.html"):
        write_page("x", tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        write_page("x", target / "below.html")


@pytest.mark.parametrize("content", ["", "time,flow\n0,1\n", "<!doctype html>\n<title>thesis</title>"])
def test_a_file_that_is_no_page_is_not_replaced(tmp_path: Path, content: str) -> None:
    target = tmp_path / "precious.csv"
    target.write_text(content)
    with pytest.raises(OutputError, match=r"precious\.csv exists and is not a report of tsadc, so it is not replaced"):
        write_page(page("x", element("main")), target)
    assert target.read_text() == content
