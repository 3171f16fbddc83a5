"""Scripts of ours in containers, and what the engine says of a container."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from proctor.errors import Fault
from proctor.providers.docker.engine import CONFLICT, NOT_FOUND, Docker, engine_faults, status_of

NO_USER = re.compile(r"unable to find user|no matching entries in passwd", re.IGNORECASE)
"""What engines say where the user of a command is not known in the container."""
RESTART_SECONDS = 60.0
MOST_PRINTED_BYTES = 256 * 1024 * 1024
"""How much a script of ours may print, such as the names of all files of a directory."""


async def run_plainly(docker: Docker, name: str, words: list[str], *, user: str = "0") -> tuple[int | None, bytes]:
    """Run a script of ours in a container; return its exit code and what it printed. Raises `Fault`."""
    with engine_faults_of_container(name):
        made = await docker.containers.container(name).exec(words, user=user, workdir="/")
        printed = bytearray()
        async with made.start() as stream:
            while (message := await next_piece(stream)) is not None:
                if message[0] == 1:
                    printed += message[1]
                if len(printed) > MOST_PRINTED_BYTES:
                    raise OSError(f"sandbox {name}: what is to be listed is too much")
        seen: dict[str, Any] = await made.inspect()
        return seen["ExitCode"], bytes(printed)


async def next_piece(stream: Any) -> tuple[int, bytes] | None:
    """Return the next piece of output; None at its end, however the connection ended."""
    try:
        message = await stream.read_out()
    except Exception as error:
        if status_of(error) is None:
            raise
        return None
    return None if message is None else (message.stream, message.data)


async def is_gone(docker: Docker, name: str) -> bool:
    """Return whether a container is not there any more, or does not run."""
    try:
        state: dict[str, Any] = (await docker.containers.container(name).show())["State"]
    except Exception as error:
        if status_of(error) == NOT_FOUND:
            return True
        raise
    return not state["Running"]


@contextmanager
def engine_faults_of_container(name: str) -> Generator[None]:
    """Turn what the engine says of the container of a sandbox into `Fault` (provider.lost).

    Raises `ValueError` for a user that is not known in it.
    """
    try:
        with engine_faults("provider.lost", f"sandbox {name} cannot be used"):
            yield
    except Fault as fault:
        if NO_USER.search(str(fault)):
            raise ValueError(str(fault)) from fault
        raise


async def restart(docker: Docker, name: str) -> None:
    """End everything in a container and start it anew; what it has written stays. Raises `Fault`.

    Not by the engine's own restart, after which Docker 20.10 can start no command in it.
    """
    container = docker.containers.container(name)
    with engine_faults_of_container(name):
        try:
            await container.kill()
        except Exception as error:
            if status_of(error) != CONFLICT:  # it has ended
                raise
        try:
            async with asyncio.timeout(RESTART_SECONDS):
                await container.wait()
        except TimeoutError as error:
            raise Fault("provider.lost", f"sandbox {name} does not end within {RESTART_SECONDS:g} s") from error
        await container.start()
