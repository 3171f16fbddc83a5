"""Containers of sandboxes: what they are made from, how they come up, and how they go without leaving anything."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proctor.errors import Fault
from proctor.model.environment import EnvironmentSpec
from proctor.providers.docker.engine import CONFLICT, NOT_FOUND, Docker, engine_faults, status_of, words_of
from proctor.providers.docker.inside import run_plainly
from proctor.providers.docker.scripts import HOLDER, OWN_DIRECTORY

LABEL = "proctor."
ID_LABEL = f"{LABEL}sandbox"
SERVICE_LABEL = f"{LABEL}service"
KEPT = "proctor-kept-"
"""What the name of a container begins with that was kept; labels cannot be changed."""
PROCESSES = 4096
"""How many processes and threads a sandbox may have at once where the environment does not say."""
DEFAULT_WORKDIR = "/work"
REMOVE_ATTEMPTS = 12
REMOVE_PAUSE_SECONDS = 0.25
"""The first pause between two attempts to remove a container; each is longer than the one before."""
_ROOT = ("", "0", "root", "0:0", "root:root")


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What an image says of the commands in it."""

    user: str
    workdir: str


async def facts_of_image(docker: Docker, image: str) -> ImageFacts:
    """Ask the engine for an image. Raises `Fault` (image.missing; provider.open_failed where it does not answer)."""
    with engine_faults("provider.open_failed", f"image {image} cannot be looked up"):
        try:
            config: dict[str, Any] = (await docker.images.inspect(image)).get("Config") or {}
        except Exception as error:
            if status_of(error) == NOT_FOUND:
                raise Fault("image.missing", f"image {image}: {words_of(error)}") from error
            raise
    return ImageFacts(user=config.get("User") or "", workdir=config.get("WorkingDir") or "")


def workdir_of(environment: EnvironmentSpec, facts: ImageFacts) -> str:
    """Return the work directory: as the environment says, else as the image says unless that is `/`."""
    return environment.workdir or (facts.workdir if facts.workdir not in ("", "/") else DEFAULT_WORKDIR)


def user_of(environment: EnvironmentSpec, facts: ImageFacts) -> str:
    """Return whom commands run as, `0` for root."""
    user = environment.user or facts.user
    return "0" if user in _ROOT else user


def labels_of(labels: Mapping[str, str], sandbox: str) -> dict[str, str]:
    """Return the labels of a sandbox as they stand on its containers."""
    return {**{LABEL + name: value for name, value in labels.items()}, ID_LABEL: sandbox}


def container_config(
    environment: EnvironmentSpec, image: str, labels: Mapping[str, str], *, workdir: str, network: str
) -> dict[str, Any]:
    """Return what a container is made from. Its first process is ours, and runs as root.

    No part of the machine is mounted, no namespace is shared with it, and no program gains privileges in it. Variables
    are given to each command instead: the engine shows those of containers to everybody who may ask it.
    """
    resources = environment.resources
    host: dict[str, Any] = {
        "NetworkMode": network,
        "SecurityOpt": ["no-new-privileges"],
        "CapDrop": ["NET_RAW"],  # which could pretend to be another sandbox of the same network
        "PidsLimit": resources.processes or PROCESSES,
    }
    if resources.cpus is not None:
        host["NanoCpus"] = int(resources.cpus * 1e9)
    if resources.memory_bytes is not None:
        host |= {"Memory": resources.memory_bytes, "MemorySwap": resources.memory_bytes}
    return {
        "Image": image,
        "Entrypoint": ["/bin/sh", "-c", HOLDER, "proctor"],
        "Cmd": [],
        "User": "0",
        "WorkingDir": workdir,
        "Labels": dict(labels),
        "StopSignal": "SIGKILL",
        "StopTimeout": 0,
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": host,
    }


async def own_directory(docker: Docker, name: str, directory: str, user: str) -> tuple[int, int]:
    """Make the work directory of a user other than root, and return the numbers of that user and its group."""
    code, printed = await run_plainly(docker, name, ["/bin/sh", "-c", OWN_DIRECTORY, "proctor", directory, user])
    numbers = printed.split()
    if code != 0 or len(numbers) != 2 or not all(one.isdigit() for one in numbers):
        raise Fault("provider.open_failed", f"user `{user}` of the environment is not known in its image")
    return int(numbers[0]), int(numbers[1])


async def remove_container(docker: Docker, name: str) -> None:
    """Kill and remove a container with its volumes, and wait until it is gone; nothing there is no error.

    Raises `Fault` (dispose.failed) when the engine goes on refusing.
    """
    container = docker.containers.container(name)
    refused: BaseException | None = None
    for attempt in range(REMOVE_ATTEMPTS):
        try:
            if attempt > 0:
                await container.show()  # somebody may be removing it already
            await container.delete(force=True, v=True)
        except Exception as error:
            status = status_of(error)
            if status == NOT_FOUND:
                return
            if status is None:
                raise
            if status != CONFLICT:
                refused = error
            await asyncio.sleep(REMOVE_PAUSE_SECONDS * (attempt + 1))
        else:
            return
    why = "its removal does not end" if refused is None else words_of(refused)
    raise Fault("dispose.failed", f"container {name} could not be removed: {why}")


async def containers_with(docker: Docker, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return what the engine lists of containers with all of these labels (`name` or `name=value`), ended ones too."""
    import json  # noqa: PLC0415

    with engine_faults("provider.unavailable", "containers cannot be listed"):
        found: list[Any] = await docker.containers.list(all=1, filters=json.dumps({"label": list(labels)}))
    return [one._container for one in found]


def labels_on(shown: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of a container that the engine lists."""
    return dict(shown.get("Labels") or {})


def sandboxes_of(shown: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the labels of the sandboxes that listed containers are of, each once, with `kept` where it was kept."""
    found: dict[str, dict[str, str]] = {}
    for one in shown:
        own = {
            name.removeprefix(LABEL): value
            for name, value in labels_on(one).items()
            if name.startswith(LABEL) and name != SERVICE_LABEL
        }
        entry = found.setdefault(own["sandbox"], own)
        if any(str(name).lstrip("/").startswith(KEPT) for name in one.get("Names") or ()):
            entry["kept"] = "true"
    return list(found.values())
