"""Tasks of several steps in the Harbor format: each field is done or refused, and rewards are folded as it says."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from proctor.benchmarks.harbor import Harbor, HarborOptions
from proctor.errors import Fault, UsageError
from proctor.graders.steps import StepsGrader
from proctor.harnesses.oracle import OracleHarness, OracleOptions
from proctor.model.attempt import Grade, Usage
from proctor.model.spec import Component, Reference, Task
from proctor.plugins.api import Collected, Message, Turn
from proctor.plugins.atif import Trajectory
from proctor.plugins.atif_joined import is_joinable, joined
from proctor.plugins.steps import RECORD_NAME, StepReward, StepsOptions, folded, read_record, record_of
from proctor.plugins.turn_limits import BEAT_SECONDS, TurnTooLongError, between_turns, in_time
from proctor.providers.bwrap.provider import BwrapProvider
from support.atif_rules import checked
from support.bwrap import needs_bwrap

REWARD = "/logs/verifier/reward.txt"


def write(folder: Path, toml: str, **files: str) -> Path:
    """Write a task of two steps; `__` in a name stands for a slash."""
    usual = {f"steps__{name}__instruction.md": f"Do {name}.\n" for name in ("a", "b")}
    usual |= {"tests__test.sh": f"#!/bin/sh\necho 1 > {REWARD}\n", "task.toml": toml}
    for name, text in {**usual, **files}.items():
        file = folder / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


TWO = "[[steps]]\nname = 'a'\n[[steps]]\nname = 'b'\n"


def loaded(path: Path, **options: Any) -> Harbor:
    return Harbor(HarborOptions(path=str(path), **options))


def only(path: Path, **options: Any) -> Task:
    [task] = asyncio.run(loaded(path, **options).tasks())
    return task


# ------------------------------------------------------------------------------------------------ what is read


def test_what_a_step_leaves_out_is_as_the_task_has_it(tmp_path: Path) -> None:
    toml = (
        "[agent]\ntimeout_sec = 10\n[verifier]\nuser = 'tester'\nenv = {A = '1', B = '1'}\n"
        "[[steps]]\nname = 'a'\nmin_reward = 0.5\n[steps.verifier]\ntimeout_sec = 7\nenv = {B = '2'}\n"
        "[[steps]]\nname = 'b'\nmin_reward = {safety = 1}\n[steps.agent]\ntimeout_sec = 20\n"
        "[steps.verifier]\nuser = 'other'\n"
    )
    files = {"steps__b__tests__test.sh": "exit 0\n", "steps__b__tests__data": "1\n"}
    task = only(write(tmp_path / "one", toml, **files), reward="score", solved_at=0.7)
    options = StepsOptions.model_validate(task.grader.params)
    first, second = options.steps
    assert (options.strategy, options.reward, options.solved_at) == ("mean", "score", 0.7)
    assert (first.min_reward, second.min_reward) == (0.5, {"safety": 1.0})
    assert (first.env, second.env) == ({"A": "1", "B": "2"}, {"A": "1", "B": "1"})
    assert (first.user, second.user) == ("tester", "other")
    assert (first.timeout_seconds, second.timeout_seconds) == (7.0, 600.0)
    assert (first.folders, second.folders) == ({"/tests": "tests"}, {"/tests": ("tests", "steps/b/tests")})
    assert set(task.hidden) == {"tests", "steps/b/tests"}
    assert task.grade_timeout_seconds == 660.0
    assert task.agent_timeout_seconds is not None
    assert task.agent_timeout_seconds > 10 + 20 + 7 + 600
    assert task.prompt == "# Step 1: a\n\nDo a.\n\n\n# Step 2: b\n\nDo b.\n"


def test_each_step_has_its_own_solution_or_that_of_the_task(tmp_path: Path) -> None:
    files = {"solution__solve.sh": "exit 0\n", "steps__b__solution__solve.sh": "exit 0\n"}
    reference = only(write(tmp_path / "one", TWO, **files)).reference
    assert reference is not None
    places = {name: Path(one.folders["/solution"].path) for name, one in reference.steps.items()}
    assert places == {"a": tmp_path / "one/solution", "b": tmp_path / "one/steps/b/solution"}
    assert only(write(tmp_path / "two", TWO)).reference is None


def test_P2_what_a_step_begins_with_counts(tmp_path: Path) -> None:
    files = {"steps__b__workdir__data": "1\n"}
    before = only(write(tmp_path / "1/one", TWO, **files)).code
    assert only(write(tmp_path / "2/one", TWO, **files)).code == before
    changed = only(write(tmp_path / "3/one", TWO, steps__b__workdir__data="2\n")).code
    assert [name for name in before if changed[name] != before[name]] == ["step b"]
    slower = only(write(tmp_path / "4/one", f"[agent]\ntimeout_sec = 5\n{TWO}", **files)).code
    assert all(slower[name] != before[name] for name in ("step a", "step b"))
    assert only(tmp_path / "1/one", resume=True).code == {**before, "resume": "true"}
    ends = only(tmp_path / "1/one", end_processes=True).grader.params
    assert all(step["end_processes"] for step in ends["steps"])


@pytest.mark.parametrize(
    ("toml", "files", "says"),
    [
        (
            "[verifier]\nenvironment_mode = 'separate'\n",
            {},
            "`verifier.environment_mode` is not supported with `steps`",
        ),
        ("[agent]\nnetwork_mode = 'no-network'\n", {}, "`agent.network_mode` is not supported with `steps`"),
        ("[verifier]\nnetwork_mode = 'no-network'\n", {}, "`verifier.network_mode` is not supported with `steps`"),
        ("[[steps]]\nname = 'c'\n[steps.agent]\nuser = 'x'\n", {}, "`steps.c.agent.user` is not supported"),
        ("[[steps]]\nname = 'c'\n[steps.agent]\nnetwork_mode = 'public'\n", {}, "`steps.c.agent.network_mode`"),
        ("[[steps]]\nname = 'c'\n[steps.verifier]\nnetwork_mode = 'public'\n", {}, "`steps.c.verifier.network_mode`"),
        ("[[steps]]\nname = 'c'\n[steps.verifier.environment]\n", {}, "`steps.c.verifier.environment_mode`"),
        ("[[steps]]\nname = 'c'\n[[steps.verifier.collect]]\ncommand = 'x'\n", {}, "`steps.c.verifier.collect`"),
        ("[[steps]]\nname = 'c'\nartifacts = [{source = 'x', exclude = ['y']}]\n", {}, "`steps.c.artifacts.0.exclude`"),
        ("[[steps]]\nname = 'c'\nreward = 1\n", {}, "`steps.0.reward`: unknown field"),
        ("[[steps]]\nname = 'c'\nmin_reward = nan\n", {}, "`steps.0.min_reward"),
        ("[[steps]]\nname = '../c'\n", {}, "`steps.0.name`"),
        ("[[steps]]\nname = 'A'\n", {}, "`steps`: two steps have the same name"),
        ("[[steps]]\nname = 'c'\n", {}, "there is no steps/c/instruction.md"),
        ("multi_step_reward_strategy = 'max'\n", {}, "`multi_step_reward_strategy`"),
        ("", {"steps__a__trajectory.json": "{}"}, "file `steps/a/trajectory.json` is not supported"),
        ("", {"steps__a__tests__.harborignore": "*"}, "file `steps/a/tests/.harborignore` is not supported"),
        ("", {"steps__a__solution__readme": ""}, "there is a steps/a/solution/ without solve.sh"),
        ("", {"steps__a__solution__solve.sh": ""}, "step `b` has no solution, others have one"),
    ],
)
def test_what_is_not_done_or_wrong_is_an_error_that_names_step_and_field(
    tmp_path: Path, toml: str, files: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        loaded(write(tmp_path / "one", toml + TWO, **files))
    assert says in caught.value.message


def test_a_step_without_any_tests_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", TWO, **{"steps__b__tests__test.sh": "exit 0\n"})
    (folder / "tests/test.sh").unlink()
    with pytest.raises(UsageError, match=r"there is neither steps/a/tests/test\.sh nor tests/test\.sh"):
        loaded(folder)


@pytest.mark.parametrize(("resume", "turns"), [(False, 1), (True, 2)])
def test_how_many_turns_a_session_takes_is_known_beforehand(tmp_path: Path, *, resume: bool, turns: int) -> None:
    assert loaded(write(tmp_path / "one", TWO), resume=resume).turns == turns


# --------------------------------------------------------------------------------------------- what is folded


def earned(*scores: float, enough: bool = True) -> list[StepReward]:
    return [StepReward(f"s{number}", score, {}, enough) for number, score in enumerate(scores)]


@pytest.mark.parametrize(
    ("strategy", "scores", "score"),
    [("mean", (1.0, 0.5), 0.75), ("final", (1.0, 0.5), 0.5), ("mean", (0.7, 0.7, 0.7), 0.7), ("mean", (0.0,), 0.0)],
)
def test_the_strategy_makes_one_score_of_those_of_the_steps(
    strategy: str, scores: tuple[float, ...], score: float
) -> None:
    assert folded(strategy, earned(*scores)).score == score


def test_by_the_mean_a_number_that_a_step_does_not_have_is_0() -> None:
    steps = [StepReward("a", 1.0, {"x": 3.0}, enough=True), StepReward("b", 0.0, {"y": 1e308}, enough=True)]
    assert folded("mean", steps).others == {"x": 1.5, "y": 5e307}
    assert folded("final", steps).others == {"y": 1e308}


def test_the_record_of_what_was_earned_is_read_as_it_was_written() -> None:
    steps = [StepReward("ä/b", 0.1, {"x": -1e300}, enough=False)]
    assert read_record(record_of(steps)) == steps
    with pytest.raises(Fault, match=r"there is no steps\.json"):
        read_record(None)


@pytest.mark.parametrize(
    ("done", "solved", "score"),
    [
        (earned(1.0, 1.0), True, 1.0),
        (earned(1.0, 0.5), False, 0.75),
        (earned(1.0, enough=False), False, 1.0),
        ([*earned(1.0), StepReward("b", 1.0, {}, enough=False)], False, 1.0),
    ],
)
def test_a_task_is_solved_where_all_steps_were_reached_and_earned_enough(
    done: list[StepReward], *, solved: bool, score: float
) -> None:
    step = {"command": "exit 1", "reward_files": ["r"]}
    grader = StepsGrader(StepsOptions.model_validate({"steps": [{"name": "a", **step}, {"name": "b", **step}]}))

    context: Any = Context(Task("t", Component("steps")), None)
    context.files = {RECORD_NAME: record_of(done)}
    grade: Grade = asyncio.run(grader.grade(context))
    assert (grade.solved, grade.score) == (solved, score)
    assert len(grade.checks) == 3


# ------------------------------------------------------------------------------------------------- what is done


class Clocked:
    """A context whose clock goes on by itself, unless it waits."""

    time_factor = 2.0

    def __init__(self) -> None:
        self.waiting = False
        self._seconds = 0.0

    def sign_of_life(self) -> None:
        pass

    @property
    def executed_seconds(self) -> float:
        self._seconds += 0.0 if self.waiting else 0.01
        return self._seconds


def test_a_turn_that_takes_too_long_is_ended_and_what_it_waits_does_not_count() -> None:
    async def waits(ctx: Clocked) -> str:
        ctx.waiting = True
        await asyncio.sleep(0.1)  # five times its limit
        return "done"

    async def hides_its_end() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError as error:
            raise ValueError from error

    async def fails() -> None:
        raise TimeoutError("its own")

    ctx = Clocked()
    assert asyncio.run(in_time(ctx, 0.01, lambda: waits(ctx))) == "done"
    assert asyncio.run(in_time(ctx, None, lambda: waits(ctx))) == "done"
    with pytest.raises(TurnTooLongError):
        asyncio.run(in_time(Clocked(), 0.01, hides_its_end))
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(in_time(Clocked(), 1000.0, fails))


def test_05_what_is_done_between_turns_is_not_the_agents_idleness() -> None:
    signs: list[float] = []

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        heard = asyncio.Event()

        class Listening:
            def sign_of_life(self) -> None:
                signs.append(loop.time())
                if len(signs) == 3:
                    heard.set()

        context: Any = Listening()
        with between_turns(context):
            await heard.wait()
        assert len(signs) == 3
        await asyncio.sleep(BEAT_SECONDS * 2)

    asyncio.run(scenario())
    assert len(signs) == 3, "none after the end"


class Worker:
    """A session that writes what it is told and how many turns it made to a file."""

    def __init__(self, sandbox: Any, number: int) -> None:
        self._sandbox = sandbox
        self._number = number
        self.turns = 0

    async def send(self, message: Message) -> Turn:
        self.turns += 1
        seen = (await self._sandbox.exec("ls -A /tests /logs/verifier; cat said 2>/dev/null")).out.split()
        await self._sandbox.write("said", f"{message.step}: session {self._number}, turn {self.turns}")
        return Turn(" ".join(seen))

    async def collect(self) -> Collected:
        told = Trajectory(session=f"session {self._number}", agent="worker", version="1")
        told.say("user", "Do it.")
        told.act("done", usage=Usage(1, 10, 2, cost_usd=0.5))
        return Collected(told.value(), {"log": f"{self.turns}".encode(), RECORD_NAME: b"of the harness"})

    async def close(self) -> None:
        self.turns = -1


class Context:
    """A try, as a benchmark and a grader see it."""

    time_factor, executed_seconds = 1.0, 0.0

    def __init__(self, task: Task, sandbox: Any) -> None:
        self.task, self.sandbox = task, sandbox
        self.log = logging.getLogger("test")
        self.files: Any = {}

    def progress(self, text: str) -> None:
        pass

    def sign_of_life(self) -> None:
        pass

    def issue(self, code: str, message: str) -> None:
        raise AssertionError(f"{code}: {message}")


@needs_bwrap
@pytest.mark.parametrize(
    ("resume", "said"),
    [
        (False, ["a: session 1, turn 1", "b: session 2, turn 1"]),
        (True, ["a: session 1, turn 1", "b: session 1, turn 2"]),
    ],
)
def test_steps_are_new_sessions_or_turns_of_one_and_see_nothing_of_the_tests(
    tmp_path: Path, *, resume: bool, said: list[str]
) -> None:
    test = f"#!/bin/sh\ncp said /logs/artifacts/$(cut -c1 said)\necho 1 > {REWARD}\n"
    toml = f"{TWO}artifacts = ['said']\n"
    benchmark = loaded(write(tmp_path / "one", toml, **{"tests__test.sh": test}), resume=resume)
    [task] = asyncio.run(benchmark.tasks())
    workers: list[Worker] = []

    async def scenario() -> tuple[str | None, Collected, Grade]:
        assert task.environment is not None
        sandbox = await BwrapProvider(tmp_path / "base").open(task.environment, {})
        context: Any = Context(task, sandbox)

        async def start() -> Any:
            workers.append(Worker(sandbox, len(workers) + 1))
            return workers[-1]

        try:
            await benchmark.setup(context)
            session = await benchmark.drive(context, start)
            turn = await session.send(Message("unused"))
            collected = await session.collect()
            context.files = collected.files
            options = StepsOptions.model_validate(task.grader.params)
            grade = await StepsGrader(options).grade(context)
            assert [(await sandbox.read(f"/logs/artifacts/{name}")).decode() for name in "ab"] == said
            await session.close()
            return turn.answer, collected, grade
        finally:
            await sandbox.dispose()

    answer, collected, grade = asyncio.run(scenario())
    assert answer == f"/logs/verifier: /tests: {said[0]}"
    assert (grade.solved, grade.score) == (True, 1.0)
    steps = [(one["step_id"], one["source"], one["message"]) for one in checked(collected.trajectory)["steps"]]
    one_turn = [(1, "user", "Do it."), (2, "agent", "done")]
    begins = [(number, "system", f"Step `{name}` of the task begins.") for number, name in ((1, "a"), (4, "b"))]
    two = [
        begins[0],
        (2, *one_turn[0][1:]),
        (3, *one_turn[1][1:]),
        begins[1],
        (5, *one_turn[0][1:]),
        (6, *one_turn[1][1:]),
    ]
    assert steps == (one_turn if resume else two)
    whole: Any = collected.trajectory
    assert whole["final_metrics"]["total_cost_usd"] == (0.5 if resume else 1.0)
    assert whole["session_id"] == "session 1"
    assert [one["name"] for one in json.loads(collected.files[RECORD_NAME])["steps"]] == ["a"]
    own = {"log": b"2"} if resume else {"steps/a/log": b"1", "steps/b/log": b"1"}
    assert {name: content for name, content in collected.files.items() if name.endswith("log")} == own
    assert collected.files["steps/b/artifacts/said"].decode() == said[1]
    assert {worker.turns for worker in workers} == {-1}, "every session was closed"


@needs_bwrap
def test_05_a_step_in_which_the_time_of_the_agent_ends_is_graded_and_those_after_it_are_not_reached(
    tmp_path: Path,
) -> None:
    toml = f"{TWO}[[steps]]\nname = 'c'\n"
    test = f"#!/bin/sh\ngrep -q '^b' said && echo 0.5 > {REWARD} || echo 1 > {REWARD}\n"
    benchmark = loaded(write(tmp_path / "one", toml, **{"tests__test.sh": test, "steps__c__instruction.md": "Do c.\n"}))
    [task] = asyncio.run(benchmark.tasks())

    async def scenario() -> Grade:
        assert task.environment is not None
        sandbox = await BwrapProvider(tmp_path / "base").open(task.environment, {})
        context: Any = Context(task, sandbox)
        stuck = asyncio.Event()

        class Stuck(Worker):
            async def send(self, message: Message) -> Turn:
                turn = await super().send(message)
                if message.step == "b":
                    stuck.set()
                    await asyncio.Event().wait()
                return turn

        async def start() -> Any:
            return Stuck(sandbox, 1)

        try:
            await benchmark.setup(context)
            session = await benchmark.drive(context, start)
            sent = asyncio.create_task(session.send(Message("unused")))
            await stuck.wait()
            sent.cancel()
            await asyncio.wait({sent})
            context.files = (await session.collect()).files
            await session.close()
            return await StepsGrader(StepsOptions.model_validate(task.grader.params)).grade(context)
        finally:
            await sandbox.dispose()

    grade = asyncio.run(scenario())
    assert (grade.solved, grade.score) == (False, 0.75)
    assert [check.actual for check in grade.checks] == ["1", "0.5", "not reached", "0.75, the mean of 2 steps"]


def test_one_trajectory_of_several_keeps_what_is_known_and_leaves_out_what_is_not() -> None:
    cut = {
        "schema_version": "ATIF-v1.6", "session_id": "x", "agent": {"name": "n", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": "m"}],
        "notes": "2 steps after step 1 are left out; total_steps counts them",
        "final_metrics": {"total_steps": 3, "total_prompt_tokens": 5},
    }  # fmt: skip
    unknown = {**cut, "notes": None, "final_metrics": {"total_steps": 1}}
    whole = checked(joined([("a", cut), ("b", cut)]))
    assert whole["final_metrics"] == {"total_steps": 8, "total_prompt_tokens": 10}
    assert "step `b` of the task, from step 3 on: 2 steps after" in whole["notes"]
    assert checked(joined([("a", cut), ("b", unknown)]))["final_metrics"] == {"total_steps": 6}
    assert joined([]) is None
    assert [is_joinable(one) for one in (cut, None, [], {"steps": [1]}, {})] == [True, False, False, False, False]


def test_oracle_says_which_step_has_no_solution() -> None:
    task = Task("t", Component("command"), reference=Reference(steps={"a": Reference(answer="1")}))
    context: Any = Context(task, None)

    async def scenario() -> str | None:
        session = await OracleHarness(OracleOptions()).start(context)
        with pytest.raises(Fault, match="step `b` of the task has no reference solution"):
            await session.send(Message("Do it.", step="b"))
        return (await session.send(Message("Do it.", step="a"))).answer

    assert asyncio.run(scenario()) == "1"
