"""A machine with more or fewer cores than this one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch


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
