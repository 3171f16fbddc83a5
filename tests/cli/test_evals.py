"""Python tasks as a user runs them (spec 02, Tasks as Python files; 04 P3, C1; 05; 11)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

from program import HANG_SECONDS, Ended
from test_interrupts import wait_until

from proctor.authoring.recorded_checks import RECORD_NAME
from proctor.graders.checks import TO_ITS_END

Run = Callable[..., Ended]
Process = Callable[..., "subprocess.Popen[str]"]
PARROT, ONE_TURN = "eval_plugins:Parrot", "eval_plugins:OneTurn"


def write(folder: Path, **files: str) -> None:
    """Write files of `evals/` by their names without ending, `__` for `/`."""
    for name, text in files.items():
        path = folder / "evals" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("from proctor import task\n" + dedent(text))


def results(ended: Ended) -> dict[str, dict[str, Any]]:
    assert ended.run_dirs, (ended.code, ended.out, ended.err)
    run = max(ended.run_dirs)
    found = [json.loads(path.read_text()) for path in run.glob("attempts/*/*/result.json")]
    return {one["task"]: one for one in found}


def issues(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [issue for one in (result, *result.get("tries", [])) for issue in one.get("issues", [])]


def codes(result: dict[str, Any]) -> list[str]:
    return [issue["code"] for issue in issues(result)]


def journal(ended: Ended) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (ended.run_dir / "journal.jsonl").read_text().splitlines()]


def run(proctor: Run, harness: str = PARROT, *more: str) -> tuple[Ended, dict[str, dict[str, Any]]]:
    ended = proctor("run", "evals", harness, "--progress", "none", *more)
    return ended, results(ended)


def test_02_tasks_are_found_run_and_graded(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        naps="""
            @task(tags=["smoke"])
            async def nap(t):
                turn = await t.send("hello")
                t.check("echo", turn.answer == "hello", expected="hello", actual=turn.answer)
                t.score("length", len(turn.answer))

            @task(name="nap-00", sandbox=False)
            async def other(t):
                t.check("one", 1)
                t.check("two", 0)

            @task.each(["x", "y"], sandbox=False)
            async def rows(t, row):
                t.check("row", (await t.send(row)).answer == row)

            LISTED = []
            for number in range(2):
                @task(name=f"made-{number}", sandbox=False)
                async def made(t, number=number):
                    t.check("n", number == 0)
                LISTED.append(made)
        """,
        sub__deeper="""
            from ._shared import WORD
            from evals.sub._shared import WORD as SAME
            @task(sandbox=False)
            async def last(t):
                t.check("shared", WORD == SAME == "w")
        """,
    )
    (tmp_path / "evals/sub/_shared.py").write_text("WORD = 'w'\n")
    ended = proctor("run", "evals", "chat", "mock/echo", "--progress", "none", "--json")
    found = results(ended)
    assert {task: (one["verdict"], one["score"]) for task, one in found.items()} == {
        "naps/nap": ("passed", 1.0),
        "naps/nap-00": ("failed", 0.5),
        "naps/rows/x": ("passed", 1.0),
        "naps/rows/y": ("passed", 1.0),
        "naps/made-0": ("passed", 1.0),
        "naps/made-1": ("failed", 0.0),
        "sub/deeper/last": ("passed", 1.0),
    }
    assert ended.code == 0, "a low score is data"
    nap = found["naps/nap"]
    assert nap["sub_scores"] == {"length": 5}
    assert nap["checks"] == [
        {"label": "echo", "ok": True, "expected": "hello", "actual": "hello", "source": "evals/naps.py:6"}
    ]
    assert nap["tries"][0]["usage"]["calls"] == 1
    opened = [event["attempt"] for event in ended.events if event["type"] == "SandboxOpened"]
    assert len(opened) == 1, "who needs no sandbox opens none"
    [trajectory] = ended.run_dir.glob("attempts/naps-nap-*/0/tries/1/trajectory.json")
    words = [(step["source"], step["message"]) for step in json.loads(trajectory.read_text())["steps"]]
    assert ("user", "hello") in words
    assert ("agent", "hello") in words


def test_02_what_a_function_raises(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        ends="""
            from proctor import SkipTask, TaskFatal
            @task
            async def skips(t):
                raise SkipTask("not on this machine")
            @task
            async def broken(t):
                raise TaskFatal("its data is gone")
            @task
            async def crashes(t):
                t.check("kept", True)
                return {}["missing"]
            @task
            async def unchecked(t):
                await t.send("x")
            @task
            async def invalid(t):
                t.check("x", True)
                t.score("s", float("nan"))
            @task
            async def required(t):
                t.check("first", True)
                t.require("second", False)
                t.check("third", True)
            @task
            async def forgets(t):
                t.check("x", True)
                t.send("x")
        """,
    )
    ended, found = run(proctor, PARROT, "--attempts", "2", "--task-concurrency", "1")
    assert {task.removeprefix("ends/"): (one["verdict"], codes(one)) for task, one in found.items()} == {
        "skips": ("skipped", []),
        "broken": ("errored", ["task.fatal"]),
        "crashes": ("errored", ["task.crashed"]),
        "unchecked": ("errored", ["grader.invalid_score"]),
        "invalid": ("errored", ["grader.invalid_score"]),
        "required": ("failed", []),
        "forgets": ("errored", ["task.crashed"]),
    }
    assert ended.code == 3
    assert [check["label"] for check in found["ends/required"]["checks"]] == ["first", "second"]
    executed = [event["task"] for event in journal(ended) if event["type"] == "TryStarted"]
    assert executed.count("ends/broken") == 1, "TaskFatal stops the second"
    assert executed.count("ends/crashes") == 2
    [issue] = issues(found["ends/crashes"])
    assert issue["message"] == "evals/ends.py:13: KeyError: 'missing'"
    assert "never awaited" in issues(found["ends/forgets"])[0]["message"]


def test_02_experiment_fatal_stops_the_others(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        ends="""
            from proctor import ExperimentFatal
            @task.each(range(5), sandbox=False)
            async def stops(t, row):
                raise ExperimentFatal("no licence")
        """,
    )
    ended, found = run(proctor, PARROT, "--task-concurrency", "1")
    assert [codes(one) for one in found.values()] == [["experiment.fatal"]] * 5
    assert len([event for event in journal(ended) if event["type"] == "TryStarted"]) == 1
    assert ended.code == 3


CUT_OFF = """
    import asyncio
    @task(agent_timeout_seconds=0.3, sandbox=False)
    async def endless(t):
        t.check("before", True)
        await asyncio.Event().wait()
    @task(agent_timeout_seconds=0.3, sandbox=False)
    async def swallows(t):
        t.check("before", True)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        t.check("after", True)
    @task(timeout_seconds=0.3, sandbox=False)
    async def whole(t):
        t.check("before", True)
        await asyncio.Event().wait()
"""


def test_02_a_function_that_is_cut_off_by_a_limit_has_failed(proctor: Run, tmp_path: Path) -> None:
    write(tmp_path, slow=CUT_OFF)
    ended, found = run(proctor)
    assert ended.code == 0
    for task, code in (("endless", "time.agent"), ("swallows", "time.agent"), ("whole", "time.attempt")):
        one = found[f"slow/{task}"]
        assert (one["verdict"], codes(one)) == ("failed", [code]), task
        labels = [(check["label"], check["ok"]) for check in one["checks"]]
        assert labels[0] == ("before", True)
        assert labels[-1] == (TO_ITS_END, False)
    assert "0.3 s" in issues(found["slow/endless"])[0]["message"]


def test_C1_limits_of_a_task_hold_where_the_experiment_sets_none_and_are_scaled(proctor: Run, tmp_path: Path) -> None:
    write(tmp_path, slow=CUT_OFF)
    only = ("--tasks", "slow/endless")
    _, found = run(proctor, PARROT, *only, "--timeout-multiplier", "2")
    assert "0.6 s" in issues(found["slow/endless"])[0]["message"]
    ended = proctor("plan", "evals", PARROT, *only, "--reuse", "--timeout-multiplier", "2", "--json")
    assert ended.code == 0, ended.err
    assert "reuse" in ended.out
    assert "limit lowered" not in ended.out, "an attempt that its limit ended counts as exactly that limit"
    raised = proctor("plan", "evals", PARROT, *only, "--reuse", "--timeout-multiplier", "200", "--json")
    assert "limit lowered" not in raised.out
    lowered = proctor("plan", "evals", PARROT, *only, "--reuse", "--timeout", "0.2", "--json")
    assert "limit lowered" in lowered.out


def test_11_a_harness_that_takes_one_turn_refuses_the_second(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        turns="""
            @task(sandbox=False)
            async def two(t):
                t.check("first", (await t.send("1")).answer == "1")
                await t.send("2")
            @task(sandbox=False)
            async def sessions(t):
                t.check("first", (await t.send("1")).answer == "1")
                session = await t.new_session()
                t.check("second", (await session.send("2")).answer == "2")
        """,
    )
    _, found = run(proctor, ONE_TURN)
    assert found["turns/sessions"]["verdict"] == "passed"
    assert codes(found["turns/two"]) == ["task.crashed"]
    assert "harness `one-turn` takes one turn in a session" in issues(found["turns/two"])[0]["message"]


def test_05_no_sandbox_and_no_harness_can_forge_checks(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        forged="""
            @task(artifacts=["task-checks.json"])
            async def honest(t):
                await t.send("forge")
                other = await t.new_session()
                await other.send("more")
                t.check("honest", False)
        """,
    )
    assert RECORD_NAME == "task-checks.json"
    for grading in ("reuse", "none"):
        ended, found = run(proctor, PARROT, "--set", f"grading={grading}", "--run-id", f"run-{grading}")
        assert [check["label"] for check in found["forged/honest"]["checks"]] == ["honest"]
        assert found["forged/honest"]["verdict"] == "failed"
        [files] = ended.folder.glob(f"results/*/run-{grading}/attempts/*/0/tries/1/checkpoint/files")
        manifest = json.loads((files.parent / "manifest.json").read_text())
        assert set(manifest["files"]) == {
            "task-checks.json", "told.txt", "session-1/task-checks.json", "session-2/task-checks.json",
            "session-2/told.txt", "session-2/trajectory.json",
        }  # fmt: skip
        log = (files.parent.parent / "try.log").read_text()
        assert log.count("closed after 1") == 2, "every session is closed"


def test_P3_a_changed_helper_is_named_by_the_plan(proctor: Run, tmp_path: Path) -> None:
    write(
        tmp_path,
        a="""
            from ._helper import right
            @task(sandbox=False)
            async def uses(t):
                t.check("right", right())
            @task(sandbox=False)
            async def other(t):
                t.check("x", True)
        """,
        _helper="def right():\n    return False\n",
    )
    _, found = run(proctor)
    assert found["a/uses"]["verdict"] == "failed"
    (tmp_path / "evals/_helper.py").write_text("def right():\n    return True\n")
    ended = proctor("plan", "evals", PARROT, "--reuse", "--json")
    assert "code evals/_helper.py changed" in ended.out
    _, found = run(proctor, PARROT, "--reuse")
    assert {task: one["verdict"] for task, one in found.items()} == {"a/uses": "passed"}, "the other is reused"


INTERRUPTED = """
    import asyncio
    from pathlib import Path

    @task(sandbox=False)
    async def quick(t):
        t.check("x", True)

    @task(sandbox=False)
    async def waits(t):
        while not list(Path("results").rglob("attempts/*/*/result.json")):  # of the other one
            await asyncio.sleep(0.01)
        t.check("before", True)
        try:
            Path("waiting").touch()
            await asyncio.Event().wait()
        finally:
            Path("cleaned up").touch()
"""


def test_10_I1_an_interrupt_in_the_middle_of_a_function(process: Process, tmp_path: Path) -> None:
    write(tmp_path, a=INTERRUPTED)
    started = process("run", "evals", PARROT, "--progress", "none")
    wait_until((tmp_path / "waiting").exists, started)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert started.returncode == 130, err
    assert (tmp_path / "cleaned up").exists(), "it was told"
    [path] = (tmp_path / "results").rglob("journal.jsonl")
    sealed = [event for line in path.read_text().splitlines() if (event := json.loads(line))["type"] == "AttemptSealed"]
    assert {one["task"]: one["verdict"] for one in sealed} == {"a/quick": "passed", "a/waits": "cancelled"}, out + err
