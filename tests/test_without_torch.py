"""Everything but the networks works where torch is not installed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsadc.optional import versions

# Run at the start of the process, as if torch were not installed.
HIDE = """
import importlib.machinery, sys
class Hidden(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] == "torch" else super().find_spec(name, path, target)
sys.meta_path = [Hidden if finder is importlib.machinery.PathFinder else finder for finder in sys.meta_path]
sys.meta_path = [finder for finder in sys.meta_path if "torch" not in getattr(finder, "__name__", "")]
"""
INSTALL = "pip install -c constraints.txt 'tsadc[network]', with constraints.txt of the repository."
RUN = "import sys; from tsadc.cli import main; main()"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a history and new data of three variables, and a start-up file that hides torch."""
    folder = tmp_path_factory.mktemp("torchless")
    (folder / "start").mkdir()
    (folder / "start" / "sitecustomize.py").write_text(HIDE)
    generator = np.random.default_rng(0)
    values = np.sin(np.arange(2400) / 20)[:, None] * [1, 2, 3] + generator.normal(size=(2400, 3)) * 0.2
    times = pd.date_range("2026-01-01", periods=2400, freq="min", name="time")
    frame = pd.DataFrame(values, index=times, columns=["a", "b", "c"])
    frame.to_csv(folder / "history.csv")
    new = frame[:600].set_axis(times[:600] + pd.Timedelta(days=5)).rename_axis("time")
    new.iloc[300:340, 1] += 8
    new.to_csv(folder / "new.csv")
    return folder


def python(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder / "start"), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_only_networks_import_torch(folder: Path) -> None:
    script = (
        "import importlib, pkgutil, tsadc\n"
        "for module in pkgutil.walk_packages(tsadc.__path__, 'tsadc.', onerror=lambda name: None):\n"
        "    if module.name.endswith(('.__main__', '.migrations.env')):  # which run something\n        continue\n"
        "    try:\n        importlib.import_module(module.name)\n"
        "    except ModuleNotFoundError as error:\n        print(module.name, error.name)\n"
    )
    done = python(folder, script)
    assert done.returncode == 0, done.stderr
    needs = [line.split() for line in done.stdout.splitlines()]
    assert needs
    assert {package for _, package in needs} == {"torch"}
    homes = ("tsadc.nn.", "tsadc.detectors.tsadc.", "tsadc.detectors.baselines.", "tsadc.detectors.residual")
    assert [module for module, _ in needs if not module.startswith(homes)] == []


def test_the_default_detector_fits_and_detects(folder: Path) -> None:
    for words in (
        ["fit", "history.csv", "--out", "model", "--length", "60"],
        ["detect", "new.csv", "--model", "model", "--out", "found", "--report", "found.html"],
    ):
        done = python(folder, RUN, *words)
        assert done.returncode == 0, done.stderr
    intervals = pd.read_csv(folder / "found" / "intervals.csv")
    assert "b" in intervals.loc[intervals["severity"].idxmax(), "variables"]


@pytest.mark.parametrize("detector", ["tsadc", "usad"])
def test_a_network_says_what_it_needs(folder: Path, detector: str) -> None:
    done = python(folder, RUN, "fit", "history.csv", "--out", "network", "--length", "60", "--detector", detector)
    assert done.returncode == 2
    assert f"The detector '{detector}' has a network and needs the package torch: {INSTALL}" in (
        " ".join(done.stderr.split())
    )
    assert not (folder / "network").exists()


def test_benchmarks_run_all_but_networks(folder: Path) -> None:
    plan = (
        'title = "p"\nnote = "n"\nmetrics = ["ap"]\n[[data]]\nname = "plant"\nseeds = [0]\n[[detectors]]\nname = "{}"\n'
    )
    (folder / "plan.toml").write_text(plan.format("robust-z"))
    done = python(folder, RUN, "bench", "run", "plan.toml", "--out", "records")
    assert done.returncode == 0, done.stderr
    assert len(list((folder / "records").glob("*.json*"))) > 0
    (folder / "network.toml").write_text(plan.format("usad"))
    done = python(folder, RUN, "bench", "run", "network.toml", "--out", "none")
    assert done.returncode == 2
    assert "The detector 'usad' has a network and needs the package torch" in " ".join(done.stderr.split())


def test_the_class_says_what_it_needs(folder: Path) -> None:
    done = python(folder, "import tsadc; tsadc.TSADC")
    assert done.stderr.splitlines()[-1] == (f"ImportError: TSADC has a network and needs the package torch: {INSTALL}")


def test_a_setting_of_networks_is_unknown(folder: Path) -> None:
    done = python(folder, RUN, "fit", "history.csv", "--out", "network", "--length", "60", "--epochs", "3")
    assert done.returncode == 2
    assert "`training` (--epochs) does not apply to ensemble, which has no network; leave it out." in done.stderr


def test_versions_are_those_of_installed_packages() -> None:
    assert versions(("numpy", "no-such-package")) == {"numpy": np.__version__}


def test_the_demo_has_one_act(folder: Path) -> None:
    script = (
        "from pathlib import Path; from tsadc.cli.demo import run; from tsadc.data.plant import Plant;"
        "print(run(Path('demo'), plant=Plant.Config(entities=2, variables=4, rows=1800, length=60)))"
    )
    done = python(folder, script)
    assert done.returncode == 0, done.stderr
    assert "TSAD-C has a network and needs the package torch" in done.stdout
    assert {file.name for file in (folder / "demo").iterdir()} == {"report.html", "model", "history", "new"}
