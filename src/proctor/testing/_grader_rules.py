"""Checks of graders: what they declare, what they leave alone, whom they trust."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from posixpath import normpath
from shlex import quote
from typing import Any, cast

from proctor.errors import Fault
from proctor.model.attempt import Grade
from proctor.model.codes import Owner, code_row
from proctor.model.spec import ModelSpec
from proctor.models.mock import MockModel
from proctor.plugins.api import LeftOut, Sandbox
from proctor.testing.check_context import WatchedModel
from proctor.testing.check_graders import GraderBench
from proctor.testing.conformance import require

PLANTED = ("1\n", "1.0\n", '{"reward": 1, "score": 1, "solved": true, "passed": true}\n', "passed\n", "")
"""What an agent would write that knows where a grader looks."""


async def declares_what_it_is(bench: GraderBench) -> None:
    """Name, version, `reward_files`; `needs_judge`, where there is one, is True or False."""
    grader = bench.making.check_declared(())
    needs: Any = getattr(grader, "needs_judge", False)
    require(type(needs) is bool, f"`needs_judge` must be True or False, not {needs!r}")


async def refuses_parameters_that_there_are_not(bench: GraderBench) -> None:
    """At planning, not in the middle of a run."""
    bench.making.check_options()


async def leaves_alone_what_it_is_given(bench: GraderBench) -> None:
    """The task and the files belong to everybody."""
    work = replace(bench.right, files=dict(bench.right.files))
    task, files = deepcopy(bench.task), dict(work.files)
    await bench.grade(work, "what is right")
    require(bench.task == task, "`grade` changed the task, which other attempts work on")
    require(dict(work.files) == files, "`grade` changed the files that the harness collected")


class _Noting:
    """A sandbox that notes which files are read from it."""

    def __init__(self, sandbox: Sandbox, noted: set[str]) -> None:
        self._sandbox = sandbox
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sandbox, name)

    async def read(self, path: str) -> bytes:
        """Read a file."""
        self._noted.add(path)
        return await self._sandbox.read(path)

    async def download(self, source: str, target: Path, **limits: Any) -> LeftOut:
        """Copy a file or directory out of it."""
        self._noted.add(source)
        return await self._sandbox.download(source, target, **limits)


async def planted_rewards_are_not_taken(bench: GraderBench) -> None:
    """A file that the agent put where the grader looks for success does not count: it is in `reward_files`."""
    read: set[str] = set()
    works = {"what is right": bench.right, "what is wrong": bench.wrong}
    for what, work in works.items():
        await bench.grade(work, what, seen=lambda sandbox: cast("Sandbox", _Noting(sandbox, read)))
    for work in works.values():  # what the examples leave is what an agent is meant to write
        async with bench.sandbox(work) as sandbox:
            read -= {path for path in read if (await sandbox.exec(["test", "-e", path])).ok}
    own = {normpath(path) for path in bench.made().reward_files}
    for path in sorted(path for path in read if normpath(path) not in own):
        for content in PLANTED:
            plant = f'mkdir -p "$(dirname {quote(path)})"; printf %s {quote(content)} > {quote(path)}'
            work = replace(bench.wrong, script=f"{bench.wrong.script or ':'}\n{plant}")
            grade = await bench.grade(work, f"what is wrong, with `{path}` planted")
            require(
                not grade.solved,
                f"what is wrong is solved where the agent wrote {content!r} to `{path}`, which the grader reads: name "
                "it in `reward_files`, and it is removed before grading",
            )


async def a_judge_that_fails_gives_no_grade(bench: GraderBench) -> None:
    """What the endpoint of the judge raises is nobody's wrong answer; only for graders with `needs_judge`."""

    def fails(model: WatchedModel) -> None:
        model.fault = Fault("model.server", "status 500")

    await _without_grade(bench, fails, "the judge failed (model.server)")


async def a_judge_that_says_nothing_of_use_gives_no_grade(bench: GraderBench) -> None:
    """An answer that is no verdict is the judge's trouble, not the agent's."""
    for said in ("", "I would rather not say.", "yes and no"):

        def babbles(model: WatchedModel, said: str = said) -> None:
            model.answering = MockModel(ModelSpec("mock/judge"), lambda messages: said)

        await _without_grade(bench, babbles, f"the judge said {said!r}")


async def _without_grade(bench: GraderBench, change: Any, what: str) -> None:
    grader = bench.made()
    if not getattr(grader, "needs_judge", False):
        return
    try:
        grade = await bench.ask(grader, bench.right, change=change)
    except Fault as fault:
        of_agent = code_row(fault.code).owner is Owner.AGENT
        require(not of_agent, f"{what}, and `grade` raised {fault.code}, which is the agent's doing")
        return
    solved = isinstance(grade, Grade) and grade.solved
    verdict = "solved" if solved else "not solved"
    require(False, f"{what}, and `grade` returned a grade ({verdict}): raise a Fault, such as `grader.judge_failed`")


CHECKS = (
    declares_what_it_is,
    refuses_parameters_that_there_are_not,
    leaves_alone_what_it_is_given,
    planted_rewards_are_not_taken,
    a_judge_that_fails_gives_no_grade,
    a_judge_that_says_nothing_of_use_gives_no_grade,
)
