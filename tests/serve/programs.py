"""Starts real programs (Prometheus, Alertmanager, ...) on free ports, and receivers that note what they get."""

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def installed(name: str) -> str:
    """The path of a program; skips where it is absent."""
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/bin:/usr/local/bin")
    if path is None:
        pytest.skip(f"{name} is not installed here")
    return path


def wait_until(condition: Callable[[], Any], seconds: float = 40, every: float = 0.1) -> Any:
    """Wait for a condition, and return what it returned; errors of connections count as no."""
    end = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if found := condition():
                return found
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(every)


def get(url: str) -> Any:
    """JSON from an address, or its text."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        content = answer.read().decode()
    with contextlib.suppress(ValueError):
        return json.loads(content)
    return content


@contextlib.contextmanager
def running(*command: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that ends with the block; its output is in the file `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        yield process
    except BaseException:
        print(log.read_text(errors="replace")[-3000:])
        raise
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Receiver:
    """An HTTP server that notes requests (method, path, headers, body) and answers as `answer` says."""

    def __init__(self, answer: Callable[[str, str, bytes], tuple[int, dict[str, str], bytes]] | None = None) -> None:
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                outer.requests.append((self.command, self.path, headers, body))
                status, fields, content = answer(self.command, self.path, body) if answer else (200, {}, b"")
                self.send_response(status)
                for name, value in {**fields, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):  # the client did not wait
                    self.wfile.write(content)

            do_GET = do_POST = do_PATCH = handle_any

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    @property
    def contents(self) -> list[Any]:
        """The bodies, as JSON."""
        return [json.loads(body) for _, _, _, body in self.requests if body]
