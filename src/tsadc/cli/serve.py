"""`tsadc serve` and `tsadc watch`: verdicts on live rows."""

from __future__ import annotations

import contextlib
import errno
import http.client
import io
import json
import logging
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tsadc.atomic import write_file
from tsadc.cli.console import print_error
from tsadc.cli.signals import Terminated
from tsadc.config import parse_json
from tsadc.detectors.store import SETTINGS
from tsadc.errors import ConfigError, DataError
from tsadc.io.reading import Reading
from tsadc.wording import count

NAMED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(?![~=])(.+)", re.DOTALL)  # NAME=QUERY, and not a comparison in PromQL
MOST_HOURS = 10**6
GRACE = 3  # seconds for requests under way when the service stops
UNNAMED = "input"  # the entity of lines that name none


def requested_config(config: Path | None, model: Path | None) -> Any:
    """Return the configuration of a file, or that of one model without a file."""
    try:
        from tsadc.serve import config as configuration
        from tsadc.serve import service  # noqa: F401 -- what it needs is missed here, for all commands
    except ImportError as error:
        raise ConfigError(f"The service needs more packages ({error.name}): pip install 'tsadc[serve]'.") from None
    if config is None and model is None:
        raise ConfigError("Give a configuration, as in tsadc serve config.toml, or a model: tsadc serve --model MODEL.")
    if config is not None and model is not None:
        raise ConfigError(f"Give {config} or --model {model}, not both; a configuration names its models itself.")
    if config is not None:
        if (config / SETTINGS).is_file():
            raise ConfigError(f"{config} is a model, but a configuration was expected; write --model {config}.")
        return configuration.read_config(config)
    assert model is not None
    return configuration.for_model(model)


def explain(config: Path | None, model: Path | None, echo: Any) -> None:
    """Explain a configuration; raise if it cannot be used."""
    requested = requested_config(config, model)
    from tsadc.serve.config import explained, remarks, tokens_of
    from tsadc.serve.scoring import Settings, load_models

    load_models(Settings.of(requested))
    for line in explained(requested):
        echo(line)
    tokens = tokens_of(requested.server)
    echo(f"tokens: {', '.join(tokens) or 'none'}.")
    for line in remarks(requested):
        echo(f"remark: {line}")


def roll_back(config: Path | None, model: Path | None, name: str) -> str:
    """Bring the former model back: let the running service do it, or, if none runs, swap the folders."""
    requested = requested_config(config, model)
    from tsadc.serve.config import tokens_of

    if name not in requested.models:
        raise ConfigError(f"There is no model {name!r} in the configuration; it has {', '.join(requested.models)}.")
    server = requested.server
    host = f"[{server.host}]" if ":" in server.host else server.host
    token = tokens_of(server).get("admin", "")
    address = f"http://{host}:{server.port}"
    request = urllib.request.Request(
        f"{address}/v1/models/{name}/rollback",
        data=b"",
        headers={"Authorization": f"Bearer {token}"} if token else {},
    )
    try:
        status, content = _answer(request)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, ConnectionRefusedError):  # a service may run, and use the folders
            raise ConfigError(
                f"The service at {address} gave no answer ({reason}), so the folders stay as they are; see its "
                "/v1/models for the model in use, or stop the service and try again."
            ) from None
        from tsadc.detectors.versions import roll_back

        return roll_back(Path(requested.models[name].folder))
    try:
        said = parse_json(content)["error" if status >= 400 else "state"]
    except (ValueError, LookupError, TypeError):
        raise ConfigError(
            f"What answers at {address} ({status}) is not tsadc, or busy, so the folders stay as they are; set "
            "`server.port` to the port of the service, or try again."
        ) from None
    if status >= 400:
        raise ConfigError(f"The service did not roll back: {said}")
    return f"The service uses the former model of {name} again."


def _answer(request: urllib.request.Request) -> tuple[int, bytes]:
    """Send a request, past any proxy, which must not see the token; return the status and the body of the answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def serve(config: Path | None, model: Path | None, echo: Any) -> None:
    """Run the service until it is stopped."""
    requested = requested_config(config, model)
    try:
        import uvicorn

        from tsadc.serve.http import create_app
        from tsadc.serve.protocol import PatientProtocol
        from tsadc.serve.service import Service
    except ImportError as error:
        raise ConfigError(f"The service needs more packages ({error.name}): pip install 'tsadc[serve]'.") from None
    from tsadc.serve.config import tokens_of

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    server = requested.server
    tokens = tokens_of(server)
    listening = _listen(server.host, server.port, config)
    for name in ("READ", "WRITE", "ADMIN"):  # so that no other process inherits them
        os.environ.pop(f"TSADC_{name}_TOKEN", None)
    try:
        service = Service(requested, config)
    except BaseException:
        listening.close()
        raise
    app = create_app(service, tokens)
    runner = uvicorn.Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=GRACE,
            limit_concurrency=500,
            http=PatientProtocol,
            h11_max_incomplete_event_size=65536,
        )
    )
    port = listening.getsockname()[1]
    with _reloading(service):
        echo(f"tsadc serves http://{server.host}:{port} with the store {service.store.place}; stop with Ctrl-C.")
        with contextlib.suppress(Terminated, KeyboardInterrupt):  # the way to stop it; all is stored by now
            runner.run(sockets=[listening])


def watch(model: Path, source: str, every: float, seconds: float, as_json: bool, entity: str | None, echo: Any) -> None:
    """Judge the rows of a folder or of the standard input, and print what changes."""
    try:
        from tsadc.serve.config import LONGEST_WAIT, for_model
        from tsadc.serve.watch import Watch, watch_folder, watch_lines
    except ImportError as error:
        raise ConfigError(f"Watching needs more packages ({error.name}): pip install 'tsadc[serve]'.") from None
    if not 0.1 <= every <= LONGEST_WAIT:
        raise ConfigError(f"`--every` must be from 0.1 to {LONGEST_WAIT} seconds, but got {every:g}.")
    [found] = for_model(model).models.values()
    settings = replace(found, seconds=seconds)

    def show(change: dict[str, Any]) -> None:
        said = f"{change['end']} {change['entity']}: {change['transition']}, severity {change['severity']:.0f}. "
        taken_back = "The final verdict did not confirm it." if change["withdrawn"] else change["reason"]
        print(json.dumps(change) if as_json else said + taken_back, flush=True)

    judge, is_piped = Watch(settings, show), source == "-"
    if entity is not None and not is_piped:
        raise ConfigError("`--entity` is for lines without the column `entity`; a table is named by its file.")
    learnt = list(judge.model.detector.scaler_.entities)
    complaints: list[str] = []

    def complain(sentence: str) -> None:
        complaints.append(sentence)
        print_error(sentence)

    try:
        if is_piped:
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="replace")  # a damaged line is not the end
            watch_lines(judge, sys.stdin, entity or (learnt[0] if len(learnt) == 1 else UNNAMED), complain)
        else:
            echo(f"Watching {source}; stop with Ctrl-C.")
            with contextlib.suppress(KeyboardInterrupt, Terminated):
                watch_folder(judge, Path(source), every, threading.Event(), complain)
    finally:
        if sentence := judge.left_out():
            print_error(sentence)
    if complaints:
        raise DataError(f"Not all {'lines' if is_piped else 'files'} could be read: {complaints[-1]}")


def _listen(host: str, port: int, config: Path | None) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        address = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)[0][4]
    except (OSError, UnicodeError):
        raise ConfigError(
            f"There is no host {host!r}; set `server.host` to a name or address of this machine."
        ) from None
    # asyncio sends answers at once (TCP_NODELAY) only if the socket names its protocol; otherwise they take 40 ms more.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(512)
        return listening
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise ConfigError(
                f"The address {host!r} is not one of this machine; set `server.host` to one that is."
            ) from None
        place = "`server.port`" if config else "`port` in [server] of a configuration, and run tsadc serve config.toml"
        raise ConfigError(
            f"The service cannot listen on port {port} of {host}: {error.strerror}; choose another {place}."
        ) from None


@contextlib.contextmanager
def _reloading(service: Any) -> Iterator[None]:
    """Read the configuration again on SIGHUP."""

    def reload(*_: Any) -> None:
        threading.Thread(target=service.reload, name="reload", daemon=True).start()

    before = signal.signal(signal.SIGHUP, reload)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


def collect(
    url: str, queries: list[str], out: Path, step: str, hours: float, entity: str, ignore: list[str] | None
) -> str:
    """Write what the Prometheus reader would have read into a CSV file, and return a sentence about it."""
    try:
        from tsadc.serve.readers.prometheus import Settings, history
    except ImportError as error:
        raise ConfigError(f"Collecting needs more packages ({error.name}): pip install 'tsadc[serve]'.") from None
    if not 0 < hours < MOST_HOURS:
        raise ConfigError(f"`--hours` must be above 0 and below {MOST_HOURS:,}, but got {hours:g}.")
    try:
        interval = Reading(every=step).interval or 0
    except ConfigError:
        raise ConfigError(f"`--step` must be a length of time such as 15s or 1min, but got {step!r}.") from None
    ignored = Settings.ignore if ignore is None else tuple(ignore)
    pairs = tuple((named[1], named[2]) if (named := NAMED.fullmatch(query)) else ("", query) for query in queries)
    settings = Settings(url=url, queries=pairs, step=interval / 1e9, entity=entity, ignore=ignored)
    now = time.time_ns()
    frame = history(settings, now - int(hours * 3600 * 10**9), now)
    write_file(out, frame.to_csv(index=False, date_format="%Y-%m-%dT%H:%M:%S.%fZ").encode())
    entities, variables = frame["entity"].nunique(), frame.shape[1] - 2
    size = f"{count(len(frame), 'row', 'rows')} of {count(entities, 'entity', 'entities')}"
    return f"{out} has {size} with {count(variables, 'variable', 'variables')}; fit with --entity entity."
