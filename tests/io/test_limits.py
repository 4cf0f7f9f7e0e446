"""Files that would need more memory than there is are refused before they are read."""

import gzip

import pytest

from tsadc.errors import DataError
from tsadc.io import limits
from tsadc.io.limits import available_memory, check_numbers, check_text_size, size_text
from tsadc.io.read import read

MEBI = 2**20


@pytest.fixture
def memory(monkeypatch):
    """Pretend that this many bytes are available."""

    def set_to(size: int) -> None:
        monkeypatch.setattr(limits, "available_memory", lambda: size)

    return set_to


def test_the_smallest_limit_counts(monkeypatch):
    for of_system, of_group, of_process in ((5, None, 3), (3, 4, None), (7, 3, 8)):
        monkeypatch.setattr(limits, "_of_system", lambda size=of_system: size)
        monkeypatch.setattr(limits, "_of_group", lambda size=of_group: size)
        monkeypatch.setattr(limits, "_of_process", lambda size=of_process: size)
        assert available_memory() == 3


def test_a_limit_on_the_process_counts():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2**46, before[1]))
    try:
        assert 2**45 < limits._of_process() < 2**46
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def test_numbers_are_counted_with_their_copies(memory):
    memory(24_000_000)
    check_numbers(1_000_000, "x.h5")
    with pytest.raises(DataError, match=r"^x\.h5 needs 24\.0 MB of memory or more, but 24\.0 MB are available; split"):
        check_numbers(1_000_001, "x.h5")


@pytest.mark.parametrize("members", [1, 3])
def test_compressed_text_is_counted_as_it_unpacks(tmp_path, memory, members):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"time,a,b\n" + b"1,1,1\n" * MEBI) * members)
    assert path.stat().st_size < 0.01 * members * MEBI
    memory(members * 60 * MEBI)  # 6 MB of text, 12 bytes of copies and 96 of cells per line
    with pytest.raises(DataError, match=r"bomb\.csv\.gz, unpacked, needs .* are available; split it into several"):
        read(path)
    memory(members * 120 * MEBI)
    check_text_size(path)


def test_plain_text_is_counted_by_its_cells(tmp_path, memory):
    wide, narrow = tmp_path / "wide.csv", tmp_path / "narrow.csv"
    wide.write_text("a,b,c,d\n" + "1,1,1,1\n" * 1000)
    narrow.write_text("a,b,c,d\n" + "1.000\n" * 1333)
    assert abs(wide.stat().st_size - narrow.stat().st_size) < 10
    memory(100_000)
    check_text_size(narrow)
    with pytest.raises(DataError, match=r"wide\.csv needs 144\.1 kB of memory or more, but 100\.0 kB are available"):
        check_text_size(wide)


def test_a_damaged_gzip_file_is_left_to_its_reader(tmp_path, memory):
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"a\n1\n")[:-9])
    memory(100)
    check_text_size(path)


def test_sizes_are_written_for_people():
    sizes = {12: "12 bytes", 2600: "2.6 kB", 2_600_000: "2.6 MB", 7_800_000_000: "7.8 GB"}
    assert {size: size_text(size) for size in sizes} == sizes
