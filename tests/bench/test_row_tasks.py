"""A data set that scores rows only: each of its series is fitted anew, and no table or page needs other metrics."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark import run_plan
from terminal import tsadc
from tsadc.bench.execute import run
from tsadc.bench.job import Job
from tsadc.bench.records import Store, load
from tsadc.bench.run import run_and_keep
from tsadc.data.catalogue import draw
from tsadc.data.row_labels import TSB_DEV
from tsadc.evaluate.volume import volume_tsb

PLAN = """
seeds = [0]
metrics = ["auroc", "vus_pr_tsb", "vus_pr"]
[[data]]
name = "plant"
[[data]]
name = "tsb-dev"
[[detectors]]
name = "robust-z"
[[detectors]]
name = "random"
"""


@pytest.fixture
def pack(tmp_path: Path) -> dict[str, Any]:
    """Two series of different variables. The second is 1000 times larger, so that a fit on the first would be of no
    use for it; ten rows of each are raised."""
    generator, arrays = np.random.default_rng(0), {}
    for name, size, variables, first in (("dev_A", 1.0, 2, 700), ("dev_SMD_B", 1000.0, 3, 930)):
        values = generator.normal(size=(1030, variables)) * size
        labels = np.zeros(1030, dtype=bool)
        labels[first : first + 10] = True
        values[labels] += 6 * size
        arrays |= {f"values/{name}": values.astype(np.float32), f"label/{name}": labels}
    arrays |= {"names": np.array(["dev_A", "dev_SMD_B"]), "train_rows": np.array([600, 500])}
    arrays["window"] = np.array([5, 40])
    np.savez(tmp_path / TSB_DEV, **arrays)
    draw.cache_clear()
    return arrays


def test_each_series_is_fitted_on_its_own_first_rows(tmp_path: Path, pack: dict[str, Any]) -> None:
    job = Job("tsb-dev", "robust-z", 0)
    [(_, record, scores)] = run([job], tmp_path)
    assert record["notices"] == [
        f"1 observation with values in less than half of the rows was left out: '{name}' from row 1000."
        for name in ("dev_A", "dev_SMD_B")
    ]
    assert job.config().length == 100
    first, second = record["each_series"]["vus_pr_tsb"]
    assert min(first, second) > 0.5
    assert scores["row_ends"].tolist() == [1030, 2060]
    rows = np.split(scores["row_score"], [1030])
    for name, window, given, value in zip(pack["names"], (5, 40), rows, (first, second), strict=True):
        # The last 30 rows are too few for an observation.
        assert np.isfinite(given[:1000]).all()
        assert np.isnan(given[1000:]).all()
        known = np.where(np.isnan(given), np.nanmin(given), given)
        assert value == pytest.approx(volume_tsb(pack[f"label/{name}"], known, window).pr, abs=1e-5)
    assert record["vus_pr_tsb"] == pytest.approx((first + second) / 2, abs=1e-5)
    assert record["parts"] == {
        "1 series not of SMD": {"vus_pr_tsb": first, "vus_roc_tsb": record["each_series"]["vus_roc_tsb"][0]}
    }
    assert record["auroc"] is record["ap"] is record["f1"] is None
    assert (record["entities"], record["observations"]) == (2, 20)


def test_nothing_after_the_first_rows_changes_the_scores_of_those_before(tmp_path: Path, pack: dict[str, Any]) -> None:
    job = Job("tsb-dev", "robust-z", 0)
    [(_, _, before)] = run([job], tmp_path)
    pack["values/dev_A"][700:] *= 50
    np.savez(tmp_path / TSB_DEV, **pack)
    draw.cache_clear()
    [(_, _, after)] = run([job], tmp_path)
    np.testing.assert_array_equal(after["row_score"][:700], before["row_score"][:700])
    assert (after["row_score"][700:1000] != before["row_score"][700:1000]).any()


def test_a_record_keeps_five_notices(tmp_path: Path, pack: dict[str, Any]) -> None:
    names = [f"dev_{i}" for i in range(7)]
    for name in names:
        pack |= {f"{kind}/{name}": pack[f"{kind}/dev_A"] for kind in ("values", "label")}
    pack |= {"names": np.array(names), "train_rows": np.full(7, 600), "window": np.full(7, 9)}
    np.savez(tmp_path / TSB_DEV, **pack)
    draw.cache_clear()
    [(_, record, _)] = run([Job("tsb-dev", "random", 0)], tmp_path)
    assert len(record["notices"]) == 6
    assert record["notices"][-1] == "and 2 more"


def test_a_series_that_cannot_be_fitted_fails_the_job(tmp_path: Path, pack: dict[str, Any]) -> None:
    pack["values/dev_A"][:600] = np.nan
    np.savez(tmp_path / TSB_DEV, **pack)
    draw.cache_clear()
    [(_, record)] = run_and_keep([Job("tsb-dev", "robust-z", 0)], tmp_path, Store(tmp_path / "out"))
    assert record["error"].startswith("DataError")
    assert load(tmp_path / "out") == [record]
    assert "vus_pr_tsb" not in record


@pytest.mark.usefixtures("pack")
def test_tables_and_pages_show_it_beside_data_sets_of_observations(tmp_path: Path) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN)
    answer = run_plan(plan, "--raw", tmp_path)
    assert answer.code == 0, answer.err
    assert "tsb-dev robust-z seed 0: VUS-PR 0." in answer.out
    assert "0 already done" not in run_plan(plan, "--raw", tmp_path, "--dry-run").out
    shown = tsadc("bench", "table", out).out
    ranked, threshold, rows = (
        next(part for part in shown.split("\n\n") if part.startswith(f"| {name}")).splitlines()
        for name in ("AUROC |", "F1 at", "vus_pr_tsb (by chance)")
    )
    assert [line.rpartition(" | ")[2] for line in ranked[2:]] == ["- |"] * 3
    assert [line.rpartition(" | ")[2] for line in threshold[2:]] == ["- |"] * 3
    assert all("- |" not in line for line in rows[2:])
    assert "| AUROC / AP | tsb-dev: 1 series not of SMD (vus_pr_tsb / vus_roc_tsb) |" in shown
    assert "mean over 1 data sets" not in shown
    record = next(record for record in load(out) if record["dataset"] == "tsb-dev")
    assert {"vus_pr", "vus_roc_tsb"} <= set(record)
    assert "range_f1" not in record
    for words in (("--format", "csv"), ("--format", "latex"), ("--brief",), ("--metric", "vus_pr_tsb")):
        assert tsadc("bench", "table", out, *words).code == 0
    for name in ("page.html", "figure.svg"):
        assert tsadc("bench", "report", out, "--out", tmp_path / name).code == 0
