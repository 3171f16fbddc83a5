"""The shell tool of `bash-agent` in a real sandbox: what a model sees of real commands."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from proctor.harnesses.bash_agent import BashAgentOptions
from proctor.harnesses.bash_tool import COMMAND_BYTES, BashTool
from proctor.model.environment import EnvironmentSpec
from proctor.providers.local import LocalProvider
from support.agent_world import bash


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run commands, one after another, in one sandbox; return what the model is shown of each."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    def call(*commands, limit=16_384, timeout_seconds=60.0, env=None, **arguments):
        async def inside():
            provider = LocalProvider()
            sandbox = await provider.open(EnvironmentSpec(provider="local", env=env or {}), {})
            try:
                options = BashAgentOptions(
                    command_timeout_seconds=timeout_seconds,
                    longest_command_timeout_seconds=timeout_seconds,
                    output_limit_bytes=limit,
                )
                tool = BashTool(sandbox, lambda said: None, options)
                return [await tool.run(bash(command, **arguments)) for command in commands]
            finally:
                await sandbox.dispose()

        return asyncio.run(inside())

    return call


def test_files_stay_and_directories_and_variables_do_not(run):
    shown = run("echo hi > a.txt; mkdir sub; cd sub; X=1", "cat a.txt; pwd | grep -c sub$; echo [$X]")
    assert shown == ["[it printed nothing, exit status 0]", "hi\n0\n[]\n"]


def test_both_streams_come_in_the_order_in_which_they_were_written(run):
    assert run("echo a; echo b >&2; echo c") == ["a\nb\nc\n"]


def test_it_is_bash_and_a_script_of_several_lines_is_one_command(run):
    assert run("set -o pipefail\nx=(a b)\nfalse | echo ${x[1]}") == ["b\n[exit status 1]"]


def test_a_command_gets_no_input(run):
    assert run("cat; echo end") == ["end\n"]


def test_quotes_and_everything_else_that_a_shell_reads_arrive_as_they_were_written(run):
    odd = """printf '%s' "it's \\"$((6*7))\\" \\\\ `echo x` \N{SNOWMAN}" """
    assert run(odd) == ['it\'s "42" \\ x \N{SNOWMAN}']


def test_123_binary_output_is_shown_with_replacement_characters(run):
    (shown,) = run("head -c 70000 /dev/urandom; printf '\\0\\377'", limit=1_000)
    assert "bytes left out" in shown
    assert len(shown) <= 1_100


def test_129_output_without_end_is_cut_to_head_and_tail(run):
    (shown,) = run("echo first; seq 1 1000000; echo last", limit=400)
    assert shown.startswith("first\n1\n2\n")
    assert shown.endswith("last\n")
    assert "6,888,507 bytes left out" in shown


def test_a_command_that_does_not_end_is_ended_with_what_it_started(run):
    (shown,) = run("echo begun; sleep 1000 & sleep 1000", timeout_seconds=0.5)
    assert shown.startswith("begun\n")
    assert shown.endswith("[it did not end within 0.5 seconds, and was ended with all that it had started]")


def test_a_command_that_kills_itself(run):
    assert run("kill -9 $$") == ["[it printed nothing, it was ended by signal 9 (SIGKILL)]"]


def test_the_longest_command_that_is_let_through_can_be_run(run):
    assert run(f": {'x' * (COMMAND_BYTES - 2)}") == ["[it printed nothing, exit status 0]"]


def test_what_goes_on_in_the_background_does_not_hold_a_command(run):
    assert run("sleep 1000 > log 2>&1 & echo started", "jobs; echo next") == ["started\n", "next\n"]


def test_where_there_is_no_bash_it_is_sh(run, tmp_path):
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "sh").symlink_to(Path("/bin/sh").resolve())
    (shown,) = run("echo hi; echo error >&2", env={"PATH": str(programs)})
    assert shown == "hi\nerror\n"
