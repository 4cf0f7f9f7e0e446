"""Ray runs one function on many inputs, on the cores of this machine or of a cluster.

Each input is a task of its own. Ray repeats a task whose process or node is lost, so a task must write the same files
each time. What a user can cause comes back as the sentence of that input, and all other inputs are done."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import tsadc
from tsadc.errors import ConfigError, TsadcError, collected_notices, notice

Item = TypeVar("Item")
Value = TypeVar("Value")
Report = Callable[[Any], None]
RETRIES = 3  # of a task whose process or node was lost
LOOK = 1.0  # seconds between two looks at the head of a cluster, or at what a process reports
MISSED = 10  # looks in a row at which the head does not answer, so that it is gone
PATIENCE = 0.2  # seconds after which a signal interrupts waiting
AHEAD = 4  # tasks per core that wait: enough to keep each core busy, and few enough for the driver
PLACING = 300.0  # seconds in which processes that run at the same time must get their cores
ANSWER = 10.0  # seconds in which a cluster must answer
SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # the empty frame of settings with which both sides of HTTP/2 begin: the 4 is its type
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS  # Ray speaks gRPC, which is HTTP/2
MAX_REASON = 300  # characters
NEEDS_RAY = "--engine ray needs the package ray: pip install 'tsadc[ray]'."


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What became of an input: the value of the function, or the sentence why there is none, and its notices."""

    value: Value | None
    error: str | None = None
    notices: tuple[str, ...] = ()
    lost: bool = False  # because its process or node was


class _Failed(Exception):
    """Ray has no value of a task."""

    def __init__(self, why: str, *, lost: bool = False) -> None:
        self.outcome = Outcome[Any](None, why, lost=lost)


@dataclass(frozen=True)
class _OtherVersion:
    """A node with another version of tsadc than the driver."""

    node: str
    version: str


class Cluster:
    """A cluster that answers. `connect` makes one."""

    def __init__(self, ray: Any, *, stays: bool = False) -> None:
        self._ray, self._stays = ray, stays  # whether this process stays connected: else, all tasks end with it
        self._head = str(getattr(ray.get_runtime_context(), "gcs_address", ""))
        self._watched = _listens(self._head)  # not from outside of the network of the cluster
        self._looked, self._missed = -LOOK, 0

    def share(self, value: Value) -> Any:
        """Store a value once in the cluster, for all tasks that get what is returned instead of it."""
        errors = self._ray.exceptions
        try:
            with _signals_held():
                return self._ray.put(value)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise ConfigError(_full(error)) from None

    def map(
        self, function: Callable[[Any, Item], Value], shared: Any, items: Sequence[Item]
    ) -> Iterator[tuple[Item, Outcome[Value]]]:
        """Yield each item with the outcome of `function(shared, item)`, in the order in which they are done.

        `shared` is what `share` returned. The function must be that of a module, which every node imports."""
        ray = self._ray
        task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")(_run)
        waiting, running, most = list(reversed(items)), dict[Any, Item](), AHEAD
        try:
            while waiting or running:
                with _signals_held():
                    if self._head_answers():
                        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
                    while waiting and len(running) < most:
                        item = waiting.pop()
                        running[task.remote(tsadc.__version__, function, shared, item)] = item
                for done in self._finished(list(running)):
                    yield running.pop(done), self._outcome(done)
        finally:
            if self._stays:  # not otherwise: a task that has just finished and is cancelled makes Ray abort
                with _signals_held():
                    for unfinished in running:
                        ray.cancel(unfinished, force=True)

    def together(
        self, function: Callable[[Any, int, Report], Value], shared: Any, size: int, report: Report
    ) -> Outcome[Value]:
        """Run `function(shared, rank, report)` in `size` processes at the same time, each on a core of its own, and
        return the outcome of rank 0, or the first error of any. torch finds the others as if `torchrun` had started
        them. What the function reports in rank 0 is reported here. If a process is lost, all begin again."""
        with _signals_held():
            cores = int(self._ray.cluster_resources().get("CPU", 0))
        if size > cores:
            raise ConfigError(f"--workers {size} needs {size} cores, but the cluster has {cores}; ask for fewer.")
        for _ in range(RETRIES):
            outcome = self._together_once(function, shared, size, report)
            if not outcome.lost:
                return outcome
        return self._together_once(function, shared, size, report)

    def _together_once(
        self, function: Callable[[Any, int, Report], Value], shared: Any, size: int, report: Report
    ) -> Outcome[Value]:
        ray, started = self._ray, list[Any]()
        with _signals_held():
            places = ray.util.placement_group([{"CPU": 1}] * size, strategy="SPREAD")
        try:
            self._wait_for(places, size)
            with _signals_held():
                news = ray.remote(num_cpus=0)(_News).remote()
                started.append(news)
                member, strategy = ray.remote(num_cpus=1)(_Member), ray.util.scheduling_strategies
                for rank in range(size):
                    place = strategy.PlacementGroupSchedulingStrategy(places, placement_group_bundle_index=rank)
                    started.append(member.options(scheduling_strategy=place).remote())
            members = started[1:]
            host, port = self._get(members[0].place.remote())
            with _signals_held():
                waiting = [
                    one.run.remote(tsadc.__version__, function, shared, rank, size, host, port, news)
                    for rank, one in enumerate(members)
                ]
            first = waiting[0]
            while waiting:
                done = self._finished(waiting)
                waiting = [task for task in waiting if task not in done]
                self._pass_on(news, report)
                for outcome in map(self._outcome, done):
                    if outcome.error is not None:
                        return outcome
            self._pass_on(news, report)
            return self._outcome(first)
        except _Failed as failed:
            return failed.outcome
        finally:
            if self._missed < MISSED:  # else nothing could be reached
                with _signals_held():
                    for one in started:
                        ray.kill(one)
                    ray.util.remove_placement_group(places)

    def _pass_on(self, news: Any, report: Report) -> None:
        for item in self._get(news.take.remote()):
            report(item)

    def _wait_for(self, places: Any, size: int) -> None:
        """Wait until all cores of a placement group are free."""
        begin, noticed = time.monotonic(), False
        while time.monotonic() < begin + PLACING:
            self._head_answers()
            with _signals_held():
                if places.wait(PATIENCE):
                    return
            if not noticed and time.monotonic() > begin + LOOK:
                notice(f"Waiting for {size} free {'core' if size == 1 else 'cores'} of the cluster.")
                noticed = True
        raise _Failed(
            f"There were not {size} free cores for {PLACING:g} s; wait for other programs, or lower --workers."
        )

    def _finished(self, tasks: list[Any]) -> list[Any]:
        """Wait for a moment and return the tasks that are done by then, at most one."""
        with _signals_held():
            done, _ = self._ray.wait(tasks, num_returns=1, timeout=PATIENCE)
        return list(done)

    def _head_answers(self) -> bool:
        """Look at the head at most once in `LOOK` seconds and return whether it has just answered. Raise if it is gone:
        Ray would end this process a minute later, without a sentence."""
        if time.monotonic() < self._looked + LOOK:
            return False
        self._missed = 0 if not self._watched or _listens(self._head) else self._missed + 1
        self._looked = time.monotonic()
        if self._missed >= MISSED:
            raise TsadcError(
                f"The head of the cluster at {self._head} is gone; start the cluster and run the same command again."
            )
        return self._missed == 0

    def _outcome(self, task: Any) -> Outcome[Any]:
        try:
            return self._checked(self._get(task))
        except _Failed as failed:
            return failed.outcome

    def _get(self, task: Any) -> Any:
        """Wait for what a task returns; raise `_Failed` if it has failed in Ray."""
        errors = self._ray.exceptions
        while not self._finished([task]):
            self._head_answers()
        try:
            with _signals_held():
                return self._ray.get(task)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise _Failed(_full(error)) from None
        except errors.OutOfMemoryError:
            raise _Failed("Its node has too little memory for it; use nodes with more memory per core.") from None
        except errors.RayError as error:
            while not self._head_answers():  # perhaps its loss is the reason
                time.sleep(PATIENCE)
            text = str(error).strip()
            if "No module named 'tsadc" in text:
                raise ConfigError(
                    "A node of the cluster cannot import tsadc; install the same version on all nodes: pip install "
                    f"'tsadc[ray]=={tsadc.__version__}'."
                ) from None
            lost = (errors.WorkerCrashedError, errors.NodeDiedError, errors.ObjectLostError, errors.RayActorError)
            if isinstance(error, lost):
                why = f"Its process was lost {RETRIES + 1} times, most likely because memory ran out."
                raise _Failed(why, lost=True) from None
            last = text.splitlines()[-1] if text else type(error).__name__
            raise _Failed(f"It failed unexpectedly: {last}.") from None

    def _checked(self, found: Outcome[Any] | _OtherVersion) -> Outcome[Any]:
        """Return what a task has returned; raise if its node has another version of tsadc."""
        if isinstance(found, _OtherVersion):
            raise ConfigError(
                f"The node {found.node} has tsadc {found.version}, but this machine has {tsadc.__version__}; install "
                "the same version on all nodes."
            )
        return found


def _listens(address: str) -> bool:
    """Return whether a program listens at an address."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK).close()
    except (OSError, ValueError):
        return False
    return True


def _run(version: str, function: Callable[[Any, Any], Any], shared: Any, item: Any) -> Outcome[Any] | _OtherVersion:
    """Run the function in a task: user errors and notices become part of the outcome."""
    if version != tsadc.__version__:
        return _OtherVersion(socket.gethostname(), tsadc.__version__)
    with collected_notices() as notices:
        try:
            value, error = function(shared, item), None
        except (TsadcError, MemoryError, OSError) as cause:
            value, error = None, str(cause) or type(cause).__name__
    return Outcome(value, error, tuple(notices))


class _News:
    """What one process reports to another."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def put(self, item: Any) -> None:
        self.items.append(item)

    def take(self) -> list[Any]:
        """Return what was put since the last time."""
        taken, self.items = self.items, []
        return taken


class _Member:
    """One of several processes that run at the same time."""

    def place(self) -> tuple[str, int]:
        """Return an address at which the processes can meet."""
        host = importlib.import_module("ray.util").get_node_ip_address()
        with socket.socket() as free:
            free.bind(("", 0))
            return host, int(free.getsockname()[1])

    def run(
        self,
        version: str,
        function: Callable[[Any, int, Report], Any],
        shared: Any,
        rank: int,
        size: int,
        host: str,
        port: int,
        news: Any,
    ) -> Outcome[Any] | _OtherVersion:
        """Run the function as number `rank` of `size`; what rank 0 reports is put into the actor `news`."""
        meeting = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": host, "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in meeting.items()})
        report = news.put.remote if rank == 0 else _unheard
        return _run(version, lambda shared, rank: function(shared, rank, report), shared, rank)


def _unheard(_: Any) -> None:
    """Report nothing: all processes would report the same."""


@contextlib.contextmanager
def connect(address: str | None) -> Iterator[Cluster]:
    """Yield the cluster at an address, or, without one, the cores of this machine for the length of the block. A
    process that is already connected stays so."""
    try:
        ray = importlib.import_module("ray")
    except ImportError:
        raise ConfigError(NEEDS_RAY) from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to Ray's authors unless it is asked for
    if ray.is_initialized():  # by the program that called this: a process has one cluster
        yield Cluster(ray, stays=True)
        return
    if address not in (None, "auto", "local"):
        _check_answer(str(address))
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    own = {"include_dashboard": False} if address in (None, "local") else {}
    try:
        try:
            with _silent(), _signals_held():
                ray.init(address=address or "local", **quiet, **own)
        except Exception as error:  # Ray raises plain exceptions, too
            raise ConfigError(_no_cluster(address, error)) from None
        yield Cluster(ray)
    finally:
        with _silent(), _signals_held():
            ray.shutdown()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard what is written to the standard error by programs in other languages: Ray logs each attempt there, and
    tasks that end with it."""
    with contextlib.ExitStack() as opened:
        before, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        opened.callback(os.close, before)
        opened.callback(os.close, nowhere)
        os.dup2(nowhere, 2)
        opened.callback(os.dup2, before, 2)
        yield


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """Keep SIGINT and SIGTERM until the block ends: a handler that raises in Ray's own code may crash it. Ray itself
    sets a handler of SIGTERM that ends the process without a word."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = list[int]()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: own for number, own in handlers.items() if own is not None}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    except SystemExit as stop:
        if stop.code != signal.SIGTERM:
            raise
        came.append(signal.SIGTERM)
    finally:
        for number, own in handlers.items():
            signal.signal(number, own)
        if came:
            signal.raise_signal(came[0])


def _no_cluster(address: str | None, error: Exception) -> str:
    """Say why Ray cannot be used, and what to do."""
    if address == "auto" and isinstance(error, ConnectionError):
        return (
            "No Ray cluster runs on this machine; start one with `ray start --head`, name another with --address "
            "HOST:PORT, or leave out --address, which starts Ray for this command only."
        )
    why = (" ".join(str(error).split()) or type(error).__name__)[:MAX_REASON].rstrip(".")
    if address in (None, "local"):
        return f"Ray cannot be started on this machine: {why}; run the command again, or leave out --engine ray."
    return (
        f"Ray cannot be used at {address}: {why}; give the address that `ray start --head` prints, and if the "
        "cluster requires a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN."
    )


def _check_answer(address: str) -> None:
    """Raise unless a program answers at the address as Ray does: Ray itself would wait for minutes."""
    host, mark, port = address.removeprefix("ray://").rpartition(":")
    if not mark or not port.isdigit():
        raise ConfigError(f"--address must be HOST:PORT of the head of a Ray cluster, or auto, but got {address!r}.")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":  # it answers nothing that is not encrypted
                return
            connection.sendall(PREFACE)
            answer = connection.recv(len(SETTINGS), socket.MSG_WAITALL)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
    else:
        if answer[3:4] == SETTINGS[3:4]:
            return
        why = "another program does"
    raise ConfigError(
        f"No Ray cluster answers at {address}: {why}; check the address and whether `ray start --head` runs there."
    )


def _full(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
    return f"The object store of the cluster is full ({first}); start Ray with a larger --object-store-memory."
