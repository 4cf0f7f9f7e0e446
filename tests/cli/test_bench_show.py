"""`tsadc bench table` and `tsadc bench report` on a small data set of one's own."""

from pathlib import Path

from benchmark import OWN_PLAN as PLAN
from benchmark import run_plan as run
from pages import Page
from terminal import tsadc, untouched
from tsadc.bench.records import load, write_records


def test_tables_come_from_the_records(done: Path, tmp_path: Path) -> None:
    shown = tsadc("bench", "table", done)
    assert "| first | **1.000" in shown.out
    assert tsadc("bench", "table", done, "--out", tmp_path / "results.md").out == ""
    assert (tmp_path / "results.md").read_text() == f"# Mine\n\n{shown.out}"
    assert tsadc("bench", "table", done, "--format", "csv").out.splitlines()[1].startswith("mine,first,0,0 1,0,1,0,")
    assert r"first & \textbf{1.000}" in tsadc("bench", "table", done, "--format", "latex").out
    with untouched(tmp_path):
        assert (
            "--format takes markdown, csv, latex, but got 'xml'."
            in tsadc("bench", "table", done, "--format", "xml").refusal
        )
        assert "no records of seeds for choosing" in tsadc("bench", "table", done, "--choosing").refusal
        assert "There is no folder" in tsadc("bench", "table", tmp_path / "none").refusal
        assert "is a file, but the folder that" in tsadc("bench", "table", tmp_path / "results.md").refusal


PUBLISHED = """
[published]
source = "Somebody"
differs = "Other data."
data = { Theirs = "mine", Others = "" }
metrics = { AUC = "auroc" }
[[published.methods]]
name = "Best"
ours = "first"
Theirs = [0.5]
Others = [0.25]
[[published.methods]]
name = "Worst"
"""

BESIDE = "| Best | first | 0.500 | 1.000 | 0.250 |"


def test_what_others_published_stands_after_the_tables(plan: Path) -> None:
    plan.write_text(PLAN + PUBLISHED)
    assert run(plan).code == 0
    shown = tsadc("bench", "table", plan.parent / "out").out.rstrip().split("\n\n")
    assert shown[-3] == "Published (Somebody) beside ours: AUC; ours are means over seeds of auroc."
    assert shown[-2].splitlines()[0] == "| method | ours | Theirs | ours: mine | Others |"
    assert shown[-2].splitlines()[2:] == [BESIDE, "| Worst | - | - | - | - |"]
    assert shown[-1] == "Other data."
    assert "Somebody" not in tsadc("bench", "table", plan.parent / "out", "--format", "csv").out
    tsadc("bench", "report", plan.parent / "out", "--out", plan.parent / "page.html")
    assert "Other data." in Page((plan.parent / "page.html").read_text()).text


def test_records_are_chosen_among(done: Path, tmp_path: Path) -> None:
    def rows(*words: str) -> list[str]:
        shown = tsadc("bench", "table", done, "--format", "csv", *words)
        assert shown.code == 0, shown.err
        return [" ".join(line.split(",")[1:4:2]) for line in shown.out.splitlines()[1:]]

    assert rows() == ["first 0 1", "random 0 1"]
    assert rows("--only", "detector=first,seed=1") == ["first 1"]
    assert rows("--only", "detector=random", "--only", "detector=first") == ["first 0 1", "random 0 1"]
    assert rows("--only", "label=first,seed=1.0") == ["first 1"]
    page = tmp_path / "page.html"
    told = tsadc("bench", "report", done, "--out", page, "--only", "detector=robust-z").out
    assert told == f"The report of 2 records is {page}.\n"
    with untouched(tmp_path):
        answer = tsadc("bench", "table", done, "--only", "detector=robustz")
        assert answer.refusal == "The records have no detector 'robustz'; did you mean `robust-z`?"
        assert tsadc("bench", "table", done, "--only", "mine").refusal.startswith("--only takes key=value")


def test_a_changed_plan_mixes_nothing(plan: Path, done: Path) -> None:
    """Another setting under the same label is another row; another label is taken over without a run."""
    plan.write_text(PLAN.replace('label = "first"', 'label = "first"\nset.validation = 0.3'))
    assert run(plan).code == 0
    shown = tsadc("bench", "table", done, "--format", "csv").out.splitlines()
    assert [line.split(",")[1] for line in shown[1:]] == ["random", "robust-z", "robust-z validation=0.3"]
    plan.write_text(PLAN.replace("first", "one, other"))
    assert run(plan).out.startswith("4 jobs, 4 already done\nNothing is left to run.\n")
    chosen = tsadc("bench", "table", done, "--format", "csv", "--only", "detector=one, other,seed=0").out
    assert [line.split(",0,0,")[0] for line in chosen.splitlines()[1:]] == ['mine,"one, other"']


def test_no_value_of_a_metric_that_is_no_merit_is_the_best(plan: Path) -> None:
    plan.write_text('metrics = ["delay"]\n' + PLAN)
    assert run(plan).code == 0
    shown = [tsadc("bench", "table", plan.parent / "out", "--format", form).out for form in ("markdown", "latex")]
    assert "| flag everything | 0.000 |" in shown[0]
    assert r"\textbf" not in shown[1]


def test_another_plan_chooses_jobs_and_metrics(plan: Path, done: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(
        'metrics = ["ap", "recall"]\n' + PLAN.replace('label = "first"\n', "").replace("random", "ridge") + PUBLISHED
    )
    assert tsadc("bench", "table", done, "--plan", other).code == 2  # its labels are others
    other.write_text(other.read_text().replace('ours = "first"', 'ours = "robust-z"'))
    shown = tsadc("bench", "table", done, "--plan", other)
    assert shown.code == 0, shown.err
    assert shown.out.startswith("A note.\n\n2 of 4 jobs not run: mine 2.\n\n")
    assert "\n\n| recall" in shown.out
    assert "| Best | robust-z | 0.500 | 1.000 | 0.250 |" in shown.out
    assert "random |" not in shown.out
    nothing = tsadc("bench", "table", tmp_path / "nowhere", "--plan", other).out
    assert nothing.startswith("A note.\n\nNot run.\n\nPublished (Somebody) beside ours")
    assert (
        "no records of seeds"
        in tsadc("bench", "table", tmp_path / "nowhere", "--plan", other, "--format", "csv").refusal
    )
    refused = tsadc("bench", "report", tmp_path / "nowhere", "--plan", other, "--out", tmp_path / "x.html").refusal
    assert f"holds no records of the jobs of {other}; run" in refused


def test_the_report_is_one_page(done: Path, tmp_path: Path) -> None:
    answer = tsadc("bench", "report", done, "--out", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    assert answer.out == f"The report of 4 records is {tmp_path / 'page.html'}.\n"
    page = Page((tmp_path / "page.html").read_text())
    assert "first has the highest AUROC on the only data set." in page.text
    assert "A note." in page.text
    (tmp_path / "empty").mkdir()
    said = f"{tmp_path / 'empty'} holds no benchmark records; name a folder that `tsadc bench run` wrote."
    assert tsadc("bench", "report", tmp_path / "empty", "--out", tmp_path / "x.html").refusal == said
    assert tsadc("bench", "table", tmp_path / "empty").refusal == said
    refused = tsadc("bench", "report", done, "--out", tmp_path / "x.pdf").refusal
    assert refused == f"--out must end in .html or .svg, but got {tmp_path / 'x.pdf'}."


def test_the_figure_is_of_curves_where_something_varies_and_of_dots_otherwise(done: Path, tmp_path: Path) -> None:
    figure = tmp_path / "figure.svg"
    told = tsadc("bench", "report", done, "--out", figure).out
    assert told == f"The figure of 4 records is {figure}.\n"
    assert "mine, auroc" in figure.read_text()
    plan = tmp_path / "eta.toml"
    names = '[[data]]\nname = "plant"\nsplit = { eta = [0, 0.1] }\n[[detectors]]\nname = "random"\n'
    plan.write_text(f"seeds = [0]\n{names}")
    assert tsadc("bench", "run", plan, "--out", tmp_path / "varied").code == 0
    assert tsadc("bench", "report", tmp_path / "varied", "--out", figure).code == 0
    assert "plant: eta, auroc" in figure.read_text()


def test_one_metric_is_one_table(done: Path) -> None:
    shown = tsadc("bench", "table", done, "--metric", "recall", "--only", "detector=first").out
    assert [line.split(" | ")[0] for line in shown.splitlines()] == [
        "| recall (by chance)",
        "|---|---|",
        "| first",
        "| flag everything",
    ]
    assert "recall," in tsadc("bench", "table", done, "--metric", "recall", "--format", "csv").out.splitlines()[0]
    both = tsadc("bench", "table", done, "--metric", "recall", "--brief").refusal
    assert both == "--metric and --brief cannot be combined; leave one of them out."
    refused = tsadc("bench", "table", done, "--metric", "recal").refusal
    assert refused == "There is no metric 'recal'; did you mean `recall`?"


def test_tables_say_how_many_records_are_stale(plan: Path, done: Path) -> None:
    assert "stale" not in tsadc("bench", "table", done, "--plan", plan).out
    records = load(done)
    words = "1 of 4 records is stale: the code or the settings have changed, or no hash of the code was recorded."
    for name in ("settings", "code"):
        write_records(done / "mine.jsonl", [*records[:-1], records[-1] | {name: ""}])
        assert f"\n\n{words}" in tsadc("bench", "table", done, "--plan", plan).out
    assert "stale" not in tsadc("bench", "table", done, "--plan", plan, "--only", "seed=0").out
    assert words in tsadc("bench", "table", done, "--plan", plan, "--metric", "auroc").out
    assert words in tsadc("bench", "table", done, "--plan", plan, "--format", "csv").err
    write_records(done / "mine.jsonl", [record | {"code": ""} for record in records])
    assert "\n\n4 of 4 records are stale" in tsadc("bench", "table", done, "--plan", plan).out


def test_a_plan_with_metrics_that_are_none_is_refused(done: Path, tmp_path: Path) -> None:
    (done / "plan.toml").write_text("metrics = 3\n" + PLAN)
    for words in (("table", done), ("report", done, "--out", tmp_path / "x.html")):
        assert "must be a list of names, but got 3." in tsadc("bench", *words).refusal


def test_one_metric_of_what_was_not_run_says_so(plan: Path, tmp_path: Path) -> None:
    answer = tsadc("bench", "table", tmp_path / "nowhere", "--plan", plan, "--metric", "auroc")
    assert (answer.code, answer.out) == (0, "Not run.\n")
