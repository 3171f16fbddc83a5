"""What means success and is there before grading was planted: removed, or never handed over (spec 05 Grading modes)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from posixpath import normpath
from typing import Any

import pytest
from local_bench import Agent, LocalBench
from test_try_runner import codes

from proctor.model.attempt import Grade, GradingMode, Outcome, Verdict, verdict_of
from proctor.plugins.api import ExecResult
from proctor.providers.local import LocalProvider
from proctor.testing.fakes import FakeGrader

MODES = pytest.mark.parametrize("grading", list(GradingMode))
REWARD = "logs/reward.txt"


class Believer:
    """A grader that takes the existence of a file for success, wherever it may look for one."""

    name = "believer"
    version = "1"
    options = FakeGrader.options

    def __init__(self, *paths: str) -> None:
        self.reward_files = paths

    async def grade(self, ctx: Any) -> Grade:
        seen = {*ctx.files, *ctx.artifacts}
        for path, copy in ctx.artifacts.items():
            seen |= {f"{path}/{file.relative_to(copy)}" for file in copy.rglob("*")}
        planted = bool({normpath(path) for path in seen} & set(self.reward_files))
        for path in self.reward_files:
            with suppress(RuntimeError):  # mode none has no sandbox
                planted = planted or (await ctx.sandbox.exec(["test", "-e", path])).ok
        return Grade(planted, float(planted))


PLANTS = {
    "file": f"mkdir -p logs; echo 1 > {REWARD}",
    "directory": f"mkdir -p {REWARD}/sub; echo 1 > {REWARD}/sub/x",
    "closed directory": f"mkdir -p {REWARD}/sub; echo 1 > {REWARD}/sub/x; chmod 0 {REWARD}/sub {REWARD}",
    "link to a file": f"mkdir -p logs; echo 1 > target; ln -s ../target {REWARD}",
    "link to a directory": f"mkdir -p logs target; echo 1 > target/x; ln -s ../target {REWARD}",
    "dangling link": f"mkdir -p logs; ln -s nowhere {REWARD}",
    "link above": "mkdir -p elsewhere; echo 1 > elsewhere/reward.txt; ln -s elsewhere logs",
    "pipe": f"mkdir -p logs; mkfifo {REWARD}",
    "read only": f"mkdir -p logs; echo 1 > {REWARD}; chmod 0444 {REWARD}",
}


@MODES
@pytest.mark.parametrize("artifact", ["logs", REWARD, "."])
@pytest.mark.parametrize("plant", PLANTS)
def test_05_a_planted_reward_never_counts(plant: str, artifact: str, grading: GradingMode, tmp_path: Path) -> None:
    agent = Agent(PLANTS[plant], files={REWARD: b"1", "./logs//reward.txt": b"1", f"{REWARD}/deeper": b"1"})
    bench = LocalBench(tmp_path, agent, artifact, grading=grading, grader=Believer(REWARD))
    assert verdict_of(bench.run()) is Verdict.FAILED, bench.result
    assert codes(bench.result) == []


@MODES
def test_what_was_planted_is_kept_as_evidence(grading: GradingMode, tmp_path: Path) -> None:
    agent = Agent(f"mkdir logs; echo planted > {REWARD}; echo honest > logs/honest")
    bench = LocalBench(tmp_path, agent, "logs", grading=grading, grader=Believer(REWARD))
    assert verdict_of(bench.run()) is Verdict.FAILED
    assert bench.artifacts.pop("logs/honest") == b"honest\n"
    assert [content for name, content in bench.artifacts.items() if "reward" in name] == [b"planted\n"]
    if grading is GradingMode.REUSE:
        assert f"removed before grading, as the agent must have planted it: {REWARD}" in bench.kept["try.log"].decode()


def test_a_link_is_removed_as_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("content")
    agent = Agent(f"mkdir logs; ln -s {victim} {REWARD}")
    bench = LocalBench(tmp_path, agent, grading=GradingMode.REUSE, grader=Believer(REWARD))
    assert verdict_of(bench.run()) is Verdict.FAILED
    assert (victim / "precious").read_text() == "content"


def test_nothing_of_this_machine_is_removed_where_a_sandbox_is_a_directory_of_it(tmp_path: Path) -> None:
    kept = tmp_path / "reward.txt"
    kept.write_text("of this machine")
    for path in (str(kept), f"{'../' * 40}{str(kept).removeprefix('/')}"):
        grader = FakeGrader()
        grader.reward_files = (path,)
        result = LocalBench(tmp_path, Agent("true"), grading=GradingMode.REUSE, grader=grader).run()
        assert (codes(result), result.outcome) == ([], Outcome.GRADED)
        assert kept.read_text() == "of this machine"


@pytest.mark.parametrize(
    "path", ["a b/it's", '"$(touch pwned)"', "; touch pwned", "-rf", "`id`", "*", "line\nbreak", "!", "(", "reward/"]
)
def test_no_path_is_read_by_a_shell(path: str, tmp_path: Path) -> None:
    async def plant(sandbox: Any) -> None:
        await sandbox.write(path.rstrip("/"), "1")
        await sandbox.write("untouched", "1")

    seen: list[str] = []

    async def look(context: Any) -> Grade:
        listed = await context.sandbox.exec("find . -type f")
        seen.extend(listed.out.split())
        return Grade(False, 0.0)

    grader = FakeGrader(look)
    grader.reward_files = (path,)
    bench = LocalBench(tmp_path, Agent(also=plant), grading=GradingMode.REUSE, grader=grader)
    assert codes(bench.run()) == []
    assert seen == ["./untouched"]


class _Blind(LocalProvider):
    """Opens sandboxes in which the removal does not do what it should; `how` says in which way."""

    how: str

    async def open(self, environment: Any, labels: Any) -> Any:
        sandbox = await super().open(environment, labels)
        honest = sandbox.exec

        async def execute(command: Any, **options: Any) -> Any:
            if isinstance(command, str) or command[:2] != ["sh", "-c"]:
                return await honest(command, **options)
            if self.how == "raises":
                raise OSError("broken pipe")
            return {
                "lies": ExecResult(0),
                "fails": ExecResult(1, b"logs/reward.txt\n", b"rm: cannot remove\n"),
                "is lost": ExecResult(None, lost="ended by signal 9", signal=9),
                "is missing": ExecResult(127, b"", b"sh: not found\n"),
            }[self.how]

        sandbox.exec = execute  # type: ignore[method-assign]
        return sandbox


@pytest.mark.parametrize("how", ["lies", "fails", "raises", "is lost", "is missing"])
@pytest.mark.parametrize("grading", [GradingMode.FRESH, GradingMode.REUSE])
def test_05_what_cannot_be_removed_is_not_graded(grading: GradingMode, how: str, tmp_path: Path) -> None:
    provider = _Blind(tmp_path / "base")
    provider.how = how
    asked: list[Any] = []

    async def grade(context: Any) -> Grade:
        asked.append(context)
        return Grade(True, 1.0)

    async def plant_in_the_sandbox_of_grading(sandbox: Any) -> None:
        await sandbox.write(REWARD, "1")

    grader = FakeGrader(grade)
    grader.reward_files = (REWARD,)
    bench = LocalBench(
        tmp_path,
        Agent(also=plant_in_the_sandbox_of_grading),
        grading=grading,
        grader=grader,
        provider=provider,
    )
    result = bench.run()
    if grading is GradingMode.FRESH and how == "lies":
        assert verdict_of(result) is Verdict.PASSED, "there was nothing there"
        return
    assert result.outcome is Outcome.BROKEN
    assert [(issue.code, issue.severity) for issue in result.issues] == [("grader.crashed", "FATAL")]
    assert not asked


def test_05_what_runs_on_in_the_agents_sandbox_does_not_reach_a_fresh_one(tmp_path: Path) -> None:  # cases 97, 41
    background = f"(while :; do mkdir -p logs out; echo 1 > {REWARD}; date > out/x; sleep 0.01; done) >/dev/null 2>&1 &"
    bench = LocalBench(tmp_path, Agent(background), "out", grading=GradingMode.FRESH, grader=Believer(REWARD))
    assert verdict_of(bench.run()) is Verdict.FAILED
    assert not list((tmp_path / "base").glob("*/work"))
