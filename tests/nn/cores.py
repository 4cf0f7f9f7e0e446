"""A machine with more or fewer cores than this one, and what its libraries use of them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
from threadpoolctl import threadpool_info


@contextmanager
def cores(count: int) -> Iterator[None]:
    """Within, there seem to be `count` cores, and torch may use them all."""
    before = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda process: set(range(count)), raising=False)
        torch.set_num_threads(count)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def products() -> set[int]:
    """Threads of the libraries that numpy multiplies with."""
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
