"""HTTP for uvicorn, with a limit on how long a connection may stay without a whole request."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

PATIENCE = 30.0  # seconds


class PatientProtocol(H11Protocol):
    """Closes connections that send nothing, or the head of a request too slowly; otherwise they would use up the
    number of connections, which is limited. h11 also limits the size of the head, unlike uvicorn's other parser."""

    patience = PATIENCE

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._silent = self.loop.call_later(self.patience, self._close_silent)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._silent.cancel()
        super().connection_lost(exc)

    def _close_silent(self) -> None:
        if getattr(self, "cycle", None) is None:  # no request has begun
            self.transport.close()
