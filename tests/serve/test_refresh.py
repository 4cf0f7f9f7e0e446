"""A running service trains its models again without fear: checks, candidates, roll back, and new levels."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from live import INTERVAL, LENGTH, NAMES, START, batch, wait_for, waves

import tsadc
from terminal import tsadc as command
from tsadc.detectors.classical.robust_z import RobustZ
from tsadc.detectors.store import SETTINGS, load
from tsadc.detectors.versions import previous
from tsadc.errors import ConfigError, DataError, RefitError, TsadcNotice
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import Config, Model, Schedule, Server, read_config
from tsadc.serve.http import create_app
from tsadc.serve.metrics import Problems, exposition
from tsadc.serve.queries import NotFound, Queries
from tsadc.serve.refresh import AT_ONCE, Refresh
from tsadc.serve.refresh_job import Job, adapt, train
from tsadc.serve.scoring import Scoring, Settings
from tsadc.serve.service import Service
from tsadc.serve.store import Store, StoreError

ROWS = 60 * LENGTH
FAULT = (50 * LENGTH + 11, 51 * LENGTH + 25)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    clock = Clock(0, INTERVAL, dated=True)
    history = [tsadc.Series(waves(np.arange(ROWS), seed), NAMES, clock, f"pump {seed}") for seed in range(2)]
    settings = RobustZ.Config(length=LENGTH, threshold={"method": "tail", "share": 0.003})
    RobustZ(config=settings).fit(history).save(tmp_path / "plant")
    return tmp_path / "plant"


class ScoringHere:
    """Scores in this process, as the process of its own does, so that tests are quick."""

    restarts = 0
    is_running = True

    def __init__(self, config: Config, problems: Problems) -> None:
        self.scoring = Scoring(Settings.of(config))

    def wake(self) -> None:
        pass

    def stop(self) -> None:
        self.scoring.save()
        self.scoring.store.close()


@pytest.fixture
def config(folder: Path, tmp_path: Path) -> Config:
    server = Server(store=str(tmp_path / "store.sqlite"), port=0, keep_days=10_000)
    return Config(server, {"plant": Model(folder=str(folder))})


@pytest.fixture
def service(config: Config, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A service that scores and trains in this process."""

    def run(_: Refresh, job: Job, __: Schedule) -> dict[str, Any]:
        store = Store(job.url, migrate=False)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TsadcNotice)
                return adapt(job, store) if job.entity else train(job, store)
        except DataError as error:
            raise RefitError(str(error)) from None
        finally:
            store.close()

    monkeypatch.setattr("tsadc.serve.service.ScoringProcesses", ScoringHere)
    monkeypatch.setattr(Refresh, "_run", run)
    service = Service(config)
    yield service
    service.close()


@pytest.fixture
def processes(config: Config) -> Iterator[Service]:
    """A service with processes of its own."""
    service = Service(config)
    yield service
    service.close()


def feed(service: Service, rows: int = ROWS, first: int = 0, jump: float = 0.0) -> None:
    """Send rows of both pumps, with a fault in the first one; `jump` is added to all rows of the second one."""
    for entity, seed in (("pump 0", 0), ("pump 1", 1)):
        own = batch(entity, first, rows, seed=seed, fault=FAULT if seed == 0 else None)
        service.ingest.submit(replace(own, values=own.values + jump * seed * np.array([0.0, 1.0, 0.0])))
    scored(service)


def scored(service: Service) -> None:
    if isinstance(service.scoring, ScoringHere):
        while service.scoring.scoring.step():
            pass

    def is_done() -> bool:
        with service.store.reading() as connection:
            stored = connection.scalar(sa.select(sa.func.max(schema.rows.c.sequence)))
            return min(service.store.scored(connection)) == stored

    wait_for(is_done)


def digest(folder: Path) -> np.ndarray:
    return load(folder).decision_scores_


def execute(service: Service, statement: Any) -> None:
    with service.store.writing() as connection:
        connection.execute(statement)


def test_a_sound_model_is_used_and_can_be_rolled_back(service: Service, folder: Path) -> None:
    feed(service)
    before = digest(folder)
    answer = service.refresh.refresh("plant")
    assert (answer["state"], answer["comparison"]["objections"]) == ("used", [])
    after = digest(folder)
    assert len(after) == 2 * 60
    assert np.array_equal(digest(previous(folder)), before)
    assert not folder.with_name("plant.candidate").exists()
    compared = answer["comparison"]
    assert compared["agreement"] > 0.95
    assert compared["alarms"]["candidate"] <= 2 * compared["alarms"]["present"] + 3
    assert compared["threshold"]["candidate"] == load(folder).threshold_
    assert compared["learnt_from"]["rows_left_out"] >= FAULT[1] - FAULT[0]  # the fault is not learnt
    [present, former] = Queries(service.store).models("plant")
    assert (present["state"], present["note"], former["state"]) == ("current", "refreshed", "previous")
    feed(service, LENGTH, first=ROWS)  # scoring goes on with the new model
    with service.store.reading() as connection:
        last = connection.scalar(sa.select(sa.func.max(schema.scores.c.end)))
    assert last == START + (ROWS + LENGTH) * INTERVAL
    service.refresh.roll_back("plant")
    assert np.array_equal(digest(folder), before)
    assert np.array_equal(digest(previous(folder)), after)
    assert Queries(service.store).models("plant")[0]["note"] == "rolled back"
    assert service.refresh.candidate("plant")["state"] == "replaced"
    service.refresh.roll_back("plant")
    assert service.refresh.candidate("plant")["state"] == "used"


def test_the_present_score_of_episodes_is_that_of_the_model_in_use(service: Service, folder: Path) -> None:
    feed(service)
    [fault] = [own for own in Queries(service.store).episodes()["episodes"] if own["kind"] == "level"]
    assert fault["present_score"] is None
    assert service.refresh.refresh("plant")["state"] == "used"
    now = Queries(service.store).episode(fault["id"])
    assert now["alarm_score"] == fault["alarm_score"]
    assert now["present_score"] > load(folder).threshold_


def test_a_model_that_is_not_sound_waits_for_a_person(service: Service, folder: Path) -> None:
    feed(service, 12 * LENGTH)  # a fifth of the history of the present model
    before = digest(folder)
    answer = service.refresh.refresh("plant")
    assert answer["state"] == "candidate"
    assert "less than half" in answer["note"]
    assert np.array_equal(digest(folder), before)
    assert service.refresh.refuse("plant", "ann")["state"] == "refused"
    with pytest.raises(RefitError, match="no candidate that waits; its last refit is refused"):
        service.refresh.accept("plant", "ann")
    assert service.refresh.refresh("plant")["state"] == "candidate"
    accepted = service.refresh.accept("plant", "Ann")
    assert (accepted["state"], accepted["note"]) == ("used", "Accepted by Ann.")
    assert "less than half" in accepted["comparison"]["objections"][0]
    assert len(digest(folder)) == 2 * 12
    assert Queries(service.store).models("plant")[0]["note"] == "refreshed, accepted by Ann"


def test_a_sound_model_waits_if_the_schedule_says_so(service: Service, folder: Path) -> None:
    feed(service)
    answer = service.refresh.refresh("plant", Schedule(model="plant", swap=False))
    assert (answer["state"], answer["comparison"]["objections"]) == ("candidate", [])


def test_a_process_of_its_own_has_limits_of_time_and_memory(processes: Service, folder: Path) -> None:
    service = processes
    feed(service, 3 * LENGTH)
    before = digest(folder)
    late = service.refresh.refresh("plant", Schedule(model="plant", minutes=0.001))
    assert (late["state"], "took more than 0.001 minutes" in late["note"]) == ("failed", True)
    small = service.refresh.refresh("plant", Schedule(model="plant", megabytes=256))
    assert (small["state"], "256 MB" in small["note"]) == ("failed", True)
    assert np.array_equal(digest(folder), before)
    assert {own.reason for own in service.problems.recent()} == {"refresh"}
    feed(service, 17 * LENGTH, first=3 * LENGTH)
    assert service.refresh.refresh("plant")["state"] == "candidate"
    assert service.refresh.accept("plant", "")["state"] == "used"
    feed(service, 2 * LENGTH, first=20 * LENGTH)
    assert len(digest(folder)) == 2 * 20


def test_what_people_say_about_episodes_is_respected(service: Service, folder: Path) -> None:
    feed(service)
    queries = Queries(service.store)
    [fault] = [own for own in queries.episodes()["episodes"] if own["kind"] == "level"]
    queries.judge(fault["id"], "false", "", "ann")
    left_out = service.refresh.refresh("plant", Schedule(model="plant", swap=False))["comparison"]["learnt_from"]
    queries.judge(fault["id"], "true", "", "ann")
    again = service.refresh.refresh("plant", Schedule(model="plant", swap=False))["comparison"]
    assert again["learnt_from"]["rows_left_out"] >= left_out["rows_left_out"] + FAULT[1] - FAULT[0]
    assert again["missed_episodes"] == []


def test_a_verdict_that_is_given_meanwhile_is_not_lost(service: Service, folder: Path) -> None:
    feed(service)
    service.refresh.refresh("plant", Schedule(model="plant", swap=False))
    [fault] = [own for own in Queries(service.store).episodes()["episodes"] if own["kind"] == "level"]
    Queries(service.store).judge(fault["id"], "true", "", "ann")
    service.refresh.accept("plant", "")
    assert [own.verdict for own in load(folder).verdicts_] == ["true"]


def test_a_schedule_is_due_after_its_time(service: Service) -> None:
    schedule, now = Schedule(model="plant", every="1d"), time.time()
    assert not service.refresh._is_due(schedule, now)
    assert service.refresh._is_due(schedule, now + 86_401)
    values = {"model": "plant", "state": "used", "started": now + 86_401, "comparison": {}, "note": ""}
    execute(service, sa.insert(schema.refreshes).values(**values))
    assert not service.refresh._is_due(schedule, now + 2 * 86_400)


def test_open_episodes_go_on_or_end_with_the_new_model(service: Service, folder: Path) -> None:
    feed(service, 20 * LENGTH)
    lasting = batch("pump 0", 20 * LENGTH, LENGTH, fault=(20 * LENGTH, 99 * LENGTH))
    service.ingest.submit(lasting)
    scored(service)
    queries = Queries(service.store)
    [opened] = queries.episodes(state="open")["episodes"]
    other = {**_row(service, opened["id"]), "id": "other", "interval": "other", "start": START, "end": START + INTERVAL}
    execute(service, sa.insert(schema.episodes).values(**other))
    service.refresh.refresh("plant")
    service.refresh.accept("plant", "")
    service.ingest.submit(batch("pump 0", 21 * LENGTH, 2 * LENGTH, fault=(20 * LENGTH, 99 * LENGTH)))
    scored(service)
    [still] = queries.episodes(state="open")["episodes"]
    assert (still["id"], still["end"] > opened["end"]) == (opened["id"], True)
    assert queries.episode("other")["state"] == "resolved"


def _row(service: Service, name: str) -> dict[str, Any]:
    with service.store.reading() as connection:
        query = sa.select(schema.episodes).where(schema.episodes.c.id == name)
        return dict(connection.execute(query).mappings().one())


def test_a_level_that_stays_is_proposed_and_adapted_to(service: Service, folder: Path) -> None:
    feed(service, 20 * LENGTH)
    service.refresh.look()
    assert service.refresh.proposals() == []
    feed(service, 14 * LENGTH, first=20 * LENGTH, jump=9.0)
    service.refresh.look()
    service.refresh.look()
    [proposal] = service.refresh.proposals()
    assert (proposal["entity"], proposal["state"], proposal["model"]) == ("pump 1", "open", "plant")
    assert [own["name"] for own in proposal["variables"]] == ["pressure"]
    assert "tsadc_proposals_open 1.0" in exposition(service).decode()
    assert proposal["variables"][0]["now"] - proposal["variables"][0]["usual"] == pytest.approx(9, abs=0.5)
    before = load(folder).scaler_.entities["pump 1"].center
    assert service.refresh.decide(proposal["id"], True, "ann")["state"] == "accepted"
    assert "tsadc_proposals_open 0.0" in exposition(service).decode()
    after = load(folder).scaler_.entities["pump 1"].center
    assert after - before == pytest.approx([0, 9, 0], abs=0.3)
    feed(service, 14 * LENGTH, first=34 * LENGTH, jump=9.0)
    service.refresh.look()
    assert [own["lasting"] for own in service.refresh.proposals()] == [False]
    episodes = Queries(service.store).episodes()["episodes"]
    assert {own["entity"] for own in episodes} == {"pump 1"}
    assert [own for own in episodes if own["state"] == "open"] == []
    with pytest.raises(RefitError, match="is accepted already"):
        service.refresh.decide(proposal["id"], False, "ann")


def test_a_candidate_stays_one_if_the_adaptation_fails(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(service, 20 * LENGTH)
    feed(service, 14 * LENGTH, first=20 * LENGTH, jump=9.0)
    service.refresh.look()
    [proposal] = service.refresh.proposals()
    assert service.refresh.refresh("plant", Schedule(model="plant", swap=False))["state"] == "candidate"

    def failing(*_: Any) -> None:
        raise RefitError("It took too long.")

    monkeypatch.setattr(Refresh, "_run", failing)
    with pytest.raises(RefitError, match="too long"):
        service.refresh.decide(proposal["id"], True, "ann")
    assert service.refresh.candidate("plant")["state"] == "candidate"
    [proposal] = service.refresh.proposals()
    assert (proposal["state"], proposal["by"]) == ("open", "")
    assert proposal["note"] == "The model could not learn the new level: It took too long."


def test_a_level_is_learnt_in_the_background(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"name": "pump 1", "model": "plant", "first_time": START}
    execute(service, sa.insert(schema.entities).values(id=1, **values))
    own = {"entity": 1, "state": "open", "lasting": True, "since": START, "above": 14, "observations": 14}
    own |= {"variables": [], "created": 0.0, "by": ""}
    for number in (1, 2):
        execute(service, sa.insert(schema.proposals).values(id=number, **own))
    begun, ended = threading.Event(), threading.Event()

    def adapt(*_: Any) -> None:
        begun.set()
        assert ended.wait(30)

    monkeypatch.setattr(Refresh, "_adapt", adapt)
    queries = Queries(service.store)
    client = TestClient(create_app(service, {}), base_url="http://127.0.0.1")

    def state() -> str:
        return next(own["state"] for own in client.get("/v1/proposals").json()["proposals"] if own["id"] == 1)

    accepted = client.post("/v1/proposals/1/accept", json={"by": "ann"})
    assert (accepted.status_code, accepted.json()["state"]) == (202, "adapting")
    assert begun.wait(30)
    before = queries.changes(None)
    assert before is not None
    assert state() == "adapting"
    for path, sentence in (
        ("1/accept", "The proposal 1 is adapting already."),
        ("1/refuse", "The proposal 1 is adapting already."),
        ("2/accept", "A model is being trained or replaced now; try again when that is done."),
    ):
        answer = client.post(f"/v1/proposals/{path}", json={})
        assert (answer.status_code, answer.json()["error"]) == (400, sentence)
    ended.set()
    wait_for(lambda: state() == "accepted")
    assert queries.changes(before["number"]) is not None  # so that pages look again


def test_a_level_whose_learning_ended_with_the_service_is_open_again(service: Service) -> None:
    execute(service, sa.insert(schema.entities).values(id=1, name="pump 1", model="plant", first_time=START))
    own = {"entity": 1, "state": "adapting", "since": START, "above": 14, "observations": 14, "variables": []}
    for number, lasting in ((1, True), (2, False)):
        execute(service, sa.insert(schema.proposals).values(id=number, lasting=lasting, created=0.0, by="", **own))
    states = {own["id"]: own["state"] for own in Refresh(service).proposals()}
    assert states == {1: "open", 2: "ended"}


def test_entities_that_are_never_proposed_keep_no_other_from_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    examined: list[str] = []
    for number in range(2 * AT_ONCE + 1):
        values = {"name": f"pump {number}", "model": "plant", "first_time": START, "score": 1e9}
        execute(service, sa.insert(schema.entities).values(**values))
    monkeypatch.setattr(service.refresh, "_recent", lambda _: ([START] * 30, [1e9] * 30))
    monkeypatch.setattr(service.refresh, "_propose", lambda number, name, *_: examined.append(name))
    for _ in range(3):
        service.refresh.look()
    assert set(examined) == {f"pump {number}" for number in range(2 * AT_ONCE + 1)}


def test_a_refused_level_stays_away_while_it_lasts(service: Service) -> None:
    feed(service, 20 * LENGTH)
    feed(service, 14 * LENGTH, first=20 * LENGTH, jump=9.0)
    service.refresh.look()
    [proposal] = service.refresh.proposals()
    assert service.refresh.decide(proposal["id"], False, "ann")["by"] == "ann"
    feed(service, 4 * LENGTH, first=34 * LENGTH, jump=9.0)
    service.refresh.look()
    assert [own["state"] for own in service.refresh.proposals()] == ["refused"]


def test_what_is_not_there_is_said(service: Service) -> None:
    with pytest.raises(NotFound, match="There is no model 'fans'"):
        service.refresh.refresh("fans")
    with pytest.raises(NotFound, match="has not been trained again yet"):
        service.refresh.candidate("plant")
    with pytest.raises(NotFound, match="There is no proposal 7"):
        service.refresh.decide(7, True, "")
    with service.refresh._alone(), pytest.raises(RefitError, match="being trained or replaced now"):
        service.refresh.refresh("plant")
    assert service.refresh.refresh("plant")["note"] == "The store has no rows of the model 'plant' to learn from yet."


def test_the_api_compares_accepts_and_rolls_back(service: Service, folder: Path) -> None:
    feed(service, 12 * LENGTH)
    before = digest(folder)
    client = TestClient(create_app(service, {}), base_url="http://127.0.0.1")
    assert client.get("/v1/models/plant/candidate").status_code == 404
    assert client.post("/v1/models/plant/rollback").status_code == 400  # there is no former model
    assert client.post("/v1/models/plant/refresh").status_code == 202
    candidate = wait_for(lambda: (own := client.get("/v1/models/plant/candidate").json()).get("finished") and own)
    assert candidate["state"] == "candidate"
    assert set(candidate["comparison"]["alarms"]) == {"present", "candidate"}
    assert wait_for(lambda: not service.refresh._busy.locked())
    accepted = client.post("/v1/models/plant/candidate/accept", json={"by": "ann"})
    assert (accepted.status_code, accepted.json()["state"]) == (200, "used")
    refused = client.post("/v1/models/plant/candidate/refuse", json={})
    assert (refused.status_code, refused.json()["error"].startswith("The model 'plant' has no candidate")) == (
        400,
        True,
    )
    assert client.post("/v1/models/plant/rollback").json()["state"] == "rolled back"
    assert np.array_equal(digest(folder), before)
    assert client.get("/v1/proposals").json() == {"proposals": []}
    assert client.post("/v1/proposals/7/accept", json={}).status_code == 404
    assert client.post("/v1/proposals/7/refuse", json={}).status_code == 404


def test_a_refit_that_was_killed_with_the_service_has_failed(service: Service) -> None:
    values = {"model": "plant", "state": "running", "started": 0.0, "comparison": {}, "note": ""}
    execute(service, sa.insert(schema.refreshes).values(**values))
    Refresh(service)
    assert service.refresh.candidate("plant")["state"] == "failed"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (StoreError("The store is away."), "The store is away."),
        (ValueError("it is no JSON"), "ValueError: it is no JSON"),
    ],
)
def test_a_refit_that_fails_unexpectedly_is_stored_and_named(
    service: Service, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Refresh, "_run", fail)
    service.refresh.begin("plant")
    assert wait_for(lambda: service.problems.recent())[0].sentence == f"The refit of the model 'plant' failed: {said}"
    failed = wait_for(lambda: (own := service.refresh.candidate("plant"))["finished"] and own)
    assert (failed["state"], failed["note"]) == ("failed", said)


def test_a_refit_that_cannot_begin_is_named(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("a mistake")

    monkeypatch.setattr(service.refresh, "refresh", fail)
    service.refresh.begin("plant")
    [problem] = wait_for(lambda: service.problems.recent())
    assert problem.sentence == "The refit of the model 'plant' failed: ValueError: a mistake"


def test_a_refit_whose_end_could_not_be_stored_has_failed(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"model": "plant", "state": "running", "started": 0.0, "comparison": {}, "note": ""}
    execute(service, sa.insert(schema.refreshes).values(**values))
    monkeypatch.setattr("tsadc.serve.refresh.LOOK", 0.01)
    stop = threading.Event()
    thread = threading.Thread(target=service.refresh.run, args=(stop,))
    thread.start()
    failed = wait_for(lambda: (own := service.refresh.candidate("plant"))["finished"] and own)
    stop.set()
    thread.join()
    assert (failed["state"], failed["note"]) == ("failed", "Its end could not be stored.")


PARENT = """
import sys
from tsadc.serve.config import Schedule
from tsadc.serve.refresh import Refresh
from tsadc.serve.refresh_job import Job

class Parent(Refresh):
    def _answer(self, process, schedule):
        print(process.pid, flush=True)
        return super()._answer(process, schedule)

Parent.__new__(Parent)._run(Job(*sys.argv[1:], history=1, megabytes=4096), Schedule())
"""


def test_a_training_process_ends_with_a_service_that_is_killed(tmp_path: Path) -> None:
    folder = tmp_path / "plant"
    folder.mkdir()
    os.mkfifo(folder / SETTINGS)  # reading it never ends
    arguments = (Server(store=str(tmp_path / "store.sqlite")).url, "plant", str(folder), str(tmp_path / "new"))
    command = [sys.executable, "-c", PARENT, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        number = int(parent.stdout.readline())
        parent.kill()
    running = Path(f"/proc/{number}/cmdline")  # empty if it has ended
    try:
        wait_for(lambda: not running.exists() or not running.read_bytes(), within=30)
    finally:
        if running.exists():
            os.kill(number, signal.SIGKILL)


def test_schedules_are_checked_and_the_command_rolls_back(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    text = '[server]\nport = 1\n[model.plant]\nfolder = "plant"\n[schedule.weekly]\n'
    file.write_text(text + 'every = "2w"\n')
    assert read_config(file).schedules == {"weekly": Schedule(model="plant", every="2w")}
    for wrong, complaint in (
        ('every = "soon"', "whole number of min, h, d or w"),
        ('model = "plan"', "plant"),
        ("megabytes = 1", "from 256 to"),
    ):
        file.write_text(text + wrong)
        with pytest.raises(ConfigError, match=complaint):
            read_config(file)
    file.write_text(text)
    assert "only a model that `tsadc refit` has replaced" in command("serve", file, "--rollback", "plant").refusal
    tsadc.load(folder).save(previous(folder))
    assert "again" in command("serve", file, "--rollback", "plant").out
    assert "There is no model 'fans'" in command("serve", file, "--rollback", "fans").refusal
