"""Lines of the Influx line protocol become rows, or one sentence that names the line."""

import contextlib
import gzip
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.wire import cells
from tsadc.errors import DataError
from tsadc.serve.readers.body import Limits, TooLarge
from tsadc.serve.readers.labels import LabelMapping
from tsadc.serve.readers.line_protocol import Line, LineProtocolDecoder, Settings, slow_line

NOW = 5


def decoded(text: str | bytes, **options: str) -> dict[tuple[str, int, str], float]:
    body = text.encode() if isinstance(text, str) else text
    return cells(LineProtocolDecoder().decode(body, NOW, **options))


def test_fields_become_variables_of_the_host() -> None:
    body = (
        "cpu,cpu=cpu0,host=a user=1.5,system=2i 7\n\n# comment\nmem,host=a used=3u,full=false 7\ncpu,host=b user=1e3\n"
    )
    assert decoded(body) == {
        ("a", 7, 'cpu_user{cpu="cpu0"}'): 1.5, ("a", 7, 'cpu_system{cpu="cpu0"}'): 2.0, ("a", 7, "mem_used"): 3.0,
        ("a", 7, "mem_full"): 0.0, ("b", NOW, "cpu_user"): 1000.0,
    }  # fmt: skip


def test_precision_compression_and_line_ends() -> None:
    assert decoded(gzip.compress(b"m,host=a f=1 7\r\n"), encoding="gzip", precision="ms") == {
        ("a", 7_000_000, "m_f"): 1.0
    }
    assert decoded("m,host=a f=1 -7", precision="s") == {("a", -7 * 10**9, "m_f"): 1.0}


def test_escapes_quotes_and_line_breaks_in_text() -> None:
    body = 'my\\ cpu\\,x,host=a\\ b\\=c,q=5" sys\\=tem=1,note="a, b=\\"2\\"\nnext" 7\nm,host=a\\n f=2 8'
    assert decoded(body) == {
        ("a b=c", 7, 'my cpu,x_sys=tem{q="5\\""}'): 1.0,
        ("a\\n", 8, "m_f"): 2.0,
    }
    result = LineProtocolDecoder().decode(body.encode(), NOW)
    assert result.skipped == {"values that are text": 1}


def test_the_name_of_the_measurement_can_be_left_out() -> None:
    decoder = LineProtocolDecoder(Settings(entity="machine", keep=(), measurement=False))
    assert cells(decoder.decode(b"plant,machine=p1,site=x flow=2", NOW)) == {("p1", NOW, "flow"): 2.0}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("m,host=a f=1\nm,host=a", "2 should be `measurement,tag=value field=value time`, with one field or more."),
        ("m,host=a f", "one field or more, but got 'f'"),
        ("m,host=a =1", "one field or more"),
        ("m,host=a f=", "the value of 'f' should be a number, a truth value or a text in quotes, but got ''"),
        ("m,host=a f=1_0", "but got '1_0'"),
        ("m,host=a f=nan", "but got 'nan'"),
        ("m,host=a f=0x1", "but got '0x1'"),
        ("m,host=a f=1.5i", "but got '1.5i'"),
        ('m,host=a t="\n\n",f=x', "Line 1: the value of 'f'"),
        ('m,host=a t="\n\n"\nm,host=a f=x', "Line 4: the value of 'f'"),
        ('m,host=a f="x', "Line 1 has a text without a closing quote"),
        ('m,host=a f="x"y', "Line 1 has characters after the quote"),
        (",host=a f=1", "Line 1 should begin with the name of a measurement"),
        ("m,host= f=1", "Line 1 has a tag that is not name=value"),
        ("m,host f=1", "Line 1 has a tag that is not name=value"),
        ("m,host=a=b f=1", "Line 1 has a tag that is not name=value"),
        ("m,host=a,host=b f=1", "Line 1 has the same tag twice"),
        ("m,host=a f=1 1.5", "Line 1: the time at its end should be a whole number, but got '1.5'"),
        ("m,host=a f=1 7 8", "but got '7 8'"),
        ("m,host=a f=1 9999999999999999999", "the time 9999999999999999999 is not between the years 1678 and 2262"),
        ("m f=1", "only series without the label 'host', which names the entity"),
        ('m,host=a f="x"', "No value of the request can be used, only values that are text."),
    ],
)  # fmt: skip
def test_a_wrong_line_is_refused_in_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(DataError) as error:
        decoded(text)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_limits_hold() -> None:
    with pytest.raises(DataError, match="`precision` must be ns, us, ms or s, but got 'h'"):
        decoded("m,host=a f=1", precision="h")
    with pytest.raises(DataError, match="not UTF-8"):
        decoded(b"m,host=\xff f=1")
    with pytest.raises(DataError, match=r"gzip.*damaged"):
        decoded(b"m,host=a f=1", encoding="gzip")
    with pytest.raises(DataError, match=r"gzip.*cut off"):
        decoded(gzip.compress(b"m,host=a f=1")[:-9], encoding="gzip")
    small = LineProtocolDecoder(limits=Limits(megabytes=1, values=3, series=3))
    with pytest.raises(TooLarge, match="more than 1 MB"):
        small.decode(gzip.compress(bytes(2**21)), NOW, encoding="gzip")
    with pytest.raises(TooLarge, match="3 values"):
        small.decode(b"m,host=a f=1,g=2\nm,host=a f=1,g=2", NOW)
    with pytest.raises(TooLarge, match="3 series"):
        LineProtocolDecoder(limits=Limits(series=3)).decode(b"m,host=a f=1,g=2\nm,host=b f=1,g=2", NOW)


def test_a_number_too_large_for_a_float_is_left_out() -> None:
    result = LineProtocolDecoder().decode(b"m,host=a f=1e999,g=1," + b"h=" + b"9" * 5000 + b"i", NOW)
    assert cells(result) == {("a", NOW, "m_g"): 1.0}
    assert result.skipped == {"missing or infinite values": 2}


def slowly(data: bytes) -> list[Line]:
    """All lines by the definition alone."""
    lines, at = [], 0
    while at < len(data):
        end = data.find(b"\n", at)
        text = data[at : len(data) if end < 0 else end].strip(b" \t\r")
        if not text or text.startswith(b"#"):
            at = len(data) if end < 0 else end + 1
        else:
            line, at = slow_line(data, at, 1)
            lines.append(line)
    return lines


pieces = (
    *(
        "m",
        "h",
        "host=a",
        ",",
        "=",
        " ",
        "  ",
        "\\",
        '"',
        "\n",
        "f=1",
        "g=2.5",
        "k=3i",
        "t",
        "-",
        ".5",
        "e3",
        " 7",
        "#",
    ),
    *("\t", "u", "m,host=a f=1", "\nm,host=b f=1,g=-2i 7", '\nm,host=a t="x"'),
)


@given(st.lists(st.sampled_from(pieces), max_size=12))
def test_the_fast_way_equals_the_definition(parts: list[str]) -> None:
    data = "".join(parts).encode()
    try:
        lines = slowly(data)
    except DataError:
        with pytest.raises(DataError):
            decoded(data)
        return
    expected = {}
    for line in lines:
        tags = {name.decode(): value.decode() for name, value in line.tags}
        for name, value in line.fields:
            if value is not None and "host" in tags:
                labels = [pair for pair in tags.items() if pair[0] != "host"]
                variable = LabelMapping().variable(f"{line.measurement.decode()}_{name.decode()}", labels)
                if (variable + tags["host"]).isprintable():
                    expected[tags["host"], NOW if line.time is None else line.time, variable] = value
    if expected or not any(line.fields for line in lines):
        assert decoded(data) == expected
    else:
        with pytest.raises(DataError, match="No value of the request can be used"):
            decoded(data)


def test_speed() -> None:
    """Measured 30 to 60 ms for 10,000 lines; the limit leaves room for busy machines."""
    body = "\n".join(f"cpu,cpu=cpu{i % 8},host=h{i // 8} user={i}.5 7" for i in range(10_000)).encode()
    decoder = LineProtocolDecoder()
    assert decoder.decode(body, NOW).values == 10_000
    spent = []
    for _ in range(5):
        start = time.process_time()
        decoder.decode(body, NOW)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.4


@pytest.mark.parametrize(
    "line",
    [
        b"m,host=a text=" + b"x" * 100_000,
        b"m,host=a f=" + b"1" * 100_000 + b"x",
        b'm,host=a t="",f=' + b"1" * 100_000 + b"x",
        b"m,host=a," + b"t" * 300_000 + b"=x " + b",".join(b"f%d=1" % i for i in range(30_000)),
        b"m" * 300_000 + b",host=a " + b",".join(b"f%d=1" % i for i in range(30_000)),
        b"m,host=a f=1," + b",".join([b't="x"'] * 300_000),
    ],
    ids=["text without quotes", "digits", "digits after a text", "long tag", "long measurement", "many texts"],
)
def test_a_long_line_takes_time_in_proportion_to_its_length(line: bytes) -> None:
    """Measured 0.01 to 0.4 s. A pattern or a search that begins again at each character or field takes 5 s or more."""
    start = time.process_time()
    with contextlib.suppress(DataError):
        LineProtocolDecoder().decode(line, NOW)
    assert time.process_time() - start < 2


def test_long_keys_are_not_remembered() -> None:
    decoder = LineProtocolDecoder(Settings(ignore=("note",)))
    long = [b"m,host=a,note=" + bytes([letter]) * 11_000 + b" f=1 7" for letter in b"xyz"]
    for body in (b"m,host=a f=1 7", *long, b"m,host=a " + b"f" * 11_000 + b"=1,g=1 7"):
        assert decoder.decode(body, NOW).values == 1
    assert list(decoder._lines) == [(b"m,host=a", (b"f",))]
    assert max(map(len, decoder._index.codes)) < 100
