"""The plans of `plans/paper`: they can be run, under one budget, and vary what `docs/paper.md` says they do."""

from pathlib import Path

import pytest

from tsadc.bench.job import Job
from tsadc.bench.plan import BenchmarkPlan, read
from tsadc.data.catalogue import draw

ROOT = Path(__file__).parents[2]
PLANS = {file.stem: file for file in sorted((ROOT / "plans" / "paper").glob("*.toml"))}
TWELVE = {"usad", "lstm-ae", "s4-ae", "dcdetector", "gae", "gdn", "eeg-cgs"}
TWELVE |= {"interfusion", "dvgcrn", "gru-gnn", "graphs4mer", "imdiffusion"}


def labelled(name: str, data: str = "plant") -> dict[str, Job]:
    return {job.label: job for job in read(PLANS[name]).jobs() if (job.dataset, job.seed) == (data, 0)}


def trainings(jobs: list[Job]) -> set[str]:
    return {job.training for job in jobs}


@pytest.mark.parametrize("name", PLANS)
def test_every_network_has_the_same_budget(name: str) -> None:
    plan = read(PLANS[name])
    epochs, observations = (2, 50) if name == "cost" else (10, 200)
    assert (plan.budget.epochs, plan.budget.observations) == (epochs, observations)
    for job in plan.jobs():
        assert job.seed < 100  # those from there on are for choosing
        if job.network:
            few = job.dataset in ("ludb", "cinc") and name != "cost"
            assert job.config().training.epochs == (60 if few else epochs)  # type: ignore[attr-defined]
            assert job.observations == observations


def test_the_twelve_are_compared_on_cleaned_data_and_in_the_main_study() -> None:
    jobs = read(PLANS["cleaned"]).jobs()
    assert {job.detector for job in jobs} == TWELVE
    assert all(job.scoring == "own" for job in jobs)
    assert len(jobs) == 12 * 3
    assert {job.key for job in jobs} <= {job.key for job in read(PLANS["main"]).jobs()}


@pytest.mark.parametrize("name", [name for name in PLANS if name != "cleaned"])
def test_both_presets_appear_and_the_label_names_the_width(name: str) -> None:
    jobs = [job for job in read(PLANS[name]).jobs() if job.detector == "tsadc"]
    papers = [job for job in jobs if job.preset == "paper"]
    assert bool(papers) == (name != "scorings")
    assert len(papers) < len(jobs)
    plan: BenchmarkPlan = read(PLANS[name])
    for job in papers:
        assert job.config().decontaminator.channels == 16  # type: ignore[attr-defined]
        assert "16 channels" in job.label + plan.note


def test_the_main_comparison_has_all_methods_by_both_scorings() -> None:
    found = {(job.detector, job.scoring) for job in labelled("main").values() if job.network}
    assert found == {(name, scoring) for name in {*TWELVE, "tsadc"} for scoring in ("fused", "own")}


def test_scorings_are_compared_on_jobs_of_the_main_comparison() -> None:
    every = read(PLANS["main"]).jobs()
    assert {job.key for job in read(PLANS["scorings"]).jobs()} <= {job.key for job in every}


def test_what_differs_in_scores_alone_is_trained_once() -> None:
    ablation = labelled("ablation")
    for preset in ("paper", "default"):
        mine = {label: job for label, job in ablation.items() if label.startswith(preset)}
        assert len(mine) == 5
        assert len(trainings([job for label, job in mine.items() if "int" not in label.split("without ")[-1]])) == 1
        assert len(trainings(list(mine.values()))) == 3
    loss = labelled("loss")
    assert len(loss) == 8
    assert len(trainings(list(loss.values()))) == 4


def test_the_options_of_the_data_are_those_of_the_paper() -> None:
    eta, kappa = (
        {(job.dataset, job.split["eta"], job.split["kappa"]) for job in read(PLANS[name]).jobs()}
        for name in ("eta", "kappa")
    )
    assert {share for data, share, kinds in eta if data == "plant" and kinds == 6} == {0, 0.1, 0.2, 0.3}
    assert {share for _, share, _ in kappa} == {0.2}
    assert {kinds for data, _, kinds in kappa if data == "ludb"} == {1, 2, 3}
    masks = {job.config().decontaminator.masking for job in labelled("masking").values()}  # type: ignore[attr-defined]
    assert masks == {"RandM", "RandBM", "BoM"}


@pytest.mark.parametrize("name", ["main", "eta", "kappa", "masking", "cost"])
def test_there_are_enough_records_of_ecg_for_what_is_asked(name: str, shared_data: Path) -> None:
    asked = {(job.dataset, tuple(sorted(job.split.items())), job.seed) for job in read(PLANS[name]).jobs()}
    for data, split, seed in asked:
        if data in ("ludb", "cinc"):
            assert 13 <= len(draw(data, shared_data, seed, split).train) <= 19


def test_what_the_paper_says_stands_beside_what_differs() -> None:
    found = {name: plan.published for name, plan in ((name, read(file)) for name, file in PLANS.items())}
    assert {name for name, published in found.items() if published is None} == {"scorings", "cleaned"}
    assert {name for name, published in found.items() if published and not published.methods} == {"eta", "kappa"}
    main = found["main"]
    assert main is not None
    assert len(main.methods) == 13 + 1  # with flagging everything, from its Table 1
    by_detector = {row.ours[-1].split()[0]: row for row in main.methods}
    assert set(by_detector) == {*TWELVE, "tsadc", "all-positive"}
    # The averages of F1 that Table 2 ends with, where they are those of its columns.
    averages = {"usad": 0.411, "s4-ae": 0.532, "gae": 0.451, "interfusion": 0.496, "graphs4mer": 0.533, "tsadc": 0.596}
    for name, average in averages.items():
        assert sum(by_detector[name].figures[data][0] for data in main.data) / 4 == pytest.approx(average, abs=6e-4)
    for prevalence, data in zip((0.338, 0.599, 0.516, 0.400), main.data, strict=True):
        f1, recall, apr = by_detector["all-positive"].figures[data]
        assert (f1, recall) == (pytest.approx(2 * prevalence / (1 + prevalence), abs=6e-4), 1.0)
        assert apr == pytest.approx((1 + prevalence) / 2, abs=6e-4)
        assert f1 > max(row.figures[data][0] for row in main.methods[:-1])


@pytest.mark.parametrize("name", ["ablation", "loss", "masking", "cost"])
def test_one_figure_of_the_paper_is_the_same_in_all_its_tables(name: str) -> None:
    """TSAD-C with all parts, by RandBM with all kinds: Tables 3 to 6 repeat what Table 2 has of it."""
    last = {"ablation": "all", "loss": "masked parts: s1 + s2", "masking": "RandBM", "cost": "TSAD-C"}[name]
    kinds = {"ICBEB": " kappa=5", "DODH": " kappa=2", "TUSZ": " kappa=2"} if name == "masking" else {}
    published, main = read(PLANS[name]).published, read(PLANS["main"]).published
    assert published is not None
    assert main is not None
    row = next(row for row in published.methods if row.name == last)
    known = next(row for row in main.methods if row.name == "TSAD-C")
    for data in ("ICBEB", "DODH", "TUSZ"):
        here = dict(zip(published.metrics, row.figures[data + kinds.get(data, "")], strict=True))
        there = dict(zip(main.metrics, known.figures[data], strict=True))
        assert {metric: here[metric] for metric in ("F1", "APR")} == {"F1": there["F1"], "APR": there["APR"]}
