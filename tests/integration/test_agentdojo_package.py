"""The real package `agentdojo`: every task is solved by its own calls, and none by nothing done.

It is in no requirements, as it takes 290 MB: `pip install agentdojo` to run this.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(find_spec("agentdojo") is None, reason="needs `pip install agentdojo`"),
]


def test_11_every_task_can_be_graded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proctor", "check", "agentdojo", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert [each["counts"]["passed"] for each in runs] == [92, 0]
