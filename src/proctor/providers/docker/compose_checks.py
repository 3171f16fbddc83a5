"""What a compose file may not ask for: anything that reaches out of the sandbox, or that two sandboxes would share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

Section = Mapping[str, Any]

SAFE_CAPABILITIES = frozenset((
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD",
    "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT", "SYS_NICE", "SYS_PTRACE",
))  # fmt: skip
"""What may be added: it does not reach out of namespaces of one's own."""

_NOT_ALLOWED = (
    "cgroup", "cgroup_parent", "credential_spec", "device_cgroup_rules", "devices", "external_links", "gpus",
    "oom_score_adj", "post_start", "pre_stop", "privileged", "provider", "use_api_socket", "userns_mode", "uts",
)  # fmt: skip
_NAMESPACES = ("ipc", "network_mode", "pid")
_FREE_MODES = ("", "none", "bridge", "default", "private", "shareable")
_BUILD_KEYS = ("args", "context", "dockerfile", "target")
_BUILD_IGNORED = ("cache_from", "cache_to", "labels", "no_cache", "pull", "tags")


def problems(content: Any, folder: Path, service: str) -> list[str]:
    """Return what is wrong with a compose file, as it is written or as the program has resolved it.

    `folder` is that of the file, `service` the one that commands run in.
    """
    services = section(section(content).get("services"))
    if not services:
        return ["it has no services"]
    found: list[str] = []
    if service not in services:
        found.append(f"it has no service `{service}` (it has {', '.join(sorted(map(str, services)))})")
    for name, one in services.items():
        found += [f"service `{name}` {each}" for each in _service_problems(section(one), folder)]
    found += [f"`{each}`, which is outside of its folder" for each in _outside_files(section(content), folder)]
    for kind in ("networks", "volumes"):
        for name, one in section(section(content).get(kind)).items():
            if section(one).get("external"):
                found.append(f"{kind} `{name}` is external: sandboxes would share it")
            if section(one).get("driver_opts"):
                found.append(f"{kind} `{name}` has driver_opts, which can reach anything of the machine")
    return found


def section(value: Any) -> dict[str, Any]:
    """Return a part of a file as a mapping; what is none is empty."""
    return dict(cast("Section", value)) if isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """Return a part of a file as a list; what is none is empty."""
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else []


def health_conditions(content: Any) -> bool:
    """Return whether any service waits until another is healthy."""
    return any(
        section(condition).get("condition") == "service_healthy"
        for service in section(section(content).get("services")).values()
        for condition in section(section(service).get("depends_on")).values()
    )


def _service_problems(service: Section, folder: Path) -> Iterator[str]:
    for key in _NOT_ALLOWED:
        if service.get(key) not in (None, False, [], "", {}, "private", 0):
            yield f"asks for `{key}`"
    for key in _NAMESPACES:
        mode = str(service.get(key) or "")
        if mode not in _FREE_MODES and not mode.startswith("service:"):
            yield f"asks for `{key}: {mode}`"
    for capability in items(service.get("cap_add")):
        if str(capability).upper().removeprefix("CAP_") not in SAFE_CAPABILITIES:
            yield f"asks for capability `{capability}`"
    for option in items(service.get("security_opt")):
        if not str(option).startswith("no-new-privileges"):
            yield f"asks for security_opt `{option}`"
    if any(str(one).startswith("container:") for one in items(service.get("volumes_from"))):
        yield "asks for volumes of a container that is not its own"
    for volume in items(service.get("volumes")):
        yield from _volume_problems(volume, folder)
    yield from _build_problems(service.get("build"), folder)


def _volume_problems(volume: Any, folder: Path) -> Iterator[str]:
    if isinstance(volume, Mapping):
        long = section(cast("Section", volume))
        kind, source, read_only = long.get("type"), long.get("source"), bool(long.get("read_only"))
        if kind in ("npipe", "cluster"):
            yield f"mounts a volume of type `{kind}`"
        if kind != "bind":
            return
    else:
        source, _, rest = str(volume).partition(":")
        read_only = "ro" in rest.partition(":")[2].split(",")
        if not rest or not source.startswith(("/", ".", "~", "$")):
            return
    place = str(source or "")
    if Path(place).name in ("docker.sock", "podman.sock"):
        yield f"mounts the socket of the engine, `{place}`"
    elif not is_inside(place, folder):
        yield f"mounts `{place}`, which is outside of its folder"
    elif not read_only:
        yield f"mounts `{place}` writable: other sandboxes would see what is written there; mount it read-only (`:ro`)"


def _build_problems(build: Any, folder: Path) -> Iterator[str]:
    if build is None:
        return
    one = {"context": build} if isinstance(build, str) else section(build)
    context = str(one.get("context") or ".")
    if not is_inside(context, folder):
        yield f"builds from `{context}`, which is outside of its folder"
    for key, value in one.items():
        if key not in (*_BUILD_KEYS, *_BUILD_IGNORED) and value not in (None, [], {}, False, ""):
            yield f"asks for `build.{key}`, which proctor does not do"


def _outside_files(content: Section, folder: Path) -> Iterator[str]:
    """Yield what is read into the sandbox, or into the file, from outside of its folder."""
    for service in section(content.get("services")).values():
        extends = section(section(service).get("extends")).get("file")
        named = section(service).get("env_file")
        files = [extends, *(items(named) or [named])]
        for file in files:
            path = section(file).get("path") if isinstance(file, Mapping) else file
            if path and not is_inside(str(path), folder):
                yield str(path)
    for kind in ("configs", "secrets"):
        for one in section(content.get(kind)).values():
            if (path := section(one).get("file")) and not is_inside(str(path), folder):
                yield str(path)
    for one in items(content.get("include")):
        for path in items(section(one).get("path")) or [section(one).get("path", one)]:
            if not is_inside(str(path), folder):
                yield str(path)


def is_inside(path: str, folder: Path) -> bool:
    """Return whether a path of a compose file leads into its folder, links followed."""
    if "://" in path or path.startswith("~"):
        return False
    try:
        return (folder / path).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a loop of links leads nowhere
        return False


__all__ = ["SAFE_CAPABILITIES", "health_conditions", "is_inside", "items", "problems", "section"]
