"""scripts/setup, with an interpreter and a pip that only write down what they are asked to do: no network needed."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

SCRIPTS = ("check", "lock", "proctor", "setup", "test")

FAKE_PYTHON = """\
#!/bin/sh
# Stands for an interpreter, and for the one in the environment that it makes.
folder=$(dirname "$(readlink -f "$0")")
printf '%s\\n' "$*" | tr '\\n' ' ' >>"$folder/calls"; echo >>"$folder/calls"
case "$*" in
    *"import ensurepip"*) [ -e "$folder/ensurepip" ] ;;
    *version_info*) [ ! -e "$folder/old" ] && readlink -f "$0" ;;
    "--version") echo "Python 3.11.0" ;;
    "-m pip --version") [ -e "$folder/pip" ] ;;
    "-m venv"*)
        mkdir -p .venv/bin
        ln -sf "$folder/python3" .venv/bin/python
        case "$*" in *--without-pip*) ;; *) : >.venv/bin/pip ;; esac
        ;;
    *"--require-hashes"*) [ ! -e "$folder/offline" ] || { echo "no route to the package server"; exit 1; } ;;
    *"--editable"*) : >.venv/bin/proctor; chmod +x .venv/bin/proctor ;;
esac
"""


class Project:
    """A copy of what scripts/setup reads, and a fake interpreter as the only one on the path."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder = folder / "project"
        self.python = folder / "python"
        for name in ("pyproject.toml", "src/proctor/__init__.py", "scripts/setup", "requirements"):
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (root / name).is_dir() else shutil.copy)(root / name, target)
        self.python.mkdir()
        (self.python / "python3").write_text(FAKE_PYTHON)
        (self.python / "python3").chmod(0o755)
        self.has("ensurepip", "pip")

    def has(self, *traits: str) -> None:
        for trait in traits:
            (self.python / trait).touch()

    def lacks(self, *traits: str) -> None:
        for trait in traits:
            (self.python / trait).unlink()

    def setup(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": f"{self.python}:{os.defpath}", "HOME": str(self.folder), **environment}
        command = [str(self.folder / "scripts/setup"), *arguments]
        return subprocess.run(command, cwd="/", env=variables, check=False, capture_output=True, text=True)

    def installed(self) -> list[str]:
        """What pip was asked to install since the last call: requirement files, `.` for proctor itself."""
        calls = self.python / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        calls.unlink(missing_ok=True)
        return [line.split()[-1] for line in lines if " install " in line]


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Project:
    return Project(root, tmp_path)


def test_installs_once_and_then_returns_at_once(project: Project) -> None:
    assert project.setup("run").returncode == 0
    assert project.installed() == ["requirements/run.txt", "."]
    again = project.setup("run")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
    assert not (project.python / "calls").exists()


def test_a_development_environment_serves_for_running(project: Project) -> None:
    project.setup("dev")
    assert project.installed() == ["requirements/dev.txt", "."]
    project.setup("run")
    assert project.installed() == []


def test_an_environment_for_running_is_extended(project: Project) -> None:
    project.setup("run")
    project.installed()
    project.setup("dev")
    assert project.installed() == ["requirements/dev.txt", "."]


@pytest.mark.parametrize("changed", ["pyproject.toml", "requirements/run.txt", "src/proctor/__init__.py"])
def test_a_change_is_noticed(project: Project, changed: str) -> None:
    project.setup("run")
    project.installed()
    with (project.folder / changed).open("a") as file:
        file.write("# changed\n")
    project.setup("run")
    assert project.installed() == ["requirements/run.txt", "."]


def test_a_development_environment_stays_one_after_a_change(project: Project) -> None:
    project.setup("dev")
    project.installed()
    with (project.folder / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    project.setup("run")
    assert project.installed() == ["requirements/dev.txt", "."]


def test_a_failed_installation_is_told_and_not_taken_for_done(project: Project) -> None:
    project.has("offline")
    failed = project.setup("run")
    assert failed.returncode == 1
    assert "no route to the package server" in failed.stderr
    assert "hint:" in failed.stderr
    project.lacks("offline")
    project.installed()
    assert project.setup("run").returncode == 0
    assert project.installed() == ["requirements/run.txt", "."]


def test_without_ensurepip_the_pip_of_the_interpreter_fills_the_environment(project: Project) -> None:
    """As on Debian without the package python3-venv."""
    project.lacks("ensurepip")
    assert project.setup("run").returncode == 0
    calls = (project.python / "calls").read_text()
    assert "-m venv --without-pip .venv" in calls
    assert "-m pip --python .venv/bin/python install --require-hashes" in calls


def test_without_any_pip_it_says_what_to_install(project: Project) -> None:
    project.lacks("ensurepip", "pip")
    failed = project.setup("run")
    assert failed.returncode == 1
    assert "pip is missing" in failed.stderr
    assert "python3-pip" in failed.stderr


def test_an_interpreter_that_is_too_old_is_refused(project: Project) -> None:
    project.has("old")
    failed = project.setup("run", PYTHON=str(project.python / "python3"))
    assert failed.returncode == 1
    assert "is not CPython 3.11 or later" in failed.stderr


def test_a_moved_folder_gets_a_new_environment(project: Project) -> None:
    project.setup("run")
    (project.folder / ".venv/leftover").touch()
    project.installed()
    project.folder = project.folder.rename(project.folder.with_name("elsewhere"))
    assert project.setup("run").returncode == 0
    assert project.installed() == ["requirements/run.txt", "."]
    assert not (project.folder / ".venv/leftover").exists()


def test_two_at_once_install_once(project: Project) -> None:
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: project.setup("run"), range(4)))
    assert [result.returncode for result in done] == [0] * 4
    assert project.installed() == ["requirements/run.txt", "."]


def test_an_unknown_level_is_refused(project: Project) -> None:
    failed = project.setup("all")
    assert failed.returncode == 1
    assert "usage: scripts/setup [run|dev]" in failed.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_are_executable_and_parse(root: Path, script: str) -> None:
    path = root / "scripts" / script
    assert os.access(path, os.X_OK)
    assert subprocess.run(["sh", "-n", str(path)], check=False).returncode == 0
