"""The conformance suites find faults: each broken plugin fails the check that is about it, which says what is wrong."""

# ruff: noqa: RUF012 - nobody changes what these classes declare

from __future__ import annotations

import asyncio
import itertools
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from proctor.errors import Fault
from proctor.model.attempt import Check, Grade, GradingMode, Usage
from proctor.model.spec import Component, ModelSpec, Reference, Task
from proctor.models.mock import MockModel
from proctor.plugins.api import ChatMessage, Collected, Trajectory, Turn, ask
from proctor.testing import NotConforming, PluginCheck, Work, check_benchmark, check_grader, check_harness

pytestmark = pytest.mark.integration


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Anything(BaseModel):
    pass


def said_by(checks: list[PluginCheck], name: str) -> str:
    """Return what the check of this name says."""
    [check] = [check for check in checks if check.name == name]
    with pytest.raises(NotConforming) as caught:
        asyncio.run(check())
    return str(caught.value)


def passed(checks: list[PluginCheck]) -> None:
    for check in checks:
        asyncio.run(check())


# -------------------------------------------------------------------------------------------------- harnesses


class Asks:
    """A harness as it should be: asks the model once in each turn. Subclasses are not."""

    name = "asks"
    version = "1"
    isolated_attempts = True
    needs_model = True
    needs_sandbox = False
    options: type[BaseModel] = Nothing

    def __init__(self, options: Any) -> None:
        self.session: type[AskingSession] = getattr(self, "Session", AskingSession)

    async def start(self, ctx: Any) -> Any:
        return self.session(ctx)


class AskingSession:
    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.trajectory = Trajectory(session=ctx.attempt, agent="asks", version="1")

    async def send(self, message: Any) -> Any:
        return Turn(await self.answer(message.text))

    async def answer(self, text: str) -> str:
        self.trajectory.say("user", text)
        completion = await ask(self.ctx, [ChatMessage("user", text)], trajectory=self.trajectory)
        self.trajectory.complete(completion)
        return completion.text

    async def collect(self) -> Any:
        return Collected(trajectory=self.trajectory.value())

    async def close(self) -> None:
        pass


class Unversioned(Asks):
    version: Any = 1


class TakesAnything(Asks):
    options = Anything


class NoSession(Asks):
    async def start(self, ctx: Any) -> Any:
        return object()


class AnswersBytes(Asks):
    class Session(AskingSession):
        async def send(self, message: Any) -> Any:
            return Turn(b"42")  # type: ignore[arg-type]


class OneTurnOnly(Asks):
    class Session(AskingSession):
        async def send(self, message: Any) -> Any:
            if self.trajectory.value() is not None:
                raise RuntimeError("I am done")
            return await super().send(message)


class ForgetsUsage(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            return (await self.ctx.model.complete([ChatMessage("user", text)])).text


class TakesUnknownForFree(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            completion = await self.ctx.model.complete([ChatMessage("user", text)])
            self.ctx.usage(completion.usage or Usage())
            return completion.text


class HidesFailures(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            try:
                return await super().answer(text)
            except Fault:
                return "I could not"


class RenamesFailures(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            try:
                return await super().answer(text)
            except Fault as fault:
                raise ValueError("no luck") from fault


class HoldsOn(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            try:
                return await super().answer(text)
            except asyncio.CancelledError:
                return "wait for me"


class CollectsAnswersOnly(Asks):
    class Session(AskingSession):
        said = None

        async def answer(self, text: str) -> str:
            self.said = await super().answer(text)
            return self.said

        async def collect(self) -> Any:
            return Collected(files={"answer.txt": self.said.encode()})  # type: ignore[attr-defined]


class OwnFormat(Asks):
    class Session(AskingSession):
        async def collect(self) -> Any:
            return Collected(trajectory=[{"role": "user"}])


class OneConversation(Asks):
    class Session(AskingSession):
        told: list[str] = []

        async def answer(self, text: str) -> str:
            self.told.append(text)
            return await super().answer("\n".join(self.told))


class WithoutDeclaring(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            await self.ctx.sandbox.exec("true")
            return "42"


class ThroughAShell(Asks):
    needs_model, needs_sandbox = False, True

    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            return (await self.ctx.sandbox.exec(f"echo '{text}'")).out


class TellsTheModel(Asks):
    class Session(AskingSession):
        async def answer(self, text: str) -> str:
            return await super().answer(f"{text} Is it {self.ctx.task.reference.answer}?")


class LeavesATask(Asks):
    class Session(AskingSession):
        async def close(self) -> None:
            self.left = asyncio.get_running_loop().create_task(asyncio.sleep(3600), name="ticker")


started: list[subprocess.Popen[bytes]] = []


class LeavesAProcess(Asks):
    class Session(AskingSession):
        async def close(self) -> None:
            started.append(subprocess.Popen(["sleep", "300"]))


@pytest.fixture(autouse=True)
def leftovers() -> Iterator[None]:
    yield
    while started:
        with started.pop() as process:
            process.kill()


HARNESSES = [
    (Unversioned, "declares_what_it_is", "`version` of asks must be a text that is not empty, not 1"),
    (TakesAnything, "refuses_parameters_that_there_are_not", "takes a parameter that there is not"),
    (NoSession, "a_turn_is_made_and_collected", "it has no send, collect, close"),
    (AnswersBytes, "a_turn_is_made_and_collected", "the answer of `send` must be a text or None, not b'42'"),
    (OneTurnOnly, "a_further_turn_is_made", "takes one turn) raised RuntimeError: I am done"),
    (ForgetsUsage, "usage_of_every_call_is_reported", "1 calls were made, and `ctx.usage` was told of 0"),
    (TakesUnknownForFree, "a_call_without_usage_is_counted", "no usage, and `ctx.usage` was told of 0 calls"),
    (HidesFailures, "a_failure_of_the_model_is_said", "`send` returned as if the agent had done it"),
    (RenamesFailures, "a_failure_of_the_model_is_said", "raised ValueError: no luck in its place"),
    (HoldsOn, "a_turn_is_cut_off_in_a_call_of_the_model", "returned all the same: let CancelledError pass"),
    (CollectsAnswersOnly, "a_session_without_a_turn_is_collected_and_closed", "a session without a turn raised"),
    (CollectsAnswersOnly, "a_failure_of_the_model_is_said", "`collect` after a turn that failed raised"),
    (CollectsAnswersOnly, "a_turn_is_cut_off_in_a_call_of_the_model", "`collect` after a turn that was cut off in"),
    (OwnFormat, "a_turn_is_made_and_collected", "the trajectory is no ATIF: the trajectory is no object"),
    (OneConversation, "attempts_do_not_mix", "what was sent to one attempt turned up in another"),
    (WithoutDeclaring, "a_turn_is_made_and_collected", "the harness should declare `needs_sandbox`"),
    (ThroughAShell, "prompts_are_text_and_nothing_else", "was read by a shell, which ran what it says"),
    (TellsTheModel, "the_solution_is_not_shown_to_the_model", "the model was shown the solution of the task"),
    (LeavesATask, "a_turn_is_made_and_collected", "left running: the asyncio task ticker"),
    (LeavesAProcess, "a_turn_is_made_and_collected", "`sleep 300`"),
]  # fmt: skip


def test_11_the_harness_that_the_broken_ones_are_made_of_conforms() -> None:
    passed(check_harness(Asks))


@pytest.mark.parametrize(("broken", "check", "message"), HARNESSES)
def test_11_the_suite_of_harnesses_finds_faults(broken: Any, check: str, message: str) -> None:
    assert message in said_by(check_harness(broken), check)


# ------------------------------------------------------------------------------------------------- benchmarks


OK = Task("one", Component("text", {"expected": "ok"}), "Say ok.", reference=Reference("ok"))
numbers = itertools.count()


class Two:
    """A benchmark as it should be."""

    name = "two"
    version = "1"
    isolated_attempts = True
    grading = GradingMode.NONE
    gradings = (GradingMode.NONE,)
    options: type[BaseModel] = Nothing
    changes: dict[str, Any] = {}
    """What of the first task is not as it should be."""

    def __init__(self, options: Any) -> None:
        pass

    async def tasks(self) -> Any:
        return [replace(OK, **self.changes), replace(OK, id="two")]

    async def setup(self, ctx: Any) -> None:
        await ctx.sandbox.write("given.txt", "1")


class SameIds(Two):
    changes = {"id": "two"}


class NoTasks(Two):
    async def tasks(self) -> Any:
        return []


class Shuffles(Two):
    async def tasks(self) -> Any:
        return [replace(OK, id=f"t{next(numbers)}")]


class NewVersions(Two):
    def __init__(self, options: Any) -> None:
        self.version = f"v{next(numbers)}"


class NoJson(Two):
    changes = {"grader": Component("text", {"expected": "ok", "more": {1, 2}})}


class TextFiles(Two):
    changes = {"files": {"a.txt": "text"}}


class NoSuchGrader(Two):
    changes = {"grader": Component("txet")}


class WrongParameters(Two):
    changes = {"grader": Component("text", {"expect": "ok"})}


class WrongReference(Two):
    changes = {"reference": Reference("no")}


class ForFree(Two):
    changes = {"grader": Component("command", {"command": "true"}), "reference": None}
    grading = GradingMode.FRESH
    gradings = (GradingMode.FRESH,)


class CannotBeGraded(Two):
    changes = {"grader": Component("checks"), "reference": None}


class SetsUpOnce(Two):
    async def setup(self, ctx: Any) -> None:
        assert (await ctx.sandbox.exec("mkdir given")).ok, "it is there already"


class Appends(Two):
    async def setup(self, ctx: Any) -> None:
        await ctx.sandbox.exec("echo more >> given.txt")


class GradedElsewhere(Two):
    gradings = (GradingMode.FRESH,)


BENCHMARKS = [
    (SameIds, "ids_are_unique", "has two tasks with the id `two`, at positions 1 and 2"),
    (NoTasks, "ids_are_unique", "benchmark `two` has no tasks"),
    (Shuffles, "tasks_and_version_stay_the_same", "ids of the tasks, asked a second time"),
    (NewVersions, "declares_what_it_is", "`version` of two, made a second time"),
    (GradedElsewhere, "declares_what_it_is", "its `grading` (none) is not among its `gradings`"),
    (NoJson, "tasks_are_plain_data", "making the identity of task `one` raised TypeError"),
    (TextFiles, "tasks_are_plain_data", "`files` of task `one` is {'a.txt': 'text'}"),
    (NoSuchGrader, "graders_take_their_parameters", "unknown grader `txet`; did you mean `text`?"),
    (WrongParameters, "graders_take_their_parameters", "does not take the parameters of task `one`"),
    (WrongReference, "references_pass", "by its own reference: answer: expected 'ok', got 'no'"),
    (ForFree, "nothing_passes_for_free", "task `one` passes with nothing done and no answer given"),
    (CannotBeGraded, "nothing_passes_for_free", "task `one` cannot be graded where nothing was done (errored)"),
    (SetsUpOnce, "setting_up_twice_changes_nothing", "a second time raised AssertionError: it is there already"),
    (Appends, "setting_up_twice_changes_nothing", "files after `setup` of task `one` a second time"),
]  # fmt: skip


def test_11_the_benchmark_that_the_broken_ones_are_made_of_conforms() -> None:
    passed(check_benchmark(Two))


@pytest.mark.parametrize(("broken", "check", "message"), BENCHMARKS)
def test_11_the_suite_of_benchmarks_finds_faults(broken: Any, check: str, message: str) -> None:
    assert message in said_by(check_benchmark(broken), check)


# ---------------------------------------------------------------------------------------------------- graders


class Says:
    """A grader as it should be: solved if the answer is 42."""

    name = "says"
    version = "1"
    options: type[BaseModel] = Nothing
    reward_files: tuple[str, ...] = ()

    def __init__(self, options: Any) -> None:
        pass

    async def grade(self, ctx: Any) -> Any:
        return self.of(ctx.answer)

    def of(self, answer: Any) -> Any:
        solved = answer == "42"
        return Grade(solved, float(solved), checks=(Check("answer", solved),))


class NeedsAnAnswer(Says):
    def of(self, answer: Any) -> Any:
        return super().of(answer.strip())


class NeedsText(Says):
    def of(self, answer: Any) -> Any:
        return super().of(answer and answer.encode().decode())


class ThroughItsShell(Says):
    async def grade(self, ctx: Any) -> Any:
        await ctx.sandbox.exec(f"echo '{(ctx.answer or '')[:50]}'")
        return self.of(ctx.answer)


class SaysYesOrNo(Says):
    def of(self, answer: Any) -> Any:
        return answer == "42"


class CountsUp(Says):
    count = 0

    def of(self, answer: Any) -> Any:
        self.count += 1
        return replace(super().of(answer), sub_scores={"count": float(self.count)})


class Generous(Says):
    def of(self, answer: Any) -> Any:
        return Grade(answer is None or answer.startswith("4"), 1.0)


class Remembers(Says):
    async def grade(self, ctx: Any) -> Any:
        self.answer = ctx.answer
        await asyncio.sleep(0)
        return self.of(self.answer)


class Scribbles(Says):
    async def grade(self, ctx: Any) -> Any:
        ctx.task.grader.params["seen"] = True
        return self.of(ctx.answer)


class Trusts(Says):
    """Looks for a file that its own command writes, and does not declare it."""

    async def grade(self, ctx: Any) -> Any:
        if ctx.answer == "42":
            await ctx.sandbox.write("out/reward.txt", "1\n")
        try:
            solved = (await ctx.sandbox.read("out/reward.txt")).strip() == b"1"
        except FileNotFoundError:
            solved = False
        return Grade(solved, float(solved))


class Declares(Trusts):
    reward_files = ("./out/reward.txt",)


class Judged(Says):
    needs_judge = True

    async def grade(self, ctx: Any) -> Any:
        said = (await ctx.judge.complete([ChatMessage("user", f"Is it 42? {ctx.answer!r:.100}")])).text
        if said not in ("yes", "no"):
            raise Fault("grader.judge_failed", "no verdict")
        return Grade(said == "yes", float(said == "yes"))


class Blames(Judged):
    async def grade(self, ctx: Any) -> Any:
        try:
            return await super().grade(ctx)
        except Fault:
            return Grade(False, 0.0)


class BadTuple(Says):
    reward_files: Any = ["out/reward.txt"]


GRADERS = [
    (NeedsAnAnswer, "an_odd_answer_is_graded-none", "(a wrong answer is a grade, never an exception) raised"),
    (NeedsText, "an_odd_answer_is_graded-lone-surrogates", "raised UnicodeEncodeError"),
    (ThroughItsShell, "an_odd_answer_is_graded-one-that-ends-a-single-quote", "was read by a shell"),
    (SaysYesOrNo, "the_right_one_is_solved", "is none: the grader returned bool, not a Grade"),
    (CountsUp, "grades_stay_the_same", "a second time: expected Grade"),
    (Generous, "the_wrong_one_is_not_solved", "what is wrong is solved"),
    (Generous, "nothing_is_not_solved", "no answer, and nothing done, is solved"),
    (Remembers, "grades_stay_the_same", "while the same grader grades others"),
    (Scribbles, "leaves_alone_what_it_is_given", "`grade` changed the task"),
    (Trusts, "planted_rewards_are_not_taken", "which the grader reads: name it in `reward_files`"),
    (BadTuple, "declares_what_it_is", "its `reward_files` must be a tuple of paths"),
    (Blames, "a_judge_that_fails_gives_no_grade", "(model.server), and `grade` returned a grade (not solved)"),
    (Blames, "a_judge_that_says_nothing_of_use_gives_no_grade", "the judge said '', and `grade` returned a grade"),
]  # fmt: skip


def suite(grader: Any) -> list[PluginCheck]:
    def judge() -> MockModel:
        return MockModel(ModelSpec("mock/judge"), lambda said: "yes" if said[-1].text.endswith("'42'") else "no")

    return check_grader(grader, right="42", wrong="41", judge=judge)


@pytest.mark.parametrize("grader", [Says, Declares, Judged])
def test_11_the_graders_that_the_broken_ones_are_made_of_conform(grader: Any) -> None:
    passed(suite(grader))


@pytest.mark.parametrize(("broken", "check", "message"), GRADERS)
def test_11_the_suite_of_graders_finds_faults(broken: Any, check: str, message: str) -> None:
    assert message in said_by(suite(broken), check)


def test_a_script_of_an_example_that_fails_is_said() -> None:
    checks = check_grader(Says, right=Work("42", script="echo no such thing >&2; exit 3"), wrong="41")
    assert "the script of an example failed: no such thing" in said_by(checks, "the_right_one_is_solved")


def test_parameters_that_are_wrong_are_said() -> None:
    checks = check_grader(Says, {"expected": "42"}, right="42", wrong="41")
    assert "does not take the parameters given" in said_by(checks, "declares_what_it_is")
