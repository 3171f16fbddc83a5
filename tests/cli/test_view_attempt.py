"""`proctor show @ATTEMPT` reads by the viewer's quick reader: the attempt's own lines, and nothing that is no file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import SUPPORT, Ended

sys.path.append(str(SUPPORT))
from viewer_runs import START, evidence, good_try, make_run, sealed, started

from proctor.store.layout import RunLayout

A, B = "abcdefghijkl", "bbcdefghijkl"
Call = Callable[..., Ended]


@pytest.fixture
def layout(proctor: Call, tmp_path: Path) -> RunLayout:
    events = [started("named"), *good_try(A, "a", START), sealed(A, "a", START + 10)]
    events += [*good_try(B, "b", START), sealed(B, "b", START + 10)]
    layout = make_run(tmp_path / "results", events)
    evidence(layout, "a", "try.log", b"said")
    return layout


def test_it_is_shown_with_its_experiment_and_the_files_that_it_left(proctor: Call, layout: RunLayout) -> None:
    found = proctor("show", f"@{A[:6]}", "--results-dir", str(layout.directory))
    assert (found.code, found.err) == (0, "")
    assert found.out.startswith(f"@{A}  a #0 of named: passed")
    data = json.loads(proctor("show", f"@{A}", str(layout.directory), "--json").out)
    assert (data["experiment"], data["tries"][0]["files"]) == ("named", ["try.log"])


def test_lines_of_others_that_are_damaged_change_nothing_and_its_own_are_said(proctor: Call, layout: RunLayout) -> None:
    lines = layout.journal.read_bytes().splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if B.encode() in line)
    layout.journal.write_bytes(b"".join([*lines[:place], b"{damaged\n", *lines[place + 1 :]]))
    assert proctor("show", f"@{A}", str(layout.directory)).code == 0
    layout.journal.write_bytes(b"".join([*lines[:2], b'{"attempt":"' + A.encode() + b'"}\n', *lines[2:]]))
    found = proctor("show", f"@{A}", str(layout.directory))
    assert (found.code, "damaged lines" in found.err) == (3, True)
    assert found.out.startswith(f"@{A}  a #0 of named: passed"), "what can be read is shown"


def test_pipes_and_links_are_not_read(proctor: Call, layout: RunLayout, tmp_path: Path) -> None:
    """Where it waited for a pipe, this test would not end (case 174)."""
    other = tmp_path / "results/e/pipe"
    other.mkdir(parents=True)
    os.mkfifo(other / "journal.jsonl")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret.txt").write_text("secret")
    (layout.try_dir("a", 0, 1) / "link.txt").symlink_to(tmp_path / "outside/secret.txt")
    os.mkfifo(layout.try_dir("a", 0, 1) / "pipe")
    data = json.loads(proctor("show", f"@{A}", "--results-dir", str(tmp_path / "results"), "--json").out)
    assert data["tries"][0]["files"] == ["try.log"]
    layout.attempts.rename(tmp_path / "moved")
    layout.attempts.symlink_to(tmp_path / "moved")
    data = json.loads(proctor("show", f"@{A}", "--results-dir", str(tmp_path / "results"), "--json").out)
    assert data["tries"][0]["files"] == []


def test_it_imports_nothing_of_a_server(layout: RunLayout) -> None:
    script = (
        "import sys\nfrom proctor.cli.main import run\nrun(sys.argv[1:])\n"
        "print([name for name in ('jinja2', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    arguments = [sys.executable, "-c", script, "show", f"@{A}", str(layout.directory)]
    found = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"
