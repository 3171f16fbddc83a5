"""proctor from Python: inside an event loop and outside of one, side by side, cancelled (spec 10 I5, cases/hang 9)."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deaf
import pytest
from program import HANG_SECONDS

import proctor
from proctor.cli.python_arguments import prepare
from proctor.config.schema import ExecutionConfig, ExperimentConfig, RuntimeConfig
from proctor.errors import NothingToRun, UsageError
from proctor.providers.local import LocalProvider

DOCS = Path(__file__).parents[2] / "docs"
HANGS = {"id": "plugins:Sleeper", "params": {"seconds": 3600, "command": "sleep 0.01"}}


@pytest.fixture(autouse=True)
def here(environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)


def journal_of(folder: Path) -> Path:
    [found] = folder.rglob("journal.jsonl")
    return found


async def appears(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def in_flight(folder: Path) -> bool:
    """Whether an attempt is in its agent phase."""
    return any('"agent"' in path.read_text() for path in folder.rglob("journal.jsonl"))


# ------------------------------------------------------------------------------------------------- both forms


def test_hang_9_the_async_form_completes_inside_a_running_loop() -> None:
    async def main() -> proctor.RunResult:
        return await proctor.arun("trivial", "oracle", limit=3)

    result = asyncio.run(main())
    assert (result.exit_code, result.rate, result.completion) == (0, 1.0, "complete")
    assert result.counts["passed"] == 3
    assert [attempt["verdict"] for attempt in result.attempts] == ["passed"] * 3
    assert len(list(result.attempts)) == 3, "they can be read again"


def test_hang_9_the_sync_form_refuses_inside_a_running_loop_and_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="inside a running event loop") as refused:
            proctor.run("trivial", "oracle")
        assert "await proctor.arun" in (refused.value.hint or "")

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


def test_10_I5_the_sync_form_returns_what_is_on_disk(tmp_path: Path) -> None:
    result = proctor.run("trivial", "oracle", attempts=2, limit=2, results_dir=tmp_path / "r", run_id="mine")
    assert result.run_id == "mine"
    assert result.directory.is_relative_to(tmp_path / "r")
    summary = json.loads((result.directory / "summary.json").read_text())
    for name in ("counts", "headline", "rate", "cost_usd", "experiment", "completion"):
        assert getattr(result, name) == summary[name]
    for attempt in result.attempts:
        kept = result.directory / "attempts" / attempt["task"] / str(attempt["ordinal"]) / "result.json"
        assert json.loads(kept.read_text()) == attempt


def test_10_I5_from_another_thread_than_the_main_one() -> None:
    results: list[proctor.RunResult] = []
    thread = threading.Thread(target=lambda: results.append(proctor.run("trivial", "nop", limit=1)))
    thread.start()
    thread.join()
    assert [result.counts["failed"] for result in results] == [1]


# -------------------------------------------------------------------------------------------------- arguments


def test_10_I5_every_field_has_the_same_name_here() -> None:
    """Also those that are added later: each default is taken as an argument."""
    tree: dict[str, Any] = ExperimentConfig.model_validate(
        {"benchmark": {"id": "trivial"}, "harness": {"id": "oracle"}}
    ).model_dump(mode="json")
    for taken in ("benchmark", "harness", "model"):
        tree.pop(taken)
    sections = {
        "execution": ExecutionConfig().model_dump(mode="json"),
        "runtime": RuntimeConfig().model_dump(mode="json"),
    }
    resolved, _ = prepare(
        "trivial", "oracle", None, tree, **sections,
        tasks=None, limit=None, run_name=None, run_id=None, progress="none", fail_under=None,
    )  # fmt: skip
    assert resolved.experiment.attempts == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"attmpts": 2}, "did you mean `attempts`"),
        ({"attempts": 0}, "attempts"),
        ({"attempts": True}, "whole number"),
        ({"task_concurrency": 0}, "task_concurrency"),
        ({"task_concurrency": 1.5}, "whole number"),
        ({"limit": -1}, "limit"),
        ({"fail_under": 2}, "fail_under"),
        ({"progress": "loud"}, "progress"),
        ({"provider_limits": {"lokal": 1}}, "did you mean `local`"),
        ({"provider_limits": {"local": -1}}, "provider_limits"),
        ({"env_open_qps": {"local": "x"}}, "env_open_qps"),
        ({"runtime": {"timout_seconds": 1}}, "did you mean `timeout_seconds`"),
        ({"execution": {"retry_min_delay_seconds": 0}}, "retry_min_delay_seconds"),
        ({"environment": "lokal"}, "did you mean `local`"),
        ({"tasks": "nothing-like-it"}, "nothing-like-it"),
        ({"run_id": "../x"}, "run id"),
    ],
)
def test_10_I5_what_is_wrong_is_the_same_error_as_on_the_command_line(
    arguments: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises((UsageError, NothingToRun)) as error:
        proctor.run("trivial", "oracle", **arguments)
    assert said in error.value.message
    assert not list(tmp_path.rglob("journal.jsonl"))


@pytest.mark.parametrize("what", ["benchmark", "harness", "model"])
def test_an_id_that_is_missing_is_said(what: str) -> None:
    arguments: dict[str, Any] = {"benchmark": "trivial", "harness": "chat", "model": "mock/echo"}
    arguments[what] = {"params": {}}
    with pytest.raises(UsageError, match=f"{what}: an `id` is missing"):
        proctor.run(**arguments)


def test_limits_and_sections_are_in_force(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    harness = {"id": "plugins:Sleeper", "params": {"seconds": 0.02, "trace": str(trace)}}
    result = proctor.run(
        "trivial", harness, limit=4, task_concurrency=4, max_concurrency=1, provider_limits={"local": 3},
        runtime={"cleanup_grace_seconds": 1}, execution={"max_retries": 1}, environment={"provider": "local"},
    )  # fmt: skip
    assert result.counts["passed"] == 4
    words = [line.split()[0] for line in trace.read_text().splitlines()]
    assert words == ["start", "end"] * 4, "one at a time"


def test_10_116_the_time_limit_of_a_run_ends_it_and_is_on_record() -> None:
    result = proctor.run("trivial", HANGS, limit=3, task_concurrency=2, runtime={"timeout_seconds": 0.5})
    assert (result.exit_code, result.completion, result.signal) == (3, "interrupted", None)
    assert result.counts["cancelled"] == 2
    assert result.counts["not_dispatched"] == {"interrupt": 1}
    assert "its time limit of 0.5 s" in (result.directory / "run.log").read_text()
    assert '"its time limit of 0.5 s"' in (result.directory / "journal.jsonl").read_text()


# ------------------------------------------------------------------------------------------------ side by side


def test_10_I5_runs_side_by_side_have_nothing_in_common_but_the_process() -> None:
    async def main() -> list[proctor.RunResult]:
        return await asyncio.gather(
            *(
                proctor.arun("trivial", "plugins:Leaky" if odd else "oracle", limit=3, run_name=f"r{odd}")
                for odd in (0, 1)
            ),
        )

    os.environ["LEAKY_API_KEY"] = "sk-nothing-0123456789"
    try:
        first, second = asyncio.run(main())
    finally:
        del os.environ["LEAKY_API_KEY"]
    assert first.counts["passed"] == 3
    assert second.counts["failed"] == 3
    logs = [(result.directory / "run.log").read_text() for result in (first, second)]
    for mine, other, log in zip((first, second), (second, first), logs, strict=True):
        assert f"run {mine.run_id} of {mine.experiment}" in log
        assert other.experiment not in log


def test_10_I5_a_cancelled_run_leaves_the_other_alone(tmp_path: Path) -> None:
    async def main() -> proctor.RunResult:
        hangs = asyncio.create_task(proctor.arun("trivial", HANGS, limit=2, run_name="hangs"))
        await appears(lambda: in_flight(tmp_path / "results/hangs"))
        goes_on = asyncio.create_task(
            proctor.arun("trivial", {"id": "plugins:Sleeper", "params": {"seconds": 0.01}}, run_name="goes-on")
        )
        hangs.cancel()
        await asyncio.wait({hangs})
        assert hangs.cancelled()
        return await goes_on

    assert asyncio.run(main()).counts["passed"] == 10


# ----------------------------------------------------------------------------------------------- cancellation


@pytest.mark.integration
def test_10_I5_a_cancellation_is_a_first_interrupt_and_comes_after_the_clean_up(tmp_path: Path) -> None:
    async def until_in_flight() -> None:
        async with asyncio.timeout(None) as limit:
            running = asyncio.create_task(appears(lambda: in_flight(tmp_path)))
            running.add_done_callback(lambda _: limit.reschedule(0))
            await proctor.arun("trivial", HANGS, limit=3, task_concurrency=2)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await until_in_flight()
        assert await LocalProvider().list({}) == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    run = journal_of(tmp_path).parent
    summary = json.loads((run / "summary.json").read_text())
    assert summary["completion"] == "interrupted"
    assert summary["counts"]["cancelled"] == 2
    assert summary["counts"]["not_dispatched"] == {"interrupt": 1}
    assert "its caller, which was cancelled" in (run / "journal.jsonl").read_text()
    assert not (run / "journal.lock").exists()


def test_10_I5_a_second_cancellation_forces_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proctor.runtime.phases.PHASE_GRACE_SECONDS", 3600.0)

    async def main() -> None:
        over = deaf.reset()
        task = asyncio.create_task(proctor.arun("trivial", "deaf:Deaf", limit=2))
        await appears(lambda: in_flight(tmp_path))
        task.cancel()
        await appears(lambda: '"Interrupted"' in journal_of(tmp_path).read_text())
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert not over.is_set()
        over.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})

    asyncio.run(main())
    causes = re.findall(r'"cause":"([^"]*)"', journal_of(tmp_path).read_text())
    assert len(causes) == 2
    assert "clean-up is cut short" in causes[1]
    assert (journal_of(tmp_path).parent / "summary.json").exists()


def test_10_I5_a_cancellation_before_anything_began_leaves_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.create_task(proctor.arun("deaf:SlowBenchmark", "oracle"))
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("steps", range(12))
def test_10_I5_a_cancellation_at_any_step_leaves_nothing_or_a_whole_run(steps: int, tmp_path: Path) -> None:
    async def main() -> None:
        task = asyncio.create_task(proctor.arun("trivial", "oracle"))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    for journal in tmp_path.rglob("journal.jsonl"):
        summary = json.loads((journal.parent / "summary.json").read_text())
        assert summary["completion"] in ("interrupted", "complete")
        assert '"RunEnded"' in journal.read_text().splitlines()[-1]


# ---------------------------------------------------------------------------------------------------- signals


def test_10_I5_the_async_form_leaves_signals_alone() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    seen: list[Any] = []

    async def main() -> None:
        running = asyncio.create_task(proctor.arun("trivial", {"id": "plugins:Sleeper", "params": {"seconds": 0.05}}))
        while not running.done():
            seen.append([signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)])
            await asyncio.sleep(0.01)
        await running

    asyncio.run(main())
    assert all(each == before[1:] for each in seen)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before


SCRIPT = """
import sys, proctor
try:
    result = proctor.run("trivial", {"id": "plugins:Sleeper", "params": {"seconds": 3600}}, limit=2)
except KeyboardInterrupt:
    print("interrupted after the clean-up", flush=True)
    sys.exit(7)
print("returned", result.exit_code, result.signal, flush=True)
"""
IGNORING = "import signal\nsignal.signal(signal.SIGHUP, lambda *_: print('mine', flush=True))\n" + SCRIPT


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "number", "code", "said"),
    [
        (SCRIPT, signal.SIGINT, 7, "interrupted after the clean-up\n"),
        (SCRIPT, signal.SIGTERM, -15, ""),
        (IGNORING, signal.SIGHUP, 0, "mine\nreturned 129 1\n"),
    ],
)
def test_10_I5_after_a_signal_the_run_is_whole_and_the_signal_does_what_it_always_did(
    script: str, number: signal.Signals, code: int, said: str, tmp_path: Path
) -> None:
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    while not in_flight(tmp_path):
        assert started.poll() is None
    started.send_signal(number)
    out, _ = started.communicate(timeout=HANG_SECONDS)
    assert (started.returncode, out) == (code, said)
    summary = json.loads((journal_of(tmp_path).parent / "summary.json").read_text())
    assert (summary["completion"], summary["signal"]) == ("interrupted", number)


# ------------------------------------------------------------------------------------------- the package itself


def test_importing_proctor_imports_nothing_more() -> None:
    script = (
        "import sys; before = set(sys.modules); import proctor; "
        "new = set(sys.modules) - before; assert new == {'proctor'}, new; "
        "assert {'RunResult', '__version__', 'arun', 'run', 'task', 'Experiment'} <= set(dir(proctor)); "
        "import proctor.errors; assert callable(proctor.run); assert 'proctor.sdk' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(AttributeError, match="has no attribute 'rnu'"):
        _ = proctor.rnu  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", proctor.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(proctor, name) is not None


EXAMPLES = re.findall(r"```python\n(.*?)```", (DOCS / "python.md").read_text(), re.DOTALL)


SAID = (
    "100.0% (4/4 passed)\nt0000 0 passed 1.0",
    "trivial/chat/mock/fixed 1.0 results/always-ok/",
    "ok 1.0 results/ok/",
    "6 {'execute: new': 6}\nt0000 0 execute: new",
    "t0002 passed\n0\n",
)
"""What each example prints, among other things."""


@pytest.mark.parametrize(("example", "said"), list(zip(EXAMPLES, SAID, strict=True)), ids=range(len(EXAMPLES)))
def test_the_examples_of_the_page_run(example: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(example, "docs/python.md", "exec"), {"__name__": "__main__"})
    assert said in capsys.readouterr().out
