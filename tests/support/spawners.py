"""What tests of the spawner share: a beginning without one, and the end of a process."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator

import pytest

from proctor.runtime import spawn

HANG_SECONDS = 60


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Each test begins without a spawner, and with all attempts."""
    spawn.stop_all()
    spawn._state.failed = 0
    yield
    spawn.stop_all()
    spawn._state.failed = 0


def wait_for_end(pid: int) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([descriptor], [], [], HANG_SECONDS)[0], f"process {pid} is still alive"
    finally:
        os.close(descriptor)
