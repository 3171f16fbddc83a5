"""Provider `local` does what every provider must (spec 06), and the suite that says so finds faults."""

from __future__ import annotations

import asyncio
import dataclasses
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from proctor.model.environment import EnvironmentSpec
from proctor.plugins.api import ExecResult
from proctor.providers.local import LocalProvider, LocalSandbox
from proctor.testing.conformance import NotConforming, ProviderCheck, check_provider


@pytest.mark.parametrize("check", check_provider(LocalProvider), ids=str)
def test_local_conforms(check: ProviderCheck) -> None:
    asyncio.run(check())


class FaultyProvider(LocalProvider):
    """Its sandboxes do something wrong after each command."""

    def __init__(self, spoil: Any) -> None:
        super().__init__()
        self._spoil = spoil

    async def open(self, environment: EnvironmentSpec, labels: Mapping[str, str]) -> LocalSandbox:
        sandbox = await super().open(environment, labels)
        right = sandbox.exec

        async def wrong(command: Any, **options: Any) -> ExecResult:
            return self._spoil(await right(command, **options), environment)

        sandbox.exec = wrong  # type: ignore[method-assign]
        return sandbox


left_behind: list[subprocess.Popen[bytes]] = []


def timeout_by_124(result: ExecResult, environment: EnvironmentSpec) -> ExecResult:
    return dataclasses.replace(result, exit_code=None, timed_out=True) if result.exit_code == 124 else result


def signal_as_status(result: ExecResult, environment: EnvironmentSpec) -> ExecResult:
    return dataclasses.replace(result, exit_code=128 + result.signal, signal=None) if result.signal else result


def text_only(result: ExecResult, environment: EnvironmentSpec) -> ExecResult:
    return dataclasses.replace(result, stdout=result.stdout.decode("utf-8", "replace").encode())


def forgets_to_count(result: ExecResult, environment: EnvironmentSpec) -> ExecResult:
    return dataclasses.replace(result, stdout_dropped=0)


def leaves_a_process(result: ExecResult, environment: EnvironmentSpec) -> ExecResult:
    left_behind.append(subprocess.Popen(["sleep", "300"], env=dict(environment.env)))
    return result


@pytest.mark.parametrize(
    ("spoil", "name", "message"),
    [
        (timeout_by_124, "exit_codes_are_the_commands_own", "`exit 124`"),
        (signal_as_status, "a_signal_is_reported_as_a_signal", "expected {'signal': 9}, got {'exit_code': 137}"),
        (text_only, "foreign_bytes_are_kept", "standard output"),
        (forgets_to_count, "much_output_is_cut_and_counted", "kept and dropped"),
        (leaves_a_process, "words_are_not_read_by_a_shell", "are left on this machine"),
    ],
)
def test_the_suite_finds_faults(spoil: Any, name: str, message: str) -> None:
    [check] = [check for check in check_provider(lambda: FaultyProvider(spoil)) if check.name == name]
    try:
        with pytest.raises(NotConforming) as caught:
            asyncio.run(check())
    finally:
        for process in left_behind:
            process.kill()
            process.wait()
    assert message in str(caught.value)
