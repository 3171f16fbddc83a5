"""Checks of `Sandbox.exec`, for `conformance.check_provider`."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from proctor.plugins.api import ExecLimits, ExecResult, Sandbox
from proctor.testing.conformance import Stage, require, require_equal

COMMAND_MARKER = "PROCTOR_CHECK_COMMAND"
LIMIT_SECONDS = 1.0
SLEEP = "sleep 3000"


def reasons(result: ExecResult) -> dict[str, Any]:
    """Return all that a result says of its end: exactly one thing."""
    found = {
        "exit_code": result.exit_code,
        "signal": result.signal,
        "timed_out": result.timed_out or None,
        "output_exceeded": result.output_exceeded or None,
        "lost": result.lost,
    }
    return {name: value for name, value in found.items() if value is not None}


async def running(sandbox: Sandbox, token: str) -> list[str]:
    """Return the processes in the sandbox that were started with the marker `token`."""
    found = await sandbox.exec(f"grep -lzx '{COMMAND_MARKER}={token}' /proc/[0-9]*/environ 2>/dev/null")
    return found.out.split()


async def exit_codes_are_the_commands_own(stage: Stage) -> None:
    """Whatever the number, it is no timeout and no signal."""
    for code in (0, 1, 124, 137, 255):
        result = await stage.sandbox.exec(f"exit {code}", timeout_seconds=60)
        require_equal(f"`exit {code}`", reasons(result), {"exit_code": code})


async def a_signal_is_reported_as_a_signal(stage: Stage) -> None:
    """A command killed by signal 9 has no exit code."""
    require_equal("`kill -9 $$`", reasons(await stage.sandbox.exec("kill -9 $$")), {"signal": 9})


async def a_program_that_is_not_there_ends_with_127(stage: Stage) -> None:
    """As in a shell, with and without one."""
    for command in ("no-such-program-here", ["no-such-program-here"]):
        result = await stage.sandbox.exec(command)
        require_equal(f"exit code of {command!r}", result.exit_code, 127)
        require("no-such-program-here" in result.err, f"the error output of {command!r} should name the program")


async def words_are_not_read_by_a_shell(stage: Stage) -> None:
    """A sequence is the command itself; a string goes through `sh -c`."""
    result = await stage.sandbox.exec(["printf", "%s|%s", "$HOME", "a  'b'\n;*"])
    require_equal("output of the words", result.stdout, b"$HOME|a  'b'\n;*")
    require_equal("output of the string", (await stage.sandbox.exec("printf '%s' 'a'\"b\"")).stdout, b"ab")


async def variables_are_the_sandboxes_and_the_calls(stage: Stage) -> None:
    """`env` of the call adds to that of the environment, for this call only."""
    name, value = next(iter(stage.environment.env.items()))
    result = await stage.sandbox.exec("env", env={"OF_THE_CALL": "a=b c"})
    lines = result.out.splitlines()
    require(f"{name}={value}" in lines, f"variable {name} of the environment is missing in {lines}")
    require("OF_THE_CALL=a=b c" in lines, f"variable of the call is missing in {lines}")
    require("OF_THE_CALL" not in (await stage.sandbox.exec("env")).out, "the variable of an earlier call is still set")


async def no_variable_of_the_runner_is_visible(stage: Stage) -> None:
    """Credentials of the runner stay with the runner."""
    secret = os.urandom(16).hex()
    os.environ["PROCTOR_CHECK_API_KEY"] = secret
    try:
        found = await stage.sandbox.exec("env; cat /proc/self/environ")
    finally:
        del os.environ["PROCTOR_CHECK_API_KEY"]
    require(secret not in found.out, "a variable of the runner is visible in the sandbox")


async def commands_start_in_the_work_directory(stage: Stage) -> None:
    """`cwd` is relative to it, or absolute."""
    sandbox = stage.sandbox
    require_equal("`pwd`", (await sandbox.exec("pwd -P")).out.strip(), sandbox.workdir)
    await sandbox.exec("mkdir -p some/where")
    below = f"{sandbox.workdir}/some/where"
    require_equal("`pwd` with cwd", (await sandbox.exec("pwd -P", cwd="some/where")).out.strip(), below)
    require_equal("`pwd` with absolute cwd", (await sandbox.exec("pwd -P", cwd=below)).out.strip(), below)
    result = await sandbox.exec("pwd", cwd="no/such/place")
    require(not result.ok, "a command in a directory that does not exist should not succeed")


async def standard_input_is_at_its_end(stage: Stage) -> None:
    """A program that asks for input gets none, at once."""
    result = await stage.sandbox.exec("if read line; then echo got; else echo end; fi; cat", timeout_seconds=60)
    require_equal("what a reader of standard input saw", result.out, "end\n")


async def standard_input_given_arrives_whole(stage: Stage) -> None:
    """Any bytes, more than a pipe holds, and then the end."""
    data = bytes(range(256)) * 4096
    result = await stage.sandbox.exec(["cat"], stdin=data, timeout_seconds=60)
    require(result.stdout == data, f"{len(data)} bytes of input came back as {len(result.stdout)} others")
    require((await stage.sandbox.exec(["true"], stdin=data)).ok, "input that is not read should do no harm")


async def foreign_bytes_are_kept(stage: Stage) -> None:
    """Output is bytes: invalid UTF-8 and NUL included."""
    result = await stage.sandbox.exec(r"printf '\377\000\200x'; printf '\303\050' >&2")
    require_equal("standard output", result.stdout, b"\xff\x00\x80x")
    require_equal("standard error", result.stderr, b"\xc3(")


async def much_output_is_cut_and_counted(stage: Stage) -> None:
    """100 MB: head and tail are kept, the rest is counted, nothing fails."""
    size, keep = 100_000_000, 4000
    command = f"printf begin; head -c {size} /dev/zero; printf end"
    result = await stage.sandbox.exec(command, keep_bytes=keep)
    require_equal("end of the command", reasons(result), {"exit_code": 0})
    require(len(result.stdout) <= keep, f"{len(result.stdout)} bytes are kept, more than {keep}")
    require(result.stdout.startswith(b"begin"), "the head of the output is missing")
    require(result.stdout.endswith(b"end"), "the tail of the output is missing")
    require_equal("bytes kept and dropped", len(result.stdout) + result.stdout_dropped, size + 8)


async def output_is_told_as_it_comes(stage: Stage) -> None:
    """`on_output` sees each piece, in order, by stream."""
    pieces: list[tuple[str, bytes]] = []
    script = "echo 1; echo 2 >&2; echo 3"
    await stage.sandbox.exec(script, on_output=lambda stream, data: pieces.append((stream, data)))
    told = {name: b"".join(data for stream, data in pieces if stream == name) for name in ("stdout", "stderr")}
    require_equal("what was told", told, {"stdout": b"1\n3\n", "stderr": b"2\n"})


async def commands_run_side_by_side(stage: Stage) -> None:
    """Several in one sandbox, each waiting for the other."""
    await stage.sandbox.exec("mkfifo a b")
    results = await asyncio.gather(
        stage.sandbox.exec("echo one > a; cat b", timeout_seconds=60),
        stage.sandbox.exec("cat a; echo two > b", timeout_seconds=60),
    )
    require_equal("their outputs", [result.out for result in results], ["two\n", "one\n"])


async def a_time_limit_ends_the_whole_tree(stage: Stage) -> None:
    """Grandchildren that hold the pipe do not hold the call, and are gone after it."""
    token = os.urandom(8).hex()
    script = f"echo so far; {SLEEP} & wait"
    result = await stage.sandbox.exec(script, timeout_seconds=LIMIT_SECONDS, env={COMMAND_MARKER: token})
    require_equal("end of the command", reasons(result), {"timed_out": True})
    require_equal("output up to then", result.stdout, b"so far\n")
    require_equal("processes left", await running(stage.sandbox, token), [])


async def a_time_limit_ends_daemons(stage: Stage) -> None:
    """A process with a session of its own, whose parent is gone, ends with its command."""
    token = os.urandom(8).hex()
    script = f"(setsid sh -c '{SLEEP} & {SLEEP}' > /dev/null 2>&1 &); {SLEEP}"
    result = await stage.sandbox.exec(script, timeout_seconds=LIMIT_SECONDS, env={COMMAND_MARKER: token})
    require_equal("end of the command", reasons(result), {"timed_out": True})
    require_equal("processes left", await running(stage.sandbox, token), [])


async def a_daemon_holds_nobody_and_lives_on(stage: Stage) -> None:
    """The call returns although the pipe is held, and the daemon runs until `dispose`."""
    token = os.urandom(8).hex()
    script = f"(setsid {SLEEP} &); echo returned"
    result = await stage.sandbox.exec(script, env={COMMAND_MARKER: token}, timeout_seconds=60)
    require_equal("end of the command", reasons(result), {"exit_code": 0})
    require_equal("its output", result.out, "returned\n")
    require(len(await running(stage.sandbox, token)) > 0, "the process in the background has not survived the call")


async def cancelling_ends_the_command(stage: Stage) -> None:
    """A call that is cancelled leaves nothing running."""
    token = os.urandom(8).hex()
    begun = asyncio.Event()
    call = asyncio.ensure_future(
        stage.sandbox.exec(
            f"{SLEEP} & echo begun; {SLEEP}", env={COMMAND_MARKER: token}, on_output=lambda stream, data: begun.set()
        )
    )
    await begun.wait()
    call.cancel()
    done, _ = await asyncio.wait({call})
    require(all(task.cancelled() for task in done), "a cancelled call should end as cancelled")
    require_equal("processes left", await running(stage.sandbox, token), [])


async def memory_is_limited(stage: Stage) -> None:
    """A program that takes ever more fails, or is killed, long before its time is over."""
    limits = ExecLimits(memory_bytes=128 << 20)
    result = await stage.sandbox.exec("tail /dev/zero", limits=limits, timeout_seconds=90)
    require(not result.ok and not result.timed_out, f"it should fail for want of memory, but: {reasons(result)}")


async def processes_are_limited(stage: Stage) -> None:
    """Forty sleepers do not fit into a limit of ten."""
    script = f"i=0; while [ $i -lt 40 ]; do {SLEEP} & i=$((i+1)); done; wait"
    result = await stage.sandbox.exec(script, limits=ExecLimits(processes=10), timeout_seconds=90)
    require(not result.ok and not result.timed_out, f"it should fail for want of processes, but: {reasons(result)}")


async def output_is_limited(stage: Stage) -> None:
    """A command that prints without end is ended."""
    limits = ExecLimits(output_bytes=1_000_000)
    result = await stage.sandbox.exec("while :; do echo yes; done", limits=limits, keep_bytes=100, timeout_seconds=90)
    require_equal("end of the command", reasons(result), {"output_exceeded": True})


async def files_are_limited(stage: Stage) -> None:
    """A file cannot grow beyond the limit."""
    limits = ExecLimits(file_bytes=100_000)
    result = await stage.sandbox.exec("head -c 1000000 /dev/zero > big", limits=limits)
    require(not result.ok, "writing a file beyond the limit should fail")
    size = int((await stage.sandbox.exec("wc -c < big")).out)
    require(size <= 100_000, f"the file has {size} bytes, more than the limit")


CHECKS = (
    exit_codes_are_the_commands_own,
    a_signal_is_reported_as_a_signal,
    a_program_that_is_not_there_ends_with_127,
    words_are_not_read_by_a_shell,
    variables_are_the_sandboxes_and_the_calls,
    no_variable_of_the_runner_is_visible,
    commands_start_in_the_work_directory,
    standard_input_is_at_its_end,
    standard_input_given_arrives_whole,
    foreign_bytes_are_kept,
    much_output_is_cut_and_counted,
    output_is_told_as_it_comes,
    commands_run_side_by_side,
    a_time_limit_ends_the_whole_tree,
    a_time_limit_ends_daemons,
    a_daemon_holds_nobody_and_lives_on,
    cancelling_ends_the_command,
    memory_is_limited,
    processes_are_limited,
    output_is_limited,
    files_are_limited,
)
