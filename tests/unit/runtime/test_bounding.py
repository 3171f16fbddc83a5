"""How commands get into their control groups: they are born there or enter themselves, or are put there (spec 06)."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from proctor.runtime.cgroup import find_roots
from proctor.runtime.spawn_direct import FOLDER, base_interpreter

ROOTS = find_roots()

SCRIPT = """
import json, os, sys
sys.path.append(sys.argv[1])
import _bounding, _joining
if "cannot be born" in sys.argv[3]:
    _joining.fork_into = lambda place, beside: -1
groups = _bounding.Groups([(directory, []) for directory in json.loads(sys.argv[2])])
if "is refused" in sys.argv[3]:
    groups._doors.append(os.open("/dev/null", os.O_RDONLY))
gate, gate_end = os.pipe()
child = groups.bear(beside=False)
if child == 0:
    os.close(gate_end)
    os.read(gate, 1)
    groups.enter()
    print(open("/proc/self/cgroup").read(), end="", flush=True)
    print(len(os.listdir("/proc/self/fd")), flush=True)
    os._exit(0)
groups.settle(child)
os.close(gate)
os.close(gate_end)
_, status = os.waitpid(child, 0)
refused = groups.refused()
for directory in groups.joined:
    os.rmdir(directory)
print(json.dumps([groups.joined, groups.complete, groups.born, refused, status]))
"""


def bear(directories: list[str], how: str = "") -> tuple[str, list[Any]]:
    """Return what the child sees, and what its parent knows."""
    argv = [base_interpreter(), "-I", "-S", "-c", SCRIPT, FOLDER, json.dumps(directories), how]
    said = subprocess.run(argv, stdout=subprocess.PIPE, check=True, text=True).stdout
    *seen, known = said.splitlines()
    return "\n".join(seen), json.loads(known)


@pytest.mark.skipif(not ROOTS.unified, reason="no control group of version 2 can be made here")
@pytest.mark.parametrize("how", ["", "cannot be born"])
def test_06_a_command_is_in_its_group_of_version_2(how: str) -> None:
    directory = f"{ROOTS.unified}/proctor-{os.getpid()}-bounding"
    seen, (joined, complete, born, refused, status) = bear([directory], how)
    assert any(line.startswith("0::") and f"/proctor-{os.getpid()}-bounding" in line for line in seen.splitlines())
    assert (joined, complete, refused, status) == ([directory], True, False, 0)
    assert not (born and how), "it was put there"


@pytest.mark.skipif(not ROOTS.pids, reason="no control group of version 1 can be made here")
def test_06_a_command_enters_its_group_of_version_1() -> None:
    directory = f"{ROOTS.pids}/proctor-{os.getpid()}-bounding"
    seen, known = bear([directory])
    assert any(f"/proctor-{os.getpid()}-bounding" in line for line in seen.splitlines() if ":pids:" in line)
    assert known == [[directory], True, False, False, 0]
    assert seen.endswith("\n6"), "three streams, the gate, what tells of a refusal, and the list itself"


def test_06_what_cannot_enter_does_not_run(tmp_path: Path) -> None:
    seen, known = bear([], "is refused")
    assert seen == ""
    assert known == [[], True, False, True, 126 << 8]


def test_06_what_is_no_group_is_not_taken_for_one(tmp_path: Path) -> None:
    """Then the supervisor decides: within a sandbox nothing runs without its limits, else groups are only a help."""
    seen, known = bear([str(tmp_path / "made"), str(tmp_path / "not/made")])
    assert seen
    assert known == [[], False, False, False, 0]
    assert list(tmp_path.iterdir()) == []
