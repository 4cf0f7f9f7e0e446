"""Messages of an MQTT broker -> rows. It needs paho-mqtt, which the extra `mqtt` installs.

The pattern of the topic says what its levels mean: `plant/{entity}` for messages with several variables as JSON,
``{"time": "2026-03-01T12:30:00Z", "flow": 1.5, "pressure": 7}``, and `plant/{entity}/{variable}` for messages that are
one number. A message is acknowledged to the broker when its rows are stored: with a quality of service of 1 or more,
the broker keeps what arrives while the service is down, and repeats what was not stored."""

from __future__ import annotations

import json
import math
import os
import queue
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np
import pandas as pd

from tsadc.config import require
from tsadc.errors import ConfigError, DataError
from tsadc.io.times import EPOCH_UNITS
from tsadc.serve.readers import Complain, Positions, Submit, hand_over, log
from tsadc.serve.rows import MOST_NAME, RowBatch, is_name

PLACES = ("{entity}", "{variable}")
SECOND = 10**9
MOST_WAITING = 10_000  # messages; the broker waits while there are as many
MOST_PAYLOAD = 2**20  # bytes
CONNECT_WITHIN = 20.0  # seconds
Value = tuple[str, int, str, float]  # entity, time, variable, value


@dataclass(frozen=True)
class Settings:
    """The broker and the topics.

    Parameters
    ----------
    host : str, default "localhost"
    port : int, default 1883
    topic : str, default "tsadc/{entity}"
        Pattern of the topics, with `{entity}` and, if a message is one number, `{variable}`; + and # as in MQTT.
    time : str, default "time"
        Name of the time in JSON messages: ISO 8601, or seconds, milliseconds, ... since 1970.
    every : float, default 1
        Messages without a time get that of their arrival, rounded down to a multiple of this many seconds, so that
        values of several variables make one row. Use the time from row to row of the model.
    quality : int, default 1
        Quality of service, 0 to 2.
    client : str, default "tsadc"
        Name under which the broker keeps messages while the service is down; each service needs its own.
    username : str, default ""
    password_variable : str, default ""
        Name of an environment variable with the password.
    tls : bool, default False
        Whether to connect with TLS and to check the broker's certificate.
    """

    host: str = "localhost"
    port: int = 1883
    topic: str = "tsadc/{entity}"
    time: str = "time"
    every: float = 1.0
    quality: int = 1
    client: str = "tsadc"
    username: str = ""
    password_variable: str = ""
    tls: bool = False

    def __post_init__(self) -> None:
        levels = self.topic.split("/")
        once = levels.count(PLACES[0]) == 1 and levels.count(PLACES[1]) <= 1
        require(once, "topic", "a pattern in which {entity} is one level, such as plant/{entity}", self.topic)
        ends = "#" not in levels[:-1]
        require(ends, "topic", "a pattern in which # is the last level", self.topic)
        require(0 < self.port < 65536, "port", "from 1 to 65535", self.port)
        require(self.every > 0, "every", "above 0 seconds", self.every)
        require(0 <= self.quality <= 2, "quality", "0, 1 or 2", self.quality)
        require(bool(self.client), "client", "a name", self.client)

    @property
    def subscription(self) -> str:
        """The topics as the broker understands them."""
        return re.sub(r"\{\w+\}", "+", self.topic)


class Mqtt:
    """Receives the messages of a broker."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name, self.settings = name, settings
        self.complain: Complain = log.warning

    def run(self, submit: Submit, positions: Positions, stop: Event) -> None:
        """Receive until `stop` is set. A lost connection is made again; one that stays lost is an error."""
        from paho.mqtt.client import Client, MQTTMessage
        from paho.mqtt.enums import CallbackAPIVersion

        settings = self.settings
        waiting: queue.Queue[MQTTMessage] = queue.Queue(MOST_WAITING)
        refused: list[str] = []
        since: float | None = time.monotonic()  # of waiting for the broker; None while it is there
        lost = False

        def connected(client: Client, _: Any, __: Any, code: Any, ___: Any) -> None:
            if code.is_failure:
                refused.append(str(code))
            else:
                client.subscribe(settings.subscription, settings.quality)

        def subscribed(*_: Any) -> None:
            nonlocal since
            since = None

        def disconnected(*_: Any) -> None:
            nonlocal since, lost
            since, lost = time.monotonic() if since is None else since, True

        def received(_: Client, __: Any, message: MQTTMessage) -> None:
            while not stop.is_set():
                try:
                    waiting.put(message, timeout=0.5)
                    return
                except queue.Full:  # the broker waits
                    continue

        client = Client(CallbackAPIVersion.VERSION2, settings.client, clean_session=False, manual_ack=True)
        client.on_connect, client.on_message = connected, received
        client.on_subscribe, client.on_disconnect = subscribed, disconnected
        client.reconnect_delay_set(1, 60)
        if settings.username:
            client.username_pw_set(settings.username, self._password())
        if settings.tls:
            client.tls_set()
        try:
            client.connect(settings.host, settings.port)
        except OSError as error:
            raise DataError(f"{self._broker} cannot be reached: {error.strerror or error}.") from None
        client.loop_start()
        try:
            while not stop.is_set():
                if refused:
                    raise DataError(f"{self._broker} refuses the connection: {refused[0]}.")
                messages = _taken(waiting)
                began = since
                if not messages and began is not None and time.monotonic() - began > CONNECT_WITHIN:
                    what = f"has not been reached for {CONNECT_WITHIN:g} seconds" if lost else "does not answer"
                    raise DataError(f"{self._broker} {what}; check that it runs.")
                values = [value for message in messages for value in self._values(message)]
                for batch in to_batches(self.name, values):
                    hand_over(batch, submit, stop, self.name)
                for message in messages:
                    client.ack(message.mid, message.qos)
        finally:
            client.disconnect()
            client.loop_stop()

    @property
    def _broker(self) -> str:
        return f"The MQTT broker {self.settings.host}:{self.settings.port}"

    def _password(self) -> str:
        variable = self.settings.password_variable
        if variable and variable not in os.environ:
            raise ConfigError(f"`password_variable` is {variable}, but there is no such environment variable.")
        return os.environ.get(variable, "") if variable else ""

    def _values(self, message: Any) -> list[Value]:
        """Return the values of a message; one that cannot be read is left out."""
        try:
            return decode(message.topic, message.payload, self.settings, time.time_ns())
        except DataError as error:
            self.complain(f"Reader {self.name} leaves out a message: {error}")
            return []


def _taken(waiting: queue.Queue[Any]) -> list[Any]:
    """Return the messages that wait, or none after half a second."""
    messages: list[Any] = []
    with suppress(queue.Empty):
        messages.append(waiting.get(timeout=0.5))
        while len(messages) < MOST_WAITING:
            messages.append(waiting.get_nowait())
    return messages


def decode(topic: str, payload: bytes, settings: Settings, now: int) -> list[Value]:
    """Return the values of a message.

    Raises
    ------
    DataError
        If it is neither a JSON object nor a number, as its topic requires.
    """
    levels = dict(zip(settings.topic.split("/"), topic.split("/"), strict=False))
    entity = _name(levels.get(PLACES[0], ""), topic)
    arrival = now - now % round(settings.every * SECOND)
    if len(payload) > MOST_PAYLOAD:
        raise DataError(f"A message of {topic!r} has more than {MOST_PAYLOAD} bytes.")
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        content = None
    if PLACES[1] in levels:
        if isinstance(content, dict) and set(content) <= {"value", settings.time}:  # as many gateways send it
            tick = _tick(content.get(settings.time), arrival, topic)
            content = content.get("value")
        else:
            tick = arrival
        if (number := _number(content)) is None:
            raise DataError(f"A message of {topic!r} should be a number such as 1.5, but {_got(payload)}.")
        return [(entity, tick, _name(levels[PLACES[1]], topic), number)]
    if not isinstance(content, dict):
        raise DataError(f'A message of {topic!r} should be JSON such as {{"flow": 1.5}}, but {_got(payload)}.')
    tick = _tick(content.get(settings.time), arrival, topic)
    values = {name: _number(value) for name, value in content.items() if name != settings.time}
    return [(entity, tick, _name(name, topic), value) for name, value in values.items() if value is not None]


def _got(payload: bytes) -> str:
    return f"got {payload[:40].decode(errors='replace')!r}" if payload else "it is empty"


def _name(name: str, topic: str) -> str:
    if not is_name(name):
        raise DataError(f"A message of {topic[:MOST_NAME]!r} has a name that is blank, too long or unprintable.")
    return name


def _number(value: Any) -> float | None:
    """Return a number, or None for text, null and what is not finite."""
    if not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _tick(stamp: Any, arrival: int, topic: str) -> int:
    if stamp is None:
        return arrival
    try:
        if isinstance(stamp, (int, float)) and not isinstance(stamp, bool):
            unit = next(unit for unit, (least, most) in EPOCH_UNITS.items() if least <= stamp < most)
            nanoseconds = {"s": SECOND, "ms": 10**6, "us": 10**3, "ns": 1}[unit]
            return int(stamp * nanoseconds) if isinstance(stamp, int) else round(stamp * nanoseconds)
        if not isinstance(stamp, str) or not stamp[:1].isdecimal():  # pandas would read "now"
            raise TypeError
        return int(pd.to_datetime(stamp, utc=True, format="ISO8601").as_unit("ns").value)
    except (ValueError, TypeError, OverflowError, StopIteration):
        raise DataError(f"A message of {topic!r} has the time {str(stamp)[:40]!r}; use ISO 8601 or seconds.") from None


def to_batches(source: str, values: Sequence[Value]) -> Iterator[RowBatch]:
    """Yield the values as rows, one batch per entity and set of variables."""
    rows: dict[tuple[str, int], dict[str, float]] = {}
    for entity, tick, name, value in values:
        rows.setdefault((entity, tick), {})[name] = value
    groups: dict[tuple[str, tuple[str, ...]], list[tuple[int, dict[str, float]]]] = {}
    for (entity, tick), row in rows.items():
        groups.setdefault((entity, tuple(row)), []).append((tick, row))
    for (entity, names), found in groups.items():
        times = np.array([tick for tick, _ in found], dtype=np.int64)
        cells = np.array([[row[name] for name in names] for _, row in found], dtype=np.float64)
        yield RowBatch(source, entity, names, times, cells.reshape(len(found), len(names)), partial=True)


def create(name: str, settings: Settings) -> Mqtt:
    """Return the reader."""
    try:
        import paho.mqtt.client  # noqa: F401
    except ImportError:
        raise ConfigError("MQTT needs one more package: pip install 'tsadc[mqtt]'.") from None
    return Mqtt(name, settings)
