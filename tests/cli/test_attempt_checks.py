"""`proctor show @ATTEMPT` says why an attempt did not pass (spec 02)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from program import Ended

from proctor.cli.attempt_checks import CHECKS_SHOWN, VALUE_SHOWN, check_lines
from proctor.model.attempt import Check, Grade

TASKS = """from proctor import task

@task(sandbox=False)
async def knows(t):
    turn = await t.send("What is 6 x 7?")
    t.check("answers", bool(turn.answer))
    t.check("is right", turn.answer == "42", expected="42", actual=turn.answer)
    t.score("brevity", 0.5)
"""


def test_02_a_failed_attempt_is_shown_with_the_checks_that_were_not_met(
    proctor: Callable[..., Ended], tmp_path: Path
) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "sums.py").write_text(TASKS)
    ran = proctor("run", "evals", "chat", "mock/fixed", "--set", "model.params.text=it is 41")
    assert ran.code == 0, ran.err
    [result] = ran.run_dirs[0].glob("attempts/*/0/result.json")
    attempt = json.loads(result.read_text())["attempt"]
    shown = proctor("show", f"@{attempt}").out.splitlines()
    assert "sub-score brevity: 0.5" in shown
    assert "2 checks, 1 not met" in shown
    assert "  not met: is right: expected 42, got it is 41 (evals/sums.py:7)" in shown
    data = json.loads(proctor("show", f"@{attempt}", "--json").out)
    assert data["sub_scores"] == {"brevity": 0.5}
    assert [(check["label"], check["ok"], check["actual"]) for check in data["checks"]][1] == (
        "is right",
        False,
        "it is 41",
    )


def test_02_what_is_said_of_checks_is_bounded_and_cannot_reach_the_terminal() -> None:
    wrong = tuple(Check("\x1b[2J" + "x" * 9_999, False, actual="y" * 9_999) for _ in range(CHECKS_SHOWN + 3))
    lines = check_lines(Grade(False, 0.0, checks=wrong))
    assert lines[-1] == "  and 3 more"
    assert "\x1b" not in "".join(lines)
    assert max(map(len, lines)) < 3 * VALUE_SHOWN
    assert check_lines(None) == []
    assert check_lines(Grade(True, 1.0)) == []
