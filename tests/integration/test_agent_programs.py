"""The real agent programs, driven by the scripted model server: what they do, what they used, what is kept of it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from proctor.model.attempt import Usage
from proctor.model.environment import Network
from proctor.plugins.api import Message, ToolCall
from proctor.providers.bwrap.provider import BwrapProvider
from proctor.providers.docker.provider import DockerProvider
from proctor.providers.local import LocalProvider
from proctor.testing.model_server import ModelServer
from proctor.testing.replies import Answer, Hang
from support import agents, engines
from support.atif_rules import checked
from support.bwrap import why_not
from support.programs import Context, model_at, sandbox_of

FAMILIES = {"claude-code": "anthropic", "codex": "openai", "mini-swe-agent": "openai", "opencode": "anthropic"}
NAMES = sorted(FAMILIES)
SLOW = {"mini-swe-agent", "opencode"}
ALL = os.environ.get("PROCTOR_AGENT_TESTS") == "all"
"""Whether each program does everything; by default the two that start fast do, and all of them make a file."""
HASTY = {"claude-code": {"env": {"CLAUDE_CODE_MAX_RETRIES": "1"}}}
"""Parameters with which programs try less often."""
FIRST = Usage(calls=1, input_tokens=1000, output_tokens=50, cache_read_tokens=300, cache_write_tokens=200)
SECOND = Usage(
    calls=1, input_tokens=1100, output_tokens=70, cache_read_tokens=1300, cache_write_tokens=20, reasoning_tokens=10
)
BOTH = FIRST + SECOND
SHELLS = {"Bash": "command", "bash": "command", "exec_command": "cmd"}
PROMPT = "Make \"hello.txt\", with 'hi' in it; $(touch never) `id` \\ {key} -- ünï"

pytestmark = pytest.mark.timeout(300)


def each(*names, quick=("codex",)):
    """Return programs as parameters, of which only the quick ones are in the default run."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.long) for name in names]


def call_of(request, command, number):
    name, argument = next(
        (name, argument) for name, argument in SHELLS.items() if name in {t.name for t in request.tools}
    )
    arguments = {argument: command} | ({"description": "make it"} if argument == "command" else {})
    return ToolCall(f"call_{number}", name, json.dumps(arguments))


def one_file(request):
    """Make a file, then say so; a program that wants its work handed in by a command gets that."""
    if not request.tools:
        return Answer("a title", usage=Usage(calls=1))
    turn = [message for message in request.messages if message.role != "system"]
    done = [message for message in turn if message.role == "tool"]
    if not done:
        return Answer("I make it.", usage=FIRST, tool_calls=(call_of(request, "echo hi > hello.txt", 1),))
    if any("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" in message.text for message in request.messages):
        submit = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo All done."
        return Answer("", usage=SECOND, tool_calls=(call_of(request, submit, 2),))
    return Answer("All done.", usage=SECOND)


def provider_named(name, tmp_path):
    if name == "bwrap":
        if why_not() is not None:
            pytest.skip(f"bubblewrap does not work here: {why_not()}")
        if not agents.in_usr():
            pytest.skip(f"{agents.place()} cannot be seen in a sandbox without an image")
        return BwrapProvider(tmp_path / "bwrap")
    return LocalProvider(tmp_path / "local", grace_seconds=0.5)


def only_where_all_are_asked_for(name):
    if name in SLOW and not ALL:
        pytest.skip(f"{name} takes long to start: PROCTOR_AGENT_TESTS=all runs this as well")


@pytest.mark.parametrize("provider", ["bwrap", pytest.param("local", marks=pytest.mark.long)])
@pytest.mark.parametrize("name", each(*NAMES, quick=("claude-code", "codex")))
def test_makes_a_file_and_its_usage_is_right_to_the_token(name, provider, tmp_path):
    if provider == "local":
        only_where_all_are_asked_for(name)
    path = agents.search_path(name)
    made = provider_named(provider, tmp_path)

    async def work():
        async with (
            ModelServer(one_file) as server,
            sandbox_of(tmp_path, provider=made, env={"PATH": path}) as sandbox,
        ):
            context = Context(sandbox, model_at(server.base_url, FAMILIES[name]))
            session = await agents.harness(name).start(context)
            turn = await session.send(Message(PROMPT))
            collected = await session.collect()
            await session.close()
            assert await sandbox.read("hello.txt") == b"hi\n"
            assert not (await sandbox.exec("test -e never")).ok, "no shell saw the prompt"
            return context, turn, collected

    context, turn, collected = asyncio.run(work())
    assert turn.answer == "All done."
    assert context.used == BOTH
    assert context.issues == []
    wanted = agents.harness(name).declared("openai").version
    assert collected.trajectory["agent"]["name"] == name
    assert wanted in collected.trajectory["agent"]["version"]
    checked(collected.trajectory)
    totals = collected.trajectory["final_metrics"]
    assert totals["total_prompt_tokens"] == 1000 + 300 + 200 + 1100 + 1300 + 20
    assert totals["total_completion_tokens"] == 120
    steps = [step for step in collected.trajectory["steps"] if step["source"] == "agent"]
    assert steps[0]["message"] == "I make it."
    assert "hello.txt" in json.dumps(steps[0]["tool_calls"])
    assert steps[0]["observation"]["results"]
    assert steps[0]["metrics"]["completion_tokens"] == 50
    prompts = [step["message"] for step in collected.trajectory["steps"] if step["source"] == "user"]
    assert any(PROMPT in text for text in prompts), "the prompt came as it is"
    assert "install.txt" not in collected.files, "it was there, and is not installed again"
    kept = b"".join(collected.files.values())
    assert b"sk-test-0123456789" not in kept


def used_by(work, tmp_path, name, script):
    """Run `work(session, server, context)` with a session of a program in a sandbox of this machine."""
    only_where_all_are_asked_for(name)
    path = agents.search_path(name)

    async def run():
        async with (
            ModelServer(script) as server,
            sandbox_of(tmp_path / "base", env={"PATH": path}) as sandbox,
        ):
            context = Context(sandbox, model_at(server.base_url, FAMILIES[name]))
            session = await agents.harness(name, **HASTY.get(name, {})).start(context)
            try:
                return context, await work(session, server, context)
            finally:
                await session.close()

    return asyncio.run(run())


@pytest.mark.parametrize("name", each("claude-code", "codex", "opencode"))
def test_a_second_turn_goes_on_with_the_first_and_counts_it_once(name, tmp_path):
    async def work(session, server, context):
        turns = [await session.send(Message("Make it.")), await session.send(Message("Say it again."))]
        return turns, await session.collect(), server.requests

    context, (turns, collected, requests) = used_by(work, tmp_path, name, one_file)
    assert [turn.answer for turn in turns] == ["All done.", "All done."]
    assert [turn.usage for turn in turns] == [BOTH, SECOND]
    assert context.used == BOTH + SECOND
    last = [request for request in requests if request.messages][-1]
    said = [message.text for message in last.messages]
    assert any("Make it." in text for text in said)
    assert any("Say it again." in text for text in said)
    assert {"stdout.txt", "stdout-2.txt"} <= set(collected.files)
    assert collected.trajectory["final_metrics"]["total_completion_tokens"] == 190


@pytest.mark.parametrize("name", each(*NAMES, quick=()))
def test_a_prompt_that_looks_like_a_command_of_the_program_is_a_prompt(name, tmp_path):
    async def work(session, server, context):
        return await session.send(Message("/compact")), server.requests

    _, (turn, requests) = used_by(work, tmp_path, name, one_file)
    assert turn.answer == "All done."
    assert any("/compact" in message.text for message in requests[-1].messages if message.role == "user")


def test_mini_swe_agent_takes_one_turn():
    assert agents.harness("mini-swe-agent").turns == 1


@pytest.mark.parametrize("name", each(*NAMES))
def test_a_turn_that_is_cut_off_keeps_what_was_done_and_what_it_used(name, tmp_path):
    """Spec 05: output so far is kept. The second call never comes back; what the first used is known."""
    waiting = asyncio.Event()

    def script(request):
        if request.tools and any(message.role == "tool" for message in request.messages):
            waiting.set()
            return Hang()
        return one_file(request)

    async def work(session, server, context):
        turn = asyncio.create_task(session.send(Message("Make it.")))
        await waiting.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        return await session.collect()

    context, collected = used_by(work, tmp_path, name, script)
    assert context.used == FIRST + Usage(calls=1), "one call is known, and nobody knows what became of the other"
    assert "usage.missing" in dict(context.issues)
    assert "hello.txt" in json.dumps(checked(collected.trajectory)["steps"])


@pytest.mark.parametrize("name", each(*NAMES))
def test_a_list_of_hosts_with_the_endpoint_on_it_is_enough(name, tmp_path):
    """Spec 06: nothing but the endpoint can be reached, and the program asks for nothing else."""
    path = agents.search_path(name)
    provider = provider_named("bwrap", tmp_path)

    async def work():
        async with ModelServer(one_file) as server:
            allowed = Network("allow", (urlsplit(server.base_url).netloc,))
            async with sandbox_of(tmp_path, provider=provider, env={"PATH": path}, network=allowed) as sandbox:
                context = Context(sandbox, model_at(server.base_url, FAMILIES[name]))
                session = await agents.harness(name).start(context)
                turn = await session.send(Message("Make it."))
                await session.close()
                return context, turn

    context, turn = asyncio.run(work())
    assert turn.answer == "All done."
    assert context.used == BOTH
    assert context.issues == []


BINARIES = {
    "claude-code": "claude-code-linux-*/claude",
    "codex": "codex-linux-*/vendor/*/bin/codex",
    "opencode": "opencode-linux-*/bin/opencode",
}
"""The programs that are one file each, below their packages."""


def staged(name, folder):
    """Lay out what a container without anything needs to run a program: its file, a bash, and the libraries of both."""
    found = sorted((agents.place() / name).glob(f"node_modules/**/{BINARIES[name]}"))
    if not found:
        pytest.skip(f"{name} is no single file here")
    for source, target in ((found[-1], f"opt/bin/{found[-1].name}"), (Path("/bin/bash"), "bin/bash")):
        told = subprocess.run(["ldd", source], capture_output=True, text=True, check=False).stdout
        for library in [word for word in told.split() if word.startswith("/")]:
            path = folder / library.removeprefix("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, path)
        (folder / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / target)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(BINARIES))
def test_makes_a_file_in_a_container_that_reaches_nothing_but_the_endpoint(name, tmp_path):
    agents.search_path(name)
    provider = DockerProvider(engines.docker())
    needed = staged(name, tmp_path / "staged")

    async def work():
        async with ModelServer(one_file) as server:
            allowed = Network("allow", (urlsplit(server.base_url).netloc,))
            async with sandbox_of(
                tmp_path, provider=provider, image=engines.IMAGE, env={"PATH": "/opt/bin:/bin"}, network=allowed
            ) as sandbox:
                await sandbox.upload(needed, "/")
                context = Context(sandbox, model_at(server.base_url, FAMILIES[name]))
                session = await agents.harness(name).start(context)
                turn = await session.send(Message("Make it."))
                collected = await session.collect()
                await session.close()
                assert await sandbox.read("hello.txt") == b"hi\n"
                return context, turn, collected

    context, turn, collected = asyncio.run(work())
    assert turn.answer == "All done."
    assert context.used == BOTH
    assert context.issues == []
    assert "install.txt" not in collected.files
