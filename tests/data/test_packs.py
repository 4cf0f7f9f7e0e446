import numpy as np
import pytest

from tsadc.data.packs import open_pack
from tsadc.errors import DataError


def test_a_pack_is_found_by_its_name_and_reads_each_array_once(tmp_path):
    assert open_pack(tmp_path, "pack.npz") is None
    np.savez(tmp_path / "pack.npz", record=np.array(["a", "b"]), x=np.arange(3))
    pack = open_pack(tmp_path, "pack.npz")
    assert pack["x"] is pack["x"]
    assert pack.find("record", "b") == 1
    assert open_pack(tmp_path / "pack.npz", "pack.npz").file == pack.file


def test_what_a_pack_lacks_is_named(tmp_path):
    np.savez(tmp_path / "pack.npz", record=np.array(["a", "a"]))
    pack = open_pack(tmp_path, "pack.npz")
    with pytest.raises(DataError, match=r"pack\.npz has no array 'y'"):
        pack["y"]
    with pytest.raises(DataError, match="should name a once in 'record', but names it 2 times"):
        pack.find("record", "a")
    (tmp_path / "torn.npz").write_bytes((tmp_path / "pack.npz").read_bytes()[:60])
    with pytest.raises(DataError, match=r"torn\.npz is damaged"):
        open_pack(tmp_path, "torn.npz")["record"]
