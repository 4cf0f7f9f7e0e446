import contextlib
import io
import re
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tsadc.errors import DataError, TsadcNotice
from tsadc.io.read import read
from tsadc.io.reading import Reading
from tsadc.series import Clock

VALUES = np.arange(12.0).reshape(6, 2)


def refusal(path, reading=None) -> str:
    with pytest.raises(DataError) as caught:
        read(path, reading or Reading())
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith(".")
    assert "\n" not in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int16, np.bool_])
def test_a_matrix_is_one_series(tmp_path, kind):
    np.save(tmp_path / "pump.npy", VALUES.astype(kind))
    (found,) = read(tmp_path / "pump.npy")
    np.testing.assert_array_equal(found.values, VALUES.astype(kind).astype(float))
    assert (found.entity, found.names, found.clock) == ("pump", ("variable_0", "variable_1"), Clock())


def test_a_file_that_is_truncated_after_it_was_read_does_no_harm(tmp_path):
    path = tmp_path / "pump.npy"
    np.save(path, VALUES)
    values = read(path)[0].values
    with path.open("r+b") as file:
        file.truncate(1)  # reading a map of the file would now end the process
    np.testing.assert_array_equal(values, VALUES)


def test_arrays_larger_than_memory_are_refused_before_they_are_read(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.zeros((1000, 10), np.float32))
    np.savez_compressed(tmp_path / "b.npz", x=np.zeros((500, 10), np.int8), y=np.zeros((500, 10), np.int8))
    (tmp_path / "c.npz").write_bytes(_zip_of("raw", b"text" * 2500))
    for name, size in (("a.npy", "240.0 kB"), ("b.npz, unpacked,", "246.1 kB"), ("c.npz, unpacked,", "240.0 kB")):
        path = tmp_path / name.split(",")[0]
        monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 239_999)
        with pytest.raises(DataError, match=rf"{re.escape(name)} needs {size} of memory or more, but 240\.0 kB are"):
            read(path)
        monkeypatch.setattr("tsadc.io.limits.available_memory", lambda: 250_000)
        if name != "c.npz, unpacked,":
            read(path)
    with pytest.raises(DataError, match="should be a data frame or an array of numbers"):
        read(tmp_path / "c.npz")


def _zip_of(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, content)
    return out.getvalue()


def test_observations_follow_each_other(tmp_path):
    np.save(tmp_path / "pump.npy", VALUES.reshape(2, 3, 2))
    np.testing.assert_array_equal(read(tmp_path / "pump.npy")[0].values, VALUES)


def test_variables_of_an_array_are_picked_by_their_number(tmp_path):
    np.save(tmp_path / "pump.npy", VALUES)
    reading = Reading(columns=("variable_1", "variable_0"), rename={"variable_1": "heat"})
    (found,) = read(tmp_path / "pump.npy", reading)
    assert found.names == ("heat", "variable_0")
    np.testing.assert_array_equal(found.values, VALUES[:, ::-1])


def test_one_array_is_the_files_entity_and_several_are_their_keys(tmp_path):
    np.savez(tmp_path / "pump.npz", VALUES)
    assert [one.entity for one in read(tmp_path / "pump.npz")] == ["pump"]
    np.savez_compressed(tmp_path / "plant.npz", p=VALUES, q=VALUES[:4] + 1)
    p, q = read(tmp_path / "plant.npz")
    assert (p.entity, q.entity, len(q)) == ("p", "q", 4)
    np.testing.assert_array_equal(q.values, VALUES[:4] + 1)


def test_arrays_that_are_not_series_are_left_out_with_a_notice(tmp_path):
    np.savez(tmp_path / "plant.npz", p=VALUES, p_label=np.zeros(6), sensors=np.array([["x", "y"]]))
    with pytest.warns(TsadcNotice, match="has arrays that are not series and were left out: p_label, sensors"):
        assert [one.entity for one in read(tmp_path / "plant.npz")] == ["p"]
    np.savez(tmp_path / "labels.npz", a=np.zeros(3), b=np.zeros(3))
    assert "PATH should hold one array of numbers of shape (time, variable) per" in refusal(tmp_path / "labels.npz")


def test_a_key_in_two_files_is_refused(tmp_path):
    for name in ("one.npz", "two.npz"):
        np.savez(tmp_path / name, p=VALUES, q=VALUES)
    with pytest.raises(DataError, match=r"Entity 'p' is in both .*one\.npz and .*two\.npz, and without a time column"):
        read([tmp_path / "one.npz", tmp_path / "two.npz"])


class Payload:
    """Unpickling this would be noticed."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


def test_nothing_pickled_is_loaded(tmp_path):
    objects = np.array([[Payload(), 1]], dtype=object)
    np.save(tmp_path / "a.npy", objects)
    np.savez(tmp_path / "b.npz", objects)
    (tmp_path / "c.npy").write_bytes(b"\x80\x04N.")
    for path in ("a.npy", "b.npz", "c.npy"):
        assert "PATH holds Python objects or is not an NP" in refusal(tmp_path / path)


def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(5))
    assert "PATH should have shape (time, variable)" in refusal(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", p=VALUES, q=np.full((3, 2), np.inf))
    assert refusal(tmp_path / "b.npz").startswith("PATH, array 'q': variable 0 is infinite at row 0")
    np.save(tmp_path / "wide.npy", np.zeros((2, 10_001), dtype=np.float32))
    assert "PATH has more than 10000 columns" in refusal(tmp_path / "wide.npy")
    np.save(tmp_path / "c.npy", VALUES)
    assert "is not a recording, so --rate cannot be used" in refusal(tmp_path / "c.npy", Reading(rate=10))
    np.savez(tmp_path / "d.npz", VALUES)
    (tmp_path / "d.npz").rename(tmp_path / "d.npy")
    assert refusal(tmp_path / "d.npy") == "PATH is an NPZ file by its content; rename it to end in .npz."


def test_files_that_end_too_early(tmp_path):
    for ending, save in ((".npy", np.save), (".npz", np.savez), (".npz", np.savez_compressed)):
        content = io.BytesIO()
        save(content, VALUES)
        path = tmp_path / f"pump{ending}"
        for size in (0, 5, 60, len(content.getvalue()) // 2, len(content.getvalue()) - 1):
            path.write_bytes(content.getvalue()[:size])
            assert refusal(path).startswith("PATH ")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(st.data(), st.sampled_from([".npy", ".npz"]))
@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice", "ignore::UserWarning")
def test_damaged_files_are_read_or_refused(tmp_path, data, ending):
    content = io.BytesIO()
    (np.save if ending == ".npy" else np.savez)(content, VALUES)
    damaged = bytearray(content.getvalue())
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / f"any{ending}"
    path.write_bytes(damaged)
    with contextlib.suppress(DataError):
        read(path)


def test_a_file_in_the_archive_that_is_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("notes.txt", "hello")
    assert "PATH" in refusal(tmp_path / "a.npz")


def test_real_machines_by_key(shared_data):
    with pytest.warns(TsadcNotice, match="not series and were left out: .*_test_label"):
        found = read(shared_data / "smd19.npz")
    assert len(found) == 38
    assert {len(one.names) for one in found} == {38}


@pytest.mark.parametrize("stream", [False, True])
def test_an_array_of_a_prepared_data_set_has_its_names(tmp_path, stream):
    (tmp_path / "observations").mkdir()
    np.save(tmp_path / "observations" / "pump.npy", VALUES.reshape(2, 3, 2))
    about = tmp_path / "about.json"
    for content, names in (
        ('{"variables": ["flow", "heat"]}', ("flow", "heat")),
        ('{"variables": ["flow"]}', ("variable_0", "variable_1")),
        ('{"variables": ["flow", "flow"]}', ("variable_0", "variable_1")),
        ("[]", ("variable_0", "variable_1")),
    ):
        about.write_text(content)
        (series,) = read(tmp_path / "observations", Reading(stream=stream))
        assert (series.names, series.observation) == (names, 3)
        np.testing.assert_array_equal(series.values[:], VALUES)
