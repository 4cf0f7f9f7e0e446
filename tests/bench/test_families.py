"""Figures of families, regrets, ranks, and what is chosen without a family, on made-up records."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmark import record
from terminal import tsadc
from tsadc.bench.families import Choices, Entrant, entrants, leave_one_out, read_choices
from tsadc.bench.records import write_records
from tsadc.bench.summary import summarise
from tsadc.errors import DataError

# AP by data set. The two ECG data sets form one family; the last scores rows.
FIGURES = {
    "ensemble": {"ludb": 0.8, "cinc": 0.6, "skab": 0.9, "tsb-dev": 0.2},
    "ridge": {"ludb": 0.9, "cinc": 0.7, "skab": 0.6, "tsb-dev": 0.3},
    "pyod-knn-max": {"ludb": 0.5, "cinc": 0.5, "skab": 0.7, "tsb-dev": 0.4},
    "random": {"ludb": 0.4, "cinc": 0.4, "skab": 0.95, "tsb-dev": 0.1},
}


def line(detector: str, data: str, value: float, seed: int = 0) -> dict[str, Any]:
    if data != "tsb-dev":
        return record(detector, data, seed, 2 * value, ap=value)
    undefined = dict.fromkeys(("prevalence", "auroc", "ap", "f1", "flagged", "all_positive_f1"))
    return record(detector, data, seed, 0.0) | undefined | {"vus_pr_tsb": value, "vus_roc_tsb": 2 * value}


def records(figures: Mapping[str, Mapping[str, float]] = FIGURES) -> list[dict[str, Any]]:
    """Two seeds, whose mean is the figure."""
    return [
        line(detector, data, value + change, seed)
        for detector, values in figures.items()
        for data, value in values.items()
        for seed, change in ((0, 0.05), (1, -0.05))
    ]


def by_label(found: list[Entrant]) -> dict[str, Entrant]:
    return {entrant.label: entrant for entrant in found}


def test_a_family_counts_once_and_rows_take_their_own_metric() -> None:
    found = by_label(entrants(summarise(records()), "ap"))
    assert found["ensemble"].figures == pytest.approx({"ecg": 0.7, "skab": 0.9, "tsb-dev": 0.2})
    assert found["ensemble"].standing.mean == pytest.approx(1.8 / 3)
    doubled = by_label(entrants(summarise(records()), "auroc"))
    assert doubled["ensemble"].figures == pytest.approx({"ecg": 1.4, "skab": 1.8, "tsb-dev": 0.4})


def test_regret_is_against_the_best_single_detector_and_never_negative() -> None:
    """The ensemble is best on skab, and random, which is better still, does not count."""
    found = by_label(entrants(summarise(records()), "ap"))
    assert found["ensemble"].standing.worst_regret == pytest.approx(0.2)
    assert found["ensemble"].standing.mean_regret == pytest.approx((0.1 + 0 + 0.2) / 3)
    assert found["ridge"].standing.mean_regret == pytest.approx((0 + 0.1 + 0.1) / 3)
    assert found["random"].standing.worst_regret == pytest.approx(0.4)


def test_ranks_are_without_references_and_their_interval_is_over_families() -> None:
    found = entrants(summarise(records()), "ap")
    assert [entrant.label for entrant in found] == ["ensemble", "ridge", "pyod-knn-max", "random"]
    standings = {entrant.label: entrant.standing for entrant in found}
    assert standings["ensemble"].rank == pytest.approx((2 + 1 + 3) / 3)
    assert standings["ridge"].rank == pytest.approx((1 + 3 + 2) / 3)
    assert standings["ensemble"].interval[0] < 2 < standings["ensemble"].interval[1]
    assert (standings["random"].rank, standings["random"].interval) == (None, None)
    same = {label: dict.fromkeys(values, 0.5) for label, values in FIGURES.items()}
    tied = by_label(entrants(summarise(records(same)), "ap"))["ridge"].standing
    assert (tied.rank, tied.interval) == (2, (2, 2))


def test_a_label_without_a_data_set_has_no_figure_of_its_family_and_no_standing() -> None:
    kept = [one for one in records() if (one["detector"], one["dataset"]) != ("ridge", "cinc")]
    found = by_label(entrants(summarise(kept), "ap"))
    assert set(found["ridge"].figures) == {"skab", "tsb-dev"}
    assert found["ridge"].standing is None
    assert found["ensemble"].standing.rank == pytest.approx((1 + 1 + 2) / 3)


def choices(**candidates: Mapping[str, float]) -> Choices:
    """`rows` stands for tsb-dev, `few` for tsb-dev without the machines of SMD; the first candidate is the default."""
    names = {"smd": "smd-causal", "sleep": "sleep", "rows": "tsb-dev", "few": "tsb-dev-without-smd"}
    made = {
        name: {
            names[key]: {"vus_pr_tsb": value} if key in ("rows", "few") else {"ap": value, "auroc": value / 2}
            for key, value in values.items()
        }
        for name, values in candidates.items()
    }
    return Choices(made, next(iter(candidates)))


def test_the_candidate_is_chosen_on_the_other_families() -> None:
    """Each candidate is best on the families that it is not chosen for, except tsb-dev, on which the default ties."""
    left = leave_one_out(
        choices(
            a={"smd": 0.9, "sleep": 0.1, "rows": 0.5, "few": 0.5},
            b={"smd": 0.1, "sleep": 0.9, "rows": 0.4, "few": 0.4},
        )
    )
    assert {family: one.candidate for family, one in left.items()} == {"smd": "b", "sleep": "a", "tsb-dev": "a"}
    assert left["smd"].figures == {"ap": 0.1, "auroc": 0.05}
    assert left["sleep"].figures == {"ap": 0.1, "auroc": 0.05}
    assert left["tsb-dev"].figures == {"ap": 0.5}


def test_no_figure_of_the_left_out_family_changes_the_choice() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        values = {
            name: dict(zip(("smd", "sleep", "rows", "few"), generator.random(4), strict=True)) for name in ("a", "b")
        }
        before = leave_one_out(choices(**values))["smd"].candidate
        # The series of tsb-dev that are machines of SMD are part of what is left out.
        values["a"] |= {"smd": generator.random(), "rows": generator.random()}
        assert leave_one_out(choices(**values))["smd"].candidate == before


def test_ties_go_to_the_default() -> None:
    """0.1 + 0.2 and 0.3 differ in the last digit."""
    given = choices(
        z={"smd": 0.5, "sleep": 0.3, "rows": 0.0, "few": 0.0},
        a={"smd": 0.6, "sleep": 0.1, "rows": 0.2, "few": 0.2},
    )
    assert leave_one_out(given)["smd"].candidate == "z"
    assert leave_one_out(Choices(given.candidates, "a"))["smd"].candidate == "a"


def test_data_sets_of_a_family_are_left_out_together_and_count_once() -> None:
    def figures(smd: float, ludb: float, cinc: float) -> dict[str, dict[str, float]]:
        return {"smd-causal": {"ap": smd}, "smd-audit": {"ap": smd}, "ludb": {"ap": ludb}, "cinc": {"ap": cinc}}

    left = leave_one_out(Choices({"a": figures(0.9, 0.1, 0.2), "b": figures(0.8, 0.9, 0.6)}, "a"))
    assert left["ecg"].candidate == "a"
    assert left["ecg"].figures == {"ap": pytest.approx(0.15)}
    assert left["smd"].candidate == "b"


def content(**changed: Any) -> dict[str, Any]:
    figures = {"smd-causal": {"ap": 0.5}, "tsb-dev": {"vus_pr_tsb": 0.2}, "tsb-dev-without-smd": {"vus_pr_tsb": 0.3}}
    return {"candidates": {"a": figures, "b": figures}, "default": "a"} | changed


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{", "should hold `candidates`"),
        ([], "should hold `candidates`"),
        (content(default="c"), "one of them as `default`"),
        (content(candidates={"a": {"sleep": {"f1": 0.1}}}), "`ap` or `vus_pr_tsb`, a number"),
        (content(candidates={"a": {"sleep": {"ap": None}}}), "`ap` or `vus_pr_tsb`, a number"),
        (content(candidates={"a": {"sleep": {"ap": 1}}, "b": {}}), "but those of 'b' differ"),
        (content(candidates={"a": {"sleeep": {"ap": 1}}}), "unknown data set 'sleeep'; did you mean `sleep`"),
        (content(candidates={"a": {"smd-audit": {"ap": 1}, "tsb-dev": {"ap": 1}}}), "on `tsb-dev-without-smd`"),
    ],
)
def test_a_file_of_candidates_that_does_not_fit_is_refused(tmp_path: Path, given: Any, words: str) -> None:
    file = tmp_path / "choices.json"
    file.write_text(given if isinstance(given, str) else json.dumps(given))
    with pytest.raises(DataError, match=words):
        read_choices(file)


def test_the_tables_show_peers_and_what_was_left_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    for data in ("ludb", "cinc", "skab", "tsb-dev"):
        write_records(out / f"{data}.jsonl", [one for one in records() if one["dataset"] == data])
    plain = tsadc("bench", "families", out, "--choices", tmp_path / "absent.json")
    assert plain.code == 0
    assert plain.out.rstrip().endswith("The left-out figures of the ensemble have not been computed.")
    assert "left out |" not in plain.out
    lines = plain.out.splitlines()
    assert "| AP | ecg | skab | tsb-dev | mean | mean regret | worst regret | mean rank (90 % interval) |" in lines
    assert any(one.startswith("| pyod-knn-max (peer) | 0.500 | 0.700 | **0.400** | 0.533 |") for one in lines)
    assert any(one.startswith("| random | 0.400 | 0.950 |") and one.endswith("| - |") for one in lines)
    assert "(ecg: ludb, cinc)" in plain.out
    assert "tsb-dev scores rows: VUS-PR instead of AP" in plain.out

    names = ("ludb", "cinc", "skab")
    figures = {
        name: {data: {"ap": value, "auroc": value} for data, value in zip(names, values[:3], strict=True)}
        | {"tsb-dev": {"vus_pr_tsb": values[3]}}
        for name, values in {"wide": (0.8, 0.6, 0.9, 0.2), "narrow": (0.9, 0.9, 0.1, 0.1)}.items()
    }
    (tmp_path / "choices.json").write_text(json.dumps({"candidates": figures, "default": "wide"}))
    answer = tsadc("bench", "families", out, "--choices", tmp_path / "choices.json", "--out", tmp_path / "table.md")
    assert answer.code == 0, answer.err
    lines = (tmp_path / "table.md").read_text().splitlines()
    # Without skab, narrow is better: (.9 + .1) / 2 against (.7 + .2) / 2.
    assert "| ensemble, left out | 0.700 | 0.100 | 0.200 | 0.333 | 0.300 | 0.600 | 2.7 (2.3 to 3.0) |" in lines
    assert "| ensemble, left out | 0.700 | 0.100 | - | - | - | - | - |" in lines
    assert "| skab | narrow | 0.100 | 0.100 |" in lines
    assert "| ecg | wide | 0.700 | 0.700 |" in lines
