"""What the continuous integration uses to see that nothing is left running."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(root: Path, script: str, grace: str = "0") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / ".ci/leave_nothing.py"), "--grace", grace, "sh", "-c", script]
    return subprocess.run(command, check=False, capture_output=True, text=True)


@pytest.mark.parametrize("status", [0, 3])
def test_a_clean_command_keeps_its_status(root: Path, status: int) -> None:
    result = run(root, f"exit {status}")
    assert (result.returncode, result.stderr) == (status, "")


@pytest.mark.parametrize("start", ["sleep 600 &", "setsid sleep 600 &", "( sleep 600 & ) &"])
@pytest.mark.parametrize("status", [0, 3])
def test_what_a_command_leaves_behind_is_ended_and_named(root: Path, start: str, status: int) -> None:
    """However it was detached; the pipes are closed, or reading them would wait for the process itself."""
    result = run(root, f"exec >/dev/null 2>&1; {start} exit {status}")
    assert result.returncode == (status or 1)
    left = [line.split()[5] for line in result.stderr.splitlines() if line.startswith("left behind, and now ended: ")]
    assert left  # one process or, where the shell was caught before it became `sleep`, several
    for pid in left:
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_what_ends_by_itself_is_not_left_behind(root: Path) -> None:
    result = run(root, "sleep 0.05 & exit 0", grace="60")
    assert (result.returncode, result.stderr) == (0, "")


def test_the_commands_of_the_readme_are_the_scripts(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8").splitlines()
    assert "scripts/test" in readme
    assert "scripts/proctor run humaneval oracle" in readme
    assert "scripts/test" in (root / ".ci/run").read_text(encoding="utf-8")
