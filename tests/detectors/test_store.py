import hashlib
import json
import re
import time

import numpy as np
import pytest
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.store import ARRAYS, FORMAT, RESTORE, SETTINGS, load, read_settings
from tsadc.detectors.threshold import Threshold
from tsadc.detectors.tsadc.detector import TSADC
from tsadc.errors import ModelFileError, OutputError
from tsadc.series import Clock, Series


@pytest.fixture(scope="module")
def history() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(80, 3)) for name in ("pump", "fän")}


@pytest.fixture
def folder(tmp_path, history):
    RobustZ(length=8, contamination=0.2).fit(history).save(tmp_path / "model")
    return tmp_path / "model"


def refusal(path) -> str:
    with pytest.raises(ModelFileError) as caught:
        load(path)
    message = str(caught.value)
    assert str(path) in message
    assert message.endswith((".", "?"))
    assert "\n" not in message
    return message.replace(str(path), "PATH")


def test_a_saved_model_gives_the_same_numbers_to_the_bit(folder, history):
    before = RobustZ(length=8, contamination=0.2).fit(history)
    after = load(folder)
    assert type(after) is RobustZ
    assert after.settings == before.settings
    assert (after.variables_, after.clock_, after.threshold_) == (before.variables_, before.clock_, before.threshold_)
    assert after.decision_scores_.tobytes() == before.decision_scores_.tobytes()
    assert after.provenance_ == before.provenance_
    for name, values in history.items():
        data = {name: values + 0.1}
        assert after.decision_function(data).tobytes() == before.decision_function(data).tobytes()


def test_a_threshold_is_kept_with_what_explains_it(history, tmp_path):
    before = RobustZ(length=8).fit(history, validation={"pump": history["fän"] + 0.1})
    before.save(tmp_path / "model")
    after = load(tmp_path / "model")
    stored = read_settings(tmp_path / "model")
    assert stored["settings"]["contamination"] == "auto"
    assert stored["contamination"] == vars(before.contamination_) == vars(after.contamination_)
    assert after.validation_scores_.tobytes() == before.validation_scores_.tobytes()
    new = {"pump": history["pump"] + 3 * (np.arange(80) > 60)[:, None]}
    severities = [detector.detect(new).intervals["severity"].to_numpy() for detector in (before, after)]
    assert len(severities[0])
    assert severities[0].tobytes() == severities[1].tobytes()
    after.set_threshold(method="tail", share=0.1)  # `share` stays in the settings and is ignored later
    for detector in (before, after):
        detector.set_threshold(method="quantile", contamination=0.3)
    assert after.threshold_ == before.threshold_ == np.quantile(before.validation_scores_, 0.7)
    after.save(tmp_path / "changed")
    assert load(tmp_path / "changed").threshold_ == before.threshold_
    assert load(tmp_path / "changed").settings.threshold == Threshold.Config("quantile", share=0.1)


@pytest.mark.parametrize("held_out", [True, False])
def test_whether_validation_was_held_out_is_stored_and_inferred_for_models_without_it(history, tmp_path, held_out):
    validation = None if held_out else {"pump": history["fän"] + 0.1}
    RobustZ(length=8).fit(history, validation=validation).save(tmp_path / "model")
    assert read_settings(tmp_path / "model")["held_out"] is held_out
    assert load(tmp_path / "model").held_out_ is held_out
    settings = read_settings(tmp_path / "model")
    (tmp_path / "model" / SETTINGS).write_text(json.dumps({**settings, "held_out": not held_out}))
    assert load(tmp_path / "model").held_out_ is not held_out
    del settings["held_out"]
    (tmp_path / "model" / SETTINGS).write_text(json.dumps(settings))
    assert load(tmp_path / "model").held_out_ is held_out


def test_saving_again_gives_the_same_bytes(folder, tmp_path):
    load(folder).save(tmp_path / "copy")
    for name in (SETTINGS, ARRAYS):
        assert (tmp_path / "copy" / name).read_bytes() == (folder / name).read_bytes()
    assert sorted(path.name for path in folder.iterdir()) == [SETTINGS, ARRAYS]


def test_what_is_no_model_folder(tmp_path):
    expected = "but a model folder was expected; name one that `tsadc fit` wrote."
    assert refusal(tmp_path / "none") == f"There is no folder PATH, {expected}"
    (tmp_path / "file").write_text("x")
    assert refusal(tmp_path / "file") == f"PATH is a file, {expected}"
    assert refusal(tmp_path) == f"PATH is not a model: it has no {SETTINGS}; name a folder that `tsadc fit` wrote."


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"nonsense"])
def test_settings_that_are_not_json(folder, content):
    (folder / SETTINGS).write_bytes(content)
    assert "is truncated or not JSON; restore it from a backup or fit it again" in refusal(folder)


@pytest.mark.parametrize("content", ["[]", "3", "{}", '{"format": 1}', '{"format": "1", "detector": "robust-z"}'])
def test_json_that_is_no_settings(folder, content):
    (folder / SETTINGS).write_text(content)
    assert refusal(folder) == f"PATH/{SETTINGS} was not written by tsadc."


def test_a_model_of_the_future(folder):
    settings = read_settings(folder)
    (folder / SETTINGS).write_text(json.dumps({**settings, "format": FORMAT + 1}))
    assert refusal(folder) == (
        f"PATH has model format {FORMAT + 1}, but this version reads up to {FORMAT}; upgrade tsadc."
    )


def test_arrays_that_are_missing_truncated_or_anothers(folder):
    content = (folder / ARRAYS).read_bytes()
    other = content[:-1] + bytes([content[-1] ^ 1])
    for wrong in (b"", content[: len(content) // 2], content[:-1], content + b"x", other):
        (folder / ARRAYS).write_bytes(wrong)
        assert f"PATH/{ARRAYS} is truncated or does not belong to its {SETTINGS}" in refusal(folder)
    (folder / ARRAYS).unlink()
    assert refusal(folder) == f"PATH has a {SETTINGS} but no readable {ARRAYS}; {RESTORE}."


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"detector": "robust_z"}, "There is no detector 'robust_z'; did you mean `robust-z`"),
        ({"settings": {"lenght": 8}}, "There is no setting `lenght`; did you mean `length`"),
        ({"settings": {"length": 1}}, "`length` must be at least 8 rows, but got 1"),
        ({"settings": []}, "not a usable model"),
        ({"settings": None}, "not a usable model"),
        ({"variables": 7}, "not a usable model"),
        ({"clock": {"start": 0, "speed": 1}}, "not a usable model"),
        ({"scaler": {"entities": []}}, "not a usable model"),
        ({"scaler": None}, "not a usable model"),
        ({"threshold": "high"}, "not a usable model"),
        ({"threshold": None}, "not a usable model"),
        ({"contamination": 0.1}, "not a usable model"),
        ({"contamination": {"share": 0.1}}, "lacks 'low'"),
    ],
)
def test_settings_that_do_not_describe_a_model(folder, changes, expected):
    (folder / SETTINGS).write_text(json.dumps({**read_settings(folder), **changes}))
    message = refusal(folder)
    assert message.startswith("PATH is not a usable model: ")
    assert expected in message


@pytest.mark.parametrize(
    "name", ["settings", "variables", "clock", "threshold", "contamination", "scaler", "provenance"]
)
def test_settings_that_lack_a_part(folder, name):
    settings = read_settings(folder)
    del settings[name]
    (folder / SETTINGS).write_text(json.dumps(settings))
    assert refusal(folder) == f"PATH is not a usable model: it lacks '{name}'; {RESTORE}."


def test_a_folder_that_exists_is_left_alone(folder, history):
    before = (folder / SETTINGS).read_bytes()
    with pytest.raises(OutputError, match="model exists already; choose another name or remove it"):
        RobustZ(length=8).fit(history).save(folder)
    assert (folder / SETTINGS).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("contamination", {"share": 0.2, "low": 0.3, "high": 0.4, "stated": False}),
        ("contamination", {"share": 0.2, "low": 0.1, "high": 0.6, "stated": False}),
        ("variables", ["a", "a", "a"]),
        ("clock", {"start": 0, "interval": -5, "dated": False, "timezone": None}),
        ("provenance", {"data": None}),
    ],
)
def test_values_that_would_give_nonsense_are_refused(folder, name, value):
    settings = json.loads((folder / SETTINGS).read_text())
    settings[name] = value
    (folder / SETTINGS).write_text(json.dumps(settings))
    with pytest.raises(
        ModelFileError, match=f"`{name}` is not what was saved; restore it from a backup or fit it again"
    ):
        load(folder)


@pytest.mark.parametrize("change", [{"center": [1.0]}, {"scale": [0.0, 0.0, 0.0]}])
def test_a_scaler_that_does_not_fit_is_refused(folder, change):
    settings = json.loads((folder / SETTINGS).read_text())
    settings["scaler"]["pooled"] |= change
    (folder / SETTINGS).write_text(json.dumps(settings))
    with pytest.raises(ModelFileError, match="`scaler` is not what was saved"):
        load(folder)


def test_a_pace_without_a_start_is_stored(tmp_path):
    values = np.random.default_rng(0).normal(size=(200, 2))
    RobustZ(length=8).fit(Series(values, ("a", "b"), Clock(pace=2_000_000))).save(tmp_path / "model")
    assert load(tmp_path / "model").clock_ == Clock(pace=2_000_000)
    settings = json.loads((tmp_path / "model" / SETTINGS).read_text())
    settings["clock"]["pace"] = -1
    (tmp_path / "model" / SETTINGS).write_text(json.dumps(settings))
    assert "`clock` is not what was saved" in refusal(tmp_path / "model")


def test_a_threshold_that_is_not_a_number(folder):
    settings = json.loads((folder / SETTINGS).read_text())
    (folder / SETTINGS).write_text(json.dumps({**settings, "threshold": "high"}))
    assert refusal(folder) == f"PATH is not a usable model: `threshold` must be a number, but is 'high'; {RESTORE}."


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """A model with the smallest network."""
    small = {"decontaminator": {"channels": 2, "state": 2}, "dependencies": {"features": 2, "state": 2, "graphs": 1}}
    config = TSADC.Config(length=8, training={"epochs": 1}, scoring="own", **small)
    folder = tmp_path_factory.mktemp("networks") / "model"
    TSADC(config=config).fit(np.random.default_rng(0).normal(size=(80, 3))).save(folder)
    return folder


def edited(source, target, settings=(), arrays=()):
    """A copy of a model whose settings or arrays somebody has changed, with a hash that fits."""
    stored, data = json.loads((source / SETTINGS).read_text()), load_arrays((source / ARRAYS).read_bytes())
    for path, value in dict(settings).items():
        *sections, name = path.split(".")
        place = stored["settings"]
        for section in sections:
            place = place[section]
        place[name] = value
    content = save_arrays({**data, **dict(arrays)})
    stored["arrays"] = hashlib.sha256(content).hexdigest()
    target.mkdir()
    (target / ARRAYS).write_bytes(content)
    (target / SETTINGS).write_text(json.dumps(stored))
    return target


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("decontaminator.blocks", 1_000_000, "its settings describe a (network|weight)"),
        ("decontaminator.blocks", 10**12, f"`decontaminator.blocks` is {10**12}, but at most 10000000 is possible"),
        ("decontaminator.channels", 100_000, "its settings describe a weight `.+` of shape .+, which is not stored"),
        ("dependencies.features", 5, "its settings describe a weight `.+` of shape .+, which is not stored"),
        ("length", 9, "`length` is not the length of the observations that it was trained on"),
    ],
)
def test_edited_settings_that_do_not_fit_are_refused_at_once(network, tmp_path, setting, value, why):
    began = time.perf_counter()
    assert re.search(f"{why}.*; {RESTORE}", refusal(edited(network, tmp_path / "model", {setting: value})))
    assert time.perf_counter() - began < 5


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(network, tmp_path, value):
    arrays = load_arrays((network / ARRAYS).read_bytes())
    name = next(name for name in arrays if name.startswith("network.") and arrays[name].dtype.kind == "f")
    arrays[name] = arrays[name].copy()
    arrays[name].flat[0] = value
    assert f"`{name}` holds numbers that are not finite; {RESTORE}" in refusal(
        edited(network, tmp_path / "model", arrays=arrays)
    )


def test_scores_of_another_shape_are_refused(folder, tmp_path):
    broken = edited(folder, tmp_path / "broken", arrays={"decision_scores": np.zeros((2, 2))})
    assert f"`decision_scores` has no number for each observation; {RESTORE}" in refusal(broken)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": 1e999}', '{"format": 3, "format": 3}', '{"a": NaN}'])
def test_settings_that_are_no_strict_json_are_refused(folder, text):
    (folder / SETTINGS).write_text(text)
    assert "config.json is truncated or not JSON" in refusal(folder)
