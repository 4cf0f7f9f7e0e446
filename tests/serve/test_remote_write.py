"""Prometheus remote write requests become rows, in any order of fields, or one sentence; large ones are refused before
they take memory."""

import struct
import time

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.wire import NOW, cells, label, message, metric, request, sample, series, varint
from tsadc.errors import DataError
from tsadc.serve.readers.body import Limits, TooLarge
from tsadc.serve.readers.labels import LabelMapping, SeriesIndex
from tsadc.serve.readers.remote_write import RemoteWriteDecoder, _known_label, series_name, slow_series

MILLISECOND = 10**6
STALE = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]


def test_series_become_variables_of_the_entity_that_a_label_names() -> None:
    body = request(
        series(metric("load", "a"), [(NOW, 1.5), (NOW + 1000, 0.0)]),
        series(metric("free", "a", mountpoint="/"), [(NOW, 7.0), (NOW + 1000, 8.0)]),
        series(metric("load", "b"), [(NOW, 2.5)]),
    )
    decoded = RemoteWriteDecoder().decode(body)
    first, second = NOW * MILLISECOND, (NOW + 1000) * MILLISECOND
    assert cells(decoded) == {
        ("a", first, "load"): 1.5, ("a", second, "load"): 0.0, ("b", first, "load"): 2.5,
        ("a", first, 'free{mountpoint="/"}'): 7.0, ("a", second, 'free{mountpoint="/"}'): 8.0,
    }  # fmt: skip
    assert [(batch.entity, batch.values.shape) for batch in decoded.batches] == [("a", (2, 2)), ("b", (1, 1))]
    assert not decoded.skipped


def test_the_mapping_of_labels_can_be_configured() -> None:
    body = request(series(metric("load", "a", site="x", zone="z", cpu="1"), [(NOW, 1.0)]))

    def named(**settings: object) -> tuple[str, str]:
        [(entity, _, variable)] = cells(RemoteWriteDecoder(LabelMapping(**settings)).decode(body))
        return entity, variable

    assert named() == ("a", 'load{cpu="1",site="x",zone="z"}')
    assert named(ignore=("job", "zone", "site")) == ("a", 'load{cpu="1"}')
    assert named(entity="site", keep=("cpu",)) == ("x", 'load{cpu="1"}')
    assert named(keep=(), rename=(("load", "work"),)) == ("a", "work")


def test_what_cannot_be_used_is_left_out_and_counted() -> None:
    body = request(
        series([("__name__", "up")], [(NOW, 1.0), (NOW + 1, 1.0)]),
        series(metric("load"), [(NOW, STALE), (NOW, float("inf")), (NOW, 3.0)]),
        series(metric("long" * 60), [(NOW, 1.0)]),
        series(metric("line\nbreak"), [(NOW, 1.0)]),
        series([("instance", "a")], [(NOW, 1.0)]),
    )
    decoded = RemoteWriteDecoder().decode(body)
    assert cells(decoded) == {("a", NOW * MILLISECOND, "load"): 3.0}
    assert decoded.skipped == {
        "series without the label 'instance', which names the entity": 2,
        "missing or infinite values": 2,
        "series whose entity or variable has a name of more than 200 characters": 1,
        "series whose entity or variable has unprintable characters in its name": 1,
        "series without a name": 1,
    }


def test_the_last_of_repeated_values_counts() -> None:
    body = request(
        series(metric("load", replica="1"), [(NOW, 1.0)]),
        series(metric("other"), [(NOW, 5.0)]),
        series(metric("load", replica="2"), [(NOW, 2.0)]),
    )
    decoded = RemoteWriteDecoder(LabelMapping(ignore=("job", "replica"))).decode(body)
    [batch] = decoded.batches
    assert dict(zip(batch.names, batch.values[0].tolist(), strict=True)) == {"load": 2.0, "other": 5.0}
    assert decoded.skipped == {"repeated values of a variable at one time": 1}


def test_unknown_fields_are_skipped_and_fields_may_come_in_any_order() -> None:
    exemplar = message(3, b"\x0a\x00")
    histogram = message(4, b"\x08\x05")
    parts = [*(label(*pair) for pair in metric("load")), sample(NOW, 1.0), exemplar, histogram]
    strange = b"".join(reversed(parts)) + b"\x98\x06\x05" + b"\xa5\x06" + b"four" + b"\xa1\x06" + b"eight..."
    metadata = message(3, b"\x08\x01\x12\x04load")
    body = request(metadata, message(1, strange), series(metric("other"), [(NOW, 2.0)]), metadata)
    decoded = RemoteWriteDecoder().decode(body)
    assert {name: value for (_, _, name), value in cells(decoded).items()} == {"load": 1.0, "other": 2.0}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\x0a\x05\x0a", "it is cut off"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a number that is too long"),
        (b"\x08\x01", "a series has another type"),
        (b"\x0b", "a field of an unknown type"),
        (b"\x02\x00", "a field without a number"),
        (message(1, b"\x08\x01"), "a label or a sample has another type"),
        (message(1, message(2, b"\x0d1234")), "a value is no 64-bit number"),
        (message(1, message(2, b"\x12\x00")), "a timestamp is no whole number"),
        (message(1, message(1, message(1, b"\xff"))), "a label is not UTF-8"),
        (series([("job", "a"), ("job", "b")], [(NOW, 1.0)]), "has the label 'job' twice"),
        (series(metric("load"), [(2**62, 1.0)]), "before the year 2262, but got 4611686018427387904"),
        (series(metric("load"), [(-(2**63), 1.0)]), "before the year 2262, but got -9223372036854775808"),
    ],
)
def test_a_damaged_request_is_refused_in_one_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence.replace("(", r"\(")) as error:
        RemoteWriteDecoder().decode(request(data))
    assert "\n" not in str(error.value)
    assert str(error.value).endswith(".")


def test_compression_is_checked_before_memory_is_taken() -> None:
    decoder = RemoteWriteDecoder(limits=Limits(megabytes=1))
    with pytest.raises(DataError, match="snappy block"):
        decoder.decode(b"no snappy")
    with pytest.raises(DataError, match="Content-Encoding is 'br'"):
        decoder.decode(b"", "br")
    with pytest.raises(TooLarge, match="more than 1 MB"):
        decoder.decode(varint(2**32 - 1) + b"\x00")
    with pytest.raises(TooLarge, match="more than 1 MB"):
        decoder.decode(bytes(cramjam.snappy.compress_raw(bytes(2**21))))


def test_series_and_values_are_limited() -> None:
    many = [series(metric(f"m{i}"), [(NOW, 1.0), (NOW + 1, 2.0)]) for i in range(10)]
    assert RemoteWriteDecoder(limits=Limits(series=10, values=20)).decode(request(*many)).values == 20
    with pytest.raises(TooLarge, match="9 series"):
        RemoteWriteDecoder(limits=Limits(series=9)).decode(request(*many))
    with pytest.raises(TooLarge, match="19 values"):
        RemoteWriteDecoder(limits=Limits(values=19)).decode(request(*many))


def test_sparse_values_take_no_more_memory_than_they_have_cells() -> None:
    """A table of all times and names would have a million cells."""
    body = request(*(series(metric(f"m{i}"), [(NOW + i, 1.0)]) for i in range(1000)))
    assert sum(batch.values.size for batch in RemoteWriteDecoder().decode(body).batches) == 1000


texts = st.text("ab_\u00e4{=", min_size=0, max_size=3)
# Times whose varint has 6 bytes, which are read at once, and others.
times = st.one_of(st.integers(NOW, NOW + 10), st.integers(-5, 5), st.integers(2**41, 2**42 + 5))
values = st.one_of(st.sampled_from([0.0, 1.0, -2.5]), st.floats(allow_nan=False, allow_infinity=False))


contents = st.tuples(
    st.dictionaries(texts, texts, max_size=3), st.lists(st.tuples(times, values), max_size=3), st.booleans()
)


@given(
    st.lists(contents, max_size=5),
    st.randoms(use_true_random=False),
)
def test_the_fast_way_equals_the_definition(content: list, shuffle: object) -> None:
    parts, expected, repeated = [], {}, 0
    for extra, samples, mixed in content:
        fields = [*(label(*pair) for pair in metric("m", **{})), *(sample(*pair) for pair in samples)]
        fields += [label(f"x{name}", value) for name, value in extra.items()]
        if mixed:
            shuffle.shuffle(fields)
        parts.append(message(1, b"".join(fields)))
        labels, read = slow_series(b"".join(fields))
        name, others = series_name(labels)
        for stamp, value in read:
            cell = ("a", stamp * MILLISECOND, LabelMapping().variable(name, others))
            repeated += cell in expected
            expected[cell] = value
    decoder = RemoteWriteDecoder()
    for _ in range(2):  # the second time, the series are known
        decoded = decoder.decode(request(*parts))
        if repeated == 0:
            assert cells(decoded) == expected
        else:
            assert cells(decoded).keys() == expected.keys()


def test_speed() -> None:
    """Measured 10 to 30 ms for 10,000 series; the limit leaves room for busy machines."""
    body = request(*(series(metric(f"m{i % 500}", f"host-{i // 500}"), [(NOW, float(i))]) for i in range(10_000)))
    decoder = RemoteWriteDecoder()
    assert decoder.decode(body).values == 10_000
    spent = []
    for _ in range(5):
        start = time.process_time()
        decoder.decode(body)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.2


def test_long_keys_are_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SeriesIndex, "MOST", 2)
    _known_label.cache_clear()
    decoder = RemoteWriteDecoder(LabelMapping(ignore=("job", "note")))
    for k in range(5):
        body = request(series(metric("load", f"host-{k}", note=str(k) * 11_000), [(NOW, 1.0)]))
        assert cells(decoder.decode(body)) == {(f"host-{k}", NOW * MILLISECOND, "load"): 1.0}
    assert decoder._index.codes == {}
    assert list(decoder._index.entities) == ["host-3", "host-4"]
    assert _known_label.cache_info().currsize == 7  # name, job and five instances, but no note
    decoder.decode(request(series(metric("load"), [(NOW, 1.0)])))
    assert len(decoder._index.codes) == 1


def test_a_repeated_label_among_many_is_found_quickly() -> None:
    labels = [(f"label{k}", "x") for k in range(50_000)]
    start = time.process_time()
    with pytest.raises(DataError, match="the label 'label0' twice"):
        series_name([*labels, ("label0", "y")])
    assert time.process_time() - start < 2
