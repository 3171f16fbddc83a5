"""What is left of the services of a sandbox: their last words, and removing them by label."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, cast

from proctor.errors import Fault
from proctor.providers.docker.compose_checks import section

PROJECT_LABEL = "com.docker.compose.project"
"""By which compose programs mark all that they make."""

STALE_AFTER = timedelta(minutes=10)
"""A network without containers that is older belongs to nobody: services come up sooner."""

_ROUNDS = 5
_PAUSE_SECONDS = 0.5
_LINES = 10


async def remove_project(docker: Any, project: str) -> None:
    """Remove containers, then networks and volumes of a project, until none is left.

    Raises `Fault` ("dispose.failed") where some is left after several rounds.
    """
    troubles: list[str] = []
    for number in range(_ROUNDS):
        troubles.clear()
        # Volumes and networks are given back by containers; a container that is just being made is seen next round.
        found = [await _remove_all(await listed(docker, kind, project), troubles) for kind in _KINDS]
        if not any(found):
            return
        if troubles:
            await asyncio.sleep(_PAUSE_SECONDS * number)
    raise Fault("dispose.failed", f"services of {project} are not gone: {'; '.join(troubles) or 'more come up'}")


async def reclaim_networks(docker: Any) -> int:
    """Remove the networks that sandboxes of dead processes left; return how many."""
    now = _moment(str((await docker.system.info()).get("SystemTime") or ""))
    count = 0
    for one in await _networks(docker, {"label": ["proctor.sandbox"]}):
        made = _moment(str(one.get("Created") or ""))
        old = now is not None and made is not None and now - made > STALE_AFTER
        if old and not (await _query_network(docker, str(one["Id"]))).get("Containers"):
            troubles: list[str] = []
            await _remove_all([(str(one["Id"]), _network(docker, str(one["Id"])))], troubles)
            count += not troubles
    return count


async def last_words(docker: Any, project: str) -> list[str]:
    """Return how the services of a project are that are not well, and what they said last."""
    from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

    lines: list[str] = []
    try:
        for container in await docker.containers.list(all=True, filters=_filter(project)):
            shown = cast("dict[str, Any]", await container.show())
            state = shown["State"]
            name = str(shown["Name"]).lstrip("/")
            health = section(state.get("Health")).get("Status")
            if state.get("Running") and health in (None, "", "healthy", "none"):
                continue
            said = "unhealthy" if state.get("Running") else f"ended with status {state.get('ExitCode')}"
            lines.append(f"{name}: {said if health != 'starting' else 'never became healthy'}")
            logs = await container.log(stdout=True, stderr=True, tail=_LINES)
            lines += [f"{name} | {str(line).rstrip()}" for line in logs]
    except DockerError as error:
        lines.append(f"what its services said cannot be read: {error.message}")
    return lines


async def listed(docker: Any, kind: str, project: str) -> list[tuple[str, Callable[[], Awaitable[Any]]]]:
    """Return the names of what there is of a project, each with what removes it."""
    if kind == "container":
        containers = await docker.containers.list(all=True, filters=_filter(project))
        return [(str(one.id), _container(one)) for one in containers]
    if kind == "network":
        return [(str(one["Id"]), _network(docker, str(one["Id"]))) for one in await _networks(docker, _filter(project))]
    answer = await docker.volumes.list(filters=_filter(project))
    return [(str(one["Name"]), _volume(docker, str(one["Name"]))) for one in answer.get("Volumes") or ()]


_KINDS = ("container", "network", "volume")


async def _remove_all(found: Sequence[tuple[str, Callable[[], Awaitable[Any]]]], troubles: list[str]) -> int:
    from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

    async def remove(name: str, call: Callable[[], Awaitable[Any]]) -> None:
        try:
            await call()
        except DockerError as error:
            gone = error.status == 404 or (error.status == 409 and "already in progress" in str(error.message))
            if not gone:
                troubles.append(f"{name[:12]}: {error.message}")

    await asyncio.gather(*(remove(name, call) for name, call in found))
    return len(found)


def _container(container: Any) -> Callable[[], Awaitable[Any]]:
    return lambda: container.delete(force=True, v=True)


def _network(docker: Any, network: str) -> Callable[[], Awaitable[Any]]:
    async def remove() -> None:
        async with docker._query(f"networks/{network}", "DELETE"):
            return

    return remove


def _volume(docker: Any, name: str) -> Callable[[], Awaitable[Any]]:
    async def remove() -> None:
        async with docker._query(f"volumes/{name}", "DELETE", params={"force": "1"}):
            return

    return remove


async def _networks(docker: Any, filters: dict[str, list[str]]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", await docker._query_json("networks", params={"filters": json.dumps(filters)}))


async def _query_network(docker: Any, network: str) -> dict[str, Any]:
    return cast("dict[str, Any]", await docker._query_json(f"networks/{network}"))


def _filter(project: str) -> dict[str, list[str]]:
    return {"label": [f"{PROJECT_LABEL}={project}"]}


def _moment(text: str) -> datetime | None:
    """Return a moment as engines write it, with nanoseconds, or None."""
    head, dot, tail = text.partition(".")
    zone = tail.lstrip("0123456789")
    try:
        found = datetime.fromisoformat(f"{head}{zone if dot else ''}".replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


__all__ = ["PROJECT_LABEL", "last_words", "listed", "reclaim_networks", "remove_project"]
