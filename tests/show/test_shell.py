import base64
import hashlib
import re
from pathlib import Path

import pytest

from tsadc.errors import OutputError
from tsadc.show.markup import element
from tsadc.show.shell import page, write_page


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
    for text in ("one", "two"):
        assert write_page(text, target) == target
        assert target.read_text() == text
    assert list(target.parent.iterdir()) == [target]
    with pytest.raises(OutputError, match=r"is a folder; add a name such as report\.html"):
        write_page("x", tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        write_page("x", target / "below.html")
