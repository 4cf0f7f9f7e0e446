"""HTTP for uvicorn, with a limit on how long a connection may stay without a whole request."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 30.0  # seconds


class PatientProtocol(H11Protocol):
    """Closes connections that send nothing, or the head of a request too slowly; otherwise they would use up the
    number of connections, which is limited. A request that follows another has as much time from its first byte on;
    until then, uvicorn's own limit holds. h11 also limits the size of the head, unlike uvicorn's other parser."""

    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._has_begun = False
        self._silent = self.loop.call_later(self.patience, self._close_silent)

    def data_received(self, data: bytes) -> None:
        """Wait anew with the first byte of a request."""
        if self._is_idle and not self._has_begun:
            self._has_begun = True
            self._silent.cancel()
            self._silent = self.loop.call_later(self.patience, self._close_silent)
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Stop waiting; the next request has not begun."""
        self._has_begun = False
        self._silent.cancel()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._silent.cancel()
        super().connection_lost(exc)

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_silent(self) -> None:
        if self._is_idle:
            self.transport.close()
