"""Where the container engine is, and how it is talked to: Docker, or Podman through its compatible socket."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket
import stat
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from proctor.errors import Fault, MissingPackage, describe

if TYPE_CHECKING:
    import ssl


Docker: TypeAlias = Any
"""A client, `aiodocker.Docker`: its own types are known in part only."""

PROBE_SECONDS = 10.0
"""How long an engine may take to say who it is."""
READ_BYTES = 1024 * 1024
"""How much of an answer may wait to be read: with less, large files come by many small pieces."""
_UNIX = "unix://"
NOT_FOUND, CONFLICT = 404, 409
_NO_CONNECTION = 900
"""The status that aiodocker gives what could not be connected."""


def addresses() -> list[str]:
    """Return where an engine may be, best first; `DOCKER_HOST` or the context of docker alone where one is set."""
    told = os.environ.get("DOCKER_HOST") or _context_host()
    if told:
        return [told]
    places = ["/var/run/docker.sock"]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        places += [f"{runtime}/docker.sock", f"{runtime}/podman/podman.sock"]
    return [_UNIX + place for place in (*places, "/run/podman/podman.sock")]


def _context_host() -> str | None:
    """Return the address in the context that `docker context use` chose, None for the default one."""
    folder = os.environ.get("DOCKER_CONFIG") or os.path.expanduser("~/.docker")
    try:
        name = os.environ.get("DOCKER_CONTEXT")
        if not name:
            name = _json(f"{folder}/config.json").get("currentContext")
        if not isinstance(name, str) or name == "default":
            return None
        digest = hashlib.sha256(name.encode()).hexdigest()
        return str(_json(f"{folder}/contexts/meta/{digest}/meta.json")["Endpoints"]["docker"]["Host"])
    except (OSError, ValueError, KeyError):  # docker has no settings here, or none that name an address
        return None


def _json(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        found: Any = json.load(file)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


@dataclass(slots=True)
class _Client:
    """A client of one event loop, and by how many it is in use."""

    docker: Docker
    users: int = 0


class Engine:
    """The engine of one provider object. It has a client for each event loop that uses it.

    A client lives as long as somebody uses it, or `hold` asks for it.
    """

    def __init__(self, address: str | None = None) -> None:
        self._address = address
        self._clients: dict[asyncio.AbstractEventLoop, _Client] = {}
        self._held = False
        self._is_podman: bool | None = None

    @property
    def address(self) -> str:
        """The address in use: the first at which there is a socket, else the first of all."""
        if self._address is None:
            known = addresses()
            self._address = next((one for one in known if why_no_socket(one) is None), known[0])
        return self._address

    @property
    def is_local(self) -> bool:
        """Whether the engine is on this machine, as far as its address tells."""
        return (self._address or addresses()[0]).startswith(_UNIX)

    def hold(self) -> None:
        """Keep the client open between uses, until `release`."""
        self._held = True

    async def release(self) -> None:
        """Close the client as soon as nobody uses it."""
        self._held = False
        await self._close_if_unused()

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[Docker]:
        """Give a client of the running event loop. Raises `Fault` where the package or the engine is missing."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for ended in [one for one in self._clients if one.is_closed()]:
                del self._clients[ended]  # it took its connections along
            self._clients[loop] = _Client(connect(self.address))
        client = self._clients[loop]
        client.users += 1
        try:
            yield client.docker
        finally:
            client.users -= 1
            await self._close_if_unused()

    async def _close_if_unused(self) -> None:
        """Close the client of the running event loop; only that loop can."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is not None and client.users == 0 and not self._held:
            del self._clients[loop]
            await client.docker.close()
            await client.docker.session.close()  # it is ours, so aiodocker leaves it open

    async def unavailable(self) -> str | None:
        """Return in one line why no engine can be used, and what was tried; None where one answers."""
        if self._address is None:
            reasons = {one: why_no_socket(one) for one in addresses()}
            if all(reasons.values()):
                tried = ", ".join(f"{one} ({reason})" for one, reason in reasons.items())
                return f"no container engine was found: tried {tried}"
        try:
            async with asyncio.timeout(PROBE_SECONDS), self.client() as docker:
                version: dict[str, Any] = await docker.version()
        except TimeoutError:
            return f"the container engine at {self.address} did not answer within {PROBE_SECONDS:g} s"
        except MissingPackage as error:
            return f"{error.message}: {error.hint}"
        except Exception as error:
            return f"the container engine at {self.address} cannot be used: {describe(error)}"
        self._is_podman = _is_podman(version)
        return None

    async def is_podman(self) -> bool:
        """Return whether it is Podman that answers."""
        if self._is_podman is None:
            async with self.client() as docker:
                with engine_faults("provider.unavailable", f"the container engine at {self.address}"):
                    self._is_podman = _is_podman(await docker.version())
        return self._is_podman


def _is_podman(version: dict[str, Any]) -> bool:
    return any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def why_no_socket(address: str) -> str | None:
    """Return why there is no socket at an address of this machine; None where there is one, or nobody can tell."""
    if not address.startswith(_UNIX):
        return None
    path = address.removeprefix(_UNIX)
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return "not a socket"
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(PROBE_SECONDS)
            probe.connect(path)
    except OSError as error:
        return (error.strerror or describe(error)).lower()
    return None


def connect(address: str) -> Docker:
    """Return a client. It has as many connections as are asked for: each command that runs holds one."""
    try:
        import aiodocker  # noqa: PLC0415 - heavy, and optional
        import aiohttp  # noqa: PLC0415
    except ImportError as error:
        raise MissingPackage("provider docker", "aiodocker", install="pip install 'proctor[docker]'") from error
    scheme, _, rest = address.partition("://")
    if scheme == "unix":
        url, connector = "unix://localhost", aiohttp.UnixConnector(rest, limit=0)
    elif scheme in ("tcp", "http", "https"):
        context = _tls_context()
        connector = aiohttp.TCPConnector(limit=0) if context is None else aiohttp.TCPConnector(limit=0, ssl=context)
        url = f"{'http' if context is None and scheme != 'https' else 'https'}://{rest}"
    else:
        return aiodocker.Docker(url=address)
    session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(), read_bufsize=READ_BYTES)
    return aiodocker.Docker(url=url, connector=connector, session=session)


def _tls_context() -> ssl.SSLContext | None:
    """Return what `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH` ask for."""
    if not os.environ.get("DOCKER_TLS_VERIFY"):
        return None
    import ssl  # noqa: PLC0415

    folder = os.environ.get("DOCKER_CERT_PATH") or os.path.expanduser("~/.docker")
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    return context


def status_of(error: BaseException) -> int | None:
    """Return the status of an answer of the engine, 900 where there was none; None for any other exception."""
    import aiodocker  # noqa: PLC0415
    import aiohttp  # noqa: PLC0415

    if isinstance(error, aiodocker.DockerError):
        return int(error.status)
    return _NO_CONNECTION if isinstance(error, aiohttp.ClientError | ConnectionError) else None


def words_of(error: BaseException) -> str:
    """Return what the engine said, in one line."""
    message = getattr(error, "message", None)
    return " ".join(message.split()) if isinstance(message, str) else describe(error)


@contextmanager
def engine_faults(code: str, what: str) -> Generator[None]:
    """Turn what the engine, or the connection to it, says into a `Fault` with `code`; `what` begins the message."""
    try:
        yield
    except Exception as error:
        status = status_of(error)
        if status is None:
            raise
        raise Fault(code, f"{what}: {words_of(error)}") from error


__all__ = [
    "CONFLICT", "NOT_FOUND", "Docker", "Engine", "addresses", "connect", "engine_faults", "status_of", "why_no_socket",
    "words_of",
]  # fmt: skip
