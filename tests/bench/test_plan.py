from dataclasses import replace
from pathlib import Path

import pytest

from tsadc.bench.job import Job, identity
from tsadc.bench.plan import BenchmarkPlan, combinations, differing, nested, read
from tsadc.data.catalogue import families
from tsadc.detectors import PEERS, REGISTRY, find
from tsadc.errors import ConfigError

PLANS = Path(__file__).parents[2] / "plans"
WHOLE = """
title = "A plan"
seeds = [0, 1]
metrics = ["auroc", "vus_pr"]
[budget]
epochs = 2
observations = 9
[[data]]
name = "tiny"
split = { eta = [0, 0.2] }
[[data]]
name = "tiny-adapted"
seeds = [3]
[[detectors]]
name = "tsadc"
preset = "tiny"
scoring = ["fused", "own"]
label = "ours"
[[detectors]]
name = "ridge"
set.threshold.method = "alarms"
grid.lags = [1, 3]
"""
ONE = '[[data]]\nname = "tiny"\n[[detectors]]\nname = "ridge"\n'
PUBLISHED = """
[published]
source = "x"
differs = "y"
data.A = "tiny"
metrics.F1 = "paper_f1"
[[published.methods]]
name = "theirs"
ours = "ridge"
A = [0.5]
"""


@pytest.fixture
def plan(tiny: None, tmp_path: Path):
    def made(text: str) -> BenchmarkPlan:
        (tmp_path / "plan.toml").write_text(text)
        return read(tmp_path / "plan.toml")

    return made


def test_a_plan_is_all_combinations(plan) -> None:
    whole = plan(WHOLE)
    assert (whole.title, whole.seeds, whole.budget.epochs) == ("A plan", (0, 1), 2)
    jobs = whole.jobs()
    assert len(jobs) == (2 * 2 + 1) * 4
    assert jobs[0] == Job(
        "tiny",
        "tsadc",
        0,
        "tiny",
        {"training": {"epochs": 2}},
        {"eta": 0.0},
        9,
        label="ours scoring=fused",
        by_row=("vus_pr",),
    )
    assert {job.seed for job in jobs if job.dataset == "tiny-adapted"} == {3}
    assert {job.data for job in jobs} == {"tiny eta=0", "tiny eta=0.2", "tiny-adapted"}
    heads = [job.config().scoring for job in jobs if job.network]
    assert sorted(heads) == ["fused"] * 5 + ["own"] * 5
    lags = [job.config().lags for job in jobs if not job.network]
    assert sorted(lags) == [1] * 5 + [3] * 5
    assert {job.observations for job in jobs if not job.network} == {None}
    assert {job.config().threshold.method for job in jobs if not job.network} == {"alarms"}


def test_labels_omit_the_budget(plan) -> None:
    jobs = plan("[budget]\nepochs = 1\n" + ONE + '[[detectors]]\nname = "usad"\nset.scoring = "own"\n').jobs()
    assert [job.label for job in jobs[:2]] == ["ridge", "usad scoring=own"]
    assert jobs[1].variant == "usad scoring=own training.epochs=1"


def test_epochs_of_a_data_set_come_before_those_of_the_budget(plan) -> None:
    other = ONE.replace('"tiny"', '"tiny-adapted"\nepochs = 5').replace("ridge", "usad")
    jobs = plan("seeds = [0]\n[budget]\nepochs = 2\n" + ONE + other).jobs()
    found = {(job.dataset, job.detector): (job.overrides, job.label) for job in jobs}
    assert found == {
        ("tiny", "usad"): ({"training": {"epochs": 2}}, "usad"),
        ("tiny-adapted", "usad"): ({"training": {"epochs": 5}}, "usad"),
        ("tiny", "ridge"): ({}, "ridge"),
        ("tiny-adapted", "ridge"): ({}, "ridge"),
    }


def test_what_others_published_is_read(plan) -> None:
    assert plan(ONE).published is None
    found = plan(ONE + PUBLISHED).published
    assert found.methods[0].figures == {"A": (0.5,)}
    assert plan(ONE + PUBLISHED).jobs() == plan(ONE).jobs()


def test_seeds_are_those_of_the_data_set_by_default(plan) -> None:
    assert [job.seed for job in plan(ONE).jobs()] == [0, 1]
    assert [job.seed for job in plan('seeds = "choose"\n' + ONE).jobs()] == [100]


def test_what_the_preset_has_anyway_is_dropped(plan) -> None:
    settings = find("tsadc").Config()
    given = {"decontaminate": True, "inference": {"masks": 3, "residuals": ["reconstruction"]}}
    assert differing(settings, given) == {"inference": {"masks": 3}}
    jobs = plan(ONE.replace("ridge", "tsadc") + "grid.decontaminate = [true, false]\n").jobs()
    assert [job.variant for job in jobs if job.seed == 0] == ["tsadc", "tsadc decontaminate=False"]
    assert identity(jobs[0], Path()) == identity(Job("tiny", "tsadc", 0), Path())


def test_equal_jobs_are_one(plan) -> None:
    assert len(plan(ONE + ONE).jobs()) == len(plan(ONE).jobs()) == 2


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it names no data; add a table"),
        ('[[data]]\nname = "tiny"\n', "it names no detectors; add a table"),
        ("titel = 'x'\n" + ONE, "There is no setting `titel`; did you mean `title`"),
        (ONE + "head = 'paper'\n", r"`detectors\[0\].head` is now called `scoring` \(fused or own\)"),
        ("[[detector]]\nname = 'ridge'\n" + ONE, "There is no setting `detector`; did you mean `detectors`"),
        ("[data]\nname = 'tiny'\n", "`data` must be tables, each under"),
        (
            ONE + "presett = 'x'\n",
            r"There is no setting `detectors\[0\].presett`; did you mean `detectors\[0\].preset`",
        ),
        (ONE.replace("tiny", "tyni"), r"There is no data set 'tyni' to benchmark; did you mean `tiny`\?$"),
        (ONE.replace("ridge", "rigde"), "There is no detector 'rigde'; did you mean `ridge`"),
        (ONE + "preset = 'paper'\n", "This detector has only the preset `default`, but got 'paper'"),
        (ONE + "set.lag = 1\n", "There is no setting `lag`; did you mean `lags`"),
        (ONE + "set = 1\n", r"`detectors\[0\].set` must be a table, but got 1"),
        (ONE + "grid.lags = 1\n", "`grid.lags` of ridge must be a list of values, but got 1"),
        (
            ONE + "scoring = ['own']\n",
            "`scoring` of ridge must be left out: it is a setting of",
        ),
        (ONE.replace('"tiny"', '"tiny"\nsplit.eta = 0.6'), "`eta` of the data set tiny must be a number from 0 to 0.4"),
        (
            ONE.replace('"tiny"', '"tiny"\nsplit.etta = 0.1'),
            "The data set tiny has no option `etta`; did you mean `eta`",
        ),
        (ONE.replace('"tiny"', '"tiny"\nfolder = "x"'), r"`data\[0\]` needs both folder and manifest, or neither"),
        ("metrics = ['aroc']\n" + ONE, "There is no metric 'aroc'; did you mean `auroc`"),
        (
            ONE + '[[detectors]]\nname = "random"\nlabel = "a"\n[[detectors]]\nname = "random"\nlabel = "b"\n',
            "random occurs twice, with several labels",
        ),
        ("metrics = []\n" + ONE, "`metrics` must be a list of at least one metric"),
        (ONE.replace('"tiny"', '"tiny"\nsplit.eta = []'), r"`data\[0\].split.eta` must be a value or a list of values"),
        (
            ONE + "label = 'a'\n[[detectors]]\nname = 'random'\nlabel = 'a'\n",
            "Two detectors are called 'a'; give each a label of its own",
        ),
        (ONE + "[[detectors]]\nname = 'random'\nlabel = 'ridge'\n", "Two detectors are called 'ridge'"),
        (
            ONE + "set.scoring = 'own'\n",
            "`set.scoring` of ridge must be left out: it is a setting of detectors with a network",
        ),
        (ONE + "grid.scoring = ['own']\n", "`grid.scoring` of ridge must be left out: it is a setting"),
        (ONE + "scoring = []\n", r"`detectors\[0\].scoring` must not be empty, but got \[\]; leave it out instead"),
        (ONE + "label = ' '\n", r"`detectors\[0\].label` must not be empty, but got ' '; leave it out instead"),
        (ONE.replace('"tiny"', '""'), r"`data\[0\].name` must not be empty"),
        ("seeds = [0, 1, 0]\n" + ONE, "`seeds` must name each value once, but has 0 twice; leave one out"),
        (ONE.replace('"tiny"', '"tiny"\nseeds = [3, 3]'), "`seeds` must name each value once, but has 3 twice"),
        ("metrics = ['ap', 'ap']\n" + ONE, "`metrics` must name each value once, but has 'ap' twice"),
        (ONE + "grid.lags = [1, 1]\n", "`grid.lags` must name each value once, but has 1 twice"),
        (ONE.replace("ridge", "usad") + "scoring = ['own', 'own']\n", "`scoring` must name each value once"),
        (ONE.replace('"tiny"', '"tiny"\nsplit.eta = [0.1, 0.1]'), "`split.eta` must name each value once"),
        (ONE + "set.threshold.share = 0.2\n", "`threshold.share` only applies to `threshold.method=tail`"),
        ("seeds = []\n" + ONE, "`seeds` must be report, choose or numbers from 0"),
        ("seeds = [-1]\n" + ONE, r"`seeds` must be report, choose or numbers from 0, but got \[-1\]"),
        ("seeds = 'some'\n" + ONE, "`seeds` must be 'report' or 'choose' or a list, each a whole number"),
        ("budget.epochs = 0\n" + ONE, "`budget.epochs` must be positive, but got 0"),
        (ONE.replace('"tiny"', '"tiny"\nepochs = 0'), r"`data\[0\].epochs` must be positive, but got 0"),
        (ONE + "[published]\nsource = 'x'\n", "`published.differs` must be a text that is not empty"),
        (
            ONE + PUBLISHED.replace("ridge", "rigde"),
            "`published.methods.0..ours` names 'rigde', but there is no such label",
        ),
        (
            ONE + PUBLISHED.replace("tiny", "tiny eta=0.2"),
            "`published.data.A` names 'tiny eta=0.2', but there is no such",
        ),
        ("a = [", "is not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(plan, text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        plan(text)


def test_a_varied_method_may_leave_a_setting_of_one_of_them_idle(plan) -> None:
    varied = "set.threshold.alarms = '2/day'\ngrid.threshold.method = ['tail', 'alarms']\n"
    jobs = plan("seeds = [0]\n" + ONE + varied).jobs()
    assert [(job.config().threshold.method, job.config().threshold.per_day) for job in jobs] == [
        ("tail", 2.0),
        ("alarms", 2.0),
    ]


def test_a_plan_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder, but a plan in TOML was expected"):
        read(tmp_path)
    with pytest.raises(ConfigError, match="There is no plan"):
        read(tmp_path / "none.toml")


def test_the_general_plan_has_all_detectors_without_a_network_and_all_peers_on_every_family() -> None:
    jobs = read(PLANS / "general.toml").jobs()
    cheap = {name for name in REGISTRY if not replace(jobs[0], detector=name).network}
    assert {job.detector for job in jobs} == cheap | set(PEERS)
    family = families()
    for name in cheap | set(PEERS):
        plain = [job for job in jobs if job.detector == name and not job.overrides and not job.split]
        assert {family[job.dataset] for job in plain} == set(family.values()), name


@pytest.mark.parametrize("file", sorted(PLANS.glob("*.toml")), ids=lambda file: file.stem)
def test_every_plan_can_be_run(file: Path) -> None:
    plan = read(file)
    assert plan.title
    assert plan.note
    assert plan.jobs()


def test_settings_are_combined_and_nested() -> None:
    assert combinations({"a": [1, 2], "b": [3]}) == [{"a": 1, "b": 3}, {"a": 2, "b": 3}]
    assert combinations({}) == [{}]
    assert nested("a.b", 1) == {"a": {"b": 1}}


def test_the_plan_of_the_guide_can_be_run(tmp_path: Path) -> None:
    guide = (PLANS.parent / "docs" / "guides" / "benchmark.md").read_text()
    (tmp_path / "plan.toml").write_text(guide.split("```toml\n")[1].split("```")[0])
    jobs = read(tmp_path / "plan.toml").jobs()
    assert len(jobs) == 2 * 3 * (1 + 4)
    assert {job.label for job in jobs if job.network} == {
        f"small decontaminate={on} scoring={scoring}" for on in (True, False) for scoring in ("fused", "own")
    }


def test_what_the_guide_says_others_published_goes_with_its_plan(tmp_path: Path) -> None:
    guide = (PLANS.parent / "docs" / "guides" / "benchmark.md").read_text()
    blocks = [part.split("```")[0] for part in guide.split("```toml\n")[1:]]
    (others,) = (block for block in blocks if block.startswith("[published]"))
    (tmp_path / "plan.toml").write_text(blocks[0] + others)
    found = read(tmp_path / "plan.toml").published
    assert found is not None
    assert found.methods[0].figures["Plant"] == (0.91, 0.62)
