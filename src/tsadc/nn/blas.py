"""numpy's products without threads of their own. On matrices of this size they gain nothing; on shared cores they
wait for each other ten times as long as they work, and the last bits of a sum depend on their number."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def without_threads() -> AbstractContextManager[Any]:
    """Within, a product runs on the thread that asks for it."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited


@cache
def _libraries() -> ThreadpoolController:
    """Looked for once: that takes milliseconds."""
    return ThreadpoolController()
