"""The conformance suite of graders: what `plugins.api` says of `Grader`, as checks.

@pytest.mark.parametrize("check", check_grader(MyGrader, {"expected": "42"}, right="42", wrong="41"), ids=str)
def test_my_grader(check):
    asyncio.run(check())
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from proctor.model.attempt import Grade, InvalidGrade
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Json, Task
from proctor.plugins.api import Grader, Model, Provider, Sandbox
from proctor.plugins.registry import Kind
from proctor.providers.local import LocalProvider
from proctor.runtime.kept import own_grade
from proctor.testing.check_context import GraderWorld, WatchedModel, opened
from proctor.testing.check_plugin import INJECTED, INJECTIONS, Making, PluginCheck, refusing
from proctor.testing.conformance import NotConforming, require

Seen = Callable[[Sandbox], Sandbox]


def as_it_is(sandbox: Sandbox) -> Sandbox:
    """Return a sandbox that a grader sees as it is."""
    return sandbox


def _no_files() -> dict[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent left behind: its answer, the files that the harness collected, what `script` makes in the sandbox.

    The script is run by `sh`, in the sandbox of grading, before the grader is asked.
    """

    answer: str | None = None
    files: Mapping[str, bytes] = field(default_factory=_no_files)
    script: str | None = None


@dataclass(frozen=True, slots=True)
class GraderBench:
    """What the checks of a grader work with."""

    making: Making
    right: Work
    wrong: Work
    task: Task
    make_judge: Callable[[], Model] | None
    make_provider: Callable[[], Provider]
    environment: EnvironmentSpec

    def made(self) -> Grader:
        """Make the grader."""
        return self.making()

    @asynccontextmanager
    async def sandbox(self, work: Work) -> AsyncGenerator[Sandbox]:
        """Give a sandbox in which a work is done."""
        async with opened(self.make_provider, self.environment) as sandbox:
            if work.script is not None:
                done = await sandbox.exec(work.script)
                require(done.ok, f"the script of an example failed: {done.err.strip() or done.exit_code}")
            yield sandbox

    async def grade(self, work: Work, what: str, *, grader: Grader | None = None, seen: Seen = as_it_is) -> Grade:
        """Grade in a sandbox of its own. Raises `NotConforming` where that is no grade, saying `what` was graded."""
        with refusing(f"`grade` of {what} (a wrong answer is a grade, never an exception)"):
            found = await self.ask(grader or self.made(), work, seen=seen)
        try:
            return own_grade(found)
        except InvalidGrade as error:
            raise NotConforming(f"the grade of {what} is none: {error}") from error

    async def ask(
        self, grader: Grader, work: Work, *, seen: Seen = as_it_is, change: Callable[[WatchedModel], None] | None = None
    ) -> Any:
        """Return what a grader returns, and raise what it raises.

        `seen` makes the sandbox that the grader sees of the real one, and `change` changes the judge.
        """
        judge = self.make_judge() if self.make_judge is not None and getattr(grader, "needs_judge", False) else None
        watched = None if judge is None else WatchedModel(judge)
        if watched is not None and change is not None:
            change(watched)
        try:
            async with self.sandbox(work) as sandbox:
                world = GraderWorld(self.task, work.answer, work.files, seen(sandbox), watched)
                found = await grader.grade(world)
                if work.answer in INJECTIONS.values():
                    ran = (await sandbox.exec(["test", "-e", INJECTED])).ok
                    require(not ran, f"the answer {work.answer!r} was read by a shell, which ran what it says")
                return found
        finally:
            if judge is not None:
                await judge.close()


def check_grader(
    make_grader: Callable[[Any], Grader],
    params: Mapping[str, Json] | None = None,
    *,
    right: str | Work,
    wrong: str | Work,
    task: Task | None = None,
    judge: Callable[[], Model] | None = None,
    provider: Callable[[], Provider] = LocalProvider,
    environment: EnvironmentSpec | None = None,
) -> list[PluginCheck]:
    """Return the checks of a grader with these parameters, each independent of the others.

    `make_grader` is what is registered: it has `options`, and makes a grader when it is called with them. `right` and
    `wrong` are answers, or works, that it has to solve and not to solve. `judge` makes the model that judges, for a
    grader that declares `needs_judge`: it has to say the right thing of both. Nothing is made before a check is called.
    """
    from proctor.testing import _grader_answers, _grader_rules  # noqa: PLC0415 - they import this

    making = Making(Kind.GRADER, make_grader, params or {})
    right, wrong = (Work(one) if isinstance(one, str) else one for one in (right, wrong))
    task = task or Task("check/1", Component(making.name), "Say what is right.")
    task = replace(task, grader=Component(making.name, dict(making.params)))
    bench = GraderBench(making, right, wrong, task, judge, provider, environment or EnvironmentSpec())
    named = {body.__name__: partial(body, bench) for body in (*_grader_rules.CHECKS, *_grader_answers.CHECKS)}
    for kind in _grader_answers.ODD:
        named[f"an_odd_answer_is_graded-{kind}"] = partial(_grader_answers.an_odd_answer_is_graded, bench, kind)
    return [PluginCheck(name, body) for name, body in named.items()]


__all__ = ["GraderBench", "Work", "check_grader"]
