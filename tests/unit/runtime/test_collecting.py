"""What is taken out of a sandbox: contained, bounded, named safely, at no result's cost (spec 06 V5, V6)."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any

import pytest
from local_bench import Agent, LocalBench
from test_try_runner import codes

from proctor.errors import Fault
from proctor.model.attempt import GradingMode, Outcome, Phase, Verdict, verdict_of
from proctor.model.events import PhaseStarted, WorkCheckpointed
from proctor.model.spec import Artifact, TimeLimits
from proctor.providers.local import LocalProvider, LocalSandbox
from proctor.testing.actions import for_ever, raises

MODES = pytest.mark.parametrize("grading", list(GradingMode))


@MODES
def test_V5_what_is_declared_is_taken_out_and_handed_to_the_grader(grading: GradingMode, tmp_path: Path) -> None:
    seen: dict[str, bytes] = {}

    bench = LocalBench(
        tmp_path,
        Agent("mkdir -p out/deep; printf one > out/one; printf two > out/deep/two; printf alone > alone.txt"),
        "out", "alone.txt", "absent",
        grading=grading,
    )  # fmt: skip

    async def look(context: Any) -> Any:
        for path, copy in context.artifacts.items():
            inside = [copy] if copy.is_file() else [file for file in copy.rglob("*") if file.is_file()]
            seen.update({f"{path}:{file.relative_to(copy)}": file.read_bytes() for file in inside})
        return await type(bench.job.grader)().grade(context)

    bench.job.grader._on_grade = look
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert codes(bench.result) == [], "an artifact that is not required may be missing"
    assert bench.artifacts == {"out/one": b"one", "out/deep/two": b"two", "alone.txt": b"alone"}
    assert seen == {"out:one": b"one", "out:deep/two": b"two", "alone.txt:.": b"alone"}


@pytest.mark.parametrize("path", ["../out", "/etc/passwd", "a/../../x", "n\0l", "x" * 300, "d/" * 3000 + "x", "~", "*"])
def test_V5_no_name_leads_out_of_the_directory_of_the_try(path: str, tmp_path: Path) -> None:
    before = set(tmp_path.parent.rglob("*"))
    bench = LocalBench(tmp_path, Agent(), Artifact(path, required=True))
    result = bench.run()
    assert codes(result) in (["collect.required_missing"], ["collect.failed"])
    assert bench.artifacts == {}
    new = set(tmp_path.parent.rglob("*")) - before
    assert all(file.is_relative_to(tmp_path) for file in new)


HOSTILE = [
    "line\nbreak", "\x1b[2Jclear", "back\\slash", "dot.", "trailing ", "con", "NUL.txt", "a:b", "quote\"", "x" * 250,
    "\udcff\udcfe.bin", "t\tab", "pipe|", "-rf", "$(touch pwned)", "\u202egnp.exe",
]  # fmt: skip


def test_V6_a_hostile_name_is_kept_beside_its_directory_under_a_name_of_ours(tmp_path: Path) -> None:
    async def plant(sandbox: Any) -> None:
        out = Path(sandbox.workdir, "out")
        out.mkdir()
        for name in HOSTILE:
            (out / name).write_bytes(name.encode("utf-8", "surrogateescape"))
        (out / "dir\n").mkdir()
        (out / "dir\n" / "inner.txt").write_bytes(b"inner")
        (out / "plain File_1.txt").write_bytes(b"plain")

    seen: dict[str, bytes] = {}
    bench = LocalBench(tmp_path, Agent(also=plant), "out", grading=GradingMode.FRESH)

    async def look(context: Any) -> Any:
        seen.update({path: copy.read_bytes() for path, copy in context.artifacts.items() if copy.is_file()})
        inside = await context.sandbox.exec("find out -type f -printf x")
        assert len(inside.out) == len(HOSTILE) + 2, "all are where they were, in the sandbox of grading"
        for name in HOSTILE:
            assert await context.sandbox.read(f"out/{name}") == name.encode("utf-8", "surrogateescape")
        return await type(bench.job.grader)().grade(context)

    bench.job.grader._on_grade = look
    assert verdict_of(bench.run()) is Verdict.PASSED, bench.result
    for name in bench.kept:
        for part in name.split("/"):
            assert part.isprintable()
            assert not set(part) & set('\\:*?"<>|')
            assert len(part.encode()) <= 240
    assert bench.artifacts["out/plain File_1.txt"] == b"plain"
    away = {f"out/{name}" for name in HOSTILE if not bench.directory.is_plain(name)}
    assert len(away) > 10
    assert away <= set(seen)
    assert {seen[path] for path in away} <= set(bench.artifacts.values())


def test_V5_links_and_devices_stay_behind(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    agent = Agent(
        f"mkdir out; printf kept > out/kept; ln -s {secret} out/link; ln -s / out/root; mkfifo out/pipe",
        f"ln -s {secret} top; ln -s {tmp_path} folder; ln -s nowhere dangling; ln -s loop loop; mkfifo fifo",
    )
    bench = LocalBench(tmp_path, agent, "out", "top", "folder", "dangling", "loop", "fifo")
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert bench.artifacts == {"out/kept": b"kept"}
    assert codes(bench.result) == []


def test_V5_what_is_beyond_the_limit_is_left_out_file_by_file_and_said(tmp_path: Path) -> None:
    agent = Agent("mkdir out; for i in 1 2 3 4; do head -c 1000 /dev/zero > out/$i; done; printf small > out/5")
    bench = LocalBench(tmp_path, agent, Artifact("out", max_bytes=2500))
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert sorted(bench.artifacts) == ["out/1", "out/2", "out/5"]
    [issue] = bench.result.issues
    assert (issue.code, issue.severity, issue.phase) == ("artifact.too_large", "WARNING", Phase.COLLECT)
    assert "2 files (2,000 bytes) are left out" in issue.message


def test_V5_one_file_beyond_its_limit_is_not_missing_but_too_large(tmp_path: Path) -> None:
    agent = Agent("truncate -s 1T huge && printf end >> huge")
    bench = LocalBench(tmp_path, agent, Artifact("huge", required=True, max_bytes=1000))
    bench.run()
    assert codes(bench.result) == ["artifact.too_large"]
    assert bench.artifacts == {}


def test_V5_a_tree_that_is_deeper_than_a_path_can_say_costs_nothing_but_what_is_down_there(tmp_path: Path) -> None:
    dig = "import os\nos.mkdir('out'); os.chdir('out'); open('top', 'w').close()\nfor _ in range(300):\n"
    dig += "    os.mkdir('d' * 50); os.chdir('d' * 50)\nopen('bottom', 'w').close()\n"
    bench = LocalBench(tmp_path, Agent(f'python3 -c "{dig}"'), "out")
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert codes(bench.result) == ["artifact.too_large"]
    assert "out/top" in bench.artifacts


@MODES
def test_a_required_artifact_that_is_missing_is_the_agents_doing_and_is_graded(
    grading: GradingMode, tmp_path: Path
) -> None:
    bench = LocalBench(tmp_path, Agent(), Artifact("report", required=True), grading=grading)
    assert verdict_of(bench.run()) is Verdict.PASSED
    [issue] = bench.result.issues
    assert (issue.code, issue.severity, issue.owner) == ("collect.required_missing", "ERROR", "agent")


def test_05_collect_runs_after_failure_and_timeout_and_takes_out_what_is_there(tmp_path: Path) -> None:
    for name, action, code in (
        ("crash", raises(RuntimeError("boom")), "harness.crashed"),
        ("hang", for_ever, "time.agent"),
    ):
        agent = Agent("printf partial > out", also=lambda _, action=action: action())
        bench = LocalBench(tmp_path / name, agent, "out", limits=TimeLimits(agent_seconds=0.5))
        assert code in codes(bench.run())
        assert bench.artifacts == {"out": b"partial"}


def test_artifacts_are_taken_out_even_where_the_session_collects_nothing_but_trouble(tmp_path: Path) -> None:
    agent = Agent("printf kept > out")
    agent.on_collect = raises(RuntimeError("no trajectory"))
    bench = LocalBench(tmp_path, agent, "out")
    assert codes(bench.run()) == ["collect.failed"]
    assert bench.artifacts == {"out": b"kept"}


class _Refusing(LocalProvider):
    """Opens sandboxes that refuse to give out some path."""

    error: BaseException

    async def open(self, environment: Any, labels: Any) -> Any:
        sandbox = await super().open(environment, labels)
        honest, error = sandbox.download, self.error

        async def download(source: str, target: Path, **limits: Any) -> Any:
            if source == "broken":
                raise error
            return await honest(source, target, **limits)

        sandbox.download = download  # type: ignore[method-assign]
        return sandbox


def refusing(folder: Path, error: BaseException) -> LocalProvider:
    provider = _Refusing(folder / "base")
    provider.error = error
    return provider


@pytest.mark.parametrize(
    ("artifact", "extra", "fatal"),
    [("broken", None, True), ("other", Artifact("broken", required=True), True), ("other", Artifact("broken"), False)],
    ids=["input", "required", "extra"],
)
def test_a_transfer_that_fails_costs_the_result_only_where_the_result_needs_it(
    artifact: str, extra: Artifact | None, fatal: bool, tmp_path: Path
) -> None:
    agent = Agent("printf x > other; printf x > last")
    provider = refusing(tmp_path, OSError(errno.EIO, "bad line"))
    extras = (*((extra,) if extra else ()), Artifact("last"))
    bench = LocalBench(tmp_path, agent, artifact, extras=extras, provider=provider)
    result = bench.run()
    [issue] = result.issues
    assert issue.code == "collect.failed"
    assert "`broken`" in issue.message
    assert issue.severity == ("FATAL" if fatal else "ERROR")
    assert result.outcome is (Outcome.BROKEN if fatal else Outcome.GRADED)
    assert "last" in bench.artifacts, "one that fails does not keep the others"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OSError(errno.ENOSPC, "no space left on device"), "store.full"),
        (Fault("provider.lost", "the machine is gone"), "provider.lost"),
    ],
)
def test_what_a_failed_transfer_is_called(error: BaseException, code: str, tmp_path: Path) -> None:
    bench = LocalBench(tmp_path, Agent(), "other", extras=(Artifact("broken"),), provider=refusing(tmp_path, error))
    assert codes(bench.run()) == [code]


def test_the_same_path_is_taken_out_once_and_required_if_anybody_says_so(tmp_path: Path) -> None:
    extras = (Artifact("./out/", required=True, max_bytes=1), Artifact("gone"), Artifact("gone", required=True))
    bench = LocalBench(tmp_path, Agent("printf content > out"), "out", extras=extras)
    bench.run()
    assert bench.artifacts == {"out": b"content"}
    assert [issue.message for issue in bench.result.issues] == ["the agent did not produce `gone`"]


def test_an_artifact_of_the_experiment_needs_no_sandbox_and_says_when_it_is_missed(tmp_path: Path) -> None:
    extras = (Artifact("a"), Artifact("b", required=True))
    bench = LocalBench(tmp_path, Agent(), extras=extras, agent_sandbox=False)
    bench.harness.on_send = answer
    assert verdict_of(bench.run()) is Verdict.PASSED
    assert codes(bench.result) == ["collect.required_missing"]


async def answer() -> str:
    return "ok"


def test_a_time_limit_of_collect_ends_a_transfer_that_never_ends(tmp_path: Path) -> None:
    provider = LocalProvider(tmp_path / "base")
    honest = LocalSandbox.download

    async def never(self: LocalSandbox, *_: Any, **__: Any) -> Any:
        await for_ever()

    LocalSandbox.download = never  # type: ignore[method-assign]
    try:
        bench = LocalBench(tmp_path, Agent(), "out", provider=provider, limits=TimeLimits(collect_seconds=0.05))
        assert codes(bench.run()) == ["time.collect"]
    finally:
        LocalSandbox.download = honest  # type: ignore[method-assign]
    assert [event.phase for event in bench.events if isinstance(event, PhaseStarted)][-1] is Phase.DISPOSE


def test_digests_are_those_of_the_copies(tmp_path: Path) -> None:
    agent = Agent("mkdir out; printf one > out/a; : > out/empty; head -c 99999 /dev/zero > b", files={"log": b"said"})
    bench = LocalBench(tmp_path, agent, "out", "b")
    bench.run()
    [event] = [event for event in bench.events if isinstance(event, WorkCheckpointed)]
    for file in event.files:
        content = bench.kept[file.name]
        assert (file.sha256, file.size) == (hashlib.sha256(content).hexdigest(), len(content))
    assert {file.name for file in event.files} == set(bench.kept) - {"checkpoint/answer.txt"}
