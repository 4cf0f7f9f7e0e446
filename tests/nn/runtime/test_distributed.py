import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny import Denoiser, Waves, weights

from tsadc.nn.runtime.distributed import World
from tsadc.nn.train import Training, TrainingProgress, train

SCRIPT = """
import os
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from tiny import Denoiser, Waves, weights
from tsadc.nn.train import Training, train

torch.set_num_threads(1)
folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
config = Training(epochs=4, batch=3, micro_batch=1, learning_rate=0.01, warmup_epochs=1, ema=0.5)
for name, resume in (("whole", False), ("resumed", True)):
    network = Denoiser(seed=rank)  # only the first process starts from the right weights
    reports = []
    train(network, Waves(7), Waves(4, seed=1), config, seed=5, progress=reports.append,
          checkpoint=folder / f"{name}.safetensors", resume=resume)
    assert bool(reports) == (rank == 0)
    assert not dist.is_initialized()
    save_file(weights(network), folder / f"{name}-{rank}.safetensors")
"""
CONFIG = Training(epochs=4, batch=3, micro_batch=1, learning_rate=0.01, warmup_epochs=1, ema=0.5)


def launch(folder: Path) -> None:
    (folder / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    with (folder / "output").open("w+") as output:
        launched = subprocess.Popen(
            [*command, str(folder / "script.py"), str(folder)],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            code = launched.wait(timeout=100)
        except subprocess.TimeoutExpired:
            launched.terminate()  # torchrun ends its workers, which a kill would leave behind
            launched.wait()
            raise
        assert code == 0, (folder / "output").read_text()


def stop_after_two_epochs(now: TrainingProgress) -> None:
    if now.epoch_ended and now.epoch == 2:
        raise KeyboardInterrupt


def test_alone_without_torchrun() -> None:
    assert World.join() == World(rank=0, size=1, owned=False)


@pytest.mark.slow
def test_two_processes_train_to_the_weights_of_one(tmp_path: Path) -> None:
    """Batches of 3, 3 and 1: shares are uneven, and of the last one the second process has nothing."""
    data = Waves(7), Waves(4, seed=1)
    with pytest.raises(KeyboardInterrupt):
        train(
            Denoiser(seed=0),
            *data,
            CONFIG,
            seed=5,
            progress=stop_after_two_epochs,
            checkpoint=tmp_path / "resumed.safetensors",
        )
    launch(tmp_path)

    network = Denoiser(seed=0)
    train(network, *data, CONFIG, seed=5)
    for run in ("whole", "resumed"):
        first, second = (load_file(tmp_path / f"{run}-{rank}.safetensors") for rank in (0, 1))
        for name, tensor in weights(network).items():
            assert torch.equal(first[name], second[name])
            torch.testing.assert_close(first[name], tensor, rtol=0, atol=1e-5)
