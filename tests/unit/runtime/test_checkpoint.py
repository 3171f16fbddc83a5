"""What grading needs is saved after collect, and grading can be repeated from it (spec 05 Grading modes, T3)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from local_bench import Agent, LocalBench
from test_try_runner import SECRET, Bench, codes, ok

from proctor.authoring.recorded_checks import RECORD_NAME
from proctor.errors import Fault
from proctor.model.attempt import Grade, GradingMode, Outcome, Phase, Usage, Verdict, verdict_of
from proctor.model.events import (
    GradingQueued,
    IssueRaised,
    PhaseStarted,
    SandboxDisposed,
    SandboxOpened,
    SavedFile,
    TryEvent,
    WorkCheckpointed,
)
from proctor.model.spec import TimeLimits
from proctor.plugins.api import Collected
from proctor.runtime.checkpoint import LISTED_AT_MOST, load_checkpoint
from proctor.runtime.job import Checkpoint
from proctor.runtime.lanes import Lane
from proctor.runtime.redact import Redactor
from proctor.runtime.try_runner import TryRunner
from proctor.testing.actions import for_ever, nothing, raises
from proctor.testing.fakes import FakeClock, FakeGrader, FakeHarness, fake_task

APART = pytest.mark.parametrize("grading", [GradingMode.NONE, GradingMode.FRESH])
PRODUCES = "mkdir out; printf one > out/one; printf 'two\n' > out/Two_2.txt; printf x > 'a:b'"


def checkpoint_of(bench: Bench) -> WorkCheckpointed:
    [event] = [event for event in bench.events if isinstance(event, WorkCheckpointed)]
    return event


def loaded(bench: LocalBench) -> Any:
    event = checkpoint_of(bench)
    return load_checkpoint(Checkpoint(bench.directory.directory, event.answer_sha256, event.files))


@APART
def test_05_a_checkpoint_has_answer_files_and_artifacts_by_digest(grading: GradingMode, tmp_path: Path) -> None:
    agent = Agent(PRODUCES, files={"agent.log": b"said", "sub/agent.log": b"more", "../../x": b"\xff\x00"})
    bench = LocalBench(tmp_path, agent, "out", "a:b", grading=grading)
    assert verdict_of(bench.run()) is Verdict.PASSED
    event = checkpoint_of(bench)
    assert {file.name for file in event.files} | {"checkpoint/answer.txt"} == set(bench.kept), (
        "every file is listed, and every listed file is there"
    )
    assert [name for name in bench.kept if name.startswith("checkpoint/files/agent.log")]
    work = loaded(bench)
    assert work.answer == "ok"
    assert work.files == agent._files
    assert set(work.artifacts) == {"out", "a:b"}
    assert (work.artifacts["out"] / "Two_2.txt").read_bytes() == b"two\n"


@pytest.mark.parametrize(
    ("grading", "also"), [(GradingMode.REUSE, nothing), *((mode, raises(RuntimeError("boom"))) for mode in GradingMode)]
)
def test_without_a_checkpoint_the_files_are_evidence(grading: GradingMode, also: Any, tmp_path: Path) -> None:
    agent = Agent(PRODUCES, files={"log": b"said"}, also=lambda _: also())
    bench = LocalBench(tmp_path, agent, "out", grading=grading)
    bench.run()
    assert not [event for event in bench.events if isinstance(event, WorkCheckpointed)]
    kept = {"artifacts/out/Two_2.txt", "artifacts/out/one", "checkpoint/files/log", "checkpoint/manifest.json"}
    assert kept == set(bench.kept) - {"try.log"}
    manifest = json.loads(bench.kept["checkpoint/manifest.json"])
    assert manifest["artifacts"] == {"out": "artifacts/out"}
    assert manifest["digests"].keys() == kept - {"checkpoint/manifest.json"}


@pytest.mark.parametrize(("grader", "kept"), [("checks", False), ("fake", True)])
def test_only_the_record_of_checks_that_the_grade_has_is_not_kept(grader: str, kept: bool, tmp_path: Path) -> None:
    """A file of another harness may be called as the record of a Python task is."""
    grades = FakeGrader(grade_ok)
    grades.name = grader
    agent = Agent(files={RECORD_NAME: b"{}"})
    bench = LocalBench(tmp_path, agent, grading=GradingMode.REUSE, grader=grades)
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert (f"checkpoint/files/{RECORD_NAME}" in bench.kept) is kept


def test_08_D8_where_there_is_just_an_answer_there_is_just_one_file() -> None:
    bench = Bench()
    bench.run()
    assert list(bench.saved) == ["checkpoint/answer.txt"]
    assert checkpoint_of(bench).files == (), "the digest of the answer says it"


def test_the_files_are_written_before_the_event_that_makes_them_count(tmp_path: Path) -> None:
    bench = LocalBench(tmp_path, Agent(PRODUCES, files={"log": b"said"}), "out")
    there: list[bool] = []
    append = bench.events.append

    class Watching(list[Any]):
        def append(self, event: TryEvent) -> None:
            if isinstance(event, WorkCheckpointed):
                there.extend((bench.directory.path(file.name)).is_file() for file in event.files)
            append(event)
            super().append(event)

    bench.events = Watching()
    bench.run()
    assert len(there) == 4
    assert all(there)


def test_many_files_are_in_the_manifest_and_the_journal_has_its_digest(tmp_path: Path) -> None:
    many = f"mkdir out; seq {LISTED_AT_MOST + 1} | while read i; do echo $i > out/$i; done"
    logs = {f"log {number}": b"said" for number in range(LISTED_AT_MOST)}
    bench = LocalBench(tmp_path, Agent(many, files=logs), "out")
    bench.run()
    assert [file.name for file in checkpoint_of(bench).files] == ["checkpoint/manifest.json"]
    assert loaded(bench).files == logs
    assert len(list(loaded(bench).artifacts["out"].iterdir())) == LISTED_AT_MOST + 1
    bench.directory.path("artifacts/out/7").write_text("changed")
    with pytest.raises(Fault, match="artifacts/out/7 has changed"):
        loaded(bench)


@APART
def test_nothing_is_saved_where_there_is_nothing_to_repeat(grading: GradingMode, tmp_path: Path) -> None:
    bench = LocalBench(tmp_path, FakeHarness(), grading=grading)
    bench.run()
    assert bench.kept == {}
    assert not [event for event in bench.events if isinstance(event, WorkCheckpointed)]


@pytest.mark.parametrize("what", ["answer", "file"])
def test_work_that_lacks_a_credential_is_kept_without_it_and_not_graded_from_again(what: str, tmp_path: Path) -> None:
    agent = Agent(files={"log": f"key {SECRET}".encode() if what == "file" else b"log"})
    if what == "answer":

        async def leak() -> str:
            return f"the key is {SECRET}"

        agent.on_send = leak
    bench = LocalBench(tmp_path, agent)
    bench.run()
    assert not [event for event in bench.events if isinstance(event, WorkCheckpointed)]
    assert "checkpoint/answer.txt" in bench.kept
    assert not [content for content in bench.kept.values() if SECRET.encode() in content]


@pytest.mark.parametrize("found", ["text", {"a": "text"}, {1: b""}, None], ids=repr)
def test_files_that_are_no_bytes_are_the_harness_s_fault(found: Any) -> None:
    async def collect() -> Any:
        return Collected(files=found)

    assert codes(Bench(harness=FakeHarness(on_send=ok, on_collect=collect)).run()) == ["harness.crashed"]


# ------------------------------------------------------------------------------------------------- grading alone


async def grade_ok(context: Any) -> Grade:
    return Grade(context.answer == "ok", 1.0)


@APART
def test_case_41_a_check_that_hangs_is_repeated_alone_and_the_agent_paid_once(
    grading: GradingMode, tmp_path: Path
) -> None:
    agent = Agent(PRODUCES, files={"log": b"said"})
    work = agent.on_send

    async def paid() -> Any:
        agent.contexts[-1].usage(Usage(calls=1, cost_usd=1.0))
        return await work()

    async def hang(context: Any) -> Any:
        await for_ever()

    agent.on_send = paid
    first = LocalBench(
        tmp_path, agent, "out", grading=grading, grader=FakeGrader(hang), limits=TimeLimits(grade_seconds=0.1)
    )
    result = first.run()
    assert (codes(result), result.usage.cost_usd) == (["time.grade"], 1.0)
    seen: list[Any] = []

    async def look(context: Any) -> Grade:
        seen.append((context.answer, dict(context.files), (context.artifacts["out"] / "one").read_bytes()))
        if grading is GradingMode.FRESH:
            seen.append(await context.sandbox.read("out/one"))
        return Grade(True, 1.0)

    second = first.graded_again(tmp_path, grader=FakeGrader(look))
    again = second.run()
    assert verdict_of(again) is Verdict.PASSED
    assert agent.turns_made == 1, "the agent's part was done once"
    assert again.usage == Usage(), "its cost stays with the try that paid"
    assert seen[0] == ("ok", {"log": b"said"}, b"one")
    phases = ["grade"] if grading is GradingMode.NONE else ["open", "grade", "dispose"]
    assert second.phases == phases
    kinds = {type(event) for event in second.events}
    assert not kinds & {GradingQueued, WorkCheckpointed}
    assert second.kept == {}, "its directory has only the evidence of grading"
    third = second_try_of(first, tmp_path, hang)
    assert verdict_of(third.run()) is Verdict.ERRORED, "a check that fails again is no 0"
    assert codes(third.result) == ["time.grade"]


def second_try_of(first: LocalBench, folder: Path, grade: Any) -> LocalBench:
    limits = TimeLimits(grade_seconds=0.1)
    return first.graded_again(folder, grader=FakeGrader(grade), limits=limits)


def test_T3_what_the_agent_did_wrong_stays_with_the_attempt_whoever_grades_it(tmp_path: Path) -> None:
    agent = Agent("printf x > out", also=lambda _: for_ever())
    first = LocalBench(
        tmp_path, agent, "out", limits=TimeLimits(agent_seconds=0.3), grader=FakeGrader(raises_when_asked)
    )
    assert codes(first.run()) == ["time.agent", "grader.crashed"]
    second = first.graded_again(tmp_path, grader=FakeGrader(grade_ok))
    result = second.run()
    assert [(issue.code, issue.phase) for issue in result.issues] == [("time.agent", Phase.AGENT)]
    assert verdict_of(result) is Verdict.FAILED
    assert not [event for event in second.events if isinstance(event, IssueRaised)], "it is counted once"


async def raises_when_asked(context: Any) -> Any:
    raise RuntimeError("boom")


def _remove(path: Path) -> None:
    path.unlink()


def _change(path: Path) -> None:
    path.write_bytes(path.read_bytes()[::-1] + b"!")


def _same_size(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(bytes([content[0] ^ 1]) + content[1:])


def _link(path: Path) -> None:
    copy = path.with_name(f"{path.name}.copy")
    shutil.copy(path, copy)
    path.unlink()
    path.symlink_to(copy)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@APART
@pytest.mark.parametrize("damage", [_remove, _change, _same_size, _link, _pipe, _directory])
@pytest.mark.parametrize(
    "name",
    [
        "checkpoint/answer.txt",
        "checkpoint/manifest.json",
        "checkpoint/files/log",
        "artifacts/out/one",
        "artifacts/alone",
    ],
)
def test_T3_a_checkpoint_that_is_not_as_it_was_saved_is_not_graded_from(
    name: str, damage: Callable[[Path], None], grading: GradingMode, tmp_path: Path
) -> None:
    agent = Agent("mkdir out; printf one > out/one; printf two > out/two; printf x > alone", files={"log": b"said"})
    first = LocalBench(tmp_path, agent, "out", "alone", grading=grading)
    first.run()
    damage(first.directory.path(name))
    second = first.graded_again(tmp_path)
    result = second.run()
    assert result.outcome is Outcome.BROKEN
    assert [(issue.code, issue.severity) for issue in result.issues] == [("checkpoint.damaged", "FATAL")]
    assert second.phases == [], "nothing was opened for it"


def test_T3_a_file_that_was_put_beside_an_artifact_is_damage_as_well(tmp_path: Path) -> None:
    first = LocalBench(tmp_path, Agent("mkdir out; printf one > out/one"), "out")
    first.run()
    first.directory.path("artifacts/out/more").write_text("more")
    assert codes(first.graded_again(tmp_path).run()) == ["checkpoint.damaged"]


@pytest.mark.parametrize("manifest", [b"", b"[]", b"{}", b'{"format": 2}', b'{"format": 1}', b"\xff", b"[" * 9999])
def test_a_manifest_that_says_nonsense_is_damage(manifest: bytes, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/manifest.json").write_bytes(manifest)
    saved = SavedFile("checkpoint/manifest.json", sha256(manifest).hexdigest(), len(manifest))
    with pytest.raises(Fault) as caught:
        load_checkpoint(Checkpoint(tmp_path, None, (saved,)))
    assert caught.value.code == "checkpoint.damaged"


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd"])
def test_a_checkpoint_reads_nothing_outside_of_its_directory(name: str, tmp_path: Path) -> None:
    inside = tmp_path / "try"
    (inside / "checkpoint").mkdir(parents=True)
    (tmp_path / "outside").write_text("x")
    content = json.dumps({"format": 1, "workdir": "/", "files": {"f": name}, "artifacts": {}, "digests": {}}).encode()
    (inside / "checkpoint/manifest.json").write_bytes(content)
    saved = SavedFile("checkpoint/manifest.json", sha256(content).hexdigest(), len(content))
    with pytest.raises(Fault, match="leads out of it"):
        load_checkpoint(Checkpoint(inside, None, (saved,)))


def test_a_try_that_only_grades_leaves_the_sandbox_of_its_lane_alone(tmp_path: Path) -> None:
    lane = Lane("l1", "e", 1.0)
    (tmp_path / "checkpoint").mkdir()
    bench = Bench(checkpoint=Checkpoint(tmp_path, None, ()), lane=lane, grader=FakeGrader(raises_when_asked))
    assert codes(bench.run()) == ["grader.crashed"]
    assert bench.events[-1].sandbox_reusable
    assert lane.sandbox is None


@pytest.mark.parametrize("steps", range(25))
def test_05_cancelled_at_every_await_of_grading_alone_leaves_no_sandbox(steps: int, tmp_path: Path) -> None:
    bench = Bench(
        grading=GradingMode.FRESH,
        checkpoint=Checkpoint(tmp_path, None, ()),
        grader=FakeGrader(grade_ok),
        task=replace(fake_task(), artifacts=()),
    )

    async def drive() -> None:
        runner = TryRunner(bench.job, emit=bench.events.append, save=bench.save, clock=FakeClock(), redactor=Redactor())
        task = asyncio.create_task(runner.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})

    asyncio.run(drive())
    assert not bench.provider.live
    opened = [event.sandbox for event in bench.events if isinstance(event, SandboxOpened)]
    assert opened == [event.sandbox for event in bench.events if isinstance(event, SandboxDisposed)]
    assert len([event for event in bench.events if isinstance(event, PhaseStarted)]) <= 3


def test_a_harness_that_raises_is_not_asked_again(tmp_path: Path) -> None:
    harness = FakeHarness(on_start=raises(RuntimeError("asked")))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/answer.txt").write_bytes(b"ok")
    digest = "2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df"
    bench = Bench(harness=harness, checkpoint=Checkpoint(tmp_path, digest, ()))
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert not harness.contexts
