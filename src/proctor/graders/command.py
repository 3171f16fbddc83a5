"""Grader `command`: runs a command in the sandbox of grading; its exit status decides, or a reward file that it writes.

What it needs (tests that the agent never saw) is put there only now: texts of the parameters, and folders that the task
keeps hidden. See docs/harbor.md.
"""

from __future__ import annotations

from pydantic import BaseModel, Field

from proctor.errors import Fault
from proctor.model.attempt import Check, Grade
from proctor.plugins.api import ExecResult, GradeContext
from proctor.plugins.hidden_tests import TestsOptions, how_ended, rewards_left, run_tests
from proctor.plugins.rewards import NAME, reward_in

NOT_RUN = (126, 127)
"""What a shell returns for a command that cannot be run, or is not there."""


class CommandOptions(TestsOptions):
    """The command, what is put into the sandbox for it, and what decides.

    The first of `reward_files` that is there afterwards decides; without any, exit status 0 is success. Of several
    numbers `reward` is the score; `solved_at` is how much it must be.
    """

    reward: str = NAME
    solved_at: float = Field(default=1.0, gt=0, le=1)


class CommandGrader:
    """Grades by running a command; needs a sandbox with a shell."""

    name = "command"
    version = "1"
    options: type[BaseModel] = CommandOptions

    def __init__(self, options: CommandOptions) -> None:
        self._options = options
        self.reward_files: tuple[str, ...] = (*options.reward_files, *options.files)

    async def grade(self, ctx: GradeContext) -> Grade:
        """Run the command and read what decides. Raises `Fault`, or `InvalidGrade` for a reward that is none."""
        options = self._options
        result = await run_tests(options, ctx)
        if not options.reward_files:
            return _by_status(result)
        path, rewards = await rewards_left(options, ctx.sandbox, result)
        reward = reward_in(path, rewards, options.reward)
        solved = reward.score >= options.solved_at
        check = Check(options.reward, solved, f"at least {options.solved_at:g}", f"{reward.score:g}", path)
        return Grade(solved=solved, score=reward.score, sub_scores=reward.others, checks=(check,))


def _by_status(result: ExecResult) -> Grade:
    if result.exit_code is None or result.exit_code in NOT_RUN:
        last = result.err.strip().splitlines()[-1:] or ["it printed nothing"]
        raise Fault("grader.crashed", f"the command did not run to its end ({how_ended(result)}): {last[0]}")
    check = Check("the command succeeds", result.ok, "status 0", f"status {result.exit_code}")
    return Grade(solved=result.ok, score=1.0 if result.ok else 0.0, checks=(check,))


__all__ = ["CommandGrader", "CommandOptions"]
