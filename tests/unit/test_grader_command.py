"""Grader `command`: status or reward file decides, and nothing that is no verdict becomes one (cases 130, 137, 177)."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from proctor.data.build_context import folder_digest
from proctor.data.env_templates import resolved
from proctor.errors import Fault
from proctor.graders.command import CommandGrader, CommandOptions
from proctor.harnesses.oracle import OracleHarness, OracleOptions
from proctor.model.attempt import Grade, InvalidGrade
from proctor.model.environment import EnvironmentSpec
from proctor.model.spec import Component, Folder, Reference, Task
from proctor.plugins.api import LeftOut, Message
from proctor.plugins.rewards import Reward, read_reward, reward_in, rewards_of
from proctor.providers.local import LocalProvider, LocalSandbox


class Context:
    """A context of grading, and of a harness, over a sandbox."""

    def __init__(self, task: Task, sandbox: Any) -> None:
        self.task = task
        self.sandbox = sandbox
        self.log = logging.getLogger("test")
        self.issues: list[tuple[str, str]] = []

    def issue(self, code: str, message: str) -> None:
        self.issues.append((code, message))


def folder_of(path: Path) -> Folder:
    return Folder(str(path), folder_digest(path))


def reward_of(path: str, content: bytes, name: str = "reward") -> Reward:
    return reward_in(path, rewards_of(path, content), name)


def graded(tmp_path: Path, before: str = "", *, hidden: dict[str, Folder] | None = None, **options: Any) -> Grade:
    """Grade in a sandbox in which `before` was run as the agent's work."""

    async def scenario() -> Grade:
        sandbox = await LocalProvider(tmp_path / "base").open(EnvironmentSpec(), {})
        try:
            if before:
                await sandbox.exec(before)
            grader = CommandGrader(CommandOptions(**options))
            for path in grader.reward_files:  # as the runner does
                await sandbox.exec(["rm", "-rf", path])
            context: Any = Context(Task(id="t", grader=Component("command"), hidden=hidden or {}), sandbox)
            return await grader.grade(context)
        finally:
            await sandbox.dispose()

    return asyncio.run(scenario())


# --------------------------------------------------------------------------------------------------- exit status


@pytest.mark.parametrize(("command", "solved"), [("true", True), ("exit 3", False)])
def test_without_a_reward_file_the_status_decides(tmp_path: Path, command: str, solved: bool) -> None:
    grade = graded(tmp_path, command=command)
    assert (grade.solved, grade.score) == (solved, 1.0 if solved else 0.0)
    [check] = grade.checks
    assert check.actual == ("status 0" if solved else "status 3")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("no-such-program-anywhere", "status 127"),
        ("echo hello > f; ./f", "status 126"),
        ("kill -9 $$", "signal 9"),
    ],
)
def test_a_command_that_could_not_run_to_its_end_is_no_verdict(tmp_path: Path, command: str, says: str) -> None:
    with pytest.raises(Fault, match=says) as caught:
        graded(tmp_path, command=command)
    assert caught.value.code == "grader.crashed"


def test_a_command_that_takes_too_long_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"did not end within 0\.2 s") as caught:
        graded(tmp_path, command="sleep 60", timeout_seconds=0.2)
    assert caught.value.code == "time.grade"


def test_05_the_timeout_multiplier_scales_the_limit_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Context, "time_factor", 0.001, raising=False)
    with pytest.raises(Fault, match=r"did not end within 0\.6 s"):
        graded(tmp_path, command="sleep 60")


@pytest.mark.parametrize("more", [{"end_processes": True}, {"emptied": ["{}"]}, {"folders": {"{}": "tests"}}])
@pytest.mark.parametrize("up", [False, True])
def test_nothing_is_removed_or_ended_outside_of_a_sandbox_that_is_a_directory_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], *, up: bool
) -> None:
    (tmp_path / "mine").mkdir()
    kept = tmp_path / "mine/kept"
    kept.write_text("kept\n")
    place = "../../../mine" if up else str(tmp_path / "mine")
    options = json.loads(json.dumps(more).replace("{}", place))
    asked: list[Any] = []

    async def refuse(self: Any, command: Any, **options: Any) -> None:
        asked.append(command)
        raise AssertionError("a command is run")

    monkeypatch.setattr(LocalSandbox, "exec", refuse)
    hidden = {"tests": folder_of(tmp_path / "mine")}
    with pytest.raises(Fault, match="would be done to this machine") as caught:
        graded(tmp_path, command="true", hidden=hidden, **options)
    assert caught.value.code == "grader.crashed"
    assert (asked, kept.read_text()) == ([], "kept\n")


# ------------------------------------------------------------------------------------------------- what is there


def test_files_and_hidden_folders_are_put_there_in_place_of_what_the_agent_left(tmp_path: Path) -> None:
    tests = tmp_path / "hidden"
    (tests / "deep").mkdir(parents=True)
    (tests / "deep/expected").write_text("42\n")
    (tests / "run.sh").write_text("#!/bin/sh\ncmp answer checks/deep/expected && [ ! -e checks/conftest.py ]\n")
    (tests / "run.sh").chmod(0o755)
    before = "echo 42 > answer; mkdir -p checks/deep; echo planted > checks/conftest.py; echo 1 > checks/deep/expected"
    grade = graded(
        tmp_path, f"{before}; echo exit 1 > extra.sh", command="checks/run.sh && . ./extra.sh",
        folders={"checks": "tests"}, files={"extra.sh": "echo from the grader"}, hidden={"tests": folder_of(tests)},
    )  # fmt: skip
    assert grade.solved


def test_a_hidden_folder_that_the_task_does_not_have_is_the_graders_fault(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="task t has no hidden folder `tests`") as caught:
        graded(tmp_path, command="true", folders={"checks": "tests"})
    assert caught.value.code == "grader.crashed"


def test_what_the_agent_left_and_cannot_be_removed_ends_the_grading(tmp_path: Path) -> None:
    class Stubborn:
        workdir = "/app"

        async def read(self, path: str) -> bytes:
            raise FileNotFoundError(path)

        async def exec(self, command: Any, **options: Any) -> None:
            pass

        async def download(self, source: str, target: Path, **limits: Any) -> Any:
            return LeftOut(files=2, size_bytes=10)

    (tmp_path / "tests").mkdir()
    task = Task(id="t", grader=Component("command"), hidden={"tests": folder_of(tmp_path / "tests")})
    grader = CommandGrader(CommandOptions(command="true", folders={"/tests": "tests"}))
    context: Any = Context(task, Stubborn())
    with pytest.raises(Fault, match="what the agent left in `/tests` could not be removed: 2 files"):
        asyncio.run(grader.grade(context))


def test_variables_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "from here")
    monkeypatch.delenv("SURELY_UNSET", raising=False)
    test = '[ "$A, $B, $C" = "from here, instead, \\${SOME_KEY} is not all of it" ]'
    env = {"A": "${SOME_KEY}", "B": "${SURELY_UNSET:-instead}", "C": "${SOME_KEY} is not all of it"}
    assert graded(tmp_path, command=test, env=env).solved
    with pytest.raises(Fault, match="the variable SURELY_UNSET is not set on this machine") as caught:
        graded(tmp_path, command="true", env={"A": "${SURELY_UNSET}"})
    assert caught.value.code == "grader.crashed"


@pytest.mark.parametrize(
    "options",
    [
        {}, {"command": ""}, {"command": "true", "timeout_seconds": 0}, {"command": "true", "reward_files": [""]},
        {"command": "true", "solved_at": 0}, {"command": "true", "unknown": 1},
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CommandOptions(**options)


# ---------------------------------------------------------------------------------------------------- reward files


def test_the_first_reward_file_that_is_there_decides(tmp_path: Path) -> None:
    two = ("out/reward.json", "out/reward.txt")
    both = 'echo 0 > out/reward.txt; echo \'{"reward": 1, "style": 0.5}\' > out/reward.json; exit 9'
    grade = graded(tmp_path, "echo 1 > reward.txt", command=both, reward_files=two)
    assert (grade.solved, grade.score, grade.sub_scores) == (True, 1.0, {"style": 0.5})
    assert not graded(tmp_path, command="echo 0.25 > out/reward.txt", reward_files=two).solved
    assert graded(tmp_path, command="echo 0.25 > out/reward.txt", reward_files=two, solved_at=0.25).score == 0.25


def test_what_the_agent_planted_is_gone_before_the_command_runs(tmp_path: Path) -> None:
    with pytest.raises(Fault, match=r"left no reward file \(out/reward\.txt\)") as caught:
        graded(tmp_path, "mkdir out; echo 1 > out/reward.txt", command="exit 0", reward_files=("out/reward.txt",))
    assert caught.value.code == "grader.no_reward"


class Unreadable:
    def __init__(self, error: OSError) -> None:
        self._error = error

    async def download(self, *arguments: Any, **limits: Any) -> None:
        raise self._error


def test_case_137_a_reward_file_without_permission_says_so() -> None:
    sandbox: Any = Unreadable(PermissionError(13, "Permission denied"))
    with pytest.raises(Fault, match=r"`r\.txt` cannot be read: no permission") as caught:
        asyncio.run(read_reward(sandbox, "r.txt"))
    assert caught.value.code == "grader.crashed"


@pytest.mark.parametrize(
    ("path", "content", "score", "others"),
    [
        ("r.txt", "1", 1.0, {}),
        ("r.txt", " 0.5\n", 0.5, {}),
        ("r.txt", "1e-3", 0.001, {}),
        *(("r.txt", text, 1.0, {}) for text in ("+1", "1.", "01", "\t1.0\r\n", "10e-1", "0.1E+1")),
        ("r.txt", ".5", 0.5, {}),
        ("r.txt", "-0", 0.0, {}),
        ("r.json", '{"reward": 1}', 1.0, {}),
        ("r.json", '{"accuracy": 0.5}', 0.5, {}),
        ("r.json", '{"reward": true, "cost": -3.5}', 1.0, {"cost": -3.5}),
    ],
)
def test_rewards_that_are_some(path: str, content: str, score: float, others: dict[str, float]) -> None:
    reward = reward_of(path, content.encode())
    assert (reward.score, reward.others) == (score, others)


@pytest.mark.parametrize(
    ("path", "content", "says"),
    [
        ("r.txt", "", "is empty"),
        ("r.txt", " \n", "is empty"),
        ("r.txt", "one", "holds no number: one"),
        ("r.txt", "1 1", "holds no number"),
        *(
            ("r.txt", text, "holds no number")
            for text in ("nan", "-inf", "infinity", "0_1", "1_0", "0x1", "1,0", "--1")
        ),
        *(
            ("r.txt", text, "holds no number")
            for text in ("\u0661", "\uff11", "\ufeff1", "1\u00a0", "1\x00", ".", "1e", "+")
        ),
        ("r.txt", "1e400", "is not finite: inf"),
        ("r.txt", "-0.1", "must be from 0 to 1, not -0.1"),
        ("r.json", "", "is empty"),
        ("r.json", "{", "is no JSON: {"),
        ("r.json", "1", "must hold a JSON object, not 1"),
        ("r.json", "[1]", "must hold a JSON object"),
        ("r.json", "{}", "has no `reward`, and no single number: it has nothing"),
        ("r.json", '{"a": 1, "b": 2}', "has no `reward`, and no single number: it has a, b"),
        ("r.json", '{"reward": NaN}', "`reward` is not finite"),
        ("r.json", '{"reward": 1e999}', "`reward` is not finite"),
        ("r.json", '{"reward": ' + "9" * 400 + "}", "`reward` is not finite"),
        ("r.json", '{"reward": null}', "`reward` is no number: None"),
        ("r.json", '{"reward": "1"}', "`reward` is no number: '1'"),
        ("r.json", '{"reward": 1, "x": {}}', "`x` is no number: {}"),
        ("r.json", '{"reward": {"reward": 1}}', "`reward` is no number: {'reward': 1}"),
        ("r.json", '{"reward": 0, "reward": 1}', "names `reward` twice"),
        ("r.json", '\ufeff{"reward": 1}', "is no JSON"),
        ("r.json", '{"reward": 0x1}', "is no JSON"),
        ("r.json", '{"reward": \u0661}', "is no JSON"),
        ("r.json", '{"reward": 1e400}', "`reward` is not finite"),
        ("r.json", '{"reward": 2, "x": 1}', "must be from 0 to 1, not 2"),
        ("r.json", "[" * 100_000, "is no JSON"),
    ],
)
def test_rewards_that_are_none_say_why(path: str, content: str, says: str) -> None:
    with pytest.raises(InvalidGrade) as caught:
        reward_of(path, content.encode())
    assert says in str(caught.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InvalidGrade, match="is no text"):
        reward_of("r.txt", b"\xff\xfe1")


def test_another_number_may_be_the_score() -> None:
    reward = reward_of("r.json", b'{"reward": 0, "accuracy": 0.75}', "accuracy")
    assert (reward.score, reward.others) == (0.75, {"reward": 0.0})


@given(st.sampled_from(["r.txt", "r.json"]), st.binary(max_size=60))
def test_whatever_is_in_a_reward_file_is_a_score_from_0_to_1_or_none_at_all(path: str, content: bytes) -> None:
    try:
        score = reward_of(path, content).score
    except InvalidGrade:
        return
    assert 0.0 <= score <= 1.0


# ------------------------------------------------------------------------------------------------------ the oracle


def test_oracle_puts_the_folders_of_a_solution_there_and_runs_its_command(tmp_path: Path) -> None:
    (tmp_path / "solution").mkdir()
    (tmp_path / "solution/solve.sh").write_text('echo "$NAME" > answer; cat solution/data >> answer\n')
    (tmp_path / "solution/data").write_text("data\n")
    reference = Reference(
        command="sh solution/solve.sh", folders={"solution": folder_of(tmp_path / "solution")}, env={"NAME": "ada"}
    )

    async def scenario() -> tuple[bytes, list[tuple[str, str]]]:
        sandbox = await LocalProvider(tmp_path / "base").open(EnvironmentSpec(), {})
        context: Any = Context(Task(id="t", grader=Component("command"), reference=reference), sandbox)
        try:
            session = await OracleHarness(OracleOptions()).start(context)
            await session.send(Message("Do it."))
            return await sandbox.read("answer"), context.issues
        finally:
            await sandbox.dispose()

    assert asyncio.run(scenario()) == (b"ada\ndata\n", [])


def test_templates_are_taken_as_a_whole() -> None:
    host = {"A": "1", "EMPTY": ""}
    env = {"a": "${A}", "b": "${B:-}", "c": "${B:-two words}", "d": "x${A}", "e": "${EMPTY:-unused}", "f": "$A"}
    assert resolved(env, host) == {"a": "1", "b": "", "c": "two words", "d": "x${A}", "e": "", "f": "$A"}
    with pytest.raises(LookupError, match="the variable B is not set"):
        resolved({"a": "${B}"}, host)
