"""Requests to other services over HTTP: what is sent, and what an answer means."""

from __future__ import annotations

import base64
import datetime
import email.utils
import http.client
import json
import os
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from tsadc.config import require
from tsadc.errors import ConfigError
from tsadc.serve.writers import DeliveryError

REFUSED = (400, 413, 415, 422)  # the receiver will not accept these events, however often they are sent
MOST_ANSWER = 2**20  # bytes of an answer that are read
MOST_SHOWN = 200  # characters of an answer in a message


class Refused(DeliveryError):
    """The receiver refuses these events for good; sending the same content again does not help."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a service, and how to reach it.

    Parameters
    ----------
    url : str
        Address, such as https://user:password@host/path. Messages never contain the password.
    token_variable : str, default ""
        Name of an environment variable with a token, which is sent as `Authorization: Bearer`.
    timeout : float, default 10
        Seconds to wait for an answer.
    """

    url: str = ""
    token_variable: str = ""
    timeout: float = 10.0

    def __post_init__(self) -> None:
        require(
            not self.url or _is_address(self.url), "url", "an address that begins with http:// or https://", self.url
        )
        require(0 < self.timeout <= 600, "timeout", "above 0 and at most 600 seconds", self.timeout)

    def check(self, name: str) -> None:
        """Raise a `ConfigError` if the writer `name` lacks its address or its token."""
        if not self.url:
            raise ConfigError(f"The writer {name!r} needs `url`, the address that it sends to.")
        self.token()

    def token(self) -> str:
        """Return the token, empty if none is used."""
        if not self.token_variable:
            return ""
        token = os.environ.get(self.token_variable, "")
        if not token:
            raise ConfigError(f"`token_variable` is {self.token_variable}, but there is no such environment variable.")
        return token

    def request(self, path: str = "", content: Any = None, method: str = "POST", most: int = MOST_ANSWER) -> Any:
        """Send JSON and return the answer as JSON, or None if it is something else or has more than `most` bytes.

        Raises
        ------
        Refused
            If the receiver refuses the content.
        DeliveryError
            If it cannot be reached, or cannot accept the content now.
        """
        parts = urllib.parse.urlsplit(self.url.rstrip("/") + path if path else self.url)
        user, _, place = parts.netloc.rpartition("@")
        url = urllib.parse.urlunsplit(parts._replace(netloc=place))
        shown = urllib.parse.urlunsplit(parts._replace(netloc=place, query=""))
        headers = {"Content-Type": "application/json", "User-Agent": "tsadc"}
        if token := self.token():
            headers["Authorization"] = f"Bearer {token}"
        elif user:
            headers["Authorization"] = f"Basic {base64.b64encode(urllib.parse.unquote(user).encode()).decode()}"
        body = None if content is None else json.dumps(content, allow_nan=False).encode()
        try:
            request = urllib.request.Request(url, body, headers, method=method)
            with _opener.open(request, timeout=self.timeout) as answer:
                return _json(answer.read(most))
        except urllib.error.HTTPError as error:
            with error:
                said = " ".join(error.read(MOST_ANSWER).decode(errors="replace").split())[:MOST_SHOWN]
            message = f"{shown} answered {error.code}{f': {said}' if said else ''}"
            if error.code in REFUSED:
                raise Refused(message) from None
            raise DeliveryError(message, _seconds(error.headers.get("Retry-After"))) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise DeliveryError(f"{shown} cannot be reached: {_said(reason)}") from None


def _is_address(url: str) -> bool:
    try:
        parts = urllib.parse.urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A receiver that answers with another address is not followed: the token is for this one."""

    def redirect_request(self, *_: Any) -> None:
        return None


_opener = urllib.request.build_opener(_NoRedirects)


def _said(reason: Any) -> str:
    return str(getattr(reason, "strerror", None) or reason or type(reason).__name__)[:MOST_SHOWN]


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return None


def _seconds(text: str | None) -> float | None:
    """Return the header `Retry-After`, a number of seconds or a date, in seconds."""
    if not text:
        return None
    if text.strip().isdecimal():
        return float(text)
    try:
        when = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
    return max(0.0, (when - datetime.datetime.now(datetime.UTC)).total_seconds())
