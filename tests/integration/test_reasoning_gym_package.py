"""The real package `reasoning-gym`: all that its generators make can be graded, and what its checkers do to answers.

It is in no requirements, as some of what it needs has no wheels: `.ci/packages` installs it beside them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.reasoning_gym import LEFT_OUT, REFUSED, ReasoningGym
from proctor.data import reasoning_gym
from proctor.testing import check_benchmark
from support.packages import provide

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

EVALUATING = ("string_insertion", "spiral_matrix", "binary_matrix", "n_queens")
READING = ("puzzle24", "countdown", "polynomial_multiplication", "simple_integration", "intermediate_integration")


@pytest.fixture(autouse=True, scope="module")
def package() -> Iterator[None]:
    """The package, in processes that stay for all tests, as it takes seconds to import it."""

    async def start() -> None:
        await asyncio.gather(*(reasoning_gym.describe() for _ in range(reasoning_gym.WORKERS_AT_MOST)))

    with pytest.MonkeyPatch.context() as patch:
        provide("reasoning-gym", patch)
        reasoning_gym.version.cache_clear()
        asyncio.run(start())
        yield
        reasoning_gym.close()
    reasoning_gym.version.cache_clear()


def scores(name: str, *answers: str, count: int = 1, seconds: int = 2) -> list[Any]:
    """Return what the checker says of each answer to each of some tasks: a score, or how it ended."""

    async def check() -> list[Any]:
        told: list[Any] = []
        for made in await reasoning_gym.make(name, 0, {}, range(count)):
            asked = {"do": "check", "name": name, "seed": 0, "config": {}, "index": made.index, "digest": made.digest}
            for answer in answers:
                told.append(
                    await reasoning_gym.ask({**asked, "seconds": seconds, "text": f"<answer>{answer}</answer>"})
                )
        return [each.get("score", each["state"]) for each in told]

    return asyncio.run(check())


def test_11_every_dataset_can_be_graded(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "proctor", "check", "reasoning_gym", "--set", "benchmark.params.size=1", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout.splitlines()[-1])["runs"]
    assert [each["counts"]["passed"] for each in runs] == [len(included()), 0]


def test_11_it_conforms() -> None:
    options = {"name": ["chain_sum", "leg_counting"], "size": 2}
    for check in check_benchmark(ReasoningGym, options, sample=3):
        asyncio.run(check())


def included() -> set[str]:
    groups, _ = asyncio.run(reasoning_gym.describe())
    assert {*LEFT_OUT, *REFUSED} <= set(groups)
    return set(groups) - {*LEFT_OUT, *REFUSED}


def test_11_what_is_left_out_is_left_out_rightly() -> None:
    """When one of these is mended, it belongs to `all`."""
    assert scores("game_of_life_halting", "nonsense", count=3) == [1.0] * 3
    for name in ("boxnet", "rush_hour"):
        [made] = asyncio.run(reasoning_gym.make(name, 0, {}, [0]))
        assert made.answer is None


@pytest.mark.parametrize("name", [*EVALUATING, *READING])
def test_11_no_checker_runs_an_answer(name: str, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    code = f"__import__('pathlib').Path({str(marker)!r}).touch()"
    assert all(score in (0.0, 0.01) for score in scores(name, code, f"[{code}]", f"str({code})"))
    assert not marker.exists()


@pytest.mark.parametrize(
    ("name", "answer"), [("n_queens", "9**9**9**9"), ("puzzle24", "9**9**9**9"), ("coin_flip", "1e999999999")]
)
def test_11_no_answer_keeps_a_checker_busy(name: str, answer: str) -> None:
    assert scores(name, answer) == ["time"]


def test_11_no_answer_takes_all_memory() -> None:
    assert scores("rubiks_cube", "R99999999999") == [0.01]
