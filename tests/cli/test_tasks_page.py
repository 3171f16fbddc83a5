"""What docs/tasks.md shows works as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Ended
from test_evals import codes, results

from proctor.authoring.task_options import TaskOptions
from proctor.authoring.work_listing import FILES_AT_MOST

PAGE = (Path(__file__).parents[2] / "docs/tasks.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"```python\n# (\S+\.py)\n(.*?)```", PAGE, re.DOTALL))
COMMANDS = re.findall(r"^proctor (run .*?)(?: {2,}#.*)?$", PAGE, re.MULTILINE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_tasks_of_the_page_come_to_what_it_says(proctor: Callable[..., Ended], project: Path) -> None:
    ended = proctor("run", "evals", "chat", "mock/echo", "--progress", "none")
    found = results(ended)
    assert {task: (one["verdict"], codes(one)) for task, one in found.items()} == {
        "naps/nap": ("passed", []),
        "conversation/remembers": ("passed", []),
        "button/fixes_the_button": ("failed", []),
        "sums/adds/small": ("passed", []),
        "sums/adds/large": ("passed", []),
        "loops/nap-00": ("passed", []),
        "loops/nap-01": ("passed", []),
        "loops/nap-02": ("passed", []),
        "reading/reads": ("passed", []),
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_work(proctor: Callable[..., Ended], project: Path, command: str) -> None:
    assert len(COMMANDS) == 3
    ended = proctor(*command.split(), "--progress", "none")
    assert ended.code == 0, ended.err
    assert "naps/nap" in results(ended)


def test_the_rehearsal_of_the_page_passes(project: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_button.py"]
    done = subprocess.run(
        command, check=False, cwd=project, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_every_option_is_on_the_page() -> None:
    section = PAGE.partition("\n## Options\n")[2].partition("\n## ")[0]
    named = {
        name
        for line in section.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named == {"name", *TaskOptions.__annotations__}


def test_the_bound_of_the_page_is_that_of_the_code() -> None:
    assert f"More than {FILES_AT_MOST:,} files" in PAGE
