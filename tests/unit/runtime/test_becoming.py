"""How a fresh child becomes the command, and when it does not (spec 06)."""

from __future__ import annotations

import subprocess

import pytest

from proctor.runtime.spawn_direct import FOLDER, base_interpreter

SCRIPT = """
import os, sys
sys.path.append(sys.argv[1])
import _becoming, _bounding
def hook(*_):
    print("the interpreter reports", flush=True)
sys.excepthook = hook
how = sys.argv[2]
request = {
    "argv": [b"echo", b"ran"], "env": {b"PATH": b"/usr/bin:/bin"}, "inside": None, "trace": None,
    "cwd": b"/not/there" if "no place" in how else b"/", "memory_bytes": None, "processes": None, "file_bytes": None,
}
groups = _bounding.Groups([])
gate, gate_end = os.pipe()
child = os.fork()
if child == 0:
    os.close(gate_end)
    if "nowhere to say so" in how:
        os.close(2)
    _becoming.become(request, groups, gate, os.getppid())
if "lost" not in how:
    os.write(gate_end, b"+")
os.close(gate_end)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def become(how: str) -> list[str]:
    argv = [base_interpreter(), "-I", "-S", "-c", SCRIPT, FOLDER, how]
    return subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True).stdout.split(
        "\n"
    )[:-1]


def test_06_it_runs_when_its_supervisor_says_so() -> None:
    assert become("") == ["ran", "0"]


def test_06_it_does_not_run_where_its_supervisor_is_lost_before_it_says_so() -> None:
    """In namespaces it cannot see who its parent is: only that nobody has said anything."""
    assert become("lost") == ["126"]


@pytest.mark.parametrize("how", ["no place", "no place, nowhere to say so"])
def test_06_what_fails_is_never_left_to_the_interpreter(how: str) -> None:
    """To print an error it looks for the source, in the file system of the sandbox, before any right was given up."""
    assert become(how) == ["126"]
