"""The projects of `examples/` do what their README says, each in a copy of its own and with mock models."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.bwrap import needs_bwrap

EXAMPLES = Path(__file__).parents[2] / "examples"
HANG_SECONDS = 110
"""Only a hang takes so long."""


@dataclass(frozen=True)
class Expected:
    """How a command of an example ends, and what it prints on either stream."""

    code: int = 0
    said: tuple[str, ...] = ()
    runs: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Passed and all slots of the newest run, by the experiment; only where they are to be looked at."""


COMMANDS: dict[str, dict[str, Expected]] = {
    "compare-models": {
        "sh compare.sh": Expected(runs={"solves-0.3": (6, 20), "solves-0.8": (16, 20)}),
    },
    "launch-matrix": {
        "proctor launch launch.yaml --limit 4 --dry": Expected(said=("execute: new",)),
        "proctor launch launch.yaml --limit 4": Expected(
            runs={
                "trivial-says-ok": (4, 4),
                "trivial-echo": (0, 4),
                "humaneval-says-ok": (0, 4),
                "humaneval-echo": (0, 4),
            }
        ),
        "proctor launch launch.yaml --limit 4 --reuse": Expected(said=("reused",)),
    },
    "task-group": {
        "proctor list tasks": Expected(said=("shop/day/counts", "greeting/is_polite")),
        "proctor exp": Expected(runs={"shop": (4, 4)}),
        "proctor exp shop shop/day --rerun all": Expected(runs={"shop": (3, 3)}),
    },
    "early-exit": {"proctor exp": Expected(said=("early exit",), runs={"riddles": (2, 10)})},
    "shared-state": {
        "proctor exp": Expected(runs={"stock": (2, 2)}),
        "proctor lease list": Expected(),
    },
    "budget": {"proctor exp": Expected(code=3, said=("budget",), runs={"sums": (3, 6)})},
}


def commands_of(readme: str) -> list[str]:
    """Return the commands of a page."""
    blocks = re.findall(r"^```sh\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]


def newest_runs(folder: Path) -> dict[str, tuple[int, int]]:
    """Return passed and all slots of the newest run of each directory of runs, by the name of the experiment or run."""
    found: dict[str, tuple[int, int]] = {}
    for path in sorted((folder / "results").rglob("summary.json"), key=lambda path: path.stat().st_mtime_ns):
        summary = json.loads(path.read_text())
        name = path.relative_to(folder / "results").parts[0] if len(path.relative_to(folder).parts) > 4 else None
        found[name or summary["experiment"]] = (summary["counts"]["passed"], summary["counts"]["total"])
    return found


def test_every_example_is_tested_and_named() -> None:
    there = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    assert there == {*COMMANDS, "plugin"}  # which is a package, and is installed in test_plugin_pages.py
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert all(f"({name}/)" in page for name in COMMANDS)


LONG = ("compare-models", "launch-matrix", "task-group")


@pytest.mark.integration
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in COMMANDS]
)
def test_an_example_does_what_its_page_says(name: str, tmp_path: Path) -> None:
    does_what_its_page_says(name, tmp_path)


@pytest.mark.integration
@pytest.mark.long
@needs_bwrap
@pytest.mark.parametrize("name", COMMANDS)
def test_an_example_does_so_in_sandboxes_of_bwrap(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are the default where they work."""
    monkeypatch.setenv("PROCTOR_PROVIDER", "bwrap")
    does_what_its_page_says(name, tmp_path)


def does_what_its_page_says(name: str, tmp_path: Path) -> None:
    folder = tmp_path / name
    shutil.copytree(EXAMPLES / name, folder, ignore=shutil.ignore_patterns("results", "__pycache__", ".proctor"))
    before = {path for path in folder.rglob("*") if path.suffix not in {".pyc"} and path.is_file()}
    assert commands_of((folder / "README.md").read_text(encoding="utf-8")) == list(COMMANDS[name])
    environ = {key: value for key, value in os.environ.items() if not key.endswith("_API_KEY")}
    environ |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "NO_COLOR": "1"}
    for command, expected in COMMANDS[name].items():
        ended = subprocess.run(
            ["sh", "-c", command],
            check=False, cwd=folder, env=environ, capture_output=True, text=True, timeout=HANG_SECONDS,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        said = ended.stdout + ended.stderr
        assert ended.returncode == expected.code, f"{command}\n{said}"
        for text in expected.said:
            assert text in said, f"{command}\n{said}"
        if expected.runs:
            assert newest_runs(folder) == expected.runs, f"{command}\n{said}"
    left = {path for path in folder.rglob("*") if path.suffix not in {".pyc"} and path.is_file()} - before
    assert {path.relative_to(folder).parts[0] for path in left} <= {"results", ".proctor"}
