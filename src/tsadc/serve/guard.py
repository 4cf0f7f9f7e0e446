"""Who may ask what: host, origin and token of every request, and the security headers of every answer."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Request

from tsadc.serve.config import LOCAL_HOSTS, Scope, Server
from tsadc.serve.metrics import Problems

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"),
    (b"cache-control", b"no-store"),
)
# Without a token: files that hold no data, and whether the service lives.
OPEN = ("/", "/v1/health", "/openapi.json")
WRITING = ("/v1/rows", "/api/v1/write", "/api/v2/write", "/write")  # they limit their bodies themselves
MOST_BYTES = 65_536  # of the body of any other request
PATIENCE = 30.0  # seconds in which the body of a request must arrive
TOO_LARGE = f"The body of this request may have {MOST_BYTES:,} bytes, but has more; send less."


class Guard:
    """Middleware in front of the application."""

    patience = PATIENCE

    def __init__(self, app: ASGIApp, server: Server, tokens: Mapping[Scope, str], problems: Problems) -> None:
        self.app, self.server, self.tokens, self.problems = app, server, dict(tokens), problems

    async def __call__(self, scope: Request, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *HEADERS]}
            await send(message)

        size, is_whole = 0, False
        is_limited = scope["path"] not in WRITING
        deadline = asyncio.get_running_loop().time() + self.patience

        async def receive_limited() -> Message:
            nonlocal size, is_whole
            try:
                async with asyncio.timeout_at(None if is_whole else deadline):
                    message = await receive()
            except TimeoutError:
                sentence = f"The body did not arrive within {self.patience:g} s; send the request again."
                self.problems.add("timeout", sentence)
                # 503, as Prometheus drops what is refused with 408.
                raise HTTPException(503, sentence, {"Retry-After": "5", "Connection": "close"}) from None
            size, is_whole = size + len(message.get("body", b"")), not message.get("more_body", False)
            if is_limited and size > MOST_BYTES:
                self.problems.add("size", TOO_LARGE)
                raise HTTPException(413, TOO_LARGE)
            return message

        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        held = self._scope(headers)
        scope.setdefault("state", {})["scope"] = held
        refused = self._refused(scope, headers, held)
        if refused is None:
            await self.app(scope, receive_limited, send_with_headers)
            return
        status, reason, sentence = refused
        self.problems.add(reason, f"A request from {client_of(scope)} is refused: {sentence}", about=reason)
        challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        await JSONResponse({"error": sentence}, status, challenge)(scope, receive, send_with_headers)

    def _refused(
        self, request: Request, headers: Mapping[bytes, str], held: Scope | None
    ) -> tuple[int, str, str] | None:
        """Return the status, the reason and the sentence with which a request is refused; None if it is not."""
        method, path = request["method"], request["path"]
        host = headers.get(b"host", "")
        if self.server.is_local and _split(f"//{host}").hostname not in LOCAL_HOSTS:
            # A page of another site can reach this machine under a name of its own.
            return 403, "host", "The service listens on this machine only; ask for it as localhost."
        origin = headers.get(b"origin")
        if origin is not None and _split(origin).netloc != host:
            return 403, "origin", "Pages of other sites may not use the service."
        if "\0" in path or b"%00" in request.get("query_string", b""):
            return 400, "address", "The address has the character NUL (%00), which no name has; leave it out."
        declared = headers.get(b"content-length", "")
        is_large = path not in WRITING and declared.isdecimal() and int(declared[:20]) > MOST_BYTES
        if path in OPEN or path.startswith("/page/"):
            return (413, "size", TOO_LARGE) if is_large else None
        needed: Scope = "write" if path in WRITING else "read" if method in ("GET", "HEAD") else "admin"
        if held is None:
            return 401, "token", "The token is missing or unknown; send it as Authorization: Bearer TOKEN."
        if held not in (needed, "admin"):
            return 403, "scope", f"The {held} token may not do this; it needs the {needed} token."
        return (413, "size", TOO_LARGE) if is_large else None

    def _scope(self, headers: Mapping[bytes, str]) -> Scope | None:
        """Return what the token of a request permits; without any token in the settings, everything."""
        if not self.tokens:
            return "admin"
        return scope_of(_token(headers), self.tokens)


def client_of(request: Request) -> str:
    """Return the address that a request came from, for messages."""
    client = request.get("client")
    return client[0] if client else "an unknown address"


def _split(address: str) -> SplitResult:
    """Return the parts of an address, which are empty if it is none, such as `//[`."""
    try:
        return urlsplit(address)
    except ValueError:
        return urlsplit("")


def scope_of(token: str, tokens: Mapping[Scope, str]) -> Scope | None:
    """Return what a token permits. All are compared, each in constant time."""
    given = token.encode()
    found: Scope | None = None
    for scope, known in tokens.items():
        if hmac.compare_digest(given, known.encode()) and found != "admin":
            found = scope
    return found


def _token(headers: Mapping[bytes, str]) -> str:
    """Return the token of a request: Bearer, Token (Influx), or the password of Basic."""
    kind, _, value = headers.get(b"authorization", "").partition(" ")
    if kind.lower() in ("bearer", "token"):
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
