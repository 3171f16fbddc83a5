"""Names of images, and the credentials for their registries that `docker login` or `podman login` left."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ImageName:
    """A name of an image in its parts. `registry` is None for the engine's default one."""

    registry: str | None
    repository: str
    """With the registry, without tag and digest."""
    tag: str | None
    digest: str | None

    @property
    def reference(self) -> str:
        """What the engine is asked for beside the repository: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def has_repository(self, name: str) -> bool:
        """Return whether an engine's full name of a repository is this one: some put a registry in front."""
        return name == self.repository or (self.registry is None and name.endswith(f"/{self.repository}"))


def parse_name(name: str) -> ImageName:
    """Return the parts of `[registry/]repository[:tag][@digest]`."""
    rest, _, digest = name.partition("@")
    head, slash, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    first = head.partition("/")[0]
    registry = first if "." in first or ":" in first or first == "localhost" else None
    return ImageName(registry, f"{head}{slash}{last}", tag or None, digest or None)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What is sent to registries, by host. Never shown: not even in the text of this object."""

    by_host: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]], repr=False)

    def header(self, registry: str) -> str | None:
        """Return the value of `X-Registry-Auth` for a host, or None."""
        found = self.by_host.get(_host(registry))
        return None if found is None else _encoded(found)

    def all(self) -> str | None:
        """Return the value of `X-Registry-Config`, which a build gets for the images it begins from, or None."""
        return _encoded(self.by_host) if self.by_host else None


def read_credentials() -> Credentials:
    """Read what is saved for this user. Programs that keep credentials (`credsStore`) are not asked."""
    found: dict[str, Mapping[str, str]] = {}
    for path in reversed(_files()):
        try:
            text = path.read_text("utf-8")
        except FileNotFoundError:  # nobody logged in
            continue
        except (OSError, UnicodeDecodeError) as error:
            log.warning("cannot read credentials for registries: %s: %s", path, error)
            continue
        found.update(_parse(text, path))
    return Credentials(found)


def _files() -> list[Path]:
    """Return where credentials may be, the first one being the strongest."""
    home = Path(os.path.expanduser("~"))
    files = [Path(os.environ.get("DOCKER_CONFIG") or home / ".docker") / "config.json"]
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        files.append(Path(named))
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        files.append(Path(runtime) / "containers/auth.json")
    return files


def _parse(text: str, path: Path) -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    try:
        content = json.loads(text)
        auths = cast("Mapping[str, Any]", content.get("auths") or {})
        for host, entry in auths.items():
            if (one := _credential(host, entry)) is not None:
                found[_host(host)] = one
    except (ValueError, AttributeError, binascii.Error):
        # Not the error itself: it may quote a credential.
        log.warning("cannot read credentials for registries: %s is not what docker or podman write", path)
    return found


def _credential(host: str, entry: Mapping[str, Any]) -> Mapping[str, str] | None:
    if token := entry.get("identitytoken"):
        return {"identitytoken": str(token), "serveraddress": host}
    if auth := entry.get("auth"):
        user, _, password = base64.b64decode(str(auth)).decode("utf-8").partition(":")
        return {"username": user, "password": password, "serveraddress": host}
    return None


def _host(registry: str) -> str:
    """Return the host of a registry, which some write as an address."""
    return registry.partition("://")[2].partition("/")[0] if "://" in registry else registry.partition("/")[0]


def _encoded(value: Any) -> str:
    if isinstance(value, Mapping):
        value = dict(cast("Mapping[str, Any]", value))
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode("ascii")


__all__ = ["Credentials", "ImageName", "parse_name", "read_credentials"]
