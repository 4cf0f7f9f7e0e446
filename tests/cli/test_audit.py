"""`tsadc audit`, and `tsadc fit --review` with what it wrote."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file

from terminal import ALONE, Answer, frame, tsadc, untouched

FILES = {"index.html", "intervals.csv", "review.csv", "audit.json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two histories; `b` of the first is six higher in rows 700 to 729."""
    folder = tmp_path_factory.mktemp("audit")
    for seed, name in enumerate(("left", "right")):
        data = frame(2000, seed)
        if name == "left":
            data.loc[700:729, "b"] += 6
        data.to_csv(folder / f"{name}.csv", index=False)
    return folder


def audit(folder: Path, out: str, *words: object) -> Answer:
    return tsadc("audit", folder / "left.csv", folder / "right.csv", "--out", folder / out, *words)


QUICK = ("--length", 40, "--detector", "robust-z")


@pytest.fixture(scope="module")
def answer(folder: Path) -> Answer:
    return audit(folder, "audit", *QUICK)


def test_the_cost_comes_first_and_the_summary_last(folder: Path, answer: Answer) -> None:
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == (
        "100 observations of 40 rows in 5 folds: 5 models are trained on up to 78 observations each, and two more, for "
        "comparison, on up to 100."
    )
    assert lines[1].startswith("The first of 7 models took 0:00:0")
    assert "of this history looks anomalous" in lines[2]
    assert "left  2026-01-01 11:4" in answer.out
    assert lines[-1] == f"The page is {folder / 'audit' / 'index.html'}; decide about each interval in " + (
        f"{folder / 'audit' / 'review.csv'}."
    )


def test_the_folder_holds_page_tables_review_and_facts(folder: Path, answer: Answer) -> None:
    assert {file.name for file in (folder / "audit").iterdir()} == FILES
    review = pd.read_csv(folder / "audit" / "review.csv")
    intervals = pd.read_csv(folder / "audit" / "intervals.csv")
    assert review["id"].tolist() == intervals["id"].tolist()
    first = review.iloc[0]
    assert (first["entity"], first["variables"], first["decision"]) == ("left", "b", "drop")
    assert first["start"] == "2026-01-01T11:40:00"
    assert (folder / "audit" / "review.csv").read_bytes().startswith(b"\xef\xbb\xbfid,")
    facts = json.loads((folder / "audit" / "audit.json").read_text())
    assert facts["data"]["observations"] == 100
    assert facts["detector"] == "robust-z"
    assert facts["contamination"]["low"] <= facts["contamination"]["share"] <= facts["contamination"]["high"]
    assert facts["suspects"] == len(review)
    assert facts["models"]["whole"]["observations"] == 100


def test_fit_learns_from_what_the_review_keeps(folder: Path, answer: Answer, tmp_path: Path) -> None:
    review = pd.read_csv(folder / "audit" / "review.csv")
    review.to_csv(tmp_path / "review.csv", index=False, sep=";", encoding="cp1252", errors="replace")  # by Excel
    data = folder / "left.csv", folder / "right.csv"
    fitted = tsadc("fit", *data, "--out", tmp_path / "model", *QUICK, "--review", tmp_path / "review.csv")
    assert fitted.code == 0, fitted.err
    dropped = int((review["decision"] == "drop").sum())
    assert f"Reviewed: {dropped} interval" in fitted.out
    stored = json.loads((tmp_path / "model" / "config.json").read_text())["provenance"]["review"]
    assert (stored["drop"], stored["keep"]) == (dropped, len(review) - dropped)
    assert stored["cells"] == 4 * stored["rows"] > 0
    assert set(review.loc[review["decision"] == "drop", "entity"]) == {"left"}
    cleaned = pd.read_csv(data[0], parse_dates=["time"])
    for _, line in review[review["decision"] == "drop"].iterrows():
        inside = (cleaned["time"] >= line["start"]) & (cleaned["time"] < line["end"])
        cleaned.loc[inside, list("abcd")] = np.nan
    cleaned.to_csv(tmp_path / "left.csv", index=False)
    other = tsadc("fit", tmp_path / "left.csv", data[1], "--out", tmp_path / "other", *QUICK)
    assert other.code == 0, other.err
    arrays = [load_file(next((tmp_path / name).glob("*.safetensors"))) for name in ("model", "other")]
    assert np.array_equal(arrays[0]["decision_scores"], arrays[1]["decision_scores"])


def test_fit_refuses_a_review_with_edited_times_and_writes_nothing(
    folder: Path, answer: Answer, tmp_path: Path
) -> None:
    text = (folder / "audit" / "review.csv").read_text(encoding="utf-8-sig")
    (tmp_path / "review.csv").write_text(text.replace("11:40:00", "11:41:00"))
    with untouched(tmp_path):
        said = tsadc(
            "fit", folder / "left.csv", "--out", tmp_path / "model", *QUICK, "--review", tmp_path / "review.csv"
        ).refusal
    assert "was edited; restore them from the audit" in said


def test_intervals_without_a_line_in_the_review_are_kept_with_a_notice(
    folder: Path, answer: Answer, tmp_path: Path
) -> None:
    shutil.copytree(folder / "audit", tmp_path / "audit")
    file = tmp_path / "audit" / "review.csv"
    lines = file.read_text(encoding="utf-8-sig").splitlines()
    data = folder / "left.csv", folder / "right.csv"
    total = len(lines) - 1
    intervals = f"{total} interval{'s' if total > 1 else ''}"
    file.write_text(lines[0] + "\n")
    fitted = tsadc("fit", *data, "--out", tmp_path / "model", *QUICK, "--review", file)
    assert fitted.code == 0, fitted.err
    assert f"{total} of {intervals} ha" in fitted.err
    assert "as `keep`: everything in them is learnt from." in fitted.err
    cleaned = tsadc("clean", *data, "--audit", tmp_path / "audit", "--out", tmp_path / "cleaned")
    assert cleaned.code == 0, cleaned.err
    assert f"no line in {file}" in cleaned.err
    assert "as `keep`: nothing in them is changed." in cleaned.err
    assert "0 cells changed" in cleaned.out
    alone = tmp_path / "review.csv"  # without its audit
    alone.write_text(lines[0] + "\n")
    said = tsadc("fit", *data, "--out", tmp_path / "other", *QUICK, "--review", alone)
    assert "has no line about an interval, so all count as `keep`" in said.err
    assert lines[1].split(",")[1] == f"1 of {total}"
    alone.write_text("\n".join([lines[0], lines[1].replace(f"of {total}", f"of {total + 2}")]) + "\n")
    said = tsadc("fit", *data, "--out", tmp_path / "another", *QUICK, "--review", alone)
    assert f"{total + 1} of {total + 2} intervals have no line in {alone}" in said.err


def test_planned_work_is_not_audited(folder: Path, answer: Answer, tmp_path: Path) -> None:
    calendar = tmp_path / "plan.csv"
    calendar.write_text("entity,start,end,note\nleft,2026-01-01 11:40,2026-01-01 12:10,overhaul\n")
    said = audit(folder, "planned", *QUICK, "--calendar", calendar)
    assert said.code == 0, said.err
    review = pd.read_csv(folder / "planned" / "review.csv")
    assert not review["start"].between("2026-01-01T11:20:00", "2026-01-01T12:20:00").any()
    assert str(calendar) in (folder / "planned" / "index.html").read_text()
    data = folder / "left.csv", folder / "right.csv"
    other = tsadc("clean", *data, "--audit", folder / "planned", "--out", tmp_path / "cleaned")
    assert "give the files, options and calendars of that audit" in other.refusal
    words = ("--audit", folder / "planned", "--out", tmp_path / "cleaned", "--calendar", calendar)
    cleaned = tsadc("clean", *data, *words)
    assert cleaned.code == 0, cleaned.err
    before, after = (pd.read_csv(place / "left.csv").iloc[700:730] for place in (folder, tmp_path / "cleaned"))
    pd.testing.assert_frame_equal(before, after)


def test_a_model_brings_its_settings_and_is_not_changed(folder: Path, answer: Answer, tmp_path: Path) -> None:
    data = folder / "left.csv", folder / "right.csv"
    model = tmp_path / "model"
    assert tsadc("fit", *data, "--out", model, *QUICK).code == 0
    with untouched(model):
        said = tsadc("audit", *data, "--model", model, "--out", tmp_path / "audit", "--folds", 3)
    assert said.code == 0, said.err
    assert json.loads((tmp_path / "audit" / "audit.json").read_text())["settings"]["length"] == 40
    assert said.out.startswith("100 observations of 40 rows in 3 folds")
    refused = tsadc("audit", *data, "--model", model, "--out", tmp_path / "other", "--length", 20).refusal
    assert refused == "--model brings the settings of the model, so --length cannot be given too; leave one out."


def test_an_earlier_audit_is_replaced_unless_its_review_was_edited(folder: Path, tmp_path: Path) -> None:
    command = ("audit", folder / "left.csv", "--out", tmp_path / "audit", *QUICK, "--folds", 2)
    assert tsadc(*command).code == 0
    assert tsadc(*command).code == 0
    (tmp_path / "audit" / "note.txt").write_text("mine")
    assert "also holds note.txt, which would be lost" in tsadc(*command).refusal
    (tmp_path / "audit" / "note.txt").unlink()
    review = tmp_path / "audit" / "review.csv"
    review.write_text(review.read_text() + "\n")  # no decision
    assert tsadc(*command).code == 0
    review.write_text(review.read_text() + "x,left,,,,,,,keep,checked by hand\n")
    with untouched(tmp_path):
        assert "review.csv was edited, and its decisions would be lost" in tsadc(*command).refusal
    (tmp_path / "other").mkdir()
    other = (*command[:3], tmp_path / "other", *command[4:])
    assert "is no earlier audit, so it is not replaced" in tsadc(*other).refusal


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--folds", 1), "`folds` must be a whole number of at least 2"),
        (("--length", 600), "cannot be divided into 5 folds"),
        (("--set", "kernels=8"), "kernels"),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(folder: Path, words: tuple[object, ...], message: str) -> None:
    with untouched(folder):
        assert message in audit(folder, "refused", *QUICK, *words).refusal


KILLED = """
import os, signal, sys
from pathlib import Path
import tsadc
from tsadc.cli.audit import save_to
from tsadc.detectors.classical.robust_z import RobustZ

out = Path(sys.argv[2])
CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "open"}
FILES = ("index.html", "intervals.csv", "review.csv", "audit.json")
audit = tsadc.audit(RobustZ(length=40), tsadc.read(sys.argv[1]), folds=2)

def die_at(change):
    left = change
    def watch(event, arguments):
        nonlocal left
        if event in CHANGES and (event != "open" or "w" in str(arguments[1])) and "audit" in str(arguments[0]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)

found = []
while True:
    child = os.fork()
    if not child:
        die_at(len(found) + 1)
        save_to(audit, out, title="Audit", about={})
        os._exit(0)
    _, status = os.waitpid(child, 0)
    found.append([(out / name).exists() for name in FILES])
    if not os.WIFSIGNALED(status):
        break
print(len(found), sorted(set(map(any, found))), all(any(own) == all(own) for own in found))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
def test_a_kill_at_any_change_leaves_no_folder_or_a_whole_one(folder: Path, tmp_path: Path) -> None:
    frame(600).to_csv(tmp_path / "short.csv", index=False)
    words = [sys.executable, "-c", KILLED, str(tmp_path / "short.csv"), str(tmp_path / "audit")]
    done = subprocess.run(words, capture_output=True, text=True, env=ALONE, check=True)
    changes, found = done.stdout.splitlines()[-1].split(" ", 1)
    assert int(changes) >= 7  # the lock, the temporary folder, four files, the rename
    assert found == "[False, True] True"
