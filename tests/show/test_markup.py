from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from tsadc.show.markup import Html, element, join, name


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
