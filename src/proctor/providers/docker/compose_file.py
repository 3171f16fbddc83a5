"""Turns a compose file, as the program has resolved it, into the one that a sandbox is made from."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proctor.data.build_context import context_digest
from proctor.model.attempt import Phase
from proctor.model.environment import Build, Compose, EnvironmentSpec, Resources
from proctor.providers.docker.compose_checks import items, section
from proctor.providers.docker.scripts import HOLDER

SERVICE_LABEL = "proctor.service"
PROCESSES = 4096
"""How many processes and threads a service may have where nothing is said."""

NOWHERE = "192.0.2.1"
"""An address that never leads anywhere (RFC 5737). An engine of old asks the names servers of the machine otherwise."""

_RUN_AND_STAY = f'[ $# -eq 0 ] || "$@" & {HOLDER}'
"""Runs what the service would run, and does not end with it."""

_DROPPED = ("build", "container_name", "extends", "logging", "ports", "pull_policy", "restart", "scale")


def builds(content: Any, compose: Compose) -> dict[str, Build]:
    """Return what is to be built, by the name of the service; raises `UsageError` as `context_digest` does."""
    found: dict[str, Build] = {}
    for name, service in section(section(content).get("services")).items():
        asked = section(service).get("build")
        if asked is None:
            continue
        one = {"context": asked} if isinstance(asked, str) else section(asked)
        folder = Path(compose.file).parent / str(one.get("context") or ".")
        pairs = _pairs(one.get("args"))
        args = sorted((str(key), "" if value is None else _unescaped(value)) for key, value in pairs.items())
        target = one.get("target")
        dockerfile = str(one.get("dockerfile") or "Dockerfile")
        digest = context_digest(folder, dockerfile)
        found[name] = Build(str(folder), digest, dockerfile, tuple(args), str(target) if target else None)
    return found


def pulled(content: Any) -> list[str]:
    """Return the images that services name and do not build."""
    services = [section(one) for one in section(section(content).get("services")).values()]
    return sorted({str(one["image"]) for one in services if one.get("image") and one.get("build") is None})


def names_of(content: Any) -> tuple[str, ...]:
    """Return the names by which services find each other."""
    found: list[str] = []
    for name, one in section(section(content).get("services")).items():
        service = section(one)
        found += [name, *map(str, filter(None, (service.get("hostname"),)))]
        for network in section(service.get("networks")).values():
            found += map(str, items(section(network).get("aliases")))
    return tuple(dict.fromkeys(found))


def sandbox_file(
    content: Any,
    environment: EnvironmentSpec,
    sandbox: str,
    labels: Mapping[str, str],
    images: Mapping[str, Mapping[str, Any]],
    *,
    podman: bool = False,
) -> dict[str, Any]:
    """Return the compose file of one sandbox.

    `images` has what the engine knows of the image of each service. Nothing in it is shared with another sandbox:
    names and published ports go, all is labelled. The main service has the name of the sandbox, and lives on when its
    command ends.
    """
    assert environment.compose is not None, "an environment with services"
    main = environment.compose.service
    closed = environment.network_of(Phase.AGENT).mode != "full"
    services: dict[str, Any] = {}
    for name, one in section(section(content).get("services")).items():
        service = {key: value for key, value in section(one).items() if key not in _DROPPED}
        service["image"] = str(images[name]["Id"])
        service["labels"] = {**_pairs(service.get("labels")), **_escaped(labels), SERVICE_LABEL: name}
        service["security_opt"] = ["no-new-privileges:true"]
        # With it packets can be made by hand, past what a network of services is allowed to reach.
        service["cap_drop"] = sorted({*map(str, items(service.get("cap_drop"))), "NET_RAW"})
        if "pids" not in section(section(section(service.get("deploy")).get("resources")).get("limits")):
            service.setdefault("pids_limit", PROCESSES)
        if service.get("network_mode") in ("bridge", "default"):
            del service["network_mode"]  # that of the engine is shared with everybody
        if closed and not podman and "network_mode" not in service:
            service["dns"] = [NOWHERE]
        if name == main:
            _make_main(service, environment, sandbox, images[name])
        services[name] = service
    networks = section(section(content).get("networks"))
    networks.setdefault("default", None)
    volumes = section(section(content).get("volumes"))
    file = {
        "services": services,
        "networks": {name: _own(one, labels, closed=closed, podman=podman) for name, one in networks.items()},
        "volumes": {name: _own(one, labels) for name, one in volumes.items()},
    }
    rest = {key: section(content).get(key) for key in ("configs", "secrets")}
    return {key: value for key, value in {**file, **rest}.items() if value}


def _make_main(service: dict[str, Any], environment: EnvironmentSpec, sandbox: str, image: Mapping[str, Any]) -> None:
    service["container_name"] = sandbox
    staying = [_escape(word) for word in ("sh", "-c", _RUN_AND_STAY, "proctor")]
    service["entrypoint"] = [*staying, *_own_command(service, image)]
    service["command"] = []
    service["environment"] = {**_pairs(service.get("environment")), **_escaped(environment.env)}
    resources = environment.resources
    limits: dict[str, Any] = {
        "cpus": resources.cpus,
        "mem_limit": resources.memory_bytes,
        "memswap_limit": resources.memory_bytes,
        "pids_limit": resources.processes,
        "user": environment.user,
        "working_dir": environment.workdir,
    }
    service.update({key: value for key, value in limits.items() if value is not None})
    if resources != Resources():
        service.pop("deploy", None)  # its limits would say otherwise


def _own_command(service: Mapping[str, Any], image: Mapping[str, Any]) -> list[str]:
    """Return what the main service would run, with `$` doubled as a compose file has it."""
    config = section(image.get("Config"))
    entrypoint, command = _words(service.get("entrypoint")), _words(service.get("command"))
    if entrypoint is None:
        entrypoint = [_escape(word) for word in items(config.get("Entrypoint"))]
        if command is None:
            command = [_escape(word) for word in items(config.get("Cmd"))]
    return [*entrypoint, *(command or [])]


def _words(value: Any) -> list[str] | None:
    if value is None:
        return None
    return shlex.split(value) if isinstance(value, str) else [str(word) for word in items(value)]


def _own(one: Any, labels: Mapping[str, str], *, closed: bool | None = None, podman: bool = False) -> dict[str, Any]:
    """Return a network or volume of one sandbox: without the name by which another would have it too."""
    kept = {key: value for key, value in section(one).items() if key != "name"}
    kept["labels"] = {**_pairs(kept.get("labels")), **_escaped(labels)}
    if closed:
        kept["internal"] = True
        if not podman:  # else the machine itself, and what listens there, could be reached
            kept["driver_opts"] = {"com.docker.network.bridge.inhibit_ipv4": "true"}
    return kept


def _pairs(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return section(value)
    words: Sequence[Any] = items(value)
    return {name: text if equals else None for name, equals, text in (str(one).partition("=") for one in words)}


def _escaped(pairs: Mapping[str, str]) -> dict[str, str]:
    return {name: _escape(value) for name, value in pairs.items()}


def _escape(value: Any) -> str:
    return str(value).replace("$", "$$")


def _unescaped(value: Any) -> str:
    return str(value).replace("$$", "$")


__all__ = ["SERVICE_LABEL", "builds", "names_of", "pulled", "sandbox_file"]
