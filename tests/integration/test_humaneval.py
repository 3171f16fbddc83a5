"""The main job, on real input: all 164 problems of HumanEval, graded by really running their tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proctor.testing.model_server import serve
from proctor.testing.replies import answering
from proctor.testing.scripts import humaneval

HANG_SECONDS = 110


def run(folder: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the receipt of a run in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "proctor", *arguments, "--json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
def test_every_reference_solution_passes(tmp_path: Path) -> None:
    code, receipt = run(tmp_path, "run", "humaneval", "oracle")
    [result] = receipt["runs"]
    assert result["headline"] == "100.0% (164/164 passed)"
    assert result["issues"] == []
    assert code == 0


@pytest.mark.long
def test_doing_nothing_fails_everywhere_and_errs_nowhere(tmp_path: Path) -> None:
    code, receipt = run(tmp_path, "run", "humaneval", "nop")
    [result] = receipt["runs"]
    assert (result["counts"]["failed"], result["counts"]["errored"]) == (164, 0)
    assert code == 0


def test_check_says_that_it_is_gradeable(tmp_path: Path) -> None:
    code, receipt = run(tmp_path, "check", "humaneval", "--limit", "8")
    assert [each["counts"]["passed"] for each in receipt["runs"]] == [8, 0]
    assert code == 0


@pytest.mark.long
def test_a_model_server_that_solves_a_share_gives_exactly_that_rate(tmp_path: Path) -> None:
    with serve(answering(humaneval("0.25"))) as server:
        code, receipt = run(
            tmp_path, "run", "humaneval", "chat", "scripted", "--set", f"model.base_url={server.base_url}"
        )
        assert len(server.requests) == 164
    [result] = receipt["runs"]
    assert result["counts"]["passed"] == 41
    assert result["counts"]["errored"] == 0
    assert result["usage"]["calls"] == 164
    assert result["usage"]["input_tokens"] > 0
    assert result["cost_usd"] is None
    assert code == 0


@pytest.mark.long
def test_a_mock_model_does_so_without_a_server(tmp_path: Path) -> None:
    _, receipt = run(tmp_path, "run", "humaneval", "chat", "mock/humaneval", "--set", "model.params.share=0.5")
    assert receipt["runs"][0]["counts"]["passed"] == 82
