"""Kill `tsadc serve` under load, again and again, and compare the log of the sender with the store, row by row.

    make bench-serve-faults
    PYTHONPATH=tests/serve python benchmarks/serve_faults.py --kills 50 --postgresql

Each trial starts the service, sends rows of several entities for a random time, and kills the service, its scoring
process, or both (kill -9). The sender logs what was acknowledged; what was not, it sends again. At the end, every
acknowledged row must be in the store with its values, once; the final scores and the intervals must be those of
`detect` on the rows; every episode must have one `opened` and, if it ended, one `resolved` event, and the writer must
have written each. A kill between writing and noting it lets a line be written again, which is counted."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import sqlalchemy as sa
from live import INTERVAL, LENGTH, NAMES, START, PostgreSQL, Served, batch, wait_for, waves

import tsadc
from tsadc.errors import TsadcNotice
from tsadc.series import Clock
from tsadc.serve import schema
from tsadc.serve.config import Server
from tsadc.serve.store import Store

ENTITIES, AT_ONCE = 8, 10
CLOCK = Clock(START, INTERVAL, dated=True)


class Sender:
    """Sends the rows of one entity after the other, as fast as they are acknowledged, and logs them."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], list[float]] = {}
        self.next = [0] * ENTITIES
        self.unsure = 0  # requests that were sent and not acknowledged

    def send(self, served: Served, until: float) -> None:
        """Send until a moment, or until the service is gone."""
        while time.monotonic() < until:
            for entity in range(ENTITIES):
                first = self.next[entity]
                fault = (first // 400 * 400 + 200, first // 400 * 400 + 260) if entity % 4 == 0 else None
                rows = batch(f"pump {entity}", first, AT_ONCE, seed=entity, fault=fault)
                try:
                    answer = served.push(rows)
                except (httpx.HTTPError, RuntimeError):
                    self.unsure += 1
                    return
                if answer.status_code == 200:
                    self.next[entity] = first + AT_ONCE
                    for tick, values in zip(rows.times.tolist(), rows.values.tolist(), strict=True):
                        self.rows[rows.entity, tick] = values
                else:
                    time.sleep(float(answer.headers.get("Retry-After", 1)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--postgresql", action="store_true")
    parser.add_argument("--processes", type=int, default=1, help="Scoring processes.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = run(options, Path(folder))
    print(json.dumps(record, indent=1))
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(
        any(record[name] for name in ("lost", "changed", "unknown", "wrong_scores", "wrong_episodes", "wrong_events"))
    )


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all trials on one store, and return what was found in it at the end."""
    generator = np.random.default_rng(options.seed)
    history = [
        tsadc.Series(waves(np.arange(30 * LENGTH), seed), NAMES, Clock(0, INTERVAL, dated=True), f"pump {seed}")
        for seed in range(2)
    ]
    tsadc.Ensemble(length=LENGTH).fit(history).save(folder / "model")
    database = PostgreSQL() if options.postgresql else None
    url = database.new_database() if database else str(folder / "store.sqlite")
    log = folder / "events.jsonl"
    file = folder / "config.toml"
    file.write_text(
        f'[server]\nport = 0\nstore = "{url}"\nkeep_days = 10000\nprocesses = {options.processes}\n'
        f'[model.plant]\nfolder = "{folder / "model"}"\n'
        f'[writer.log]\ntype = "json_lines"\npath = "{log}"\n'
    )
    sender, victims = Sender(), {"service": 0, "scoring": 0}
    served = Served(file)
    for trial in range(options.kills):
        print(f"\r{trial} of {options.kills} trials, {len(sender.rows):,} rows", end="", file=sys.stderr, flush=True)
        pid = wait_for_scoring(served, generator)
        after = float(generator.uniform(0.0, 1.5))
        victim = "scoring" if generator.random() < 0.3 else "service"
        victims[victim] += 1
        number = pid if victim == "scoring" else served.process.pid
        threading.Timer(after, os.kill, [number, signal.SIGKILL]).start()
        sender.send(served, time.monotonic() + after + 0.3)
        if victim == "service":
            served.kill()
            served.start()
    wait_for_scoring(served, generator)
    sender.send(served, time.monotonic() + 1.0)
    served.scored(120)
    store = Store(Server(store=url).url, migrate=False)
    wait_for(lambda: not store.undelivered(), 120)  # what is left would be sent by the next service
    took = served.stop()
    record = {"kills": options.kills, **{f"killed_{name}": count for name, count in victims.items()}}
    record |= {"store": "postgresql" if database else "sqlite", "acknowledged": len(sender.rows)}
    record |= {"unacknowledged_requests": sender.unsure, "seconds_to_stop": round(took, 1)}
    record |= compare(store, sender, folder / "model", log)
    store.close()
    if database:
        database.remove()
    return record


def wait_for_scoring(served: Served, generator: np.random.Generator) -> int:
    """Return the number of one of the scoring processes, when all run."""
    while True:
        scoring = served.client.get("/v1/health").json()["scoring"]
        if scoring["running"]:
            return int(generator.choice(scoring["pids"]))
        time.sleep(0.05)


def compare(store: Store, sender: Sender, model: Path, log: Path) -> dict[str, Any]:
    """Compare the store with what the sender logged, and with `detect`."""
    entity, row, score, episode = schema.entities.c, schema.rows.c, schema.scores.c, schema.episodes.c
    with store.reading() as connection:
        query = sa.select(entity.name, row.time, row.data).join(schema.rows, row.entity == entity.id)
        found = connection.execute(query).all()
        finals = connection.execute(
            sa.select(entity.name, score.end, score.score)
            .join(schema.scores, score.entity == entity.id)
            .where(score.final.is_(True))
        ).all()
        episodes = connection.execute(
            sa.select(entity.name, episode.id, episode.interval, episode.state, episode.withdrawn, episode.score).join(
                schema.episodes, episode.entity == entity.id
            )
        ).all()
    stored = {(own.name, own.time): np.frombuffer(bytes(own.data), "<f8").tolist() for own in found}
    scores = {(own.name, own.end): own.score for own in finals}
    detector = tsadc.load(model)
    wrong_scores = wrong_episodes = checked = 0
    for number in range(ENTITIES):
        name = f"pump {number}"
        count = sum(key[0] == name for key in stored)
        values = np.array([stored[name, START + i * INTERVAL] for i in range(count)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TsadcNotice)
            result = detector.detect(tsadc.Series(values, NAMES, CLOCK, name))
        whole = count // LENGTH  # the last observation may be incomplete
        for i, value in enumerate(result.scores.tolist()[:whole]):
            checked += 1
            wrong_scores += scores.get((name, START + (i + 1) * LENGTH * INTERVAL)) != value
        ended = START + (whole - 3) * LENGTH * INTERVAL  # later intervals may not be final
        expected = {
            interval["id"] for interval in result.intervals.to_dict("records") if interval["end"].value <= ended
        }
        known = {own.interval for own in episodes if own.name == name and not own.withdrawn}
        wrong_episodes += len(expected - known)
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    sent = [(line["episode"], line["transition"], line["severity"], line["end"]) for line in lines]
    with store.reading() as connection:
        outbox = schema.outbox.c
        events = connection.execute(sa.select(outbox.episode, outbox.transition, outbox.delivered)).all()
    wrong_events = sum(own.delivered is None for own in events)
    for own in episodes:
        transitions = [event.transition for event in events if event.episode == own.id]
        written = {name for episode_id, name, *_ in sent if episode_id == own.id}
        wrong_events += transitions.count("opened") != 1 or transitions.count("resolved") != int(own.state != "open")
        wrong_events += not written >= set(transitions)
    return {
        "stored": len(found),
        "lost": len(sender.rows.keys() - stored.keys()),
        "changed": sum(stored.get(key) != values for key, values in sender.rows.items()),
        "unknown": len(found) - len(stored),
        "scores_checked": checked,
        "wrong_scores": wrong_scores,
        "episodes": len(episodes),
        "wrong_episodes": wrong_episodes,
        "events": len(events),
        "wrong_events": wrong_events,
        "lines_written_again": len(sent) - len(set(sent)),
    }


if __name__ == "__main__":
    main()
