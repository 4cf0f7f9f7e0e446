import pytest

from benchmark import failed, record
from tsadc.errors import DataError
from tsadc.show.bench_markdown import markdown


def lines(text: str, title: str) -> dict[str, str]:
    """Return the rows of the table whose first heading is `title`, by their first entry."""
    table = next(part for part in text.split("\n\n") if part.startswith(f"| {title} |"))
    return {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()}


def test_rows_are_detectors_and_columns_data_sets() -> None:
    text = markdown(
        [
            record("random", "plant", 0, 0.5),
            record("ridge", "plant", 0, 0.7),
            record("ridge", "plant", 1, 0.8),
            record("ridge", "ludb", 0, 0.6),
            record("tsadc", "plant", 0, 0.9),
        ]
    )
    found = lines(text, "AUROC")
    assert found["AUROC"] == "| AUROC | ludb | plant |"
    assert list(found)[2:5] == ["tsadc", "ridge", "random"]
    assert found["tsadc"] == "| tsadc | - | 0.900 (0.800 to 1.000) |"
    assert found["ridge"] == "| ridge | **0.600 (0.500 to 0.700)** | **0.750 (0.650 to 0.850)** |"
    assert lines(text, "AP (average precision)")["tsadc"] == "| tsadc | - | 0.450 |"
    details = text.split("\n\n")[-1].splitlines()
    assert "| plant | ridge | 0 1 | 0.071 | 0.500 | 0.250 | 0.900 | 2.0 | 3.0 |" in details
    assert "| plant | tsadc | 0 | - | 0.500 | 0.250 | 0.900 | 2.0 | 3.0 |" in details
    assert "Made with tsadc 1.2.3 at commit abc." in text


def test_failures_are_counted_and_have_no_value() -> None:
    text = markdown([record("ridge", "plant", 0, 0.7), failed("ridge", "plant", 1), failed("random", "plant", 0)])
    assert lines(text, "AUROC")["ridge"] == "| ridge | **0.700 (0.600 to 0.800) (1 of 2 failed)** |"
    assert lines(text, "AUROC")["random"] == "| random | - (1 of 1 failed) |"
    assert lines(text, "F1 at its own threshold (by chance)")["random"] == "| random | - (1 of 1 failed) |"


def test_f1_is_bold_if_it_beats_flagging_everything() -> None:
    text = markdown([record("ridge", "plant", 0, 0.7, f1=0.41), record("random", "plant", 0, 0.5)])
    found = lines(text, "F1 at its own threshold (by chance)")
    assert found["ridge"] == "| ridge | **0.410** (0.333) |"
    assert found["random"] == "| random | 0.400 (0.333) |"
    assert found["flag everything"] == "| flag everything | 0.400 |"


def test_parts_and_kinds_have_tables_of_their_own() -> None:
    parts = {"half": {"auroc": 0.61, "ap": 0.51}}
    kinds = {"x": 0.9, "y": 0.3}
    text = markdown(
        [
            record("ridge", "smd-causal", 0, 0.7, parts=parts, kinds={}),
            record("ridge", "plant", 0, 0.7, kinds=kinds),
            record("ridge", "plant", 1, 0.7, kinds={"x": 0.7}),
        ]
    )
    assert lines(text, "AUROC / AP")["AUROC / AP"] == "| AUROC / AP | smd-causal: half |"
    assert lines(text, "AUROC / AP")["ridge"] == "| ridge | 0.610 / 0.510 |"
    table = next(part for part in text.split("\n\n") if "AUROC of the kind" in part)
    assert table.splitlines()[2:] == ["| plant | x | 0.800 |", "| plant | y | 0.300 |"]


def test_seeds_for_choosing_are_not_reported() -> None:
    records = [record("ridge", "plant", 0, 0.7), record("ridge", "plant", 100, 0.9)]
    assert lines(markdown(records), "AUROC")["ridge"].startswith("| ridge | **0.700")
    assert lines(markdown(records, choosing=True), "AUROC")["ridge"].startswith("| ridge | **0.900")
    with pytest.raises(DataError, match="no records of seeds for choosing"):
        markdown(records[:1], choosing=True)


def test_changed_settings_have_a_line_of_their_own() -> None:
    found = lines(markdown([record("ridge", "plant", 0, 0.7, overrides={"lags": 1})]), "AUROC")
    assert "ridge lags=1" in found


def test_brief_tables_have_only_metrics_and_seeds() -> None:
    records = [
        record("ridge", "plant", 0, 0.7, kinds={"spike": 1.0, "stuck": 0.5}),
        record("ridge", "plant", 1, 0.8, kinds={"spike": 1.0, "stuck": 0.5}),
        record("random", "plant", 0, 0.5, kinds={"spike": 1.0, "stuck": 0.5}),
    ]
    whole, brief = markdown(records), markdown(records, brief=True)
    assert brief.endswith("Seeds: plant: 0 or 0 1.")
    shared = brief.removesuffix("\n\nSeeds: plant: 0 or 0 1.")
    assert whole.partition("\n\n")[2].startswith(shared.partition("\n\n")[2])
    assert ("oracle F1 uses labels" in whole, "oracle" in brief) == (True, False)
    assert "spike" in whole
    assert "spike" not in brief
    failing = [*records, failed("ridge", "plant", 2), failed("pca", "plant", 0)]
    shown = markdown(failing, metrics=("recall",), brief=True)
    assert "| ridge | 0.250 (0.500) (1 of 3 failed) |" in shown
    assert "| pca | - (1 of 1 failed) |" in shown
    assert shown.endswith("Seeds: plant: 0 or 0 1.")
    assert markdown(failing[-1:], metrics=("recall",), brief=True).count("(1 of 1 failed)") == 1
    heads = [part.split(" | ")[0] for part in markdown(records, metrics=("ap", "recall"), brief=True).split("\n\n")]
    assert heads[1:-1] == ["| AP (average precision)", "| recall (by chance)"]
