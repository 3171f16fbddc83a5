"""Whichever call of a run to the disk fails: what was shown as done is there, and the next run needs no more (08 D5).

Each run has another call fail, once or from then on, by turns for lack of space, a bad disk and lost rights. By default
each fifth call fails; `PROCTOR_FAULT_STEP=1` tries all of them.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from failing_disk import FailingDisk
from program import Ended

from proctor.store.record_check import check_record

STEP = int(os.environ.get("PROCTOR_FAULT_STEP", "5"))
FAULTS = (errno.ENOSPC, errno.EIO, errno.EACCES)
TASKS = 3
RUN = [
    "run", "reuse_plugins:Counted", "reuse_plugins:Worker", "--json", "--task-concurrency", "2",
    "--set", f"benchmark.params.tasks={TASKS}", "--set", "benchmark.params.artifacts_every=2",
]  # fmt: skip


def sealed(out: str) -> set[str]:
    """The tasks that were shown as done, with a score."""
    lines = [json.loads(line) for line in out.splitlines()]
    return {line["task"] for line in lines if line["type"] == "AttemptSealed" and "score" in line}


@pytest.mark.long
@pytest.mark.parametrize("first", range(len(FAULTS)) if STEP == 1 else [0])  # all N with every fault, in the long form
@pytest.mark.parametrize("forever", [False, True], ids=["once", "from then on"])
def test_08_D5_nothing_that_was_shown_is_lost(
    proctor: Callable[..., Ended], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forever: bool, first: int
) -> None:
    names: set[str] = set()
    shown_at_last = -1
    for number in count(1, STEP):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.chdir(place)
        monkeypatch.setenv("WORK_TRACE", str(place / "trace"))
        (place / "trace").touch()
        with FailingDisk(number, FAULTS[(first + number // STEP) % 3], forever=forever).in_place() as disk:
            ended = proctor(*RUN)
        shown = sealed(ended.out)
        names.update(disk.failed)
        assert "Traceback" not in ended.err, ended.err
        assert ended.code in ((0, 2, 3) if disk.failed else (0,)), (number, disk.failed, ended.err)
        done = (place / "trace").read_text()
        assert proctor(*RUN, "--reuse").code == 0, (number, disk.failed)
        again = (place / "trace").read_text().removeprefix(done)
        assert not shown & {line.split()[0] for line in again.splitlines()}, (number, disk.failed)
        checked = check_record(place / "results")
        assert checked.right, (number, disk.failed, checked)
        if not disk.failed:
            shown_at_last = len(shown)
            break
    assert shown_at_last == TASKS
    assert {"open", "write", "fsync", "mkdir", "replace"} <= names
