"""Every way in which a program can end has its own code (spec 05; case 102)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from proctor.model.codes import CODES
from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import ExecResult
from proctor.plugins.exits import code_of_exit, exit_words
from proctor.providers.local import LocalProvider

FIVE = ["harness.exit_nonzero", "harness.crashed", "time.agent", "harness.out_of_memory", "provider.lost"]


@pytest.mark.parametrize("status", range(256))
def test_102_every_status_is_the_programs_own_and_means_nothing_else(status: int) -> None:
    result = ExecResult(exit_code=status)
    assert code_of_exit(result) == (None if status == 0 else "harness.exit_nonzero")
    assert exit_words(result) == f"status {status}"


@pytest.mark.parametrize("signal", range(1, 65))
def test_102_every_signal_is_a_crash_and_is_named(signal: int) -> None:
    result = ExecResult(exit_code=None, signal=signal)
    assert code_of_exit(result) == "harness.crashed"
    assert exit_words(result).startswith(f"signal {signal}")


def test_102_the_five_ways_to_end_have_five_codes_of_the_table() -> None:
    results = [
        ExecResult(exit_code=1),
        ExecResult(exit_code=None, signal=9),
        ExecResult(exit_code=None, timed_out=True),
        ExecResult(exit_code=None, signal=9, out_of_memory=True),
        ExecResult(exit_code=None, lost="supervisor was killed by signal 9"),
    ]
    assert [code_of_exit(result) for result in results] == FIVE
    assert len({exit_words(result) for result in results}) == 5
    assert set(FIVE) <= set(CODES)


def test_memory_counts_only_where_the_program_did_not_go_on_without_it() -> None:
    assert code_of_exit(ExecResult(exit_code=0, out_of_memory=True)) is None
    assert code_of_exit(ExecResult(exit_code=137, out_of_memory=True)) == "harness.out_of_memory"


def test_what_a_harness_declares_of_statuses_goes_before_the_rest_but_not_before_what_was_done_to_it() -> None:
    declared = {3: "harness.limit", 124: "time.agent", 0: "model.refusal"}
    codes = [code_of_exit(ExecResult(exit_code=status), declared) for status in (0, 1, 3, 124)]
    assert codes == ["model.refusal", "harness.exit_nonzero", "harness.limit", "time.agent"]
    assert code_of_exit(ExecResult(exit_code=3, timed_out=True), declared) == "time.agent"
    with pytest.raises(KeyError):
        code_of_exit(ExecResult(exit_code=3), {3: "no.such"})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "options", "code", "words"),
    [
        ("true", {}, None, "status 0"),
        ("exit 124", {}, "harness.exit_nonzero", "status 124"),
        ("exit 255", {}, "harness.exit_nonzero", "status 255"),
        ("exit 137", {}, "harness.exit_nonzero", "status 137"),
        ("kill -9 $$", {}, "harness.crashed", "signal 9 (SIGKILL)"),
        ("kill -11 $$", {}, "harness.crashed", "signal 11 (SIGSEGV)"),
        ("exec sleep 600", {"timeout_seconds": 0.1}, "time.agent", "its time was over"),
    ],
)
def test_102_what_real_commands_come_to(command: str, options: dict[str, Any], code: str | None, words: str) -> None:
    async def run() -> ExecResult:
        provider = LocalProvider()
        sandbox = await provider.open(EnvironmentSpec(provider="local"), {})
        try:
            return await sandbox.exec(command, **options)
        finally:
            await sandbox.dispose()
            await provider.finalize()

    result = asyncio.run(run())
    assert code_of_exit(result) == code
    assert exit_words(result) == words
