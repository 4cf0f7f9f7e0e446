import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmark import script
from pages import Page
from tsadc.config import update
from tsadc.data.plant import Plant
from tsadc.data.task import Answers, Task, answers
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.detectors.tsadc.inference import ModuleOutputs
from tsadc.series import Labelled, Series, Truth

MODULE = script("paper/approximation")
GROUPS, approximations, examined = MODULE.GROUPS, MODULE.approximations, MODULE.examined
markdown, record = MODULE.markdown, MODULE.record
LENGTH = 10
WINDOW = slice(3, 6)


class Stub:
    """Says that everything under the window is 0, and rebuilds one unit above what it sees; z is half of a value."""

    settings = SimpleNamespace(length=LENGTH, coverage=0.5)

    @staticmethod
    def scaler_(entity: str, values: np.ndarray) -> np.ndarray:
        return values / 2

    @staticmethod
    def module_outputs(test: tuple[Series, ...]) -> Any:
        for one in test:
            for start in range(0, len(one), LENGTH):
                x = one.values[start : start + LENGTH].T
                hidden = np.zeros(x.shape, dtype=bool)
                hidden[:, WINDOW] = True
                yield ModuleOutputs(hidden, np.where(hidden, 0.0, x), x + 1)


def task() -> Task:
    """Six observations: normal ones at 1, 2 and 4; one off in the window, at 8; one off beside it, at 6; one at 3."""
    levels = [1, 2, 4, 8, 6, 3]
    values = np.repeat(np.array(levels, dtype=float), LENGTH)[:, None] * np.ones((1, 2))
    values[4, 0] = np.nan
    series = (Series(values[:30], ("a", "b"), entity="e"), Series(values[30:], ("a", "b"), entity="f"))
    truth = (Truth("f", 4, 5, "x", ("a",)), Truth("f", 17, 19, "y", ("a",)))
    return Task(series, series, answers(Labelled(series, truth), LENGTH))


def test_errors_are_of_the_window_in_z_units() -> None:
    found = examined(Stub(), task())  # type: ignore[arg-type]
    assert found.window == (3, 6)
    assert found.errors["decontaminated"].tolist() == pytest.approx([0.5, 1, 2, 4, 3, 1.5])
    assert found.errors["reconstruction"].tolist() == pytest.approx([0.5] * 6)


def test_groups_tell_where_the_anomaly_lies() -> None:
    found = examined(Stub(), task())  # type: ignore[arg-type]
    assert [np.flatnonzero(found.groups[name]).tolist() for name in GROUPS] == [[0, 1, 2, 5], [3, 4], [3]]
    # 8 is above all four normal ones; what is one off everywhere tells nothing.
    assert found.auroc == {"decontaminated": 1.0, "reconstruction": 0.5}


def test_the_median_of_each_group_is_shown() -> None:
    normal, abnormal = examined(Stub(), task()).examples  # type: ignore[arg-type]
    assert (normal.entity, normal.start, normal.error, normal.kinds) == ("e", 10, 1.0, ())
    assert (abnormal.group, abnormal.entity, abnormal.start, abnormal.kinds) == (GROUPS[2], "f", 0, ("x",))
    assert (abnormal.x == 8).all()
    assert (normal.anomalous, abnormal.anomalous) == ((), ((4, 5),))


def test_without_labels_of_rows_nobody_knows_what_lies_in_the_window() -> None:
    given = task()
    known = Answers(given.answers.kinds, given.answers.entities)
    found = examined(Stub(), Task(given.train, given.test, known))  # type: ignore[arg-type]
    assert list(found.groups) == ["normal", "abnormal"]
    assert found.examples[1].group == "abnormal"
    # 8 and 6 are both above all normal ones.
    assert found.auroc["decontaminated"] == 1.0


def test_the_variables_furthest_off_are_chosen() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 5))
    values[13:16, [4, 0, 2]] += [50, 40, 30]
    series = (Series(values, tuple("abcde"), entity="e"),)
    found = examined(Stub(), Task(series, series, answers(Labelled(series, (Truth("e", 13, 16, "x", ()),)), LENGTH)))  # type: ignore[arg-type]
    assert found.variables == [0, 2, 4]


def test_the_record_holds_means_within_their_intervals() -> None:
    kept = record(examined(Stub(), task()))  # type: ignore[arg-type]
    normal = kept["groups"]["normal"]
    assert normal["observations"] == 4
    assert normal["decontaminated"]["mean"] == pytest.approx(1.25)
    assert 0.5 <= normal["decontaminated"]["low"] < 1.25 < normal["decontaminated"]["high"] <= 2
    assert normal["reconstruction"] == pytest.approx({"mean": 0.5, "low": 0.5, "high": 0.5})
    text = markdown(kept)
    assert "| abnormal within the window | 1 | 4.000 (4.000 to 4.000) | 0.500 (0.500 to 0.500) |" in text
    assert "alone, abnormal within the window against normal: decontaminated 1.000, reconstruction 0.500" in text
    assert "steps 3 to 6" in text


def test_a_fitted_detector_hides_one_window_of_all_variables() -> None:
    plant = Plant.Config(entities=2, variables=4, rows=600, length=60, test_contamination=0.4)
    split = Plant(plant).split()
    given = Task(split.train, split.test.series, answers(split.test, plant.length))
    config = update(TSADC.Config.tiny(), {"length": 60, "hidden": 0.2, "training": {"epochs": 1}})
    found = approximations(given, config)
    assert found.window[1] - found.window[0] == 12
    start, stop = found.window
    for example in found.examples:
        outside = np.isfinite(example.x)
        outside[:, start:stop] = False
        np.testing.assert_allclose(example.decontaminated[outside], example.x[outside], rtol=1e-4)
        assert not np.allclose(example.decontaminated[:, start:stop], example.x[:, start:stop], rtol=1e-3)
    assert len(found.errors["decontaminated"]) == 20


@pytest.mark.slow
def test_the_script_writes_a_page_a_record_and_its_table(tmp_path: Path) -> None:
    page, file, table = tmp_path / "page.html", tmp_path / "r.json", tmp_path / "t.md"
    quick = ["--preset", "tiny", "--set", "training.epochs=1", "--set", "training.batch=64", "--seed", "1"]
    MODULE.main(["plant", "--page", str(page), "--record", str(file), *quick])
    MODULE.main(["plant", "--record", str(file), "--table", str(table)])
    kept = json.loads(file.read_text())
    assert (kept["data"], kept["seed"], kept["preset"]) == ("plant", 1, "tiny")
    assert kept["settings"]["training"]["epochs"] == 1
    assert markdown(kept) in table.read_text()
    shown = Page(page.read_text()).text
    for words in ("plant, seed 1", "tsadc, preset tiny, at most 1 epochs, set training.epochs=1", kept["made"]):
        assert words in shown
