"""The sub-scores of a run as a user sees them, also where its attempts are reused (spec 04 C3, 09 M2, M4)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from program import Ended

TASKS = """
from proctor import task


def made(number):
    @task(name=f"t{number}")
    async def one(t):
        turn = await t.send("hello")
        t.check("answers", turn.answer)
        t.score("length", number * 10)


for number in range(3):
    made(number)
"""


def test_M2_C3_sub_scores_are_summed_up_also_of_reused_attempts(proctor: Callable[..., Ended], tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "some.py").write_text(TASKS)
    said = []
    for name, more in (("first", ()), ("second", ("--reuse",)), ("third", ("--reuse",))):
        ended = proctor("run", "evals", "chat", "mock/echo", "--run-id", name, *more)
        assert ended.code == 0
        run = next(path for path in ended.run_dirs if path.name == name)
        [line] = [line for line in (run / "summary.md").read_text().splitlines() if "sub-score" in line]
        summary = json.loads((run / "summary.json").read_text())
        assert summary["counts"]["reused_passed"] == (3 if more else 0)
        said.append((line, summary["metrics"]["sub_scores"]["length"]))
    assert said[0] == said[1] == said[2]
    assert said[0][0].startswith("- sub-score length: 10.000 [")
    assert (said[0][1]["samples"], said[0][1]["mean"]) == (3, 10.0)
    assert "  sub-score length, 3 tasks: +0.000" in proctor("compare", "first", "third").out
