"""What holds for all tests: how hypothesis searches, and that tests with real processes leave none behind."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No deadline, and no complaint about slow generation: both measure the machine, not the code.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples each time: a change must not fail on what an earlier one did. Searching anew is for people.
settings.register_profile("ci", settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")

# Whoever starts the tests in the background, or with nohup, has signals ignored, and they would be inherited.
for ignored in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored is signal.SIGINT else signal.SIG_DFL)

# What tests say of runs is meant for any machine: where bubblewrap works, the default would be another provider.
os.environ["PROCTOR_PROVIDER"] = "local"

INTEGRATION = Path(__file__).parent / "integration"

GONE_WITHIN_SECONDS = 20.0
"""A process that was killed may take a while to end on a busy machine; only one that stays uses this up."""


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.path.is_relative_to(INTEGRATION):
            item.add_marker(pytest.mark.integration)
        if item.get_closest_marker("sampled") is not None:
            function = item.nodeid.partition("[")[0]
            if function in seen:
                item.add_marker(pytest.mark.long)
            seen.add(function)


def processes_below(ancestor: int) -> dict[int, str]:
    """Return the command lines of the live processes below `ancestor` by process id."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name in parentheses may hold blanks and parentheses itself, so count from the last one.
            state, parent = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if state not in "ZX":
            parents[int(entry.name)] = int(parent)
    below: dict[int, str] = {}
    for pid in parents:
        line = pid
        while line in parents and line != ancestor:
            line = parents[line]
        if line == ancestor and pid != ancestor:
            try:
                below[pid] = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ").strip()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    return below


@pytest.fixture(autouse=True)
def leaves_no_process(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail an integration test that leaves a process running below this one, or a transport unclosed."""
    if request.node.get_closest_marker("integration") is None:
        yield
        # Else a later test that writes to whom has gone would end this process, and nobody would know why.
        assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN, "the test left SIGPIPE changed"
        return
    before = processes_below(os.getpid())
    gc.freeze()  # libraries that are loaded are a million objects, which are not looked through after each test
    yield
    gc.collect()  # what was not closed complains now, in the test that did not close it
    give_up = time.monotonic() + GONE_WITHIN_SECONDS
    while left := {pid: line for pid, line in processes_below(os.getpid()).items() if pid not in before}:
        # The tracker of multiprocessing lives as long as its process, by design.
        left = {pid: line for pid, line in left.items() if "multiprocessing.resource_tracker" not in line}
        if not left:
            return
        if time.monotonic() > give_up:
            pytest.fail("the test left processes running: " + "; ".join(f"{pid} {line}" for pid, line in left.items()))
        time.sleep(0.02)
