from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tsadc.errors import ConfigError, ModelFileError, OutputError
from tsadc.nn import checkpoint

TENSORS = {
    "weights": {"a.weight": torch.arange(6.0).reshape(2, 3), "a.pole": torch.tensor([1 + 2j, 3 - 4j])},
    "exp_avg": {"a.weight": torch.full((2, 3), 0.1)},
}
RECORD = {"identity": {"seed": 1}, "epochs": [{"number": 1, "loss": 0.1 + 0.2}]}


def test_what_is_written_is_read_to_the_bit(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    checkpoint.write(path, TENSORS, RECORD)
    tensors, record = checkpoint.read(path)
    assert record == RECORD
    assert tensors.keys() == TENSORS.keys()
    for kind, named in TENSORS.items():
        assert tensors[kind].keys() == named.keys()
        assert all(torch.equal(tensors[kind][name], tensor) for name, tensor in named.items())
    assert [file.name for file in tmp_path.iterdir()] == ["run.safetensors"]


def test_tensors_that_share_memory_are_written_apart(tmp_path: Path) -> None:
    path, tied = tmp_path / "run.safetensors", torch.arange(4.0)
    checkpoint.write(path, {"weights": {"a": tied, "b": tied, "half": tied[::2]}}, {})
    weights = checkpoint.read(path)[0]["weights"]
    assert torch.equal(weights["a"], tied)
    assert torch.equal(weights["b"], tied)
    assert torch.equal(weights["half"], tied[::2])


def test_an_interrupted_write_leaves_the_former_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.safetensors"
    checkpoint.write(path, TENSORS, RECORD)

    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            checkpoint.write(path, {}, {"epochs": []})
    assert checkpoint.read(path)[1] == RECORD
    checkpoint.write(path, {}, {"epochs": []})
    assert checkpoint.read(path)[1] == {"epochs": []}


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused_in_one_sentence(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "run.safetensors"
    checkpoint.write(path, TENSORS, RECORD)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ModelFileError, match=r"run\.safetensors is damaged .*train from the beginning\.$"):
        checkpoint.read(path)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ModelFileError, match="has format None"):
        checkpoint.read(path)


def test_a_place_that_cannot_hold_a_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="is a folder"):
        checkpoint.prepare(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(ModelFileError, match="name another place"):
        checkpoint.prepare(tmp_path / "file" / "run.safetensors")
    with pytest.raises(OutputError, match="cannot be written"):
        checkpoint.write(tmp_path / "file" / "run.safetensors", TENSORS, RECORD)
    checkpoint.prepare(tmp_path / "new" / "folder" / "run.safetensors")
    checkpoint.write(tmp_path / "new" / "folder" / "run.safetensors", TENSORS, RECORD)


def test_another_run_is_refused_naming_what_differs() -> None:
    was = {"seed": 1, "training": {"epochs": 3, "clip": 1.0}, "fingerprint": {"variables": ["a", "b"]}}
    path = Path("run.safetensors")
    checkpoint.require_same(was, {**was, "fingerprint": {"variables": ("a", "b")}}, path)
    with pytest.raises(ConfigError, match=r"\(training\.epochs was 3 and is now 4\)"):
        checkpoint.require_same(was, {**was, "training": {"epochs": 4, "clip": 1.0}}, path)
    with pytest.raises(ConfigError, match=r"\(fingerprint\.variables was \['a', 'b'\] and is now None\)"):
        checkpoint.require_same(was, {**was, "fingerprint": {}}, path)
    with pytest.raises(ConfigError, match=r"fingerprint\.data was None and is now 'x'; and 1 more"):
        checkpoint.require_same(
            was, {"seed": 2, "training": {"epochs": 4, "clip": 1.0}, "fingerprint": {"data": "x"}}, path
        )
