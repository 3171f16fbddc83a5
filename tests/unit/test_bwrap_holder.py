"""The program that keeps the namespaces of a sandbox."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from proctor.runtime._holder import WRITE_READ_EXIT, holder


@pytest.mark.skipif(os.uname().machine not in WRITE_READ_EXIT, reason="there is none for this machine")
def test_it_says_that_it_runs_and_ends_with_its_input(tmp_path: Path) -> None:
    program = tmp_path / "holder"
    program.write_bytes(holder())
    program.chmod(0o755)
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.read(1) == b"\n"
        assert running.poll() is None
        running.stdin.close()
        assert running.wait() == 0


def test_another_machine_has_none() -> None:
    with pytest.raises(OSError, match="cannot be kept on riscv64"):
        holder("riscv64")
