"""Podman runs health checks by timers of systemd; where there is none, services that wait for one wait for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from proctor.errors import describe
from proctor.providers.docker.compose_sweep import PROJECT_LABEL

EVERY_SECONDS = 1.0

log = logging.getLogger(__name__)


@asynccontextmanager
async def checking_health(docker: Any, project: str, wanted: bool) -> AsyncGenerator[None]:
    """Have the checks of a project's containers run meanwhile, where that is `wanted`."""
    task = asyncio.get_running_loop().create_task(_check_for_ever(docker, project)) if wanted else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("health checks of %s could not be run: %s", project, describe(error))


async def _check_for_ever(docker: Any, project: str) -> None:
    while True:
        for one in await docker.containers.list(filters={"label": [f"{PROJECT_LABEL}={project}"]}):
            await _check(docker, str(one.id))
        await asyncio.sleep(EVERY_SECONDS)


async def _check(docker: Any, container: str) -> None:
    from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

    try:
        await docker._query_json(f"libpod/containers/{container}/healthcheck")
    except DockerError as error:  # it has no check, or is gone, or not up yet: the limit of `up` bounds all of this
        if error.status not in (404, 409, 500):
            raise


__all__ = ["EVERY_SECONDS", "checking_health"]
