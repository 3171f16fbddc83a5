"""Images of provider docker: what a name stands for, and getting them by pulling or building."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Hashable
from contextlib import aclosing
from typing import Any, cast

from proctor.errors import Fault
from proctor.model.environment import Build, EnvironmentSpec
from proctor.plugins.api import Say
from proctor.providers.docker.images_auth import ImageName, parse_name, read_credentials
from proctor.providers.docker.images_build import build_image, check_context, tag_of
from proctor.providers.docker.images_stream import EngineFailed, failed, progress

REGISTRY_SECONDS = 20.0
"""How long a registry may take to say what an image is; then it stays unknown."""

PROGRESS_SECONDS = 2.0
"""How often a pull says how far it is."""

PAUSES_SECONDS = (1.0, 5.0)
"""Before a pull is tried again where a registry refused for now, or could not be reached."""

_FOR_NOW = re.compile(
    r"toomanyrequests|too many requests|timeout|timed out|connection re(fused|set)|temporary failure|unexpected eof"
    r"|no such host|service unavailable|bad gateway|network is unreachable|tls handshake",
    re.IGNORECASE,
)


def refuse_image(environment: EnvironmentSpec) -> str | None:
    """Return why an engine cannot make containers from such an image, or None."""
    image = environment.image
    if image is not None and image.startswith(("/", "./", "../", "~")):
        return f"provider docker takes images by name: cannot use the path `{image}`"
    return None


@dataclasses.dataclass(slots=True)
class Known:
    """What was found when images were made ready: the ids of named ones, and compose files as they were read."""

    ids: dict[tuple[str, str | None], str] = dataclasses.field(default_factory=dict[tuple[str, str | None], str])
    files: dict[Hashable, Any] = dataclasses.field(default_factory=dict[Hashable, Any])


class Images:
    """The images of one engine. `docker` is an `aiodocker.Docker`; `known` may outlive it."""

    def __init__(self, docker: Any, known: Known | None = None) -> None:
        self._docker = docker
        self.known = known or Known()

    async def resolve(self, environment: EnvironmentSpec) -> EnvironmentSpec:
        """Return the environment with the digest of a named image: in its registry, else the id that it has here.

        It stays unknown where the image is not here and the registry does not answer. What is built has none: the
        digest of the context stands for it. Raises `Fault` ("provider.unavailable") where no engine answers.
        """
        if environment.image is None or environment.image_digest is not None:
            return environment
        name = parse_name(environment.image)
        found = await self._inspect(environment.image)
        digest = name.digest or (await self._remote_digest(name) if found is None else _digest_of(name, found))
        return dataclasses.replace(environment, image_digest=digest)

    async def prepare(self, environment: EnvironmentSpec, say: Say) -> None:
        """Pull or build the image of an environment where it is not here yet; raises `Fault` with the engine's words.

        Where the image was known when the run was planned, it is that one or none: a tag may have moved since.
        """
        if environment.build is not None:
            await self.build(environment.build, say)
        elif environment.image is not None:
            await self.fetch(environment.image, environment.image_digest, say)

    async def build(self, build: Build, say: Say) -> None:
        """Build an image unless it is here; raises `Fault` ("image.build_failed")."""
        tag = tag_of(build)
        if await self._inspect(tag) is None:
            await asyncio.to_thread(check_context, build)
            await build_image(self._docker, build, read_credentials(), say)
            if await self._inspect(tag) is None:
                raise Fault("image.build_failed", f"the engine built `{build.context}` and does not have {tag}")

    async def fetch(self, image: str, digest: str | None, say: Say) -> None:
        """Make a named image be here, with this digest where one is given."""
        found = await self._inspect(image)
        if found is None or not _is(parse_name(image), found, digest):
            found = await self._fetched(image, digest, found, say)
        self.known.ids[image, digest] = str(found["Id"])

    async def _fetched(
        self, image: str, digest: str | None, another: dict[str, Any] | None, say: Say
    ) -> dict[str, Any]:
        """Pull an image; `another` is what its name stands for here, where that is not what was planned."""
        name = parse_name(image)
        exact = name if digest is None else dataclasses.replace(name, digest=digest)
        wanted = image if digest is None else _full(exact)
        # By its digest in the registry, or by its id, it may be here though its name stands for another.
        for known in () if digest is None else (wanted, digest):
            if (found := await self._inspect(known)) is not None:
                return found
        try:
            await self._pull(exact, say)
        except EngineFailed as error:
            words = f"image `{image}` cannot be had: {error}"
            if another is not None:
                words = f"image `{image}` is another than when the run was planned ({digest}); that one: {error}"
            raise Fault("image.missing", words) from error
        found = await self._inspect(wanted)
        if found is None:
            raise Fault("image.missing", f"the engine pulled image `{image}` and does not have it")
        if another is None and exact.digest and not name.digest:
            # As a pull by the name would have left it: the next run finds it, also where its registry does not answer.
            await self._docker.images.tag(str(found["Id"]), name.repository, tag=name.tag or "latest")
        return found

    def name_of(self, environment: EnvironmentSpec) -> str:
        """Return what to make containers from. After `prepare` it is exact: tags that move change nothing."""
        if environment.build is not None:
            return tag_of(environment.build)
        if environment.image is None:
            raise Fault("image.missing", "provider docker makes sandboxes from images, and the environment names none")
        return self.known.ids.get((environment.image, environment.image_digest), environment.image)

    async def inspect(self, image: str) -> dict[str, Any]:
        """Return what the engine knows of an image that is here; raises `Fault` ("image.missing")."""
        found = await self._inspect(image)
        if found is None:
            raise Fault("image.missing", f"image `{image}` is not here any more")
        return found

    async def _inspect(self, image: str) -> dict[str, Any] | None:
        from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

        try:
            return cast("dict[str, Any]", await self._docker.images.inspect(image))
        except DockerError as error:
            if error.status == 404:
                return None
            reason = failed(error)
            if isinstance(reason, EngineFailed):
                reason = Fault("image.missing", f"cannot look up image `{image}`: {reason}")
            raise reason from error

    async def _remote_digest(self, name: ImageName) -> str | None:
        from aiodocker.exceptions import DockerError  # noqa: PLC0415 - heavy: only where it is used

        try:
            async with asyncio.timeout(REGISTRY_SECONDS):
                headers = await self._headers(name)
                answer = await self._docker._query_json(f"distribution/{_full(name)}/json", headers=headers)
        except (DockerError, TimeoutError):  # unknown is an answer: the pull will say what is wrong
            return None
        digest = answer.get("Descriptor", {}).get("digest")
        return str(digest) if digest else None

    async def _pull(self, name: ImageName, say: Say) -> None:
        for pause_seconds in PAUSES_SECONDS:
            try:
                return await self._pull_once(name, say)
            except EngineFailed as error:
                if not _FOR_NOW.search(str(error)):
                    raise
                say(f"{error}; trying again in {pause_seconds:g} s")
                await asyncio.sleep(pause_seconds)
        return await self._pull_once(name, say)

    async def _pull_once(self, name: ImageName, say: Say) -> None:
        params = {"fromImage": name.repository, "tag": name.reference}
        said = progress(self._docker, "images/create", params=params, headers=await self._headers(name))
        pause = _Pause()
        try:
            async with aclosing(said) as pieces:
                async for piece in pieces:
                    status = str(piece.get("status") or piece.get("stream") or "").strip()
                    if status and (not piece.get("progressDetail") or pause.over()):
                        say(" ".join(str(one) for one in (piece.get("id"), status, piece.get("progress")) if one))
        finally:
            pause.end()

    async def _headers(self, name: ImageName) -> dict[str, str]:
        credentials = read_credentials()
        registry = name.registry
        if registry is None and credentials.by_host:
            registry = str((await self._docker.system.info()).get("IndexServerAddress") or "")
        header = credentials.header(registry) if registry else None
        return {} if header is None else {"X-Registry-Auth": header}


class _Pause:
    """Says every `PROGRESS_SECONDS` that a pause is over, and begins the next one."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def over(self) -> bool:
        if self._timer is not None:
            return False
        self._timer = asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self.end)
        return True

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _full(name: ImageName) -> str:
    return f"{name.repository}@{name.digest}" if name.digest else f"{name.repository}:{name.reference}"


def _digest_of(name: ImageName, found: dict[str, Any]) -> str:
    """Return the digest of an image that is here in the registry of its name, else its id."""
    pairs = [str(one).partition("@") for one in found.get("RepoDigests") or ()]
    digests = sorted(digest for repository, _, digest in pairs if name.has_repository(repository))
    return digests[0] if digests else str(found["Id"])


def _is(name: ImageName, found: dict[str, Any], digest: str | None) -> bool:
    if digest is None:
        return True
    digests = {str(one).partition("@")[2] for one in found.get("RepoDigests") or ()}
    return digest in digests or digest == found["Id"] or digest == name.digest


__all__ = ["Images", "Known", "refuse_image"]
