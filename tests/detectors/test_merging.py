"""Models are merged, and history is added to one, as if they had been fitted to all of it."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tsadc
from machines import LENGTH, MINUTE, NAMES, assert_same, limit, machine, machines, unfitted
from terminal import tsadc as command
from tsadc import Ensemble, Series
from tsadc.detectors import find
from tsadc.detectors.merging import continue_model, merge_models
from tsadc.detectors.parts import summarise
from tsadc.detectors.store import SUMMARY, read_summary
from tsadc.errors import ConfigError, DataError, ModelFileError, TsadcNotice
from tsadc.series import Clock


def stored(folder: Path, series: Sequence[Series], detector: Ensemble | None = None) -> Path:
    (detector or unfitted()).fit(series, mergeable=True).save(folder)
    return folder


def rows(series: Series, first: int, stop: int) -> Series:
    clock = replace(series.clock, start=series.clock.tick(first))
    return replace(series, values=series.values[first:stop], clock=clock)


@pytest.fixture
def series() -> tuple[Series, ...]:
    return machines()


@pytest.fixture
def parts(series: tuple[Series, ...], tmp_path: Path) -> tuple[Path, Path]:
    return stored(tmp_path / "one", series[:2]), stored(tmp_path / "other", series[2:])


@pytest.mark.parametrize("most", [4000, 20])
def test_merged_models_are_the_model_of_all(series, monkeypatch, tmp_path: Path, most: int):
    limit(monkeypatch, most)
    models = [stored(tmp_path / str(i), series[i::2]) for i in range(2)]
    whole = unfitted().fit(series)
    merged = merge_models(models)
    assert_same(merged, whole)
    merged.save(tmp_path / "merged")
    again = tsadc.load(tmp_path / "merged")
    assert again.summary_ is None  # not read until it is needed
    assert_same(again, whole)
    assert read_summary(tmp_path / "merged").to_bytes() == summarise(unfitted(), series).to_bytes()
    assert [part["data"]["entities"] for part in merged.provenance_["parts"]] == [3, 2]


def test_a_model_is_continued_with_later_rows_and_new_entities(series, tmp_path: Path):
    model = stored(tmp_path / "model", [rows(item, 0, 150) for item in series[:-1]])
    later = [rows(series[0], 155, len(series[0])), *(rows(item, 150, len(item)) for item in series[1:-1]), series[-1]]
    gap = series[0].values.copy()
    gap[150:155] = np.nan
    whole = unfitted().fit([replace(series[0], values=gap), *series[1:]])
    assert_same(continue_model(model, later), whole)


def test_statistics_of_a_long_history_are_continued_within_the_stated_error(monkeypatch, tmp_path: Path):
    limit(monkeypatch, 20)
    long = [machine(number, rows=900) for number in range(2)]
    model = stored(tmp_path / "model", [rows(item, 0, 500) for item in long])
    continued, whole = continue_model(model, [rows(item, 500, 900) for item in long]), unfitted().fit(long)
    assert continued.summary_ is not None
    for item in long:
        known = continued.summary_.entities[item.entity]
        assert (known.rows, known.observations) == (900, 38)
        values = np.sort(item.values, axis=0)
        for k in range(3):
            column = values[:, k][np.isfinite(values[:, k])]
            middle = continued.scaler_.entities[item.entity].center[k]
            assert abs(np.searchsorted(column, middle) / len(column) - 0.5) < 1 / 256 + 1 / len(column)
    np.testing.assert_array_equal(continued.scorer_.judged, whole.scorer_.judged)
    assert continued.provenance_["data"]["observations"] == whole.provenance_["data"]["observations"]


def test_rows_that_do_not_follow_are_refused(series, tmp_path: Path):
    model = stored(tmp_path / "model", [rows(series[0], 0, 150)])
    with pytest.raises(
        DataError, match="knows the history of 'machine-0' before 1970-01-01 02:30:00, but the new rows"
    ):
        continue_model(model, [rows(series[0], 149, 200)])
    undated = stored(tmp_path / "undated", [replace(series[0], clock=Clock())])
    with pytest.raises(DataError, match="'machine-0' has no dates"):
        continue_model(undated, [replace(series[0], clock=Clock())])
    with pytest.raises(DataError, match=r"'machine-0' has no dates in the model, .* fit a new model"):
        continue_model(undated, [series[0]])
    for step, fix in ((2, "leave out --every, or fit a new model"), (0.5, "resample it with --every 1min")):
        other = Series(series[0].values, NAMES, Clock(10**6 * MINUTE, int(step * MINUTE), dated=True), "machine-0")
        with pytest.raises(DataError, match=f"model has a row every 1min, but the new history every .*; {fix}"):
            continue_model(model, [other])


def test_models_that_cannot_be_merged_are_refused(series, parts, tmp_path: Path):
    with pytest.raises(DataError, match="at least two models, but got 1"):
        merge_models(parts[:1])
    with pytest.raises(DataError, match="one is named twice; name each model once"):
        merge_models([parts[0], parts[0].parent / "other" / ".." / "one"])
    shutil.copytree(parts[0], tmp_path / "copy")
    with pytest.raises(
        DataError, match=r"machine-0, machine-1 are both in .*one and in .*copy, but an entity must lie"
    ):
        merge_models([*parts, tmp_path / "copy"])
    robust = find("robust-z")(length=LENGTH).fit(series[2:])
    robust.save(tmp_path / "robust")
    with pytest.raises(ConfigError, match="robust is a model of robust-z, which cannot be fitted in parts"):
        merge_models([parts[0], tmp_path / "robust"])
    with pytest.raises(ConfigError, match=r"robust-z cannot be fitted in parts, .* leave out --mergeable"):
        robust.fit(series, mergeable=True)
    other = stored(tmp_path / "seed", series[2:], Ensemble(length=LENGTH, seed=1, config=Ensemble.Config(kernels=4)))
    with pytest.raises(ConfigError, match=r"`seed` is 0 in .*one and 1 in .*seed"):
        merge_models([parts[0], other])
    unfitted().fit(series[2:]).save(tmp_path / "plain")
    with pytest.raises(ModelFileError, match=r"plain has no summary of its history.*--mergeable"):
        merge_models([parts[0], tmp_path / "plain"])


def test_histories_that_do_not_go_together_are_named(series, parts, tmp_path: Path):
    item = series[2]
    others = {
        "slower": (replace(item, clock=Clock(0, 2 * MINUTE, dated=True)), r"one again with --every 2min"),
        "fewer": (replace(item, values=item.values[:, :2], names=NAMES[:2]), r"only .*one has c; fit one"),
        "turned": (replace(item, names=NAMES[::-1]), r"those of .*turned have another order; fit one"),
        "renamed": (replace(item, names=(*NAMES[:2], "x")), r"only .*one has c and only .*renamed has x; fit one"),
    }
    for name, (other, refusal) in others.items():
        with pytest.raises(DataError, match=refusal):
            merge_models([parts[0], stored(tmp_path / name, [other])])


def test_entities_without_dates_among_others_are_named(series, parts, tmp_path: Path):
    undated = replace(series[2], clock=Clock(), entity="old")
    said = "old has no dates, unlike the others; 1min counts as the time between two rows"
    with pytest.warns(TsadcNotice, match=said):
        merge_models([parts[0], stored(tmp_path / "undated", [undated])])
    with pytest.warns(TsadcNotice, match=said):
        continue_model(parts[0], [undated])


def test_times_with_a_zone_among_others_are_named(series, parts, tmp_path: Path):
    there = series[2].clock
    zoned = replace(series[2], clock=replace(there, timezone="Europe/Berlin"), entity="new")
    said = "have no time zone, but those of new have one; times without a zone were read as UTC"
    with pytest.warns(TsadcNotice, match=f"The times of {series[0].entity} {said}"):
        merge_models([parts[0], stored(tmp_path / "zoned", [zoned])])
    with pytest.warns(TsadcNotice, match=f"The times of {series[0].entity} in {parts[0]} {said}"):
        continue_model(parts[0], [zoned])


def test_a_summary_that_was_changed_is_refused(parts):
    file = parts[1] / SUMMARY
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(ModelFileError, match="missing, truncated or does not belong"):
        merge_models(parts)


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_a_model_with_verdicts_is_refused(series, tmp_path: Path):
    detector = unfitted().fit(series, mergeable=True)
    result = detector.set_threshold(method="tail", share=0.2).detect(series)
    detector.feedback(result, {result.worst(1)["id"].iloc[0]: "false"}).save(tmp_path / "taught")
    with pytest.raises(
        ConfigError, match=r"taught has verdicts about intervals.*; continue a copy of the model without its"
    ):
        continue_model(tmp_path / "taught", [replace(series[0], entity="new")])


@pytest.mark.filterwarnings("ignore::tsadc.errors.TsadcNotice")
def test_an_adapted_model_has_no_summary(series, parts, tmp_path: Path):
    tsadc.load(parts[0]).adapt(series[2]).save(tmp_path / "adapted")
    fresh = unfitted().fit(series[:2], mergeable=True).adapt(series[2])
    assert fresh.summary_ is None
    with pytest.raises(ModelFileError, match="has no summary"):
        read_summary(tmp_path / "adapted")


def test_the_commands(series, tmp_path: Path):
    """`fit --mergeable`, `merge`, `fit --continue` and `info`; the order of files does not matter."""
    for item in series:
        table = pd.DataFrame(item.values, index=item.clock.at(np.arange(len(item))), columns=list(NAMES))
        table.to_csv(tmp_path / f"{item.entity}.csv", index_label="time")
    files = sorted(tmp_path.glob("*.csv"))
    options = ("--length", LENGTH, "--set", "kernels=4")
    models = [tmp_path / "one", tmp_path / "two"]
    for model, own in zip(models, (files[1::2], files[::-2]), strict=True):
        assert command("fit", *own, "--out", model, "--mergeable", *options).code == 0
    answer = command("merge", *models, "--out", tmp_path / "merged")
    assert answer.code == 0, answer.err
    assert answer.out.startswith("Merged 2 models.\nTrained on ")
    assert command("fit", *files[::-1], "--out", tmp_path / "whole", "--mergeable", *options).code == 0
    merged, whole = (tmp_path / name / "model.safetensors" for name in ("merged", "whole"))
    assert merged.read_bytes() == whole.read_bytes()
    assert "yes: it keeps a summary" in command("info", tmp_path / "merged").out
    (tmp_path / "merged" / "summary.safetensors").unlink()
    assert "no: summary.safetensors is missing" in command("info", tmp_path / "merged").out
    answer = command("fit", files[0], "--continue", models[0], "--out", tmp_path / "more")
    assert answer.code == 0, answer.err
    assert answer.out.startswith(f"Added history of 0 known entities and 1 new one to {models[0]}.\n")
    pd.read_csv(files[0]).assign(a=np.nan, b=np.nan, c=np.nan).to_csv(tmp_path / "silent.csv", index=False)
    answer = command("fit", tmp_path / "silent.csv", "--continue", models[0], "--out", tmp_path / "same")
    assert answer.out.startswith(
        f"Added history of 0 known entities and 1 new one to {models[0]}, but no observation: it"
    )
    refused = {
        ("merge", models[0], "--out", tmp_path / "x"): "at least two models",
        ("merge", *models, "--out", models[0]): "exists already",
        ("merge", *models, "--out", models[1] / "x"): f"x is inside {models[1]}, whose files belong to a model; choose",
        ("fit", files[0], "--continue", models[0], "--out", models[0] / "x"): f"x is inside {models[0]}, whose files",
        ("fit", files[0], "--out", "s3://bucket/x"): "s3://bucket/x is an address, but this is written to a disk",
        ("fit", files[0], "--continue", models[0], "--out", tmp_path / "x", "--seed", 0): "--seed cannot be given",
        ("fit", files[1], "--continue", models[0], "--out", tmp_path / "x"): "give later rows only",
    }
    lacking = pd.read_csv(files[0]).drop(columns="c")
    lacking.to_csv(tmp_path / "lacking.csv", index=False)
    words = ("fit", tmp_path / "lacking.csv", "--continue", models[0], "--out")
    assert "it counts as not measured" in command(*words, tmp_path / "fewer").err
    refused[*words, tmp_path / "x", "--strict"] = "lacks 1 of the 3 expected variables: c; add the column"
    refused[*words, tmp_path / "x", "--detector", "robust-z"] = f"{models[0]} is a model of the detector 'ensemble'"
    for words, expected in refused.items():
        answer = command(*words)
        assert answer.code == 2
        assert expected in answer.err
        assert not (tmp_path / "x").exists()
