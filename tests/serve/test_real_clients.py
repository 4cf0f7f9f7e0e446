"""Real programs send rows: Prometheus with its node exporter by remote write, and an MQTT broker."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serve.programs import Receiver, free_port, get, installed, running, wait_until
from serve.test_readers import Sink
from tsadc.errors import DataError, OutputError
from tsadc.serve.config import read_config
from tsadc.serve.metrics import exposition
from tsadc.serve.readers import mqtt, prometheus
from tsadc.serve.readers.remote_write import RemoteWriteDecoder
from tsadc.serve.rows import RowBatch
from tsadc.serve.service import Service

SECOND = 10**9
SCRAPE = """
global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}
scrape_configs: [{{job_name: node, static_configs: [{{targets: ["{target}"]}}]}}]
remote_write: [{{url: "{url}/api/v1/write", queue_config: {{batch_send_deadline: 200ms}}}}]
"""


@contextlib.contextmanager
def scraping(folder: Path, url: str) -> Iterator[tuple[str, str]]:
    """A Prometheus that scrapes a node exporter and writes to `url`; the addresses of both."""
    exporter, server = installed("prometheus-node-exporter"), installed("prometheus")
    target, address = (f"127.0.0.1:{free_port()}" for _ in range(2))
    (folder / "prometheus.yml").write_text(SCRAPE.format(target=target, url=url))
    options = ("--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}")
    with (
        running(exporter, f"--web.listen-address={target}", log=folder / "exporter.log"),
        running(server, *options, log=folder / "prometheus.log"),
    ):
        wait_until(lambda: get(f"http://{address}/-/ready"))
        yield target, f"http://{address}"


def test_prometheus_writes_what_the_node_exporter_measures(tmp_path: Path) -> None:
    failures = 2  # the first requests are answered with 503, which Prometheus repeats

    def answer(method: str, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        nonlocal failures
        failures -= 1
        return (503, {"Retry-After": "1"}, b"") if failures >= 0 else (204, {}, b"")

    with Receiver(answer) as receiver, scraping(tmp_path, receiver.url) as (target, address):
        reader = prometheus.create(
            "p", prometheus.Settings(url=address, queries=(("load", "node_load1"),), step=1, delay=1, history=60)
        )
        sink = Sink()
        sink.run(reader, lambda: len(sink.rows) >= 3)  # the same values, asked for
        wait_until(lambda: len(receiver.requests) >= 12)
        headers = receiver.requests[0][2]
    assert headers["content-encoding"] == "snappy"
    assert headers["x-prometheus-remote-write-version"] == "0.1.0"
    decoder = RemoteWriteDecoder()
    rows: dict[int, dict[str, float]] = {}
    skipped = 0
    for _, path, _, body in receiver.requests:
        assert path == "/api/v1/write"
        decoded = decoder.decode(body)
        skipped += sum(count for reason, count in decoded.skipped.items() if not reason.startswith("repeated"))
        for batch in decoded.batches:
            assert batch.entity == target
            for tick, row in zip(batch.times.tolist(), batch.values.tolist(), strict=True):
                rows.setdefault(tick, {}).update(zip(batch.names, row, strict=True))
    complete = [row for _, row in sorted(rows.items()) if "node_load1" in row and "up" in row]
    assert len(complete) >= 3
    assert all(row["up"] == 1.0 for row in complete)
    assert all(0 <= row["node_load1"] < 10_000 for row in complete)
    assert 'node_cpu_seconds_total{cpu="0",mode="idle"}' in complete[0]
    assert len(complete[0]) > 200
    assert abs(max(rows) - time.time_ns()) < 60 * SECOND
    assert {entity for entity, _, _ in sink.rows} == {target}
    assert all(row.keys() == {"load"} for _, _, row in sink.rows)


@contextlib.contextmanager
def broker(folder: Path, port: int) -> Iterator[None]:
    program = installed("mosquitto")
    (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n")

    def listens() -> bool:
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return True

    with running(program, "-c", "mosquitto.conf", log=folder / "mosquitto.log"):
        wait_until(listens)
        yield


def publish(port: int, *messages: tuple[str, str]) -> None:
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    sender = Client(CallbackAPIVersion.VERSION2)
    sender.connect("127.0.0.1", port)
    sender.loop_start()
    for topic, payload in messages:
        sender.publish(topic, payload, qos=1).wait_for_publish(10)
    sender.disconnect()
    sender.loop_stop()


def test_messages_of_a_broker_are_kept_until_they_are_stored(tmp_path: Path) -> None:
    pytest.importorskip("paho.mqtt.client")
    port = free_port()
    settings = mqtt.Settings(host="127.0.0.1", port=port, topic="plant/{entity}")

    def rows(sink: Sink) -> dict[str, float]:
        return {name: value for _, _, row in sink.rows for name, value in row.items()}

    class Failing(Sink):
        def submit(self, batch: RowBatch) -> None:
            super().submit(batch)
            raise OutputError("The disk is full.")

    with broker(tmp_path, port):
        first, failing, last = Sink(), Failing(), Sink()
        sender = threading.Timer(1, publish, (port, ("plant/p1", "what?"), ("plant/p1", '{"flow": 1, "speed": 5}')))
        sender.start()
        first.run(mqtt.create("m", settings), lambda: rows(first) == {"flow": 1.0, "speed": 5.0})
        sender.join()
        publish(port, ("plant/p1", '{"flow": 2}'), ("other/p1", '{"flow": 3}'))  # while the service is down
        with pytest.raises(OutputError, match="The disk is full"):
            failing.run(mqtt.create("m", settings), lambda: False)
        assert rows(failing) == {"flow": 2.0}
        last.run(mqtt.create("m", settings), lambda: rows(last) == {"flow": 2.0})
    assert [(batch.entity, batch.partial) for batch in last.batches] == [("p1", True)]
    with pytest.raises(DataError, match=f"127.0.0.1:{port} cannot be reached: Connection refused"):
        Sink().run(mqtt.create("m", settings), lambda: False)


def test_messages_that_cannot_be_read_are_in_health_and_metrics(tmp_path: Path, live_model: Path) -> None:
    pytest.importorskip("paho.mqtt.client")
    port = free_port()
    file = tmp_path / "config.toml"
    file.write_text(
        f'[server]\nstore = "{tmp_path}/s.sqlite"\n[model.plant]\nfolder = "{live_model}"\n'
        f'[reader.m]\ntype = "mqtt"\nhost = "127.0.0.1"\nport = {port}\ntopic = "plant/{{entity}}/{{variable}}"\n'
    )
    with broker(tmp_path, port):
        service = Service(read_config(file), file)
        try:
            publish(port, ("plant/p1/flow", "1.5"))
            wait_until(lambda: publish(port, ("plant/p1/flow", "5,4")) or service.problems.counts.get("body"), 20)
            [problem] = service.problems.recent()
            assert problem.sentence == (
                "Reader m leaves out a message: A message of 'plant/p1/flow' should be a number such as 1.5, "
                "but got '5,4'."
            )
            assert 'tsadc_problems_total{reason="body"}' in exposition(service).decode()
        finally:
            service.close()


def test_a_broker_that_stays_away_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that comes back soon is not, and its messages are received again."""
    pytest.importorskip("paho.mqtt.client")
    monkeypatch.setattr(mqtt, "CONNECT_WITHIN", 4.0)
    port, stack = free_port(), contextlib.ExitStack()
    reader = mqtt.create("m", mqtt.Settings(host="127.0.0.1", port=port, topic="plant/{entity}"))
    sink = Sink()
    starts = 1

    def received(number: int) -> bool:
        publish(port, ("plant/p1", f'{{"flow": {number}}}'))
        return bool(sink.rows) and sink.rows[-1][2] == {"flow": number}

    def restarted() -> bool:
        nonlocal starts
        if starts < 3 and received(starts):
            starts += 1
            stack.close()
            if starts == 2:
                stack.enter_context(broker(tmp_path, port))
        return False

    with stack:
        stack.enter_context(broker(tmp_path, port))
        with pytest.raises(DataError, match=f"127.0.0.1:{port} has not been reached for 4 seconds; check that it runs"):
            sink.run(reader, restarted)
        assert starts == 3
        stack.enter_context(broker(tmp_path, port))
        sink.run(reader, lambda: received(3))
