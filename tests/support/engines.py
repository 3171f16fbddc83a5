"""Engines for tests that need Docker or Podman: started when the first test asks, shared by all processes of tests.

`PROCTOR_TEST_DOCKER` and `PROCTOR_TEST_PODMAN` name engines that run already (`unix://...`). Where there is none and
none can be started, the test is skipped with the reason. The last process that used them takes them along.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import pytest

from support.engine_keeper import import_image

IMAGE = "proctor-test:1"
ALL = os.environ.get("PROCTOR_ENGINE_TESTS") == "all"
"""Whether every test of engines is run; the default leaves out what another one proves, on one engine, in less time."""
START_SECONDS = 100.0
FOLDER = Path(tempfile.gettempdir(), f"proctor-test-engines-{os.getuid()}")


def docker() -> str:
    """Return the address of a Docker engine that has the image `IMAGE`, or skip the test."""
    return _address("docker")


def podman() -> str:
    """Return the address of a Podman service that has the image `IMAGE`, or skip the test."""
    return _address("podman")


def podman_too() -> str:
    """Return what `podman` does, where all tests of engines are asked for; else skip the test."""
    if not ALL:
        pytest.skip("Docker stands for both here: PROCTOR_ENGINE_TESTS=all asks Podman as well")
    return podman()


def _address(name: str) -> str:
    found = _given(name) or _state().get(name, {"reason": f"nobody said anything of {name}"})
    if "address" not in found:
        pytest.skip(found["reason"])
    return found["address"]


@cache
def _given(name: str) -> dict[str, str] | None:
    address = os.environ.get(f"PROCTOR_TEST_{name.upper()}")
    if not address:
        return None
    import_image(address.removeprefix("unix://"))
    return {"address": address}


@cache
def _state() -> dict[str, dict[str, str]]:
    """Hold the engines for as long as this process lives, started by the first who does; return what they are."""
    if os.geteuid() != 0:
        reason = {"reason": "engines are started for tests by root only"}
        return {"docker": reason, "podman": reason}
    FOLDER.mkdir(mode=0o700, exist_ok=True)
    found = FOLDER.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise RuntimeError(f"{FOLDER} is not ours")
    users = os.open(FOLDER / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(users, fcntl.LOCK_SH)  # it stays open, and locked, until this process ends
    starting = os.open(FOLDER / "start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(starting, fcntl.LOCK_EX)
        return _read() or _start()
    finally:
        os.close(starting)


def _read() -> dict[str, dict[str, str]] | None:
    """Return what a keeper that is alive says."""
    try:
        state = json.loads((FOLDER / "state.json").read_text())
    except FileNotFoundError:
        return None
    return state if Path(f"/proc/{state.pop('keeper')}").exists() else None


def _start() -> dict[str, dict[str, str]]:
    (FOLDER / "state.json").unlink(missing_ok=True)
    keeper = Path(__file__).with_name("engine_keeper.py")
    with (FOLDER / "keeper.log").open("wb") as log:
        subprocess.run(
            [sys.executable, keeper, FOLDER], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True, cwd="/"
        )
    give_up = time.monotonic() + START_SECONDS
    while (state := _read()) is None:
        if time.monotonic() > give_up:
            raise RuntimeError(f"the engines did not start: {(FOLDER / 'keeper.log').read_text()[-500:]}")
        time.sleep(0.05)
    return state
