"""A declared program in a container that has BusyBox and nothing else."""

from __future__ import annotations

import asyncio

from proctor.harnesses.command import CommandHarness, CommandOptions
from proctor.plugins.api import Message
from proctor.providers.docker.provider import DockerProvider
from support import engines
from support.programs import Context, sandbox_of

PROGRAM = r'#!/bin/sh\ncat "$1" > log.txt; cat\n'


def test_a_program_is_installed_run_and_read_in_a_container(tmp_path):
    provider = DockerProvider(engines.docker())
    options = CommandOptions(
        name="mine",
        installed="command -v mine",
        install=f"mkdir -p bin; printf '{PROGRAM}' > bin/mine; chmod +x bin/mine; echo done",
        path=("{tools}/bin",),
        files={"{state}/deep/config": "settings\n"},
        command=("mine", "{state}/deep/config"),
        stdin="{prompt}",
        keep=("*.txt",),
    )

    async def work():
        async with sandbox_of(tmp_path, provider=provider, image=engines.IMAGE) as sandbox:
            session = await CommandHarness(options).start(Context(sandbox))
            turn = await session.send(Message("it's a $(test)"))
            collected = await session.collect()
            await session.close()
            return turn, collected

    turn, collected = asyncio.run(work())
    assert turn.answer == "it's a $(test)"
    assert collected.files["log.txt"] == b"settings\n"
    assert b"done" in collected.files["install.txt"]
